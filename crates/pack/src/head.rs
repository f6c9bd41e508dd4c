//! The first samples of a shard, for people: keys, and values as far as one line shows them.

use crate::first_values::first_values;
use crate::inspect::shard;
use crate::line::{of_numpy, text};
use crate::merged_columns::shown;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, downcast_primitive_array};
use packhorse_core::{
    DataType, Error, Field, FieldType, Format, KEY, Limits, MemoryInput, Options, Registry, Result, Rows, Sample,
    Schema, Store, numpy_type,
};
use std::path::Path;
use std::sync::Arc;

/// A sample as [`head`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The key; where the file has no keys, the position in it.
    pub key: String,
    /// Name and value of each field that the sample has: text and numbers as they are, arrays (also in `.npy` and `.npz`) by
    /// their first values, type and shape, other bytes by their number.
    pub fields: Vec<(String, String)>,
}

impl Preview {
    /// Row `row` of `rows`. `number` is shown where the rows have no keys. Codecs of `registry` decode encoded fields.
    ///
    /// Errors: a row that is not there (kind `Bug`).
    pub fn new(registry: &Registry, rows: &Rows, row: usize, number: usize) -> Result<Self> {
        let schema = rows.schema();
        let sample = Sample::new(rows, row).ok_or_else(|| Error::bug("a row is missing"))?;
        let key = sample.key().map_or_else(|_| number.to_string(), str::to_owned);
        let fields = schema.fields().iter().zip(rows.columns()).filter(|(field, _)| field.name() != KEY);
        let present = fields.filter(|(_, column)| column.is_valid(row));
        let fields = present
            .map(|(field, column)| (field.name().clone(), value(registry, &sample, field, column, row)))
            .collect();
        Ok(Self { key, fields })
    }
}

/// The first `samples` samples of the file `path`, with the options `read` of its reader.
///
/// Errors: `Unsupported` where the file is not a shard of a known format; those of reading it.
pub fn head(registry: &Registry, store: &dyn Store, path: &Path, read: &Options, samples: u64) -> Result<Vec<Preview>> {
    let (source, input) = shard(registry, store, path, read)?;
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
            found.push(Preview::new(registry, &rows, row, found.len())?);
        }
        if found.len() == wanted {
            break;
        }
    }
    Ok(found)
}

fn value(registry: &Registry, sample: &Sample<'_>, field: &Field, column: &ArrayRef, row: usize) -> String {
    match FieldType::of(field) {
        Ok(FieldType::Blob) => of_bytes(registry, field.name(), sample.bytes(field.name()).unwrap_or_default()),
        Ok(FieldType::Text) => text(sample.bytes(field.name()).unwrap_or_default()),
        Ok(FieldType::Scalar(_)) => scalar(field, column, row),
        Ok(kind) => first_values(&kind, numpy_type(field), column, row).unwrap_or_else(|| shown(field)),
        Err(_) => shown(field),
    }
}

/// The bytes of the field `name`: decoded where it has a codec, else as text.
pub(crate) fn of_bytes(registry: &Registry, name: &str, bytes: &[u8]) -> String {
    registry.by_field(name).and_then(|format| decoded(registry, &**format, name, bytes)).unwrap_or_else(|| text(bytes))
}

/// The values that the codec of `format` finds, with their names if there may be several.
fn decoded(registry: &Registry, format: &dyn Format, name: &str, bytes: &[u8]) -> Option<String> {
    let codec = format.codec(&Options::new(), Limits::default()).ok()?;
    let fields = codec.probe(name, &MemoryInput::new(name, bytes.to_vec())).ok()?;
    let schema = Schema::new(vec![FieldType::Blob.field(name, false)]);
    let column: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([bytes]));
    let rows = Rows::try_new(Arc::new(schema), vec![column]).ok()?;
    let arrays = codec.decode(name, &rows, &fields).ok()?;
    let rows = Rows::try_new(Arc::new(Schema::new(fields)), arrays).ok()?;
    let values = Preview::new(registry, &rows, 0, 0).ok()?.fields;
    match values.as_slice() {
        [(_, value)] if !codec.is_archive(name) => Some(value.clone()),
        _ => Some(values.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ")),
    }
}

fn scalar(field: &Field, column: &ArrayRef, row: usize) -> String {
    downcast_primitive_array!(
        column => format!("{:?}", column.value(row)),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::FixedSizeBinary(_) => {
            let value = numpy_type(field).and_then(|kind| of_numpy(kind, column.as_fixed_size_binary().value(row)));
            value.unwrap_or_else(|| shown(field))
        }
        _ => shown(field)
    )
}
