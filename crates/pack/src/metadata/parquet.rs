//! Parquet tables.
//!
//! * What it is: columns in compressed pages, grouped by rows, with a footer that describes them. Specification:
//!   <https://parquet.apache.org/docs/file-format/>; read by the crate `parquet` of Apache Arrow. Who else writes it:
//!   pandas, polars, DuckDB, Spark, Hugging Face datasets, img2dataset.
//! * Only the wanted columns are read, a thousand rows at a time, so memory is bounded by the rows kept and one
//!   page of each column. Compression: none, Snappy, gzip, Zstandard, LZ4; Brotli and LZO are refused by name.
//! * Values become JSON as [`super::encode`] says. What Arrow writers note in the footer beyond Parquet's own types is
//!   not looked at, so a duration is its integer and a pandas category its text. INT96 timestamps, long
//!   deprecated, are read in microseconds, which all their dates fit in.
//! * The key column holds text or integers; a row without key is an error. Rows are counted from 1.
//! * The crate panics on some damaged files. That is caught here and becomes a `Content` error; the process's panic
//!   hook still prints its line. It needs a build in which panics unwind, which is Rust's default.

use super::{Metadata, Request, depth, encode, member_name};
use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use packhorse_core::{Error, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, Type as PhysicalType};
use parquet::errors::ParquetError;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Rows in memory at a time.
const BATCH: usize = 1024;

/// Reads a Parquet file.
pub(super) fn read(file: File, request: &Request<'_>) -> Result<Metadata> {
    depth::check(&file)?;
    contained(|| read_rows(file, request))
}

/// Runs `work`; its panic becomes a `Content` error.
fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that outlives a panic is changed by the work: it owns the file and makes the table.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::content("is damaged, or made in a way its reader doesn't know (it gave up); write it anew"))
    })
}

/// The columns that are read: their positions in a batch, and what they are for.
struct Columns {
    key: usize,
    /// Position in a batch, name, start of the member's JSON text.
    kept: Vec<(usize, String, String)>,
}

fn read_rows(file: File, request: &Request<'_>) -> Result<Metadata> {
    let options = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let footer = ArrowReaderMetadata::load(&file, options()).map_err(damaged)?;
    let names: Vec<String> = footer.schema().fields().iter().map(|field| field.name().clone()).collect();
    let choice = request.choose(&names)?;
    let mut roots = choice.columns.clone();
    roots.push(choice.key);
    roots.sort_unstable();
    roots.dedup();
    let mask = ProjectionMask::roots(footer.parquet_schema(), roots.iter().copied());
    check(&footer, &mask, choice.key, &roots)?;
    let schema = Arc::new(without_int96(&footer));
    let footer = ArrowReaderMetadata::try_new(Arc::clone(footer.metadata()), options().with_schema(schema));
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.map_err(damaged)?);
    let batches = builder.with_projection(mask).with_batch_size(BATCH).build().map_err(damaged)?;
    let place = |root: &usize| roots.binary_search(root).map_err(|_| Error::bug("a column was not read"));
    let kept = choice.columns.iter().map(|root| {
        let name = names.get(*root).cloned().unwrap_or_default();
        Ok((place(root)?, name.clone(), member_name(&name)?))
    });
    let columns = Columns { key: place(&choice.key)?, kept: kept.collect::<Result<_>>()? };
    let mut rows = Metadata::empty("row");
    for batch in batches {
        let at = |e| Error::content(format!("after row {}: can't be read as Parquet: {e}", rows.len()));
        add(&batch.map_err(at)?, &columns, request, &mut rows)?;
    }
    Ok(rows)
}

/// Whether we can read these columns at all, said before anything is read.
fn check(footer: &ArrowReaderMetadata, mask: &ProjectionMask, key: usize, roots: &[usize]) -> Result<()> {
    for (root, field) in footer.schema().fields().iter().enumerate() {
        if root == key && !encode::is_name(field.data_type()) {
            let (name, kind) = (field.name(), field.data_type());
            let text = format!("the key column {name:?} is of the type {kind}; choose one of text or integers");
            return Err(Error::config(text));
        }
        if roots.contains(&root) {
            encode::check(field.name(), field.data_type())?;
        }
    }
    for (leaf, column) in
        footer.parquet_schema().columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf))
    {
        let name = column.path().string();
        if column.physical_type() == PhysicalType::INT96 && column.path().parts().len() > 1 {
            return Err(Error::unsupported(format!(
                "the column {name:?} holds nested INT96 timestamps; choose the columns to keep without it"
            )));
        }
        let codecs =
            footer.metadata().row_groups().iter().filter_map(|group| Some(group.columns().get(leaf)?.compression()));
        for codec in codecs {
            if matches!(codec, Compression::BROTLI(_) | Compression::LZO) {
                let text = format!("the column {name:?} is compressed by {codec}; write the file with zstd instead");
                return Err(Error::unsupported(text));
            }
        }
    }
    Ok(())
}

/// The schema with INT96 columns in microseconds: in nanoseconds, dates outside 1677 to 2262 would wrap around.
fn without_int96(footer: &ArrowReaderMetadata) -> Schema {
    let parquet = footer.parquet_schema();
    let is_int96 = |root: usize| {
        let node = parquet.root_schema().get_fields().get(root);
        node.is_some_and(|node| node.is_primitive() && node.get_physical_type() == PhysicalType::INT96)
    };
    let fields = footer.schema().fields().iter().enumerate().map(|(root, field)| match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, None) if is_int96(root) => {
            let kind = DataType::Timestamp(TimeUnit::Microsecond, None);
            Arc::new(Field::clone(field).with_data_type(kind))
        }
        _ => Arc::clone(field),
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Adds the rows of a batch.
fn add(batch: &RecordBatch, columns: &Columns, request: &Request<'_>, rows: &mut Metadata) -> Result<()> {
    let column = |place: usize| -> Result<&ArrayRef> {
        batch.columns().get(place).ok_or_else(|| Error::content("a row group lacks a column; write the file anew"))
    };
    let keys = column(columns.key)?;
    let kept = columns.kept.iter().map(|(place, name, prefix)| Ok((column(*place)?, name, prefix)));
    let kept = kept.collect::<Result<Vec<_>>>()?;
    let (mut json, mut digits) = (Vec::new(), Vec::new());
    for row in 0..batch.num_rows() {
        let number = rows.len() + 1;
        json.clear();
        for (array, name, prefix) in &kept {
            json.push(if json.is_empty() { b'{' } else { b',' });
            json.extend_from_slice(prefix.as_bytes());
            let at = |e: Error| Error::new(e.kind(), format!("row {number}: the column {name:?} {}", e.message()));
            encode::write(array, row, &mut json).map_err(at)?;
        }
        json.push(b'}');
        let limit = request.limits.header(json.len() as u64);
        limit.map_err(|e| Error::new(e.kind(), format!("row {number}: {}", e.message())))?;
        rows.insert(key(keys, row, &mut digits, number)?, text(&json)?, number)?;
    }
    Ok(())
}

/// The key's text at `row`; `digits` is where an integer's are made.
fn key<'a>(keys: &'a ArrayRef, row: usize, digits: &'a mut Vec<u8>, number: u64) -> Result<&'a str> {
    if keys.is_null(row) {
        return Err(Error::content(format!("row {number}: the key is null; give every row the key of its sample")));
    }
    if let Some(keys) = keys.as_string_opt::<i32>() {
        return Ok(keys.value(row));
    }
    digits.clear();
    encode::write(keys, row, digits)?;
    text(digits)
}

fn text(json: &[u8]) -> Result<&str> {
    std::str::from_utf8(json).map_err(|e| Error::bug("made JSON that isn't UTF-8").caused_by(e))
}

/// What the crate's error means to the user.
fn damaged(error: ParquetError) -> Error {
    match error {
        ParquetError::NYI(what) => Error::unsupported(format!("needs what the Parquet reader doesn't do: {what}")),
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(error) => Error::io("read", *error),
            Err(error) => Error::content(format!("can't be read as Parquet: {error}")),
        },
        error => Error::content(format!("can't be read as Parquet: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::*;
    use packhorse_core::{Kind, Limits};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;
    use std::io::Write;
    use std::path::{Path, PathBuf};

    fn bytes(columns: Vec<(&str, ArrayRef)>, codec: Compression, group: usize) -> Vec<u8> {
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let properties = WriterProperties::builder().set_compression(codec).set_max_row_group_row_count(Some(group));
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn table(bytes: &[u8], key: &str, columns: Option<&[&str]>) -> Result<Metadata> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let columns: Option<Vec<String>> = columns.map(|list| list.iter().map(|name| (*name).to_owned()).collect());
        read(file, &Request::new(key, columns.as_deref(), Limits::default()).unwrap())
    }

    fn ids(len: usize) -> ArrayRef {
        Arc::new((0..len).map(|i| Some(format!("a/{i:04}.jpg"))).collect::<StringArray>())
    }

    /// The JSON text of a column `x` of one row.
    fn json(array: impl Array + 'static) -> String {
        let bytes = bytes(vec![("id", ids(1)), ("x", Arc::new(array))], Compression::SNAPPY, 10);
        let rows = table(&bytes, "id", Some(&["x"])).unwrap();
        let text = rows.get("a/0000").unwrap();
        serde_json::from_str::<serde_json::Value>(text).unwrap();
        text.strip_prefix("{\"x\":").unwrap().strip_suffix('}').unwrap().to_owned()
    }

    #[test]
    fn rows_of_every_codec_and_of_many_groups_are_read() {
        let codecs = [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::GZIP(Default::default()),
            Compression::ZSTD(Default::default()),
            Compression::LZ4_RAW,
            Compression::LZ4,
        ];
        for codec in codecs {
            let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
            let rows = table(&bytes(vec![("n", n), ("id", ids(3000))], codec, 700), "id", None).unwrap();
            assert_eq!(rows.len(), 3000);
            assert_eq!(rows.get("a/2999"), Some(r#"{"n":2999,"id":"a/2999.jpg"}"#), "{codec}");
        }
    }

    #[test]
    fn plain_values_become_json() {
        assert_eq!(json(UInt64Array::from(vec![u64::MAX])), "18446744073709551615");
        assert_eq!(json(Int8Array::from(vec![-1])), "-1");
        assert_eq!(json(Int32Array::from(vec![None])), "null");
        assert_eq!(json(BooleanArray::from(vec![true])), "true");
        assert_eq!(json(StringArray::from(vec!["a\"\n\u{e9}"])), "\"a\\\"\\n\u{e9}\"");
        assert_eq!(json(LargeStringArray::from(vec!["x"])), "\"x\"");
        assert_eq!(json(Float32Array::from(vec![0.1])), "0.1");
        assert_eq!(json(Float64Array::from(vec![1e300])), "1e+300");
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(json(Float64Array::from(vec![odd])), "null");
        }
        let decimal = Decimal128Array::from(vec![-1230]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(json(decimal), "-12.30");
        assert_eq!(json(NullArray::new(1)), "null");
    }

    #[test]
    fn times_are_iso_8601() {
        assert_eq!(json(Date32Array::from(vec![19_000])), "\"2022-01-08\"");
        assert_eq!(json(Time64MicrosecondArray::from(vec![3_723_000_004])), "\"01:02:03.000004\"");
        assert_eq!(json(TimestampMillisecondArray::from(vec![1_700_000_000_120])), "\"2023-11-14T22:13:20.120\"");
        let zoned = TimestampMicrosecondArray::from(vec![1_700_000_000_000_000]).with_timezone("Europe/Paris");
        assert_eq!(json(zoned), "\"2023-11-14T22:13:20Z\"");
        assert_eq!(json(TimestampNanosecondArray::from(vec![-1])), "\"1969-12-31T23:59:59.999999999\"");
        let far = bytes(
            vec![("id", ids(1)), ("x", Arc::new(TimestampMillisecondArray::from(vec![i64::MAX])))],
            Compression::SNAPPY,
            1,
        );
        assert!(table(&far, "id", None).unwrap_err().message().contains("row 1: the column \"x\" holds a date"));
    }

    #[test]
    fn nested_columns_become_nested_json() {
        let mut lists = ListBuilder::new(Int32Builder::new());
        lists.append_value([Some(1), None, Some(3)]);
        let lists: ArrayRef = Arc::new(lists.finish());
        assert_eq!(json(Arc::clone(&lists)), "[1,null,3]");
        let fields = vec![
            (Arc::new(Field::new("l\"", lists.data_type().clone(), true)), lists),
            (Arc::new(Field::new("s", DataType::Utf8, true)), Arc::new(StringArray::from(vec![None::<&str>])) as _),
        ];
        assert_eq!(json(StructArray::from(fields)), r#"{"l\"":[1,null,3],"s":null}"#);
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        map.keys().append_value("k\"");
        map.values().append_value(1);
        map.append(true).unwrap();
        assert_eq!(json(map.finish()), r#"{"k\"":1}"#);
        let mut map = MapBuilder::new(None, Int32Builder::new(), Int32Builder::new());
        map.keys().append_slice(&[1, -2]);
        map.values().append_slice(&[3, 4]);
        map.append(true).unwrap();
        assert_eq!(json(map.finish()), r#"{"1":3,"-2":4}"#);
    }

    #[test]
    fn integers_are_keys_and_nulls_and_doubles_are_not() {
        let one = |key: ArrayRef| table(&bytes(vec![("id", key)], Compression::SNAPPY, 2), "id", None);
        assert_eq!(one(Arc::new(Int64Array::from(vec![-7]))).unwrap().get("-7"), Some(r#"{"id":-7}"#));
        let error = one(Arc::new(StringArray::from(vec![Some("a"), None]))).unwrap_err();
        assert!(error.kind() == Kind::Content && error.message().starts_with("row 2: the key is null"), "{error}");
        let error = one(Arc::new(StringArray::from(vec!["a", "b", "c", "a.png"]))).unwrap_err();
        assert!(error.message().starts_with("rows 1 and 4 have the same key"), "{error}");
        let error = one(Arc::new(Float64Array::from(vec![1.0]))).unwrap_err();
        assert!(error.kind() == Kind::Config && error.message().contains("Float64"), "{error}");
        assert_eq!(one(ids(0)).unwrap().len(), 0);
    }

    #[test]
    fn what_json_cannot_hold_is_refused_by_name_unless_left_out() {
        let binary: ArrayRef = Arc::new(BinaryArray::from(vec![&b"x"[..]]));
        let bytes = bytes(vec![("id", ids(1)), ("jpg", binary)], Compression::SNAPPY, 1);
        let error = table(&bytes, "id", None).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.message().contains("\"jpg\" holds binary data") && error.message().contains("choose"), "{error}");
        assert_eq!(table(&bytes, "id", Some(&["id"])).unwrap().get("a/0000"), Some(r#"{"id":"a/0000.jpg"}"#));
        assert_eq!(
            table(&bytes, "nope", None).unwrap_err().message(),
            r#"has no column "nope"; choose among "id", "jpg""#
        );
    }

    #[test]
    fn damage_anywhere_is_an_error_and_never_a_panic() {
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
        let whole = bytes(vec![("n", n), ("id", ids(50))], Compression::SNAPPY, 20);
        for end in 0..whole.len() {
            assert!(table(&whole[..end], "id", None).is_err(), "cut at {end}");
        }
        for at in 0..whole.len() {
            for flip in [1, 0x80] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let _ = table(&bytes, "id", None);
            }
        }
    }

    fn files(folder: &str) -> Vec<PathBuf> {
        let Some(root) = std::env::var_os("PACKHORSE_TEST_DATA") else {
            eprintln!("skipped: set PACKHORSE_TEST_DATA to the folder that holds parquet-testing/ to run this test");
            return Vec::new();
        };
        let entries = std::fs::read_dir(Path::new(&root).join("parquet-testing").join(folder)).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|e| e == "parquet"));
        files.sort();
        files
    }

    fn columns(path: &Path) -> Vec<String> {
        let names = || {
            let footer = ArrowReaderMetadata::load(&File::open(path).unwrap(), ArrowReaderOptions::new()).ok()?;
            Some(footer.schema().fields().iter().map(|field| field.name().clone()).collect())
        };
        catch_unwind(names).ok().flatten().unwrap_or_else(|| vec!["id".to_owned()])
    }

    #[test]
    fn real_files_are_read_or_refused_with_reasons() {
        let limits = Limits::default();
        for path in files("data").into_iter().chain(files("bad_data")) {
            let names = columns(&path);
            for (key, kept) in names.iter().flat_map(|key| names.iter().map(move |kept| (key, kept))) {
                match Metadata::read(&path, key, Some(std::slice::from_ref(kept)), &limits) {
                    Ok(rows) => (0..rows.len()).for_each(|row| {
                        let (_, json) = rows.parts(row.try_into().unwrap()).unwrap();
                        let object: serde_json::Map<_, _> = serde_json::from_str(json).unwrap();
                        assert!(object.len() == 1 && object.contains_key(kept), "{}: {json}", path.display());
                    }),
                    Err(e) => {
                        assert!(matches!(e.kind(), Kind::Content | Kind::Config | Kind::Unsupported), "{e}");
                        assert!(!e.message().contains("damaged"), "the reader panicked: {e}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_page_that_fails_its_checksum_is_an_error() {
        for path in files("data").iter().filter(|path| path.ends_with("datapage_v1-corrupt-checksum.parquet")) {
            let error = Metadata::read(path, "a", None, &Limits::default()).unwrap_err();
            assert!(error.kind() == Kind::Content && error.message().contains("CRC"), "{error}");
        }
    }

    #[test]
    fn a_panic_is_contained() {
        let error = contained::<()>(|| panic!("as the reader may do")).unwrap_err();
        assert_eq!(error.kind(), Kind::Content);
    }

    #[test]
    fn int96_timestamps_keep_dates_far_away() {
        for path in files("data").iter().filter(|path| path.ends_with("int96_from_spark.parquet")) {
            let footer = ArrowReaderMetadata::load(&File::open(path).unwrap(), Default::default()).unwrap();
            let schema = without_int96(&footer);
            assert_eq!(schema.field(0).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
            let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
            let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(path).unwrap(), options);
            let batch = reader.unwrap().build().unwrap().next().unwrap().unwrap();
            let mut json = Vec::new();
            let _ = (0..batch.num_rows()).try_for_each(|row| {
                json.push(b' ');
                encode::write(batch.column(0), row, &mut json)
            });
            let json = String::from_utf8(json).unwrap();
            assert!(json.contains("\"9999-12-31T03:00:00\""), "{json}");
        }
    }
}
