//! The first samples of a shard, for people: keys, and values as far as one line shows them.

use crate::first_values::first_values;
use crate::inspect::shard;
use crate::merged_columns::shown;
use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::{
    timestamp_ms_to_datetime, timestamp_ns_to_datetime, timestamp_s_to_datetime, timestamp_us_to_datetime,
};
use arrow_array::{Array, ArrayRef, downcast_primitive_array};
use packhorse_core::{
    DataType, Error, Field, FieldType, KEY, Registry, Result, Rows, Sample, Store, counted, numpy_type,
};
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
        DataType::FixedSizeBinary(_) => {
            let value = numpy_type(field).and_then(|kind| of_numpy(kind, column.as_fixed_size_binary().value(row)));
            value.unwrap_or_else(|| shown(field))
        }
        _ => shown(field)
    )
}

/// A value of a NumPy type that Arrow has no type for: times, spans of time, texts of bytes, complex numbers.
fn of_numpy(kind: &str, bytes: &[u8]) -> Option<String> {
    let unit = |start: &str| kind.strip_prefix(start)?.strip_suffix(']');
    if kind.starts_with("|S") {
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        return Some(text(bytes.get(..end)?));
    }
    if let Some(unit) = unit("<M8[") {
        return time(i64::from_le_bytes(bytes.try_into().ok()?), unit);
    }
    if let Some(unit) = unit("<m8[") {
        return Some(format!("{} {unit}", i64::from_le_bytes(bytes.try_into().ok()?)));
    }
    let (real, imaginary) = bytes.split_at_checked(bytes.len() / 2)?;
    let number = |half: &[u8]| match kind {
        "<c8" => Some(f64::from(f32::from_le_bytes(half.try_into().ok()?))),
        "<c16" => Some(f64::from_le_bytes(half.try_into().ok()?)),
        _ => None,
    };
    Some(format!("{}{:+}j", number(real)?, number(imaginary)?))
}

/// A time, as NumPy writes it: `2024-05-01T12:30:00`.
fn time(count: i64, unit: &str) -> Option<String> {
    if count == i64::MIN {
        return Some("NaT".to_owned());
    }
    let seconds = |of_one: i64| count.checked_mul(of_one).and_then(timestamp_s_to_datetime);
    let found = match unit {
        "D" => return seconds(86_400).map(|time| time.date().to_string()),
        "h" => seconds(3600),
        "m" => seconds(60),
        "s" => seconds(1),
        "ms" => timestamp_ms_to_datetime(count),
        "us" => timestamp_us_to_datetime(count),
        "ns" => timestamp_ns_to_datetime(count),
        _ => None,
    };
    found.map(|time| format!("{time:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_numpy_are_as_numpy_shows_them() {
        let number = |kind: &str, n: i64| of_numpy(kind, &n.to_le_bytes()).unwrap();
        assert_eq!(number("<M8[D]", 19_844), "2024-05-01");
        assert_eq!(number("<M8[us]", 1_714_566_600_000_001), "2024-05-01T12:30:00.000001");
        assert_eq!(number("<M8[h]", -1), "1969-12-31T23:00:00");
        assert_eq!(number("<M8[s]", i64::MIN), "NaT");
        assert_eq!(number("<m8[us]", -5), "-5 us");
        assert_eq!(of_numpy("|S5", b"ab\0\0\0").unwrap(), "ab");
        assert_eq!(of_numpy("<c8", &[1.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat()).unwrap(), "1.5-2j");
        // Beyond the calendar, and of units without one.
        assert_eq!(of_numpy("<M8[D]", &i64::MAX.to_le_bytes()), None);
        assert_eq!(of_numpy("<M8[Y]", &7i64.to_le_bytes()), None);
        assert_eq!(of_numpy("|V8", &[0; 8]), None);
    }
}
