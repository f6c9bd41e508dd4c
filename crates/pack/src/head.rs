//! The first samples of a shard, for people: keys, and values as far as one line shows them.

use crate::first_values::first_values;
use crate::inspect::shard;
use crate::merged_columns::shown;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, downcast_primitive_array};
use packhorse_core::{DataType, Error, Field, FieldType, KEY, Registry, Result, Rows, Sample, Store, counted};
use std::path::Path;
use std::sync::Arc;

/// A sample as [`head`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The key; where the file has no keys, the position in it.
    pub key: String,
    /// Name and value of each field that the sample has: text and numbers as they are, other bytes by their number,
    /// arrays by their first values, type and shape.
    pub fields: Vec<(String, String)>,
}

impl Preview {
    /// Row `row` of `rows`. `number` is shown where the rows have no keys.
    ///
    /// Errors: a row that is not there (kind `Bug`).
    pub fn new(rows: &Rows, row: usize, number: usize) -> Result<Self> {
        let schema = rows.schema();
        let sample = Sample::new(rows, row).ok_or_else(|| Error::bug("a row is missing"))?;
        let key = sample.key().map_or_else(|_| number.to_string(), str::to_owned);
        let fields = schema.fields().iter().zip(rows.columns()).filter(|(field, _)| field.name() != KEY);
        let present = fields.filter(|(_, column)| column.is_valid(row));
        let fields =
            present.map(|(field, column)| (field.name().clone(), value(&sample, field, column, row))).collect();
        Ok(Self { key, fields })
    }
}

/// The longest text that is shown whole, in characters.
const LONGEST: usize = 200;

/// The first `samples` samples of the file `path`.
///
/// Errors: `Unsupported` where the file is not a shard of a known format; those of reading it.
pub fn head(registry: &Registry, store: &dyn Store, path: &Path, samples: u64) -> Result<Vec<Preview>> {
    let (source, input) = shard(registry, store, path)?;
    let lists = source.lists();
    let table = source.open(Arc::from(input)).map_err(|e| e.in_input(path.display()))?;
    let items = match lists {
        true => samples,
        false => table.info().map(|info| if info.counted { info.items.min(samples) } else { info.items })?,
    };
    let wanted = usize::try_from(samples).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for rows in table.rows(0..items)? {
        let rows = rows?;
        for row in 0..rows.num_rows().min(wanted - found.len()) {
            found.push(Preview::new(&rows, row, found.len())?);
        }
        if found.len() == wanted {
            break;
        }
    }
    Ok(found)
}

fn value(sample: &Sample<'_>, field: &Field, column: &ArrayRef, row: usize) -> String {
    match FieldType::of(field) {
        Ok(FieldType::Blob | FieldType::Text) => text(sample.bytes(field.name()).unwrap_or_default()),
        Ok(FieldType::Scalar(_)) => scalar(field, column, row),
        Ok(kind) => first_values(&kind, column, row).unwrap_or_else(|| shown(field)),
        Err(_) => shown(field),
    }
}

/// Bytes as far as one line shows them.
pub(crate) fn text(bytes: &[u8]) -> String {
    let plain = |text: &&str| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
    match std::str::from_utf8(bytes).ok().filter(plain) {
        None => counted(bytes.len() as u64, "byte"),
        Some(text) => match text.char_indices().nth(LONGEST) {
            None => text.to_owned(),
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        },
    }
}

fn scalar(field: &Field, column: &ArrayRef, row: usize) -> String {
    downcast_primitive_array!(
        column => format!("{:?}", column.value(row)),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        _ => shown(field)
    )
}
