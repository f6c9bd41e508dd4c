//! Damaged files give an error or other values, never a panic.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, ListArray, RecordBatch};
use packhorse_core::{Error, Format, Kind, Limits, MemoryInput, Options, Result, Source};
use packhorse_parquet::{ArrowIpc, Parquet};
use packhorse_testkit::typed;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

/// Small files with a few kinds of fields.
fn files(format: &dyn Format, pairs: &[(&str, &str)]) -> Vec<Vec<u8>> {
    let sink = format.sink(&pairs.iter().copied().collect()).unwrap();
    let wanted = ["nulls", "blobs", "ragged"];
    let corpus = typed::corpus().into_iter().filter(|(name, _)| wanted.contains(name));
    corpus.map(|(_, rows)| typed::write(&*sink, &rows.slice(0, 9), &[9]).remove(sink.suffix()).unwrap()).collect()
}

/// Reads everything; no input may cause a `Bug` error.
fn read(source: &dyn Source, bytes: Vec<u8>) -> Result<u64> {
    let input = MemoryInput::new("damaged", bytes);
    let rows = || {
        let table = source.open(Arc::new(&input))?;
        table.info()?;
        // Rows before these are skipped, for which the crate has other code.
        let _ = table.rows(7..8).map(|mut rows| rows.all(|rows| rows.is_ok()));
        table.rows(0..u64::MAX)?.try_fold(0, |n, rows| Ok::<_, Error>(n + rows?.num_rows() as u64))
    };
    let result = rows();
    if let Err(error) = &result {
        assert!(matches!(error.kind(), Kind::Content | Kind::Unsupported | Kind::Limit | Kind::Config), "{error}");
        assert!(error.to_string().starts_with("damaged: "), "{error}");
    }
    result
}

/// Silences the contained panics of other crates.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.location().is_some_and(|place| place.file().contains("registry")) {
                hook(info);
            }
        }));
    });
}

fn truncate_everywhere(format: &dyn Format, pairs: &[(&str, &str)]) {
    quiet();
    let source = format.source(&Options::new(), Limits::default()).unwrap();
    for whole in files(format, pairs) {
        for end in 0..whole.len() {
            let rows = read(&*source, whole[..end].to_vec());
            // A stream may end after any complete message.
            assert!(rows.is_err() || pairs.contains(&("stream", "on")), "{end} of {}", whole.len());
        }
    }
}

/// Flips a varying bit of every `step`th byte.
fn flip(format: &dyn Format, pairs: &[(&str, &str)], step: usize) {
    quiet();
    let source = format.source(&Options::new(), Limits::default()).unwrap();
    for whole in files(format, pairs) {
        for at in (0..whole.len()).step_by(step) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let _ = read(&*source, bytes);
        }
    }
}

#[test]
fn a_parquet_file_cut_short_is_refused() {
    truncate_everywhere(&Parquet, &[]);
}

#[test]
fn a_parquet_file_with_flipped_bits_never_panics() {
    flip(&Parquet, &[], 7);
    flip(&Parquet, &[("compression", "none"), ("row-group", "4")], 11);
}

/// A page that declares more values than it has repetition levels: rows in it were skipped without end.
#[test]
fn lists_with_too_few_levels_are_refused() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..4).map(|row| Some((0..=row % 2).map(Some))));
    let rows = RecordBatch::try_from_iter([("w", Arc::new(lists) as ArrayRef)]).unwrap();
    let plain = WriterProperties::builder().set_dictionary_enabled(false).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(plain)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    // The length of the levels, then a run of 8 in bits: 0, 0, 1, 0, 0, 1.
    let levels = bytes.windows(6).position(|window| window == [2, 0, 0, 0, 3, 0b10_0100]).unwrap();
    // A run of two levels instead.
    bytes[levels + 4..levels + 6].copy_from_slice(&[4, 0]);
    let source = Parquet.source(&Options::new(), Limits::default()).unwrap();
    let input = MemoryInput::new("damaged", bytes);
    let table = source.open(Arc::new(&input)).unwrap();
    for row in 0..4 {
        let error = table.rows(row..row + 1).unwrap().next().unwrap().unwrap_err();
        assert!(error.kind() == Kind::Content && error.message().contains("declares more than it can hold"), "{error}");
    }
}

#[test]
fn an_arrow_file_cut_short_is_refused() {
    truncate_everywhere(&ArrowIpc, &[]);
    truncate_everywhere(&ArrowIpc, &[("stream", "on"), ("batch", "3")]);
}

#[test]
fn an_arrow_file_with_flipped_bits_never_panics() {
    flip(&ArrowIpc, &[("compression", "lz4")], 1);
    flip(&ArrowIpc, &[("compression", "zstd"), ("stream", "on")], 1);
}

/// Flips two bits of every byte of a file with three record batches: fewer rows without an error would be silent loss.
fn flip_two(format: &dyn Format, pairs: &[(&str, &str)]) {
    quiet();
    let source = format.source(&Options::new(), Limits::default()).unwrap();
    for whole in files(format, pairs) {
        for (at, bit) in (0..whole.len()).flat_map(|at| [at % 8, 7].map(|bit| (at, bit))) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            if let Ok(rows) = read(&*source, bytes) {
                assert_eq!(rows, 9, "bit {bit} of byte {at} of {}", whole.len());
            }
        }
    }
}

#[test]
fn rows_of_a_damaged_arrow_file_do_not_disappear() {
    flip_two(&ArrowIpc, &[("batch", "3")]);
}

#[test]
fn other_files_are_refused() {
    for format in [&Parquet as &dyn Format, &ArrowIpc] {
        let source = format.source(&Options::new(), Limits::default()).unwrap();
        for bytes in [
            &b""[..],
            b"PAR1",
            b"PAR1PAR1",
            b"PAR1\xff\xff\xff\xffPAR1",
            b"ARROW1\0\0",
            b"ARROW1\0\0ARROW1",
            &[0; 64],
            &[0xff; 64],
        ] {
            assert_eq!(read(&*source, bytes.to_vec()).unwrap_err().kind(), Kind::Content, "{bytes:?}");
        }
    }
}
