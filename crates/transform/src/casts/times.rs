//! Casts of times to other units.
//!
//! Ticks become those of another unit where that is exact; others are errors. A time zone stays, and so does NaT. Text becomes ticks
//! where it is a date, or a date and a time as in ISO 8601 (`2024-05-01T12:30:00.5+02:00`, or with a space).

use super::kinds::{is_time_of_day, time_zone};
use crate::moments::Moment;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray};
use arrow_buffer::Buffer;
use arrow_schema::TimeUnit;
use packhorse_core::{DataType, Field, FieldType, LOGICAL, NUMPY, numpy_type, with_metadata};
use std::collections::HashMap;
use std::sync::Arc;

const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Second),
    ("ms", TimeUnit::Millisecond),
    ("us", TimeUnit::Microsecond),
    ("ns", TimeUnit::Nanosecond),
];

/// The zone of moments; what other zone they are shown in does not change them.
const UTC: &str = "UTC";

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

/// The type that the setting calls `name`: `date`, `timestamp[us]`, `timestamp[us,UTC]`, `duration[ms]`.
pub(super) fn target(name: &str) -> Option<DataType> {
    let (word, unit) = name.strip_suffix(']').and_then(|name| name.split_once('[')).unwrap_or((name, ""));
    let (unit, zone) = unit.split_once(',').map_or((unit, None), |(unit, zone)| (unit, Some(zone.trim())));
    let unit = UNITS.iter().find(|(known, _)| *known == unit).map(|(_, unit)| *unit);
    match (word, unit) {
        ("date", None) if name == "date" => Some(DataType::Date32),
        ("timestamp", Some(unit)) if zone.is_none_or(|zone| zone == UTC) => {
            Some(DataType::Timestamp(unit, zone.map(Arc::from)))
        }
        ("duration", Some(unit)) if zone.is_none() => Some(DataType::Duration(unit)),
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
    if FieldType::of(field).ok()? == FieldType::Text {
        return of_text(field, to);
    }
    let (is, _) = ticks(field).filter(|_| !is_time_of_day(field))?;
    let (kind, unit) = kind(to).filter(|(kind, _)| *kind == is)?;
    // Without a zone, nothing says which moment a time is.
    if has_zone(to) && time_zone(field).is_none() {
        return None;
    }
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

fn has_zone(to: &DataType) -> bool {
    matches!(to, DataType::Timestamp(_, Some(_)))
}

/// The type of the text field `field` after the cast.
fn of_text(field: &Field, to: &DataType) -> Option<Field> {
    let (kind, unit) = kind(to).filter(|(kind, _)| *kind == "<M8")?;
    let cast = FieldType::Scalar(DataType::FixedSizeBinary(8)).field(field.name(), field.is_nullable());
    let cast = with_metadata(cast, NUMPY, &format!("{kind}[{unit}]"));
    Some(match to {
        DataType::Date32 => with_metadata(cast, LOGICAL, "date32"),
        _ if has_zone(to) => with_metadata(cast, LOGICAL, &format!("timestamp[{unit}, tz={UTC}]")),
        _ => cast,
    })
}

/// The ticks of texts that are dates or times; the error is the first row that does not fit, and why.
pub(super) fn parsed(texts: &[Option<&str>], to: &DataType) -> Result<ArrayRef, (usize, String)> {
    let length = kind(to).and_then(|(_, unit)| LENGTHS.iter().find(|(known, _)| *known == unit));
    let (_, length) = length.ok_or_else(|| (0, format!("text can't become {to}")))?;
    let mut ticks = Vec::with_capacity(8 * texts.len());
    for (row, text) in texts.iter().enumerate() {
        let one = text.map_or(Ok(0), |text| tick(text.trim(), *length, to)).map_err(|why| (row, why))?;
        ticks.extend(one.to_le_bytes());
    }
    let nulls = texts.iter().any(Option::is_none).then(|| texts.iter().map(Option::is_some).collect());
    let array = FixedSizeBinaryArray::try_new(8, Buffer::from(ticks), nulls);
    Ok(Arc::new(array.map_err(|e| (0, e.to_string()))?))
}

/// Whether a text has the form of a date, or of a date and a time, with at most nine digits behind the point.
fn is_written_out(text: &str) -> bool {
    let bytes = text.as_bytes();
    let form = |(at, byte): (usize, &u8)| match at {
        4 | 7 => *byte == b'-',
        10 => matches!(byte, b'T' | b' '),
        _ => byte.is_ascii_digit(),
    };
    let digits = text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    // What chrono takes for a leap second would become the next one.
    let second = bytes.get(17..19).unwrap_or_default();
    bytes.len() >= 10 && bytes.iter().take(11).enumerate().all(form) && digits <= 9 && second != b"60"
}

/// The moment `text` in ticks of so many nanoseconds.
fn tick(text: &str, length: i128, to: &DataType) -> Result<i64, String> {
    let shown: String = text.chars().take(40).collect();
    let moment = Some(text)
        .filter(|text| is_written_out(text))
        .and_then(Moment::parse)
        .ok_or_else(|| format!("\"{shown}\" is not a date or time such as 2024-05-01 12:30:00"))?;
    match (moment.has_zone, has_zone(to)) {
        (true, false) => {
            return Err(format!("\"{shown}\" has an offset from UTC: timestamp[us,UTC] is the type of such moments"));
        }
        (false, true) => return Err(format!("\"{shown}\" has no offset from UTC, so nothing says which moment it is")),
        _ => {}
    }
    let exact = i64::try_from(moment.nanoseconds / length).ok();
    // The smallest number is NaT.
    let exact = exact.filter(|ticks| moment.nanoseconds % length == 0 && *ticks != i64::MIN);
    exact.ok_or_else(|| format!("\"{shown}\" can't be given as a whole number of its unit"))
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
    fn text_becomes_times_where_it_tells_what_they_need() {
        let field = |to: &str| {
            let cast = field(&FieldType::Text.field("t", true), &target(to).unwrap())?;
            Some((cast.metadata()[NUMPY].clone(), cast.metadata().get(LOGICAL).cloned()))
        };
        let of = |numpy: &str, logical: Option<&str>| Some((numpy.to_owned(), logical.map(str::to_owned)));
        assert_eq!(field("timestamp[us]"), of("<M8[us]", None));
        assert_eq!(field("timestamp[ms,UTC]"), of("<M8[ms]", Some("timestamp[ms, tz=UTC]")));
        assert_eq!(field("date"), of("<M8[D]", Some("date32")));
        assert_eq!(field("duration[s]"), None);
        let parse = |text: Option<&str>, to: &str| {
            let ticks = parsed(&[text], &target(to).unwrap()).map_err(|(_, why)| why)?;
            let ticks = ticks.as_any().downcast_ref::<FixedSizeBinaryArray>().unwrap();
            Ok::<_, String>(ticks.is_valid(0).then(|| i64::from_le_bytes(ticks.value(0).try_into().unwrap())))
        };
        for (text, to, ticks) in [
            ("1970-01-01 00:00:01.5", "timestamp[ms]", 1_500),
            ("1969-12-31T23:59:59", "timestamp[s]", -1),
            ("1970-01-02", "timestamp[s]", 86_400),
            ("1970-01-03", "date", 2),
            ("1970-01-01T02:00:00+02:00", "timestamp[us,UTC]", 0),
            (" 1970-01-01T00:01Z", "timestamp[s,UTC]", 60),
        ] {
            assert_eq!(parse(Some(text), to), Ok(Some(ticks)), "{text} {to}");
        }
        assert_eq!(parse(None, "date"), Ok(None));
        for (text, to, why) in [
            ("1970-01-01T02:00:00+02:00", "timestamp[us]", "has an offset"),
            ("1970-01-01T02:00:00", "timestamp[us,UTC]", "has no offset"),
            ("1970-01-01 00:00:00.5", "timestamp[s]", "whole number"),
            ("1970-01-01 12:00", "date", "whole number"),
            ("3000-01-01", "timestamp[ns]", "whole number"),
            ("1970-01-01T00:00:00.0000000001", "timestamp[ns]", "is not a date"),
            ("1970-01-01 23:59:60", "timestamp[s]", "is not a date"),
            ("1970-01-0112:30", "timestamp[s]", "is not a date"),
            ("+1970-01-01", "date", "is not a date"),
            ("soon", "timestamp[s]", "is not a date or time"),
            ("", "date", "is not a date or time"),
        ] {
            assert!(parse(Some(text), to).unwrap_err().contains(why), "{text} {to}");
        }
        assert_eq!(target("timestamp[us,Europe/Berlin]"), None);
        assert_eq!(super::field(&times("<M8[us]", None), &target("timestamp[us,UTC]").unwrap()), None);
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
