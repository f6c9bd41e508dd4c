//! Tables whose keys are the values of a column: `id-field`.

use crate::mapped_table::MappedTable;
use crate::partitioned_source::{PARTITIONS, PartitionedSource};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringViewArray, downcast_integer_array};
use packhorse_core::{
    Blocks, DataType, Error, FieldType, Format, Input, InputTable, KEY, LOGICAL, Limits, Options, Result, Rows, Schema,
    SchemaRef, Source, Table, nearest, some_of,
};
use packhorse_dataset::SourceRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The option of each source of typed rows that names the column of keys.
pub(crate) const ID_FIELD: &str = "id-field";

/// The formats of typed rows, whose folders may be columns.
pub(crate) const TABLES: [&str; 9] = ["arrow", "csv", "hdf5", "jsonl", "npz", "parquet", "record", "root", "tfrecord"];

/// The formats of typed rows and of documents.
pub(crate) const KEYED: [&str; 10] =
    ["arrow", "csv", "hdf5", "jsonl", "npz", "parquet", "record", "root", "text", "tfrecord"];

/// The reader of `format`. With the option [`ID_FIELD`], keys are the values of that column, which is then no field.
///
/// With [`PARTITIONS`] their folders are columns.
pub(crate) fn source(format: &dyn Format, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
    let column = options.get(ID_FIELD).filter(|_| !format.has_ids());
    let is_own = |name: &str| name != PARTITIONS && !(column.is_some() && name == ID_FIELD);
    let others: Options = options.iter().filter(|(name, _)| is_own(name)).collect();
    let mut inner = format.source(&others, limits)?;
    if options.get(PARTITIONS).is_some() {
        inner = Box::new(PartitionedSource { inner, names: None });
    }
    match column {
        None => Ok(inner),
        Some(column) => {
            if inner.lists() {
                return Err(Options::refuse(ID_FIELD, format_args!("has no effect on {}", format.info().id)));
            }
            Ok(Box::new(KeyedSource { inner, column: column.to_owned() }))
        }
    }
}

/// Adds the settings of readers that a dataset was packed with to those that an append gives. Keys come from one column whatever
/// the format.
pub(crate) fn inherit_sources(given: &mut BTreeMap<String, Options>, packed: &[SourceRecord]) {
    // Documents have ids of their own kind, and records no columns without a layout.
    let of_rows = |format: &str| !["record", "text"].contains(&format);
    let ids = packed.iter().filter(|source| of_rows(&source.format)).find_map(|source| source.options.get(ID_FIELD));
    let keyed = KEYED.into_iter().filter(|format| of_rows(format));
    let ids = ids.into_iter().flat_map(|ids| keyed.clone().map(move |format| (format, ID_FIELD, ids.as_str())));
    let others = packed.iter().flat_map(|source| {
        source.options.iter().map(|(name, value)| (source.format.as_str(), name.as_str(), value.as_str()))
    });
    for (format, name, value) in others.chain(ids) {
        let options = given.entry(format.to_owned()).or_default();
        if options.get(name).is_none() {
            options.set(name, value);
        }
    }
}

struct KeyedSource {
    inner: Box<dyn Source>,
    column: String,
}

impl Source for KeyedSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let inner = self.inner.open(input)?;
        let schema = inner.info()?.schema;
        let key = place(&schema, &self.column)?;
        let stays = |at: &usize| *at != key && schema.field(*at).name() != KEY;
        let kept: Vec<usize> = (0..schema.fields().len()).filter(stays).collect();
        let schema = with_key(&schema, &kept);
        let keyed = Arc::clone(&schema);
        let map = move |rows: Rows, first| {
            let keys: ArrayRef = Arc::new(keys(&rows, key, first)?);
            let kept = kept.iter().map(|at| Arc::clone(rows.column(*at)));
            let columns = std::iter::once(keys).chain(kept).collect();
            Rows::try_new(Arc::clone(&keyed), columns).map_err(|e| Error::bug(e.to_string()))
        };
        Ok(Box::new(MappedTable { inner, schema, map: Box::new(map) }))
    }

    fn narrowed(&self, names: &[String]) -> Option<Box<dyn Source>> {
        let names: Vec<String> = names.iter().chain([&self.column]).cloned().collect();
        let inner = self.inner.narrowed(&names)?;
        Some(Box::new(Self { inner, column: self.column.clone() }))
    }

    fn tables(&self, input: &dyn Input) -> Result<Vec<InputTable>> {
        self.inner.tables(input)
    }

    fn columns<'a>(
        &'a self,
        input: &'a dyn Input,
        choose: &mut dyn FnMut(&Schema) -> Result<Vec<usize>>,
    ) -> Result<Option<Blocks<'a>>> {
        self.inner.columns(input, choose)
    }
}

/// The place of the column of keys.
fn place(schema: &SchemaRef, column: &str) -> Result<usize> {
    let Ok(at) = schema.index_of(column) else {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let message = format!("has no column {column} for its keys (`{ID_FIELD}`); its columns: {}", some_of(&names));
        let error = Error::config(message).in_field(column);
        let has_keys = names.contains(&KEY);
        let error = match nearest(column, names) {
            Some(name) => error.hint(format!("did you mean {name}?")),
            None => error,
        };
        return Err(match has_keys {
            true => error.hint(format!("`{ID_FIELD}={KEY}` takes the keys that it has")),
            false => error,
        });
    };
    let field = schema.field(at);
    let ticks = field.metadata().contains_key(LOGICAL) && field.data_type().is_primitive();
    match FieldType::of(field)? {
        FieldType::Text => Ok(at),
        FieldType::Scalar(element) if element.is_integer() && !ticks => Ok(at),
        other => {
            let message = format!("the column {column} holds {other}; keys (`{ID_FIELD}`) are text or integers");
            Err(Error::config(message).in_field(column))
        }
    }
}

/// The columns of samples: the key, then those at the places `kept`.
fn with_key(schema: &SchemaRef, kept: &[usize]) -> SchemaRef {
    let kept = kept.iter().map(|at| Arc::new(schema.field(*at).clone()));
    let key = Arc::new(FieldType::Text.field(KEY, false));
    let fields: Vec<_> = std::iter::once(key).chain(kept).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The text of a JSON value, without the quotes and escapes of a string.
fn text_of(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
}

/// The keys of rows, the first of which is `first` of its table.
fn keys(rows: &Rows, at: usize, first: u64) -> Result<StringViewArray> {
    let column = rows.column(at);
    let is_json = rows.schema().field(at).metadata().get(LOGICAL).is_some_and(|said| said == "json");
    let keys = match column.data_type() {
        // Strings among numbers: keys are their texts, not JSON.
        DataType::Utf8View if is_json => column.as_string_view().iter().map(|json| json.map(text_of)).collect(),
        DataType::Utf8View => column.as_string_view().clone(),
        DataType::Utf8 => column.as_string::<i32>().iter().collect(),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().collect(),
        _ => downcast_integer_array!(
            column => column.iter().map(|value| value.map(|value| value.to_string())).collect(),
            other => return Err(Error::bug(format!("keys of type {other}"))),
        ),
    };
    match (0..keys.len()).find(|row| keys.is_null(*row) || keys.value(*row).is_empty()) {
        None => Ok(keys),
        Some(row) => {
            let schema = rows.schema();
            let name = schema.field(at).name();
            let row = first + row as u64;
            let message = format!("row {row} (from 0) has no {name}, which is its key (`{ID_FIELD}`)");
            Err(Error::content(message).in_field(name).at_row(row))
        }
    }
}
