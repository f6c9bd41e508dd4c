//! Files as tables: their columns by Parquet's own types.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::TimeUnit;
use packhorse_core::{DataType, Field, Format, Kind, Limits, MemoryInput, Options, Result, Rows, held_bytes};
use packhorse_parquet::{ArrowIpc, Parquet};
use packhorse_testkit::external::data;
use packhorse_testkit::memory::CountedInput;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of the columns `n` and `id`, with `group` rows per row group.
fn file(rows: i64, codec: Compression, group: usize) -> Vec<u8> {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let id: ArrayRef = Arc::new((0..rows).map(|i| Some(format!("a/{i:04}"))).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter(vec![("n", n), ("id", id)]).unwrap();
    let properties = WriterProperties::builder().set_compression(codec).set_max_row_group_row_count(Some(group));
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// Reads the columns `names`, or all.
fn table(bytes: Vec<u8>, names: Option<&[&str]>) -> Result<Vec<Rows>> {
    let source = Parquet.source(&Options::new(), Limits::default())?;
    let input = MemoryInput::new("damaged", bytes);
    let blocks = source.columns(&input, &mut |schema| {
        let places = schema.fields().iter().enumerate();
        let wanted = |name: &String| names.is_none_or(|names| names.contains(&name.as_str()));
        Ok(places.filter(|(_, field)| wanted(field.name())).map(|(place, _)| place).collect())
    });
    blocks?.unwrap().collect()
}

#[test]
fn columns_of_every_codec_and_of_many_groups_are_read() {
    for codec in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::ZSTD(Default::default()),
        Compression::LZ4_RAW,
        Compression::LZ4,
    ] {
        let blocks = table(file(3000, codec, 1700), None).unwrap();
        assert!(blocks.iter().all(|rows| rows.num_rows() <= 1024));
        let n = blocks.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(n.eq(0..3000), "{codec}");
        assert_eq!(blocks[0].column(1).as_string::<i32>().value(7), "a/0007");
    }
    let ids = table(file(10, Compression::SNAPPY, 3), Some(&["id"])).unwrap();
    assert!(ids.iter().all(|rows| rows.num_columns() == 1));
}

#[test]
fn an_error_of_the_choice_is_returned_and_arrow_has_no_tables() {
    let input = MemoryInput::new("x", file(1, Compression::SNAPPY, 1));
    let source = Parquet.source(&Options::new(), Limits::default()).unwrap();
    let error = source.columns(&input, &mut |_| Err(packhorse_core::Error::config("none"))).err().unwrap();
    assert_eq!((error.kind(), error.message()), (Kind::Config, "none"));
    let arrow = ArrowIpc.source(&Options::new(), Limits::default()).unwrap();
    assert!(arrow.columns(&input, &mut |_| Ok(vec![])).unwrap().is_none());
}

#[test]
fn damage_anywhere_is_an_error_and_never_a_panic() {
    std::panic::set_hook(Box::new(|_| ()));
    let whole = file(50, Compression::SNAPPY, 20);
    for end in 0..whole.len() {
        let error = table(whole[..end].to_vec(), None).unwrap_err();
        assert!(matches!(error.kind(), Kind::Content | Kind::Unsupported | Kind::Limit), "{error}");
    }
    for at in 0..whole.len() {
        for flip in [1, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            let _ = table(bytes, None);
        }
    }
    let _ = std::panic::take_hook();
}

fn files(folder: &str) -> Vec<PathBuf> {
    let Some(root) = data() else { return Vec::new() };
    let entries = std::fs::read_dir(Path::new(&root).join("parquet-testing").join(folder)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "parquet"));
    files.sort();
    files
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn real_files_are_read_or_refused_with_reasons() {
    for path in files("data").into_iter().chain(files("bad_data")) {
        if let Err(error) = table(read(&path), None) {
            assert!(matches!(error.kind(), Kind::Content | Kind::Unsupported), "{error}");
            assert!(!error.message().contains("gave up"), "the reader panicked: {}: {error}", path.display());
        }
    }
}

#[test]
fn a_page_that_fails_its_checksum_is_an_error() {
    for path in files("data").iter().filter(|path| path.ends_with("datapage_v1-corrupt-checksum.parquet")) {
        let error = table(read(path), Some(&["a"])).unwrap_err();
        assert!(error.kind() == Kind::Content && error.message().contains("CRC"), "{error}");
    }
}

#[test]
fn int96_timestamps_keep_dates_far_away() {
    for path in files("data").iter().filter(|path| path.ends_with("int96_from_spark.parquet")) {
        let blocks = table(read(path), None).unwrap();
        let column = blocks[0].column(0);
        assert_eq!(column.data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
        // 9999-12-31T03:00:00
        let far = column.as_primitive::<TimestampMicrosecondType>().values().contains(&253_402_225_200_000_000);
        assert!(far, "{column:?}");
    }
}

/// Keys of samples are text, also where a table numbers its rows.
#[test]
fn numbers_are_keys() {
    let key: ArrayRef = Arc::new(Int64Array::from_iter_values([7, -3]));
    let x: ArrayRef = Arc::new(Int64Array::from_iter_values([1, 2]));
    let batch = RecordBatch::try_from_iter(vec![("__key__", key), ("x", x)]).unwrap();
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    let mut arrow = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    arrow.write(&batch).unwrap();
    let category: DictionaryArray<Int32Type> =
        DictionaryArray::new(Int32Array::from(vec![1, 0]), Arc::new(Int64Array::from(vec![-3, 7])));
    let categories = RecordBatch::try_from_iter(vec![("__key__", Arc::new(category) as ArrayRef)]).unwrap();
    let mut other = FileWriter::try_new(Vec::new(), &categories.schema()).unwrap();
    other.write(&categories).unwrap();
    let formats: [(&dyn Format, Vec<u8>); 3] = [
        (&Parquet, parquet.into_inner().unwrap()),
        (&ArrowIpc, arrow.into_inner().unwrap()),
        (&ArrowIpc, other.into_inner().unwrap()),
    ];
    for (format, bytes) in formats {
        let source = format.source(&Options::new(), Limits::default()).unwrap();
        let table = source.open(Arc::new(MemoryInput::new("numbered", bytes))).unwrap();
        let rows = table.rows(0..2).unwrap().next().unwrap().unwrap();
        let keys = rows.column_by_name("__key__").unwrap().as_string_view();
        assert_eq!(keys.iter().flatten().collect::<Vec<_>>(), ["7", "-3"]);
    }
}

/// Columns are read in groups of some hundred: all at once, a part of a row group, and row group by row group in pieces.
#[test]
fn many_columns_are_those_that_were_written() {
    const STRUCTS: i64 = 700;
    let int = |offset: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..90).map(|row| row + offset))) };
    let fields = ["a", "b"].map(|name| Arc::new(Field::new(name, DataType::Int64, false)));
    let column = |n: i64| -> (String, ArrayRef) {
        let parts = fields.iter().cloned().zip([int(1000 * n), int(-1000 * n)]).collect::<Vec<_>>();
        (format!("c{n:03}"), Arc::new(StructArray::from(parts)))
    };
    let batch = RecordBatch::try_from_iter((0..STRUCTS).map(column)).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(Default::default()))
        .set_max_row_group_row_count(Some(40));
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    // Where little may be decoded ahead, row groups are decoded block by block.
    for ahead in [Limits::default().ahead, 1] {
        let limits = Limits { ahead, ..Limits::default() };
        let source = Parquet.source(&Options::new(), limits).unwrap();
        let table = source.open(Arc::new(MemoryInput::new("wide", bytes.clone()))).unwrap();
        for range in [0..90, 10..30, 35..81] {
            let mut next = range.start;
            for rows in table.rows(range.clone()).unwrap() {
                let rows = rows.unwrap();
                for n in 0..STRUCTS {
                    for (name, offset) in [("a", 1000 * n), ("b", -1000 * n)] {
                        let values = rows.column_by_name(&format!("c{n:03}.{name}")).unwrap();
                        let wanted = (0..rows.num_rows() as i64).map(|row| next as i64 + row + offset);
                        assert!(
                            values.as_primitive::<Int64Type>().values().iter().copied().eq(wanted),
                            "{n} {range:?}"
                        );
                    }
                }
                next += rows.num_rows() as u64;
            }
            assert_eq!(next, range.end);
        }
    }
}

/// Zeros take almost no bytes in a file.
#[test]
fn blocks_are_as_large_in_memory_as_others_where_values_repeat() {
    let list = |rows: usize| {
        let item = Arc::new(Field::new("item", DataType::Int32, false));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(16_384, rows));
        let zeros = Int32Array::from(vec![0; rows * 16_384]);
        Arc::new(ListArray::new(item, offsets, Arc::new(zeros), None)) as ArrayRef
    };
    let batch = RecordBatch::try_from_iter(vec![("x", list(400))]).unwrap();
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    let arrow = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let mut arrow = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), arrow).unwrap();
    arrow.write(&batch).unwrap();
    arrow.finish().unwrap();
    let of = |format: &dyn Format, bytes: Vec<u8>| {
        let source = format.source(&Options::new(), Limits::default()).unwrap();
        let table = source.open(Arc::new(MemoryInput::new("zeros", bytes))).unwrap();
        assert!(table.decoded_bytes().unwrap() >= 400 * 65_536);
        table.rows(0..400).unwrap().map(|rows| rows.unwrap().num_rows()).collect::<Vec<_>>()
    };
    for rows in [of(&Parquet, parquet.into_inner().unwrap()), of(&ArrowIpc, arrow.into_inner().unwrap())] {
        assert!(rows.iter().sum::<usize>() == 400 && rows.iter().all(|rows| *rows <= 64), "{rows:?}");
    }
}

/// Pieces of a row group that are too large to be decoded beside others come one after another, whatever stood before them.
#[test]
fn pieces_of_large_rows_follow_small_rows() {
    let sizes = [10usize, 10, 5 << 20, 5 << 20, 5 << 20, 5 << 20, 10, 10];
    let value = |row: usize| vec![row as u8; sizes[row]];
    let properties =
        WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).set_dictionary_enabled(false);
    let rows = |range: std::ops::Range<usize>| {
        let values: ArrayRef = Arc::new(arrow_array::BinaryArray::from_iter_values(range.map(value)));
        RecordBatch::try_from_iter([("bytes", values)]).unwrap()
    };
    let mut writer = ArrowWriter::try_new(Vec::new(), rows(0..0).schema(), Some(properties.build())).unwrap();
    for group in [0..2, 2..6, 6..8] {
        writer.write(&rows(group)).unwrap();
        writer.flush().unwrap();
    }
    let bytes = writer.into_inner().unwrap();
    for ahead in [1, 6 << 20, Limits::default().ahead] {
        let source = Parquet.source(&Options::new(), Limits { ahead, ..Limits::default() }).unwrap();
        let table = source.open(Arc::new(MemoryInput::new("large", bytes.clone()))).unwrap();
        for range in [0..8, 1..7, 3..8] {
            let mut next = range.start as usize;
            for rows in table.rows(range.clone()).unwrap() {
                for found in rows.unwrap().column(0).as_binary_view().iter() {
                    assert!(found == Some(&value(next)[..]), "row {next} of {range:?} with {ahead}");
                    next += 1;
                }
            }
            assert_eq!(next as u64, range.end, "{range:?} with {ahead}");
        }
    }
}

/// Parts of a record batch, which are wanted one after another, decode it once, and keep only their own rows.
#[test]
fn a_record_batch_is_read_once_for_its_parts() {
    const ROWS: i64 = 50_000;
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let text: ArrayRef = Arc::new((0..ROWS).map(|i| Some(format!("the text of {i}"))).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter(vec![("n", n), ("text", text)]).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    (0..2).for_each(|_| writer.write(&batch).unwrap());
    let bytes = writer.into_inner().unwrap();
    let (len, input) = (bytes.len() as u64, CountedInput::local("t.arrow", bytes));
    let read = input.counter();
    let source = ArrowIpc.source(&Options::new(), Limits::default()).unwrap();
    let table = source.open(Arc::new(input)).unwrap();
    read.store(0, std::sync::atomic::Ordering::Relaxed);
    // Within the first, across both, and back: the batches stay, whatever the order.
    let starts = (0..99).map(|i| i * 37 % 99 * 1_000 + 500);
    for start in starts {
        let rows: Vec<Rows> = table.rows(start..start + 700).unwrap().collect::<Result<_>>().unwrap();
        let n = rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(n.eq((start..start + 700).map(|row| row as i64 % ROWS)), "{start}");
        assert!(held_bytes(&rows) < 200_000, "{}", held_bytes(&rows));
    }
    assert!(read.load(std::sync::atomic::Ordering::Relaxed) <= len);
    // All of it at once.
    let whole: Vec<Rows> = table.rows(0..2 * ROWS as u64).unwrap().collect::<Result<_>>().unwrap();
    assert_eq!(whole.iter().map(Rows::num_rows).sum::<usize>(), 2 * ROWS as usize);
}
