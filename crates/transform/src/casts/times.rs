//! Casts of times to other units.
//!
//! Ticks become those of another unit where that is exact; others are errors. A time zone stays, and so does NaT.

use super::kinds::{is_time_of_day, time_zone};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray};
use arrow_buffer::Buffer;
use arrow_schema::TimeUnit;
use packhorse_core::{DataType, Field, LOGICAL, NUMPY, numpy_type};
use std::collections::HashMap;
use std::sync::Arc;

const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Second),
    ("ms", TimeUnit::Millisecond),
    ("us", TimeUnit::Microsecond),
    ("ns", TimeUnit::Nanosecond),
];

/// Nanoseconds in a tick of each of NumPy's units whose length is fixed.
const LENGTHS: [(&str, i128); 8] = [
    ("W", 7 * 86_400 * 1_000_000_000),
    ("D", 86_400 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The type that the setting calls `name`: `date`, `timestamp[us]`, `duration[ms]`.
pub(super) fn target(name: &str) -> Option<DataType> {
    let (word, unit) = name.strip_suffix(']').and_then(|name| name.split_once('[')).unwrap_or((name, ""));
    let unit = UNITS.iter().find(|(known, _)| *known == unit).map(|(_, unit)| *unit);
    match (word, unit) {
        ("date", None) if name == "date" => Some(DataType::Date32),
        ("timestamp", Some(unit)) => Some(DataType::Timestamp(unit, None)),
        ("duration", Some(unit)) => Some(DataType::Duration(unit)),
        _ => None,
    }
}

/// NumPy's kind and unit of a target, such as `<M8` and `us`.
fn kind(to: &DataType) -> Option<(&'static str, &'static str)> {
    let name = |unit: &TimeUnit| UNITS.iter().find(|(_, known)| known == unit).map(|(name, _)| *name);
    match to {
        DataType::Date32 => Some(("<M8", "D")),
        DataType::Timestamp(unit, _) => Some(("<M8", name(unit)?)),
        DataType::Duration(unit) => Some(("<m8", name(unit)?)),
        _ => None,
    }
}

/// The finer of two units that a target can have: seconds at most.
pub(super) fn finer(one: &str, other: &str) -> Option<&'static str> {
    let at = |unit: &str| LENGTHS.iter().position(|(known, _)| *known == unit);
    let seconds = at("s");
    LENGTHS.get(at(one).max(at(other)).max(seconds)?).map(|(name, _)| *name)
}

/// NumPy's kind and unit of the ticks in `field`, such as `<M8` and `us`.
pub(super) fn ticks(field: &Field) -> Option<(&str, &str)> {
    let (kind, unit) = numpy_type(field)?.strip_suffix(']')?.split_once('[')?;
    LENGTHS.iter().any(|(known, _)| *known == unit).then_some((kind, unit))
}

/// The type of `field` after the cast; `None` if it has no times of this kind.
pub(super) fn field(field: &Field, to: &DataType) -> Option<Field> {
    let (is, _) = ticks(field).filter(|_| !is_time_of_day(field))?;
    let (kind, unit) = kind(to).filter(|(kind, _)| *kind == is)?;
    let mut metadata: HashMap<String, String> = field.metadata().clone().into();
    metadata.remove(LOGICAL);
    metadata.insert(NUMPY.to_owned(), format!("{kind}[{unit}]"));
    match (to, time_zone(field)) {
        (DataType::Date32, _) => drop(metadata.insert(LOGICAL.to_owned(), "date32".to_owned())),
        (DataType::Timestamp(..), Some(zone)) => {
            metadata.insert(LOGICAL.to_owned(), format!("timestamp[{unit}, tz={zone}]"));
        }
        _ => {}
    }
    Some(field.clone().with_metadata(metadata))
}

/// Casts flat ticks of `from`; the error says which one has no equal.
pub(super) fn flat(from: &Field, column: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let no_ticks = || format!("{} can't become {to}", from.data_type());
    let length = |unit: &str| LENGTHS.iter().find(|(known, _)| *known == unit).map(|(_, length)| *length);
    let (_, unit) = ticks(from).ok_or_else(no_ticks)?;
    let (_, wanted) = kind(to).ok_or_else(no_ticks)?;
    let (here, there) = (length(unit).ok_or_else(no_ticks)?, length(wanted).ok_or_else(no_ticks)?);
    let column = column.as_any().downcast_ref::<FixedSizeBinaryArray>().ok_or_else(no_ticks)?;
    let mut bytes = Vec::with_capacity(8 * column.len());
    for row in 0..column.len() {
        let ticks =
            column.value(row).first_chunk::<8>().map(|bytes| i64::from_le_bytes(*bytes)).ok_or_else(no_ticks)?;
        let length = i128::from(ticks) * here;
        let exact = i64::try_from(length / there).ok().filter(|fits| length % there == 0 && *fits != i64::MIN);
        // The smallest number is NaT, and what lies under a null does not matter.
        if ticks == i64::MIN && wanted == "D" && column.is_valid(row) {
            return Err("a date can't be NaT".to_owned());
        }
        let cast = match ticks == i64::MIN || column.is_null(row) {
            true => ticks,
            false => exact.ok_or_else(|| format!("{ticks} {unit} can't be given as a whole number of {wanted}"))?,
        };
        bytes.extend(cast.to_le_bytes());
    }
    let array = FixedSizeBinaryArray::try_new(8, Buffer::from(bytes), column.nulls().cloned());
    Ok(Arc::new(array.map_err(|e| e.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{FieldType, with_metadata};

    fn times(numpy: &str, logical: Option<&str>) -> Field {
        let field = FieldType::Scalar(DataType::FixedSizeBinary(8)).field("t", true);
        let field = with_metadata(field, NUMPY, numpy);
        logical.map_or(field.clone(), |logical| with_metadata(field, LOGICAL, logical))
    }

    fn cast(from: &str, ticks: i64, to: &str) -> Result<i64, String> {
        let bytes = Buffer::from(ticks.to_le_bytes().to_vec());
        let column: ArrayRef = Arc::new(FixedSizeBinaryArray::try_new(8, bytes, None).unwrap());
        let done = flat(&times(from, None), &column, &target(to).unwrap())?;
        let done = done.as_any().downcast_ref::<FixedSizeBinaryArray>().unwrap().value(0).try_into().unwrap();
        Ok(i64::from_le_bytes(done))
    }

    #[test]
    fn ticks_become_those_of_another_unit_where_that_is_exact() {
        assert_eq!(cast("<M8[us]", 1_500_000, "timestamp[ns]"), Ok(1_500_000_000));
        assert_eq!(cast("<M8[us]", -1_500_000, "timestamp[ms]"), Ok(-1_500));
        assert_eq!(cast("<M8[ms]", 2 * 86_400_000, "date"), Ok(2));
        assert_eq!(cast("<M8[D]", -3, "timestamp[s]"), Ok(-3 * 86_400));
        assert_eq!(cast("<m8[h]", 2, "duration[ms]"), Ok(7_200_000));
        assert_eq!(cast("<M8[s]", i64::MIN, "timestamp[ns]"), Ok(i64::MIN));
        assert!(cast("<M8[s]", i64::MIN, "date").unwrap_err().contains("NaT"));
        for (from, ticks, to) in
            [("<M8[us]", 1, "timestamp[ms]"), ("<M8[ms]", 1, "date"), ("<M8[s]", i64::MAX / 2, "timestamp[ns]")]
        {
            assert!(cast(from, ticks, to).unwrap_err().contains("whole number"), "{from} {ticks} {to}");
        }
    }

    #[test]
    fn the_type_keeps_its_zone_and_its_kind() {
        let after = |numpy: &str, logical: Option<&str>, to: &str| {
            let field = field(&times(numpy, logical), &target(to).unwrap())?;
            Some((field.metadata()[NUMPY].clone(), field.metadata().get(LOGICAL).cloned()))
        };
        let of = |numpy: &str, logical: Option<&str>| Some((numpy.to_owned(), logical.map(str::to_owned)));
        let zone = |unit: &str| format!("timestamp[{unit}, tz=UTC]");
        assert_eq!(after("<M8[ns]", Some(&zone("ns")), "timestamp[us]"), of("<M8[us]", Some(&zone("us"))));
        assert_eq!(after("<M8[D]", Some("date32"), "timestamp[ms]"), of("<M8[ms]", None));
        assert_eq!(after("<M8[ms]", Some("date64"), "date"), of("<M8[D]", Some("date32")));
        assert_eq!(after("<m8[us]", None, "duration[ns]"), of("<m8[ns]", None));
        assert_eq!(after("<m8[us]", Some("time64[us]"), "duration[ns]"), None);
        assert_eq!(after("<m8[us]", None, "timestamp[us]"), None);
        assert_eq!(after("<M8[Y]", None, "timestamp[us]"), None);
        for bad in ["date[us]", "timestamp", "timestamp[h]", "duration[us", "time[us]"] {
            assert_eq!(target(bad), None, "{bad}");
        }
    }
}
