//! Looks into a table shard: its columns, and one value.

use crate::inspect::shard;
use crate::merged_columns::shown;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use packhorse_core::{
    Context, DataType, Error, Field, FieldType, KEY, Limits, Options, Registry, Result, Rows, Sample, Store, Table,
    TableInfo,
};
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The columns of a table shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The number of samples.
    pub samples: u64,
    /// Name and type of each field, in order, as text (`Float32[3,224,224]`).
    pub fields: Vec<(String, String)>,
}

/// The columns of the file `path`, with the options `read` of its reader; `None` if its fields are ranges of bytes, which
/// [`list`](crate::list) names.
pub fn columns(registry: &Registry, store: &dyn Store, path: &Path, read: &Options) -> Result<Option<Columns>> {
    let info = opened(registry, store, path, read)?.map(|table| table.info()).transpose();
    Ok(info.map_err(|e| e.in_input(path.display()))?.map(columns_of))
}

/// The columns of an opened table.
pub(crate) fn columns_of(info: TableInfo) -> Columns {
    let fields = info.schema.fields().iter().map(|f| (f.name().clone(), shown(f))).collect();
    Columns { samples: info.items, fields }
}

/// The rows of the file `path`; `None` if its fields are ranges of bytes.
fn opened(registry: &Registry, store: &dyn Store, path: &Path, read: &Options) -> Result<Option<Box<dyn Table>>> {
    let (source, input) = shard(registry, store, path, read)?;
    match source.lists() {
        true => Ok(None),
        false => source.open(Arc::from(input)).map(Some).map_err(|e| e.in_input(path.display())),
    }
}

/// Writes the value `name` (`KEY.FIELD`, or `NUMBER.FIELD` without keys) of the table shard `path`: bytes and text as
/// they are, numbers and arrays as `.npy`. Returns whether the shard has it.
pub(crate) fn cat(
    registry: &Registry,
    store: &dyn Store,
    path: &Path,
    read: &Options,
    name: &str,
    out: &mut dyn Write,
) -> Result<bool> {
    let Some(table) = opened(registry, store, path, read)? else { return Ok(false) };
    cat_of(registry, &*table, 0..u64::MAX, name, &|_| true, out)
}

/// The same of the samples `items` of an opened table, and of the fields that it `has`.
pub(crate) fn cat_of(
    registry: &Registry,
    table: &dyn Table,
    items: Range<u64>,
    name: &str,
    has: &dyn Fn(&str) -> bool,
    out: &mut dyn Write,
) -> Result<bool> {
    let info = table.info()?;
    let named = |f: &&Arc<Field>| {
        name.strip_suffix(f.name().as_str()).is_some_and(|key| key.ends_with('.')) && f.name() != KEY && has(f.name())
    };
    let field = info.schema.fields().iter().filter(named).max_by_key(|f| f.name().len());
    let of_list = || info.schema.fields().iter().filter(|f| has(f.name())).find_map(|f| of_list(f, name));
    let whole = field.and_then(|field| Some((&**field, name.get(..name.len() - field.name().len() - 1)?, None)));
    let Some((field, key, at)) = whole.or_else(of_list) else { return Ok(false) };
    let keyed = info.schema.column_with_name(KEY).is_some();
    let number = if keyed { Some(items.start) } else { key.parse::<u64>().ok().filter(|at| items.contains(at)) };
    let Some(first) = number else { return Ok(false) };
    let items = if keyed { items.start..items.end.min(info.items) } else { first..first.saturating_add(1) };
    for rows in table.rows(items)? {
        let rows = rows?;
        let found = (0..rows.num_rows()).find(|row| !keyed || key_of(&rows, *row) == Some(key));
        if let Some(row) = found {
            let value = rows.slice(row, 1);
            return match at {
                None => write(registry, &value, field, out).map(|()| true),
                Some(at) => write_piece(&value, field, at, out),
            };
        }
    }
    Ok(false)
}

pub(crate) fn key_of(rows: &Rows, row: usize) -> Option<&str> {
    Sample::new(rows, row)?.key().ok()
}

/// The key, and which value of the list `field` of bytes is meant by `name`: `KEY.images.0`, or `KEY.images.0.jpg` of the field `images.jpg`.
fn of_list<'n>(field: &'n Field, name: &'n str) -> Option<(&'n Field, &'n str, Option<usize>)> {
    let FieldType::List { element: DataType::BinaryView, depth: 1 } = FieldType::of(field).ok()? else { return None };
    let (stem, extension) = field.name().rsplit_once('.').unwrap_or((field.name(), ""));
    let rest = if extension.is_empty() { name } else { name.strip_suffix(extension)?.strip_suffix('.')? };
    let (rest, number) = rest.rsplit_once('.')?;
    Some((field, rest.strip_suffix(stem)?.strip_suffix('.')?, Some(number.parse().ok()?)))
}

/// Writes value `at` of the list of bytes `field` of the one row of `rows`. Returns whether there is one.
fn write_piece(rows: &Rows, field: &Field, at: usize, out: &mut dyn Write) -> Result<bool> {
    let lists = rows.column_by_name(field.name()).and_then(|column| column.as_list_opt::<i32>());
    let pieces = lists.filter(|lists| lists.is_valid(0)).map(|lists| lists.value(0));
    let pieces = pieces.as_ref().and_then(|pieces| pieces.as_binary_view_opt());
    let Some(pieces) = pieces.filter(|pieces| at < pieces.len()) else { return Ok(false) };
    out.write_all(pieces.value(at)).and_then(|()| out.flush()).context("write").map(|()| true)
}

/// Writes the value of `field` of the one row of `rows`.
pub(crate) fn write(registry: &Registry, rows: &Rows, field: &Field, out: &mut dyn Write) -> Result<()> {
    let column: &ArrayRef = rows.column_by_name(field.name()).ok_or_else(|| Error::bug("a column is gone"))?;
    if column.is_null(0) {
        return Ok(());
    }
    if matches!(FieldType::of(field)?, FieldType::Blob | FieldType::Text) {
        let bytes = Sample::new(rows, 0).and_then(|sample| sample.bytes(field.name())).unwrap_or_default();
        return out.write_all(bytes).and_then(|()| out.flush()).context("write");
    }
    for format in registry.iter().filter(|format| !format.info().fields.is_empty()) {
        let codec = format.codec(&Options::new(), Limits::default())?;
        if codec.encoded(field).is_ok() {
            let bytes = codec.encode(field, column)?;
            return out.write_all(bytes.value(0)).and_then(|()| out.flush()).context("write");
        }
    }
    let error = Error::unsupported(format!("field {} ({}) can't be written as a file", field.name(), shown(field)));
    Err(match FieldType::of(field)? {
        FieldType::List { element: DataType::BinaryView, depth: 1 } => {
            let (stem, extension) = field
                .name()
                .rsplit_once('.')
                .map_or((&**field.name(), String::new()), |(stem, extension)| (stem, format!(".{extension}")));
            error.hint(format!("KEY.{stem}.0{extension} is its first value"))
        }
        _ => error,
    })
}
