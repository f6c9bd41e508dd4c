//! Columnar tables, in the registered format that has the file's extension (`.parquet`).
//!
//! * Only the wanted columns are read, block by block, so memory is bounded by the rows kept and what the format holds
//!   of one block.
//! * Values become JSON as [`super::encode`] says.
//! * The key column holds text or integers; a row without key is an error. Rows are counted from 1.

use super::{ColumnRequest, Metadata, encode, member_name};
use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray};
use arrow_schema::Schema;
use packhorse_core::{Error, Input, Result, Source};

/// Reads the table `input`; `None` if `source` reads no tables.
pub(super) fn read(source: &dyn Source, input: &dyn Input, request: &ColumnRequest<'_>) -> Result<Option<Metadata>> {
    let mut columns = None;
    let blocks = source.columns(input, &mut |schema| {
        let (found, roots) = Columns::choose(schema, request)?;
        columns = Some(found);
        Ok(roots)
    })?;
    let Some(blocks) = blocks else { return Ok(None) };
    let columns = columns.ok_or_else(|| Error::bug("no columns were chosen for a table"))?;
    let mut rows = Metadata::empty("row", request);
    for block in blocks {
        let at = |e: Error| e.context(format_args!("after row {}", rows.len()));
        add(&block.map_err(at)?, &columns, request, &mut rows)?;
    }
    Ok(Some(rows))
}

/// The columns to read.
struct Columns {
    key: usize,
    /// Position in a block, name, start of the member's JSON text.
    kept: Vec<(usize, String, String)>,
}

impl Columns {
    /// The requested columns, and the positions in `schema` of all columns to read.
    fn choose(schema: &Schema, request: &ColumnRequest<'_>) -> Result<(Self, Vec<usize>)> {
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let choice = request.choose(&names)?;
        let mut roots = choice.columns.clone();
        roots.push(choice.key);
        roots.sort_unstable();
        roots.dedup();
        check(schema, choice.key, &roots)?;
        let place = |root: &usize| roots.binary_search(root).map_err(|_| Error::bug("a column was not read"));
        let kept = choice.columns.iter().map(|root| {
            let name = names.get(*root).cloned().unwrap_or_default();
            Ok((place(root)?, name.clone(), member_name(&name)?))
        });
        let columns = Self { key: place(&choice.key)?, kept: kept.collect::<Result<_>>()? };
        Ok((columns, roots))
    }
}

/// Refuses columns that can't be JSON, before anything is read.
fn check(schema: &Schema, key: usize, roots: &[usize]) -> Result<()> {
    for (root, field) in schema.fields().iter().enumerate() {
        if root == key && !encode::is_name(field.data_type()) {
            let (name, kind) = (field.name(), field.data_type());
            let text = format!("the key column {name:?} is of the type {kind}; choose one of text or integers");
            return Err(Error::config(text));
        }
        if roots.contains(&root) {
            encode::check(field.name(), field.data_type())?;
        }
    }
    Ok(())
}

/// Adds the rows of a batch.
fn add(batch: &RecordBatch, columns: &Columns, request: &ColumnRequest<'_>, rows: &mut Metadata) -> Result<()> {
    let column = |place: usize| -> Result<&ArrayRef> {
        batch.columns().get(place).ok_or_else(|| Error::content("a row group lacks a column; write the file again"))
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
            let subject = format_args!("the column {name:?}");
            let at = |e: Error| e.subject(subject).context(format_args!("row {number}")).in_field(name);
            encode::write(array, row, &mut json).map_err(at)?;
        }
        json.push(b'}');
        let limit = request.limits.header(json.len() as u64);
        limit.map_err(|e| e.context(format_args!("row {number}")))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::*;
    use arrow_schema::{DataType, Field};
    use packhorse_core::{Blocks, Kind, Limits, MemoryInput, Rows, Table};
    use std::sync::Arc;

    /// A table of these columns, two rows a block.
    struct Columnar(RecordBatch);

    impl Source for Columnar {
        fn open<'a>(&self, _: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
            Err(Error::unsupported("only columns"))
        }

        fn columns<'a>(
            &'a self,
            _: &'a dyn Input,
            choose: &mut dyn FnMut(&Schema) -> Result<Vec<usize>>,
        ) -> Result<Option<Blocks<'a>>> {
            let roots = choose(self.0.schema_ref())?;
            let rows: Rows = self.0.project(&roots).unwrap();
            let len = rows.num_rows();
            let blocks = (0..len).step_by(2).map(move |at| Ok(rows.slice(at, 2.min(len - at))));
            Ok(Some(Box::new(blocks)))
        }
    }

    fn table(columns: Vec<(&str, ArrayRef)>, key: &str, kept: Option<&[&str]>) -> Result<Metadata> {
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        let source = Columnar(RecordBatch::try_from_iter_with_nullable(columns).unwrap());
        let kept: Option<Vec<String>> = kept.map(|list| list.iter().map(|name| (*name).to_owned()).collect());
        let request = ColumnRequest::new(key, kept.as_deref(), Limits::default()).unwrap();
        read(&source, &MemoryInput::new("a.table", ""), &request).map(Option::unwrap)
    }

    fn ids(len: usize) -> ArrayRef {
        Arc::new((0..len).map(|i| Some(format!("a/{i:04}.jpg"))).collect::<StringArray>())
    }

    /// The JSON text of a column `x` of one row.
    fn json(array: impl Array + 'static) -> String {
        let rows = table(vec![("id", ids(1)), ("x", Arc::new(array))], "id", Some(&["x"])).unwrap();
        let text = rows.get("a/0000").unwrap();
        serde_json::from_str::<serde_json::Value>(text).unwrap();
        text.strip_prefix("{\"x\":").unwrap().strip_suffix('}').unwrap().to_owned()
    }

    #[test]
    fn rows_of_many_blocks_are_read() {
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..301));
        let rows = table(vec![("n", n), ("id", ids(301))], "id", None).unwrap();
        assert_eq!(rows.len(), 301);
        assert_eq!(rows.get("a/0300"), Some(r#"{"n":300,"id":"a/0300.jpg"}"#));
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
        let far = vec![("id", ids(1)), ("x", Arc::new(TimestampMillisecondArray::from(vec![i64::MAX])) as _)];
        assert!(table(far, "id", None).unwrap_err().message().contains("row 1: the column \"x\" holds a date"));
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
    fn integers_are_keys_and_nulls_and_floats_are_not() {
        let one = |key: ArrayRef| table(vec![("id", key)], "id", None);
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
    fn a_column_that_json_cannot_hold_is_refused_unless_left_out() {
        let binary: ArrayRef = Arc::new(BinaryArray::from(vec![&b"x"[..]]));
        let columns = || vec![("id", ids(1)), ("jpg", Arc::clone(&binary))];
        let error = table(columns(), "id", None).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.message().contains("\"jpg\" holds binary data") && error.message().contains("choose"), "{error}");
        assert_eq!(table(columns(), "id", Some(&["id"])).unwrap().get("a/0000"), Some(r#"{"id":"a/0000.jpg"}"#));
        assert_eq!(
            table(columns(), "nope", None).unwrap_err().message(),
            r#"has no column "nope"; choose among "id", "jpg""#
        );
    }
}
