//! Rows round-trip.

#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Int64Array, IntervalYearMonthArray, LargeBinaryArray,
    LargeListArray, LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::writer::FileWriter;
use packhorse_core::{DataType, Field, Format, KEY, Kind, Limits, MemoryInput, Options, Result, Rows, Schema, Source};
use packhorse_parquet::{ArrowIpc, Parquet};
use packhorse_testkit::memory::{CountedInput, MemoryOutlet};
use packhorse_testkit::typed;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use std::sync::Arc;

const ALL: [&str; 9] = ["scalars", "tensors", "numpy", "ragged", "lists", "blobs", "nulls", "none", "pictures"];

fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().copied().collect()
}

#[test]
fn every_kind_of_field_round_trips_through_parquet() {
    for pairs in
        [&[][..], &[("row-group", "5")], &[("compression", "none")], &[("compression", "snappy"), ("tensor-ext", "on")]]
    {
        typed::round_trips(&Parquet, &options(pairs), &ALL);
    }
}

#[test]
fn every_kind_of_field_round_trips_through_arrow() {
    for pairs in [
        &[][..],
        &[("batch", "5")],
        &[("stream", "on")],
        &[("compression", "lz4"), ("tensor-ext", "on")],
        &[("compression", "zstd")],
    ] {
        typed::round_trips(&ArrowIpc, &options(pairs), &ALL);
    }
}

#[test]
fn metadata_is_read_once_however_many_ranges_follow() {
    for (format, pairs) in [(&Parquet as &dyn Format, [("row-group", "5")]), (&ArrowIpc, [("batch", "5")])] {
        let sink = format.sink(&options(&pairs)).unwrap();
        let source = format.source(&Options::new(), Limits::default()).unwrap();
        let (_, rows) = typed::corpus().swap_remove(0);
        let bytes = typed::write(&*sink, &rows, &[rows.num_rows()]).remove(sink.suffix()).unwrap();
        typed::opens_once(&*source, "scalars", bytes);
    }
}

/// Every Arrow type that core allows for blobs, text and lists, and the rows that are read back.
fn variants() -> (Rows, Rows) {
    let words = ["a", "", "a longer word than twelve bytes"];
    let key: ArrayRef = Arc::new(StringViewArray::from_iter_values(["k/0", "k/1", "k/2"]));
    let item = |t: DataType| Arc::new(Field::new("item", t, false));
    let offsets = || OffsetBuffer::<i64>::from_lengths([1, 0, 2]);
    let large = LargeListArray::new(item(DataType::Utf8), offsets(), Arc::new(StringArray::from(words.to_vec())), None);
    let given: Vec<(&str, ArrayRef)> = vec![
        (KEY, key.clone()),
        ("a.png", Arc::new(LargeBinaryArray::from_iter_values(words))),
        ("b", Arc::new(BinaryArray::from_iter_values(words))),
        ("c", Arc::new(LargeStringArray::from_iter_values(words))),
        ("d", Arc::new(large)),
    ];
    let views: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(words));
    let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(words));
    let list = ListArray::new(item(DataType::Utf8View), OffsetBuffer::from_lengths([1, 0, 2]), text.clone(), None);
    let back = vec![(KEY, key), ("a.png", views.clone()), ("b", views), ("c", text), ("d", Arc::new(list))];
    let batch = |columns: Vec<(&str, ArrayRef)>| {
        let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), false);
        let fields: Vec<Field> = columns.iter().map(field).collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    };
    (batch(given), batch(back))
}

#[test]
fn other_types_of_the_same_fields_come_back_as_ours() {
    let (given, wanted) = variants();
    for format in [&Parquet as &dyn Format, &ArrowIpc] {
        let (sink, source) =
            (format.sink(&options(&[])).unwrap(), format.source(&options(&[]), Limits::default()).unwrap());
        sink.accept(&given.schema()).unwrap();
        let files = typed::write(&*sink, &given, &[3]);
        let input = MemoryInput::new("x", files[sink.suffix()].clone());
        typed::same(&typed::read(&*source, &input, 0..3), &wanted, "variants");
    }
}

#[test]
fn a_summary_counts_samples_and_bytes() {
    let (given, _) = variants();
    for format in [&Parquet as &dyn Format, &ArrowIpc] {
        let mut outlet = MemoryOutlet::new();
        let sink = format.sink(&options(&[])).unwrap();
        let mut writer = sink.create(&given.schema(), &mut outlet).unwrap();
        writer.push(&given).unwrap();
        let summary = writer.finish().unwrap();
        assert_eq!((summary.samples, summary.bytes), (3, outlet.files()[sink.suffix()].len() as u64));
    }
}

#[test]
fn chosen_columns_alone_are_read() {
    let (given, wanted) = variants();
    for format in [&Parquet as &dyn Format, &ArrowIpc] {
        let sink = format.sink(&options(&[])).unwrap();
        let input = MemoryInput::new("x", typed::write(&*sink, &given, &[3])[sink.suffix()].clone());
        let source = format.source(&options(&[("columns", "__key__, ?.png")]), Limits::default()).unwrap();
        let found = typed::read(&*source, &input, 1..3);
        typed::same(&found, &wanted.project(&[0, 1]).unwrap().slice(1, 2), "two columns");
        let none = format.source(&options(&[("columns", "x*")]), Limits::default()).unwrap();
        assert_eq!(none.open(Arc::new(&input)).and_then(|table| table.info()).unwrap_err().kind(), Kind::Config);
    }
}

#[test]
fn invalid_options_are_refused() {
    for pairs in
        [("compression", "gzip"), ("level", "99"), ("row-group", "0"), ("tensor-ext", "yes"), ("colour", "red")]
    {
        assert_eq!(Parquet.sink(&options(&[pairs])).map(drop).unwrap_err().kind(), Kind::Config, "{pairs:?}");
    }
    for pairs in [("unsupported", "maybe"), ("columns", "a[")] {
        let source = Parquet.source(&options(&[pairs]), Limits::default());
        assert_eq!(source.map(drop).unwrap_err().kind(), Kind::Config, "{pairs:?}");
    }
    assert_eq!(Parquet.sink(&options(&[])).unwrap().admit("k", "jpg", 1 << 31).unwrap_err().kind(), Kind::Content);
}

/// A file with a column `bad` of lists with nulls inside, and in Arrow a column of an unsupported type.
fn with_nulls_inside(parquet: bool) -> Vec<u8> {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for i in 0..40 {
        lists.values().append_option((i % 7 != 3).then_some(i));
        lists.append(true);
    }
    let good: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
    let columns = [("bad", Arc::new(lists.finish()) as ArrayRef), ("good", good)];
    let months: ArrayRef = Arc::new(IntervalYearMonthArray::from_iter_values(0..40));
    let columns = columns.into_iter().chain((!parquet).then_some(("months", months)));
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    if parquet {
        let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
    } else {
        let mut writer = FileWriter::try_new(&mut bytes, &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        drop(writer);
    }
    bytes
}

#[test]
fn columns_with_nulls_inside_their_lists_are_left_out_on_request_and_reported() {
    for (format, parquet) in [(&Parquet as &dyn Format, true), (&ArrowIpc, false)] {
        let input = MemoryInput::new("x", with_nulls_inside(parquet));
        let open = |pairs: &[(&str, &str)]| format.source(&options(pairs), Limits::default()).unwrap();
        let read = |source: &dyn Source| source.open(Arc::new(&input))?.rows(0..40)?.collect::<Result<Vec<_>>>();
        let months = ("unread", "months");
        let error = read(&*open(&[months])).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.to_string().contains("`drop"), "{error}");

        let source = open(&[("unsupported", "skip")]);
        let info = source.open(Arc::new(&input)).unwrap().info().unwrap();
        let left_out: Vec<&str> = info.omitted.iter().map(|omission| omission.field.as_str()).collect();
        assert_eq!(left_out, if parquet { &["bad"][..] } else { &["bad", "months"] });
        assert!(info.omitted[0].reason.contains("holds nulls inside its lists"), "{:?}", info.omitted);
        assert_eq!(info.schema.fields().len(), 1);
        assert_eq!(read(&*source).unwrap().iter().map(|rows| rows.num_rows()).sum::<usize>(), 40);

        // Columns that are dropped later are not decoded: all values are null.
        let source = open(&[("unread", "bad\nmonths")]);
        for rows in read(&*source).unwrap() {
            let bad = rows.column_by_name("bad").unwrap();
            assert_eq!(bad.null_count(), bad.len());
            assert_eq!(rows.column_by_name("good").unwrap().null_count(), 0);
        }
    }
}

/// A file of the columns `n` and `x` in one row group, without an index of its pages.
fn without_index(version: WriterVersion, rows: i64) -> (Rows, Vec<u8>) {
    // Numbers without a pattern, which no encoding makes small.
    let mixed = |i: i64| (i.wrapping_mul(0x5851_f42d_4c95_7f2d) >> 7).wrapping_mul(0x1405_7b7e_f767_814f);
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(mixed)));
    let x: ArrayRef =
        Arc::new((0..rows).map(|i| (i % 7 != 0).then(|| format!("{:x}", i * i))).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter(vec![("n", n), ("x", x)]).unwrap();
    let properties = WriterProperties::builder()
        .set_offset_index_disabled(true)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_enabled(false)
        .set_writer_version(version);
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    (batch, writer.into_inner().unwrap())
}

#[test]
fn some_rows_of_a_file_without_an_index_take_some_of_its_bytes() {
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let (wanted, bytes) = without_index(version, 700_000);
        let len = bytes.len() as u64;
        let input = CountedInput::local("x.parquet", bytes);
        let source = Parquet.source(&Options::new(), Limits::default()).unwrap();
        let table = source.open(Arc::new(&input)).unwrap();
        assert_eq!(table.info().unwrap().items, 700_000);
        // The first range finds the pages.
        for (from, to) in [(5, 6), (0, 1), (1234, 30_000), (399_990, 400_010), (699_999, 700_000)] {
            input.take_read();
            let found: Vec<Rows> = table.rows(from..to).unwrap().collect::<Result<_>>().unwrap();
            let read = input.take_read();
            let found = arrow_select::concat::concat_batches(&found[0].schema(), &found).unwrap();
            let wanted = wanted.slice(from as usize, (to - from) as usize);
            assert_eq!(found.column(0).as_primitive::<Int64Type>(), wanted.column(0).as_primitive::<Int64Type>());
            let texts = |column: &ArrayRef| match column.as_string_opt::<i32>() {
                Some(text) => text.iter().map(|t| t.map(str::to_owned)).collect::<Vec<_>>(),
                None => column.as_string_view().iter().map(|t| t.map(str::to_owned)).collect(),
            };
            assert_eq!(texts(found.column(1)), texts(wanted.column(1)));
            assert!(read < len / 4, "{read} of {len} bytes for rows {from} to {to}");
        }
        let whole: usize = table.rows(0..u64::MAX).unwrap().map(|rows| rows.unwrap().num_rows()).sum();
        assert_eq!(whole, 700_000);
    }
}

#[test]
fn damaged_headers_of_pages_end_in_an_error_or_are_not_used() {
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let (_, bytes) = without_index(version, 60_000);
        let mut random = 7u64;
        for _ in 0..300 {
            let mut bytes = bytes.clone();
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            // The header of the first page, or any byte.
            let at = if random & 1 == 0 { 4 + (random >> 33) % 30 } else { (random >> 33) % bytes.len() as u64 };
            bytes[at as usize] ^= 1 << ((random >> 20) & 7);
            let input = CountedInput::local("x.parquet", bytes);
            let source = Parquet.source(&Options::new(), Limits::default()).unwrap();
            let Ok(table) = source.open(Arc::new(&input)) else { continue };
            for range in [0..1, 30_000..30_010, 59_999..60_000] {
                let wanted = range.end - range.start;
                let found = table.rows(range).and_then(|blocks| blocks.collect::<Result<Vec<_>>>());
                let rows = found.map(|rows| rows.iter().map(Rows::num_rows).sum::<usize>() as u64);
                assert!(rows.is_err() || rows.is_ok_and(|rows| rows <= wanted), "{version:?}: byte {at}");
            }
        }
    }
}
