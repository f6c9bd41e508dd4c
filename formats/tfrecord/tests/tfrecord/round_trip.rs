//! Rows round-trip, with companion files and without.

use crate::common::{Folder, corpus, options, sink, source, write_to};
use packhorse_core::{Format, Input, Limits, Options, Rows};
use packhorse_testkit::typed;
use packhorse_tfrecord::TfRecord;
use std::sync::Arc;

const SINKS: [&[(&str, &str)]; 4] =
    [&[], &[("tensors", "raw")], &[("compression", "gzip")], &[("compression", "gzip"), ("tensors", "raw")]];

/// Reads all of `rows` and some ranges of them.
fn check(input: &dyn Input, rows: &Rows, what: &str) {
    let (source, n) = (source(&[]), rows.num_rows());
    let info = source.open(Arc::new(input)).and_then(|table| table.info()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!((info.items, info.schema.fields()), (n as u64, rows.schema().fields()), "{what}");
    for (from, to) in [(0, n), (0, 1), (n / 2, n), (n / 3, n / 2), (n, n + 5), (n + 1, n + 2)] {
        let found = typed::read(&*source, input, from as u64..to as u64);
        let (from, to) = (from.min(n), to.min(n));
        typed::same(&found, &rows.slice(from, to - from), &format!("{what}, {from}..{to}"));
    }
}

#[test]
fn every_kind_of_field_round_trips() {
    for options in SINKS {
        let sink = sink(options);
        for (name, rows) in corpus() {
            let what = format!("{name} {options:?}");
            let n = rows.num_rows();
            let files = typed::write(&*sink, &rows, &[n]);
            for groups in [vec![1; n], vec![n / 3, n - n / 3], vec![0, n, 0]] {
                assert!(typed::write(&*sink, &rows, &groups) == files, "{what}: bytes differ for {groups:?}");
            }
            let folder = Folder::of("part", files);
            check(&folder.input(sink.suffix()), &rows, &what);
            // Without the index, by scanning.
            check(&folder.without(".index").input(sink.suffix()), &rows, &what);
            // As a stream of unknown length.
            check(&folder.streamed().input(sink.suffix()), &rows, &what);
        }
    }
}

#[test]
fn the_schema_document_of_the_dataset_suffices() {
    let (_, rows) = corpus().swap_remove(1);
    let sink = sink(&[]);
    let (folder, summary) = write_to(&*sink, &rows);
    let shards = [summary];
    let members = |_: usize| Ok(packhorse_core::Members::default());
    let sealed = packhorse_core::Sealed { name: "d", root_digest: "", shards: &shards, members: &members };
    let mut outlet = packhorse_testkit::memory::MemoryOutlet::new();
    sink.seal(&sealed, &mut outlet).unwrap();
    let document = outlet.files().remove("features.json").unwrap();
    let folder = folder.without(".schema.json").with("features.json", document);
    check(&folder.input(".tfrecord"), &rows, "features.json");
    // A third-party file of that name is ignored.
    let other = folder.with("features.json", b"{}".to_vec());
    assert!(source(&[]).open(Arc::new(&other.input(".tfrecord"))).and_then(|table| table.info()).is_ok());
}

#[test]
fn large_blobs_and_many_rows_come_in_bounded_blocks() {
    let rows = crate::common::blobs(40, 700_000);
    for options in [&[][..], &[("compression", "gzip")]] {
        let sink = sink(options);
        let folder = Folder::of("part", typed::write(&*sink, &rows, &[40]));
        let input = folder.input(sink.suffix());
        check(&input, &rows, "large");
        let source = source(&[]);
        let blocks = typed::read(&*source, &input, 0..40);
        assert!(blocks.len() > 5 && blocks.iter().all(|rows| rows.num_rows() < 8));
    }
    let rows = crate::common::blobs(30_000, 3);
    let folder = Folder::of("part", typed::write(&*sink(&[]), &rows, &[30_000]));
    check(&folder.input(".tfrecord"), &rows, "many");
}

#[test]
fn schemas_that_do_not_match_are_refused() {
    let rows = crate::common::blobs(9, 10);
    let folder = Folder::of("part", typed::write(&*sink(&[]), &rows, &[9]));
    let schema = String::from_utf8(folder.bytes(".schema.json")).unwrap();
    let fails = |schema: String| {
        let folder = folder.with("part.schema.json", schema.into_bytes());
        let input = folder.input(".tfrecord");
        let source = source(&[]);
        let info = source.open(Arc::new(&input)).and_then(|table| table.info()).err();
        let rows =
            source.open(Arc::new(&input)).and_then(|table| table.rows(0..99)?.collect::<Result<Vec<_>, _>>()).err();
        info.or(rows).expect("an error").to_string()
    };
    assert!(fails(schema.replace("\"records\":9", "\"records\":8")).contains("9 records where its schema says 8"));
    assert!(fails(schema.replace("\"bytes\":", "\"bytes\":1")).contains("bytes long where part.schema.json says"));
    assert!(fails(schema.replace("\"jpg\"", "\"png\"")).contains("feature jpg is not in the schema"));
}

#[test]
fn options_are_checked() {
    for bad in [("compression", "zstd"), ("tensors", "x"), ("index", "none")] {
        assert_eq!(TfRecord.sink(&options(&[bad])).err().unwrap().kind(), packhorse_core::Kind::Config);
    }
    for bad in [("crc", "1"), ("infer", "all"), ("infer", "0"), ("compression", "gzip")] {
        let error = TfRecord.source(&options(&[bad]), Limits::default()).err().unwrap();
        assert_eq!(error.kind(), packhorse_core::Kind::Config);
    }
    assert!(TfRecord.sink(&Options::new()).is_ok());
}

#[test]
fn ten_thousand_columns_round_trip() {
    let column = |i: usize| {
        let values = arrow_array::Int64Array::from_iter_values((0..3).map(|row| (row * i) as i64));
        (
            format!("a column with a long name, as wide tables have them, number {i:05}"),
            std::sync::Arc::new(values) as _,
        )
    };
    let rows: Rows = arrow_array::RecordBatch::try_from_iter((0..10_000).map(column)).unwrap();
    let (folder, _) = write_to(&*sink(&[]), &rows);
    check(&folder.input(".tfrecord"), &rows, "wide");
}
