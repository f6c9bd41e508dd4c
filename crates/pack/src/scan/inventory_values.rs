//! Values of inventories: keys, sizes and times.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use packhorse_core::value_bytes;
use std::borrow::Cow;

/// A key of S3 Inventory in CSV: `+` is a space, `%2B` a plus.
pub(super) fn unquoted(key: &[u8]) -> Cow<'_, [u8]> {
    if !key.iter().any(|byte| matches!(byte, b'+' | b'%')) {
        return Cow::Borrowed(key);
    }
    let spaced: Vec<u8> = key.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Cow::Owned(percent_encoding::percent_decode(&spaced).collect())
}

/// Nanoseconds since 1970 of a date as RFC 3339 has it, or of a number: see [`since_1970`].
pub(super) fn time(value: &[u8]) -> Option<i64> {
    let value = std::str::from_utf8(value).ok()?.trim();
    if let Ok(date) = chrono::DateTime::parse_from_rfc3339(value) {
        return date.timestamp_nanos_opt();
    }
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    if value.starts_with('-') && !part.is_empty() {
        return None;
    }
    let nanos = format!("{part:0<9}").get(..9)?.parse::<i64>().ok()?;
    since_1970(whole.parse().ok()?)?.checked_add(nanos)
}

/// Nanoseconds of so many seconds; of milliseconds if it were seconds of a year after 5000.
fn since_1970(number: i64) -> Option<i64> {
    number.checked_mul(if number.abs() < 100_000_000_000 { 1_000_000_000 } else { 1_000_000 })
}

/// A text or a Boolean as text; `None` where there is none.
pub(super) fn word(column: &ArrayRef, row: usize) -> Option<&[u8]> {
    match column.as_boolean_opt() {
        Some(column) if column.is_valid(row) => Some(if column.value(row) { b"true" } else { b"false" }),
        _ => value_bytes(column, row),
    }
}

pub(super) fn whole(column: &ArrayRef, row: usize) -> Option<i64> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => i64::try_from(column.as_primitive::<UInt64Type>().value(row)).ok(),
        DataType::Int32 => Some(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::UInt32 => Some(column.as_primitive::<UInt32Type>().value(row).into()),
        _ => None,
    }
}

/// Nanoseconds since 1970: of a timestamp, a whole number, or a text as in CSV.
pub(super) fn instant(column: &ArrayRef, row: usize) -> Option<i64> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            column.as_primitive::<TimestampSecondType>().value(row).checked_mul(1_000_000_000)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().value(row).checked_mul(1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().value(row).checked_mul(1000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Some(column.as_primitive::<TimestampNanosecondType>().value(row))
        }
        DataType::Int64 => since_1970(column.as_primitive::<Int64Type>().value(row)),
        _ => time(value_bytes(column, row)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time(b"1970-01-02T00:00:01.5Z"), Some(86_401_500_000_000));
        assert_eq!(time(b"2024-03-01T12:00:00+02:00"), time(b"2024-03-01T10:00:00.000Z"));
        assert_eq!(time(b"1709287200"), time(b"2024-03-01T10:00:00Z"));
        assert_eq!(time(b"1709287200.1234567890"), time(b"2024-03-01T10:00:00.123456789Z"));
        assert_eq!(time(b"1709287200123"), time(b"2024-03-01T10:00:00.123Z"));
        for wrong in ["", "-1.5", "yesterday", "1.x", "2024-03-01", "9999999999999999"] {
            assert_eq!(time(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn keys_of_s3() {
        assert_eq!(&*unquoted(b"a/b.jpg"), b"a/b.jpg");
        assert_eq!(&*unquoted(b"a+b%2Bc%20d/%C3%A9.jpg"), "a b+c d/é.jpg".as_bytes());
    }
}
