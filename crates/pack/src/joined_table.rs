//! Tables whose columns a view joins to its samples by key, and the file that it stores them in.

use crate::as_request_error;
use crate::join_keys::JoinKeys;
use crate::metadata::Metadata;
use crate::opened_view::OpenedView;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder, UInt64Builder, make_builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_select::concat::concat_batches;
use packhorse_core::{
    Code, DataType, Error, Field, FieldType, Kind, Limits, MemoryInput, Options, Registry, Result, Rows, Schema,
    SchemaRef, Store, Table, counted,
};
use packhorse_dataset::{Digest, FieldRecord, JoinedRecord, SampleRows};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Rows that are made at a time.
const AT_ONCE: usize = 1 << 16;

/// Missing keys that an error names.
const SHOWN: usize = 3;

/// All rows of the file of joined columns, whose bytes are `bytes`.
///
/// Errors: `Incomplete` for bytes without the recorded digest.
pub(crate) fn rows_of(registry: &Registry, record: &JoinedRecord, bytes: Vec<u8>) -> Result<Rows> {
    if Digest::of(&bytes) != record.file.blake3 {
        let error = Error::new(Kind::Incomplete, "its bytes do not have the digest that view.json records");
        let hint = "make the view again with `packhorse view`";
        return Err(error.with_code(Code::ShardDamaged).hint(hint).in_input(&record.file.name));
    }
    let source = registry.get(&record.format)?.source(&Options::new(), Limits::default())?;
    let table = source.open(Arc::new(MemoryInput::new(record.file.name.as_str(), bytes)))?;
    let rows = table.rows(0..record.rows)?.collect::<Result<Vec<_>>>()?;
    let schema = rows.first().map_or(FieldRecord::schema(&record.columns)?, |rows| rows.schema());
    concat_batches(&schema, &rows).map_err(|e| Error::bug(e.to_string()))
}

/// The columns of a view, opened to show some of its samples.
pub(crate) struct JoinedRows {
    rows: SampleRows,
    table: Box<dyn Table>,
}

impl JoinedRows {
    /// Those of the view `opened`, if it has any.
    pub(crate) fn open(registry: &Registry, store: &dyn Store, opened: &OpenedView) -> Result<Option<Self>> {
        let Some(record) = &opened.view.joined else { return Ok(None) };
        let source = registry.get(&record.format)?.source(&Options::new(), Limits::default())?;
        let input = store.open(&opened.dir.join(&record.file.name))?;
        Ok(Some(Self { rows: SampleRows::of(&opened.runs), table: source.open(input.into())? }))
    }

    /// The columns and their types.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        Ok(self.table.info()?.schema)
    }

    /// The row of sample `at` of a shard.
    pub(crate) fn row(&self, shard: u32, at: u64) -> Result<Rows> {
        let lost = || Error::content("lacks rows of joined columns");
        let row = self.rows.row(shard, at).ok_or_else(lost)?;
        self.table.rows(row..row + 1)?.next().ok_or_else(lost)?
    }
}

/// A table of columns for the samples of a view: the JSON text of each row, read as metadata is, as typed values.
///
/// Numbers are `Int64` if all of the column are such integers, `UInt64` if they fit that, else `Float64`, and text where that would
/// round an integer; others are Booleans or text.
pub struct JoinTable {
    metadata: Metadata,
    keys: JoinKeys,
    schema: SchemaRef,
    fill_missing: bool,
    /// The keys of some samples without a row.
    missing: Vec<String>,
}

impl JoinTable {
    /// Reads the table `path`, whose column `key` names samples; its extension says how, as for metadata. `columns`: those
    /// to join, or all but the key. With `fill_missing` a sample without a row gets nulls.
    ///
    /// Errors: those of reading metadata, among them two rows of one key; `Config` for a column that holds no values, lists
    /// or objects, or text and numbers.
    pub fn read(
        registry: &Registry,
        path: &Path,
        key: &str,
        columns: Option<&[String]>,
        fill_missing: bool,
    ) -> Result<Self> {
        let metadata = Metadata::read_exact(registry, path, key, columns)?;
        let named = |e: Error| as_request_error(e).in_input(path.display());
        if let Some(text) = metadata.keyless() {
            return Err(named(Error::content(text).hint("give every row the key of its sample")));
        }
        let schema = schema_of(&metadata, columns.is_none().then_some(key)).map_err(named)?;
        Ok(Self { keys: JoinKeys::new(&metadata), metadata, schema, fill_missing, missing: Vec::new() })
    }

    /// Adds the row of the sample `key`: that of its key, also before it was escaped, or the one that names a file
    /// of the sample (`1.jpg`); else that of the last part of the key, if no other key ends with it. A row that is of the key of one sample is of no other
    /// sample by the name of its file.
    pub fn push(&mut self, key: &str) {
        if !self.keys.push(&self.metadata, key) && self.missing.len() < SHOWN {
            self.missing.push(key.to_owned());
        }
    }

    /// The columns and rows of all samples, in their order. A column is nullable if a sample has no value.
    ///
    /// Errors: `Config` where several rows name files of a sample, for a row of the last part of several keys, and for samples without a row, unless they are filled; the
    /// message counts them and names some.
    pub fn finish(self) -> Result<(SchemaRef, Vec<Rows>)> {
        let (mut open, mut rows, mut pending) = (builders(&self.schema), Vec::new(), 0);
        let (mut samples, mut lost) = (0u64, 0u64);
        let mut cut = |open: &mut Vec<Box<dyn ArrayBuilder>>| {
            let columns: Vec<ArrayRef> = open.iter_mut().map(|column| column.finish()).collect();
            let block = RecordBatch::try_new(Arc::clone(&self.schema), columns);
            rows.push(block.map_err(|e| Error::bug(e.to_string()))?);
            Ok::<(), Error>(())
        };
        for row in self.keys.rows(&self.metadata) {
            let row = match row?.and_then(|row| self.metadata.text(row)) {
                Some(json) => parsed(json)?,
                None => {
                    lost += 1;
                    BTreeMap::new()
                }
            };
            let fields = self.schema.fields().iter().zip(&mut open);
            fields.for_each(|(field, column)| {
                push(&mut **column, row.get(field.name()).map_or("null", |value| value.get()))
            });
            (pending, samples) = (pending + 1, samples + 1);
            if pending == AT_ONCE {
                cut(&mut open)?;
                pending = 0;
            }
        }
        if pending > 0 {
            cut(&mut open)?;
        }
        if lost > 0 && !self.fill_missing {
            let shown: Vec<String> = self.missing.iter().map(|key| format!("\"{key}\"")).collect();
            let more = if lost > SHOWN as u64 { ", …" } else { "" };
            let have = if lost == 1 { "has" } else { "have" };
            let named = if shown.is_empty() { String::new() } else { format!(": {}{more}", shown.join(", ")) };
            let message = format!("{lost} of {} {have} no row in the table{named}", counted(samples, "sample"));
            return Err(Error::config(message).with_code(Code::NoMetadata).hint("pass `fill-missing` to have nulls"));
        }
        let nullable = |at: usize| rows.iter().any(|rows: &Rows| rows.column(at).null_count() > 0);
        let fields = self.schema.fields().iter().enumerate();
        let fields: Vec<Field> = fields.map(|(at, field)| field.as_ref().clone().with_nullable(nullable(at))).collect();
        let schema = Arc::new(Schema::new(fields));
        let rows = rows.iter().map(|rows| RecordBatch::try_new(Arc::clone(&schema), rows.columns().to_vec()));
        let rows = rows.collect::<std::result::Result<_, _>>().map_err(|e| Error::bug(e.to_string()))?;
        Ok((schema, rows))
    }

    /// The number of rows that no sample has, and the key of the first of them.
    pub fn unused(&self) -> (u64, Option<&str>) {
        // Reading a row marks it.
        for row in self.keys.rows(&self.metadata).filter_map(|row| row.ok().flatten()) {
            let _ = self.metadata.text(row);
        }
        self.metadata.unused()
    }
}

/// The JSON texts of a row's values: numbers have all their digits.
fn parsed(json: &str) -> Result<BTreeMap<String, &RawValue>> {
    serde_json::from_str(json).map_err(|e| Error::bug("a row is not a JSON object").caused_by(e))
}

/// What a column holds, over all rows.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    text: bool,
    boolean: bool,
    integer: bool,
    negative: bool,
    /// Integers beyond those of `Int64`.
    large: bool,
    /// Integers beyond those of `UInt64`.
    huge: bool,
    /// Integers, and whole parts of decimals, that `Float64` would round.
    long: bool,
    float: bool,
    nested: bool,
}

/// The largest integer up to which `Float64` has all.
const EXACT: i128 = 1 << 53;

impl Held {
    fn add(&mut self, json: &str) -> Result<()> {
        if is_integer(json) {
            self.add_integer(json);
            return Ok(());
        }
        match value_of(json)? {
            Value::Null => {}
            Value::Bool(_) => self.boolean = true,
            Value::String(_) => self.text = true,
            Value::Array(_) | Value::Object(_) => self.nested = true,
            Value::Number(_) => {
                self.float = true;
                // A decimal whose whole part alone would be rounded.
                let (whole, fraction) = json.split_once('.').unwrap_or_default();
                let is_decimal = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
                self.long |= is_decimal && !whole.parse::<i128>().is_ok_and(|whole| whole.abs() <= EXACT);
            }
        }
        Ok(())
    }

    /// Whether no row has a value.
    fn is_empty(self) -> bool {
        !(self.text || self.boolean || self.integer || self.huge || self.float || self.nested)
    }

    fn add_integer(&mut self, digits: &str) {
        let Ok(integer) = digits.parse::<i128>() else {
            self.huge = true;
            return;
        };
        self.integer = true;
        self.negative |= integer < 0;
        self.large |= integer > i128::from(i64::MAX);
        self.huge |= integer > i128::from(u64::MAX) || integer < i128::from(i64::MIN);
        self.long |= !(-EXACT..=EXACT).contains(&integer);
    }

    fn field(self, name: &str) -> Result<Field> {
        let refused = |what: &str| {
            let hint = "choose the columns to join without it (`join-columns`)";
            Err(Error::config(format!("column {name} {what}")).in_field(name).hint(hint))
        };
        let number = self.integer || self.huge || self.float;
        // No type of numbers holds all of them as they are.
        let digits = self.huge || self.float && self.long || self.negative && self.large;
        if self.nested {
            return refused("holds lists or objects; columns of numbers, Booleans and text can be joined");
        }
        if u8::from(self.text) + u8::from(self.boolean) + u8::from(number) > 1 {
            return refused("holds values of different types");
        }
        let kind = match self {
            Self { text: true, .. } => FieldType::Text,
            Self { boolean: true, .. } => FieldType::Scalar(DataType::Boolean),
            _ if digits => FieldType::Text,
            Self { float: true, .. } => FieldType::Scalar(DataType::Float64),
            Self { large: true, .. } => FieldType::Scalar(DataType::UInt64),
            Self { integer: true, .. } => FieldType::Scalar(DataType::Int64),
            _ => return refused("holds no value"),
        };
        Ok(kind.field(name, true))
    }
}

/// The columns of a table, by name, but for the key.
fn schema_of(metadata: &Metadata, key: Option<&str>) -> Result<SchemaRef> {
    let mut columns: BTreeMap<String, Held> = BTreeMap::new();
    for json in metadata.texts() {
        for (name, value) in parsed(json)?.iter().filter(|(name, _)| Some(name.as_str()) != key) {
            let added = match columns.get_mut(name) {
                Some(held) => held.add(value.get()),
                None => columns.entry(name.clone()).or_default().add(value.get()),
            };
            added.map_err(|e| e.in_field(name))?;
        }
    }
    // A column without a value has no type, and nothing to join. One that is asked for is refused.
    columns.retain(|_, held| key.is_none() || !held.is_empty());
    if columns.is_empty() {
        return Err(Error::config("has no column with values to join beside the key"));
    }
    let fields = columns.iter().map(|(name, held)| held.field(name)).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

fn is_integer(json: &str) -> bool {
    !json.is_empty() && json.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// Any other value than an integer.
///
/// Errors: `Content` for a number beyond those of `Float64`, and for text that is not Unicode.
fn value_of(json: &str) -> Result<Value> {
    serde_json::from_str(json).map_err(|e| {
        let shown: String = json.chars().take(40).collect();
        Error::content(format!("has a value that no column holds: {shown}")).caused_by(e)
    })
}

fn builders(schema: &Schema) -> Vec<Box<dyn ArrayBuilder>> {
    schema.fields().iter().map(|field| make_builder(field.data_type(), 0)).collect()
}

/// Appends a value of JSON to a column of [`builders`]; null where it is of another type.
fn push(column: &mut dyn ArrayBuilder, json: &str) {
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let any = column.as_any_mut();
    if let Some(column) = any.downcast_mut::<BooleanBuilder>() {
        column.append_option(value.as_bool());
    } else if let Some(column) = any.downcast_mut::<Int64Builder>() {
        column.append_option(json.parse().ok());
    } else if let Some(column) = any.downcast_mut::<UInt64Builder>() {
        // The integer -0 is one of JSON.
        column.append_option(if json == "-0" { Some(0) } else { json.parse().ok() });
    } else if let Some(column) = any.downcast_mut::<Float64Builder>() {
        column.append_option(value.as_f64());
    } else if let Some(column) = any.downcast_mut::<StringViewBuilder>() {
        // serde_json refuses integers beyond all floats.
        column.append_option(value.as_str().or_else(|| (value.is_number() || is_integer(json)).then_some(json)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(values: &str) -> std::result::Result<DataType, String> {
        let values: Vec<&RawValue> = serde_json::from_str(values).unwrap();
        let mut held = Held::default();
        values.iter().try_for_each(|value| held.add(value.get())).map_err(|e| e.message().to_owned())?;
        held.field("x").map(|field| field.data_type().clone()).map_err(|e| e.message().to_owned())
    }

    #[test]
    fn a_column_has_the_type_that_holds_all_its_values() {
        assert_eq!(kind("[1, null, -3]"), Ok(DataType::Int64));
        assert_eq!(kind("[1, 18446744073709551615]"), Ok(DataType::UInt64));
        assert_eq!(kind("[1, 2.5]"), Ok(DataType::Float64));
        for rounded in [
            "[-1, 18446744073709551615]",
            "[12345678901234567890123]",
            "[1.5, 9007199254740993]",
            "[0.5, 1234567890123456789.12]",
        ] {
            assert_eq!(kind(rounded), Ok(DataType::Utf8View), "{rounded}");
        }
        let mut column = StringViewBuilder::new();
        let digits = "7".repeat(309);
        ["\"a\"", "12345678901234567890123", "null", &digits].iter().for_each(|json| push(&mut column, json));
        let column = StringViewBuilder::finish(&mut column);
        let texts: Vec<_> = column.iter().collect();
        assert_eq!(texts, [Some("a"), Some("12345678901234567890123"), None, Some(&*digits)]);
        let (mut signed, mut unsigned) = (Int64Builder::new(), UInt64Builder::new());
        push(&mut signed, "-0");
        ["-0", "18446744073709551615"].iter().for_each(|json| push(&mut unsigned, json));
        assert_eq!(signed.values_slice(), [0]);
        assert_eq!(unsigned.values_slice(), [0, u64::MAX]);
        assert_eq!(kind("[true, null]"), Ok(DataType::Boolean));
        assert_eq!(kind("[\"a\", null]"), Ok(DataType::Utf8View));
        for (bad, why) in [
            ("[1e400]", "no column holds: 1e400"),
            ("[null]", "no value"),
            ("[1, \"a\"]", "different"),
            ("[true, 1]", "different"),
            ("[[1]]", "lists"),
        ] {
            assert!(kind(bad).unwrap_err().contains(why), "{bad}");
        }
    }
}
