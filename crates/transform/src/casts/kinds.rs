//! Kinds of values that types do not tell: ticks of a duration and of a time of day have one type, and so have text and JSON.

use packhorse_core::{Field, LOGICAL, numpy_type};

/// The kinds, as messages call them.
pub const JSON: &str = "JSON";
const DATES: &str = "dates";
const DAYTIMES: &str = "times of day";
const TIMES: &str = "times";

/// What the values of a column are: [`JSON`], dates, times, times of day, durations, or other values.
pub fn value_kind(field: &Field) -> &'static str {
    let said = field.metadata().get(LOGICAL).map_or("", |said| said.split('[').next().unwrap_or_default());
    match (said, numpy_type(field).unwrap_or_default()) {
        ("json", _) => JSON,
        ("time32" | "time64", _) => DAYTIMES,
        (_, name) if name.starts_with("<m8") => "durations",
        ("date32" | "date64", _) => DATES,
        (_, name) if name.starts_with("<M8") => TIMES,
        _ => "other values",
    }
}

/// Whether the values of two columns are of one kind. NumPy's days are dates and times as well.
pub fn same_kind(a: &Field, b: &Field) -> bool {
    let is_day = |field: &Field| numpy_type(field) == Some("<M8[D]") && !field.metadata().contains_key(LOGICAL);
    let fits = |day: &Field, other: &Field| is_day(day) && [TIMES, DATES].contains(&value_kind(other));
    value_kind(a) == value_kind(b) || fits(a, b) || fits(b, a)
}

/// The time zone of a column of times, such as `UTC`.
pub fn time_zone(field: &Field) -> Option<&str> {
    Some(field.metadata().get(LOGICAL)?.split_once("tz=")?.1.trim_end_matches(']'))
}

/// Whether a column holds times of day, which have no cast.
pub(super) fn is_time_of_day(field: &Field) -> bool {
    value_kind(field) == DAYTIMES
}

/// The cast that makes the times of two columns one type without a loss; `None` where there is none, or no need of one.
pub fn common_time(a: &Field, b: &Field) -> Option<String> {
    if value_kind(a) == DATES && value_kind(b) == DATES {
        return Some("date".to_owned());
    }
    if !same_kind(a, b) || is_time_of_day(a) || time_zone(a) != time_zone(b) {
        return None;
    }
    let ((kind, one), (other_kind, other)) = (super::times::ticks(a)?, super::times::ticks(b)?);
    let finest = super::times::finer(one, other)?;
    let word = if kind == "<M8" { "timestamp" } else { "duration" };
    (kind == other_kind && one != other).then(|| format!("{word}[{finest}]"))
}
