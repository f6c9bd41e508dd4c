//! Times of the [CF conventions](https://cfconventions.org/cf-conventions/cf-conventions.html#time-coordinate): numbers of
//! a unit since a date, such as `hours since 1900-01-01 00:00:0.0`.
//!
//! They become NumPy's `datetime64[us]`, in UTC. In the calendars `standard` and `gregorian` reference dates before 1582-10-15 are of the
//! Julian calendar, as in cftime. Calendars with other days (`noleap`, `360_day`) have no NumPy type.
//!
//! **Why not chrono**: it has the Gregorian calendar alone, and the days of both calendars are counted by five lines.

use super::attribute::Number;
use packhorse_core::{Error, Result};

/// The NumPy type of decoded times.
pub(crate) const MICROSECONDS: &str = "<M8[us]";
/// NumPy's missing time.
const NOT_A_TIME: i64 = i64::MIN;

/// Units by the names that cftime and xarray know, with their microseconds. Months and years have no fixed length.
const UNITS: [(&[&str], i64); 6] = [
    (&["microseconds", "microsecond", "microsecs", "microsec", "us"], 1),
    (&["milliseconds", "millisecond", "millisecs", "millisec", "msecs", "msec", "ms"], 1_000),
    (&["seconds", "second", "secs", "sec", "s"], 1_000_000),
    (&["minutes", "minute", "mins", "min"], 60_000_000),
    (&["hours", "hour", "hrs", "hr", "h"], 3_600_000_000),
    (&["days", "day", "d"], 86_400_000_000),
];
const DAY: i64 = 86_400_000_000;
const DAYS_OF_MONTHS: [i64; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// What the numbers of a variable stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit {
    /// Microseconds of one.
    each: i64,
    /// Microseconds from 1970-01-01 to the reference date.
    origin: i64,
}

impl TimeUnit {
    /// Of a variable's attributes; `None` if these are not those of times.
    ///
    /// Errors: `Unsupported` for units and dates of no known form, and for a calendar whose days NumPy's times lack.
    pub(crate) fn of(units: &str, calendar: Option<&str>) -> Result<Option<Self>> {
        let Some((unit, date)) = units.split_once(" since ") else { return Ok(None) };
        let unit = unit.trim().to_ascii_lowercase();
        let refused =
            |what: String| Error::unsupported(what).hint("leave out `read=times=decode` to keep them as numbers");
        let unknown = || refused(format!("has times in \"{units}\", which are not read as times"));
        let (_, each) = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str())).ok_or_else(unknown)?;
        let calendar = calendar.unwrap_or("standard").to_ascii_lowercase();
        let mixed = match calendar.as_str() {
            "standard" | "gregorian" => true,
            "proleptic_gregorian" => false,
            _ => return Err(refused(format!("has times of the calendar {calendar}, whose days NumPy's times lack"))),
        };
        let origin = origin(date.trim(), mixed).ok_or_else(unknown)?;
        Ok(Some(Self { each: *each, origin }))
    }

    /// The time of `value`; NaN and `missing` values are not a time. `Content` for times beyond the calendar.
    pub(crate) fn time(self, value: Number, missing: bool) -> Result<i64> {
        let since = match value {
            _ if missing => return Ok(NOT_A_TIME),
            Number::Integer(value) => value.checked_mul(self.each.into()),
            Number::Float(value) if value.is_nan() => return Ok(NOT_A_TIME),
            // Out of range it saturates, and the sum is refused.
            Number::Float(value) => Some((value * self.each as f64).round() as i128),
        };
        let time = since.and_then(|since| since.checked_add(self.origin.into()));
        let time = time.and_then(|time| i64::try_from(time).ok()).filter(|time| *time != NOT_A_TIME);
        time.ok_or_else(|| Error::content(format!("holds {}, a time beyond NumPy's calendar", value.value())))
    }
}

/// Microseconds from 1970-01-01 to a date such as `1900-1-1 00:00:0.5 +1:00`, `1900-01` or `1900`. `mixed`: the Julian calendar until
/// 1582, without a year 0.
fn origin(text: &str, mixed: bool) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let end = text.find(['T', ' ']).unwrap_or(text.len());
    let (date, rest) = text.split_at_checked(end)?;
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok().filter(|part| *part >= 0));
    let (year, month, day) =
        (sign * parts.next()??, parts.next().unwrap_or(Some(1))?, parts.next().unwrap_or(Some(1))?);
    let most = DAYS_OF_MONTHS.get(usize::try_from(month - 1).ok()?)?;
    if parts.next().is_some() || !(-9999..=9999).contains(&year) || !(1..=*most).contains(&day) || mixed && year == 0 {
        return None;
    }
    let is_julian = mixed && (year, month, day) < (1582, 10, 15);
    if is_julian && (year, month, day) > (1582, 10, 4) {
        return None;
    }
    let year = if is_julian && year < 0 { year + 1 } else { year };
    let is_leap = year % 4 == 0 && (is_julian || year % 100 != 0 || year % 400 == 0);
    if (month, day) == (2, 29) && !is_leap {
        return None;
    }
    let days = if is_julian { julian(year, month, day) } else { gregorian(year, month, day) };
    let rest = rest.trim_start_matches(['T', ' ']);
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(rest.len());
    let (clock, zone) = rest.split_at_checked(end)?;
    days.checked_mul(DAY)?.checked_add(of_clock(clock)?)?.checked_sub(of_zone(zone.trim())?)
}

/// Microseconds of `12`, `12:30` or `12:30:15.5`.
fn of_clock(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let mut parts = text.split(':');
    let whole = |part: Option<&str>| {
        part.map_or(Some(0), |part| part.parse::<i64>().ok().filter(|part| (0..60).contains(part)))
    };
    let (hours, minutes) = (whole(parts.next())?, whole(parts.next())?);
    let seconds =
        parts.next().map_or(Some(0.0), |part| part.parse::<f64>().ok().filter(|part| (0.0..60.0).contains(part)))?;
    (parts.next().is_none() && hours < 24).then(|| (hours * 60 + minutes) * 60_000_000 + (seconds * 1e6).round() as i64)
}

/// Microseconds of a time zone east of UTC, such as `Z`, `UTC`, `-5` or `+05:30`.
fn of_zone(text: &str) -> Option<i64> {
    if text.is_empty() || ["Z", "UTC", "GMT"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Some(0);
    }
    let (sign, text) = text.strip_prefix('-').map_or((1, text.trim_start_matches('+')), |text| (-1, text));
    let (hours, minutes) =
        text.split_once(':').or_else(|| text.split_at_checked(2).filter(|_| text.len() == 4)).unwrap_or((text, "0"));
    let (hours, minutes) = (hours.parse::<u32>().ok()?, minutes.parse::<u32>().ok()?);
    (hours < 24 && minutes < 60).then(|| sign * i64::from(hours * 60 + minutes) * 60_000_000)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar: whole years from March on, of which 400 have 146,097 days.
fn gregorian(year: i64, month: i64, day: i64) -> i64 {
    let (year, days) = from_march(year, month, day);
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + days - 719_468
}

/// The same of the Julian calendar, two days behind on the first of January in the year 1.
fn julian(year: i64, month: i64, day: i64) -> i64 {
    let (year, days) = from_march(year, month, day);
    365 * year + year.div_euclid(4) + days - 719_470
}

/// The year that begins in March, and the days in it before a date.
fn from_march(year: i64, month: i64, day: i64) -> (i64, i64) {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    (year, (153 * month + 2) / 5 + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(units: &str, calendar: Option<&str>, value: Number) -> i64 {
        TimeUnit::of(units, calendar).unwrap().unwrap().time(value, false).unwrap()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (units, value, wanted) in [
            ("seconds since 1970-01-01", 5, 5_000_000),
            ("hours since 1900-01-01 00:00:0.0", 613_608, 0),
            ("days since 2000-02-29T12:00:00Z", 1, 951_912_000_000_000),
            ("Days since 1969-12-31 19:00:00 -05:00", 1, DAY),
            ("ms since 1970-1-1 0:0:0 UTC", -7, -7_000),
            ("us since 1970-01-01 00:00:00.25", 3, 250_003),
            // cftime.num2date(719164, "days since 0001-01-01", "standard") is 1970-01-01.
            ("days since 0001-01-01", 719_164, 0),
            ("days since 1582-10-15", 0, -12_219_292_800_000_000),
            ("days since 1582-10-4", 1, -12_219_292_800_000_000),
            // The days of astronomers begin at noon of the first of January of 4713 BC.
            ("days since -4713-01-01 12:00:00", 2_440_588, DAY / 2),
            ("hours since 1970-01", 2, DAY / 12),
            ("h since 1970 ", 2, DAY / 12),
            ("days since 1970-01-02 00:00 utc", -1, 0),
        ] {
            assert_eq!(at(units, None, Number::Integer(value)), wanted, "{units}");
        }
        assert_eq!(at("days since 0001-01-01", Some("proleptic_gregorian"), Number::Integer(719_162)), 0);
        assert_eq!(at("days since 1970-01-01", Some("gregorian"), Number::Float(0.5)), DAY / 2);
        assert_eq!(at("hours since 1970-01-01", None, Number::Float(f64::NAN)), NOT_A_TIME);
    }

    #[test]
    fn what_is_no_time_stays_a_number() {
        for units in ["m s-1", "days"] {
            assert_eq!(TimeUnit::of(units, None).unwrap(), None, "{units}");
        }
        for units in [
            "months since 2000-01-01",
            "m since 2000-01-01",
            "hours since last week",
            "days since 2000-13-01",
            "days since 2001-02-29",
            "days since 1582-10-10",
            "days since 0000-01-01",
            "s since 2000-1-1 25:00",
            "days since 20000101",
        ] {
            assert_eq!(TimeUnit::of(units, None).unwrap_err().kind(), packhorse_core::Kind::Unsupported, "{units}");
        }
        let error = TimeUnit::of("days since 2000-01-01", Some("noleap")).unwrap_err();
        assert!(error.kind() == packhorse_core::Kind::Unsupported && error.to_string().contains("noleap"));
        let unit = TimeUnit::of("days since 2000-01-01", None).unwrap().unwrap();
        assert!(unit.time(Number::Integer(1 << 60), false).is_err() && unit.time(Number::Float(1e300), false).is_err());
        assert_eq!(unit.time(Number::Integer(3), true).unwrap(), NOT_A_TIME);
    }
}
