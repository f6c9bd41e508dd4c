//! Moments as tables and conditions write them, such as `2024-05-01 12:30`.

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use packhorse_core::{Field, NUMPY};

const SECOND: i128 = 1_000_000_000;

/// The nanoseconds in a tick of a field of dates or timestamps, by its NumPy type; `None` for other fields.
pub fn tick(field: &Field) -> Option<i128> {
    let unit = field.metadata().get(NUMPY)?.strip_prefix("<M8[")?.strip_suffix(']')?;
    Some(match unit {
        "D" => 86_400 * SECOND,
        "h" => 3_600 * SECOND,
        "m" => 60 * SECOND,
        "s" => SECOND,
        "ms" => SECOND / 1_000,
        "us" => SECOND / 1_000_000,
        "ns" => 1,
        _ => return None,
    })
}

/// A date, or a date and a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// From 1970 in UTC, or in the zone that nothing tells.
    pub(crate) nanoseconds: i128,
    /// Whether it has an offset from UTC.
    pub(crate) has_zone: bool,
}

impl Moment {
    /// Parses a date, or a date and a time with or without seconds and an offset (`Z`, `+01:00`), with a `T` or a space between both.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let local = |moment| Some(Self { nanoseconds: of(moment), has_zone: false });
        if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
            return local(date.and_hms_opt(0, 0, 0)?);
        }
        let plain = text.replacen('T', " ", 1);
        let plain = plain.strip_suffix('Z').map(|moment| format!("{moment}+00:00")).unwrap_or(plain);
        let zoned = ["%Y-%m-%d %H:%M:%S%.f%:z", "%Y-%m-%d %H:%M%:z"];
        if let Some(moment) = zoned.iter().find_map(|form| DateTime::parse_from_str(&plain, form).ok()) {
            return Some(Self { nanoseconds: of(moment.naive_utc()), has_zone: true });
        }
        let forms = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"];
        forms.iter().find_map(|form| NaiveDateTime::parse_from_str(&plain, form).ok()).and_then(local)
    }
}

/// The nanoseconds from 1970 to a date, or to a date and a time with or without seconds and an offset; without one in UTC.
pub fn nanoseconds(text: &str) -> Option<i128> {
    Moment::parse(text).map(|moment| moment.nanoseconds)
}

/// The same of text that is a date and a time, as tables write them: with a `T` or a space between both.
pub fn written(text: &str) -> Option<i128> {
    let is_moment = (16..=40).contains(&text.len()) && matches!(text.as_bytes().get(10), Some(b'T' | b' '));
    if is_moment { nanoseconds(text) } else { None }
}

fn of(moment: NaiveDateTime) -> i128 {
    let moment = moment.and_utc();
    i128::from(moment.timestamp()) * SECOND + i128::from(moment.timestamp_subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_parsed() {
        for (text, seconds) in [
            ("1970-01-02", 86_400),
            ("1970-01-01 01:00", 3_600),
            ("1970-01-01T01:00:01", 3_601),
            ("1970-01-01T01:00:00Z", 3_600),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970-01-01 01:00+01:00", 0),
            ("1970-01-01 01:00Z", 3_600),
            ("1969-12-31 23:59:59", -1),
        ] {
            assert_eq!(nanoseconds(text), Some(seconds * SECOND), "{text}");
        }
        assert_eq!(nanoseconds("1970-01-01 00:00:00.000000001"), Some(1));
        for text in ["", "1970", "1970-13-01", "yesterday", "1970-01-01 25:00", "01/02/1970"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
        for (text, moment) in [
            ("1970-01-01T01:00:00.5+01:00", SECOND / 2),
            ("1970-01-01 00:00:01", SECOND),
            ("1970-01-01T00:01", 60 * SECOND),
            ("1970-01-01T00:01Z", 60 * SECOND),
        ] {
            assert_eq!(written(text), Some(moment), "{text}");
        }
        for text in ["1970-01-01", "1970-01-01 words", "a text with a T in it"] {
            assert_eq!(written(text), None, "{text}");
        }
    }
}
