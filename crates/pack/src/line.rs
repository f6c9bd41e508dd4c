//! Values on one line, for people.

use arrow_array::temporal_conversions::{
    timestamp_ms_to_datetime, timestamp_ns_to_datetime, timestamp_s_to_datetime, timestamp_us_to_datetime,
};
use packhorse_core::counted;

/// The longest text that is shown whole, in characters.
const LONGEST: usize = 200;

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

/// A value of a NumPy type that Arrow has no type for: times, spans of time, texts of bytes, complex numbers.
pub(crate) fn of_numpy(kind: &str, bytes: &[u8]) -> Option<String> {
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
