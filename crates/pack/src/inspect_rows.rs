//! Looks into a table shard: its columns, and one value.

use crate::inspect::shard;
use crate::merged_columns::shown;
use arrow_array::{Array, ArrayRef};
use packhorse_core::{
    Context, Error, FieldType, KEY, Limits, Options, Registry, Result, Rows, Sample, Store, Table, TableInfo,
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
    let named = |f: &&Arc<packhorse_core::Field>| {
        name.strip_suffix(f.name().as_str()).is_some_and(|key| key.ends_with('.')) && f.name() != KEY && has(f.name())
    };
    let field = info.schema.fields().iter().filter(named).max_by_key(|f| f.name().len());
    let Some(field) = field else { return Ok(false) };
    let key = name.get(..name.len() - field.name().len() - 1).unwrap_or_default();
    let keyed = info.schema.column_with_name(KEY).is_some();
    let number = if keyed { Some(items.start) } else { key.parse::<u64>().ok().filter(|at| items.contains(at)) };
    let Some(first) = number else { return Ok(false) };
    let items = if keyed { items.start..items.end.min(info.items) } else { first..first.saturating_add(1) };
    for rows in table.rows(items)? {
        let rows = rows?;
        let found = (0..rows.num_rows()).find(|row| !keyed || key_of(&rows, *row) == Some(key));
        if let Some(row) = found {
            let value = rows.slice(row, 1);
            return write(registry, &value, field, out).map(|()| true);
        }
    }
    Ok(false)
}

pub(crate) fn key_of(rows: &Rows, row: usize) -> Option<&str> {
    Sample::new(rows, row)?.key().ok()
}

/// Writes the value of `field` of the one row of `rows`.
pub(crate) fn write(
    registry: &Registry,
    rows: &Rows,
    field: &packhorse_core::Field,
    out: &mut dyn Write,
) -> Result<()> {
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
    Err(Error::unsupported(format!("field {} ({}) can't be written as a file", field.name(), shown(field))))
}
