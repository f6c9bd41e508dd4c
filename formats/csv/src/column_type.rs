//! Column types and their inference from values.

use packhorse_core::{DataType, FieldType};
use std::borrow::Cow;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ColumnType {
    Bool,
    Int,
    Float,
    Text,
}

impl ColumnType {
    /// The names in the option `schema`.
    pub(crate) const NAMES: [(&'static str, ColumnType); 4] = [
        ("bool", ColumnType::Bool),
        ("int64", ColumnType::Int),
        ("float64", ColumnType::Float),
        ("text", ColumnType::Text),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn field_type(self) -> FieldType {
        match self {
            ColumnType::Bool => FieldType::Scalar(DataType::Boolean),
            ColumnType::Int => FieldType::Scalar(DataType::Int64),
            ColumnType::Float => FieldType::Scalar(DataType::Float64),
            ColumnType::Text => FieldType::Text,
        }
    }
}

/// The types that fit all values so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeInference {
    bool: bool,
    int: bool,
    float: bool,
    /// Whether an integer can't be represented exactly as a double.
    wide: bool,
    /// Whether any value was present.
    any: bool,
    /// Whether any value was missing.
    pub(crate) missing: bool,
}

impl TypeInference {
    pub(crate) const NEW: Self = Self { bool: true, int: true, float: true, wide: false, any: false, missing: false };

    /// Adds a value. `decimal_comma`: its fraction stands behind a comma.
    pub(crate) fn add(&mut self, value: &[u8], decimal_comma: bool) {
        if value.is_empty() {
            self.missing = true;
            return;
        }
        self.any = true;
        self.bool = self.bool && bool_of(value).is_some();
        if self.float {
            let whole = int_of(value);
            self.int = self.int && whole.is_some();
            self.wide = self.wide || whole.is_some_and(|whole| !is_exact(whole));
            let fraction = || !is_digits(value) && float_of(&with_point(value, decimal_comma)).is_some();
            let number = whole.is_some() || value == b"-0" || fraction();
            // A float column must not round any integer.
            self.float = number && (self.int || !self.wide);
        }
    }

    /// The first type that fits.
    pub(crate) fn kind(&self) -> ColumnType {
        match () {
            () if !self.any => ColumnType::Text,
            () if self.bool => ColumnType::Bool,
            () if self.int && self.float => ColumnType::Int,
            () if self.float => ColumnType::Float,
            () => ColumnType::Text,
        }
    }
}

pub(crate) fn bool_of(value: &[u8]) -> Option<bool> {
    match value {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// Decimal digits without leading zeros, with an optional minus.
fn is_digits(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && (digits.len() == 1 || digits.first() != Some(&b'0'))
}

pub(crate) fn int_of(value: &[u8]) -> Option<i64> {
    // An integer can't keep the sign of "-0".
    if !is_digits(value) || value == b"-0" {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// A number whose fraction stands behind a comma, if so, as one with a point. A point is then no part of a number.
pub(crate) fn with_point(value: &[u8], decimal_comma: bool) -> Cow<'_, [u8]> {
    let swapped = |byte: &u8| match byte {
        b',' => b'.',
        b'.' => b',',
        other => *other,
    };
    if decimal_comma { value.iter().map(swapped).collect() } else { Cow::Borrowed(value) }
}

fn is_exact(whole: i64) -> bool {
    whole.unsigned_abs() <= 1 << 53
}

/// Parses a JSON number, `nan`, `inf` or `-inf`.
pub(crate) fn float_of(value: &[u8]) -> Option<f64> {
    match value {
        b"nan" | b"NaN" | b"NAN" => return Some(f64::NAN),
        b"inf" | b"Inf" | b"INF" => return Some(f64::INFINITY),
        b"-inf" | b"-Inf" | b"-INF" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    let unsigned = value.strip_prefix(b"-").unwrap_or(value);
    let end = unsigned.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(unsigned.len());
    let (whole, rest) = unsigned.split_at_checked(end)?;
    let sound = is_digits(whole)
        && match rest.split_first() {
            None => true,
            Some((b'.', rest)) => {
                let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
                end > 0 && rest.get(end..).is_some_and(is_exponent)
            }
            Some(_) => is_exponent(rest),
        };
    let number = std::str::from_utf8(value).ok().filter(|_| sound)?.parse::<f64>().ok()?;
    number.is_finite().then_some(number)
}

/// Whether `text` is empty or an exponent.
fn is_exponent(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b'e' | b'E', digits)) => {
            let digits = digits.strip_prefix(b"-").or(digits.strip_prefix(b"+")).unwrap_or(digits);
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(values: &[&str]) -> ColumnType {
        let mut fits = TypeInference::NEW;
        values.iter().for_each(|value| fits.add(value.as_bytes(), false));
        fits.kind()
    }

    #[test]
    fn a_comma_may_stand_before_the_fraction() {
        let kind = |values: &[&str]| {
            let mut fits = TypeInference::NEW;
            values.iter().for_each(|value| fits.add(value.as_bytes(), true));
            fits.kind()
        };
        assert_eq!(kind(&["1,5", "-3,25e-7", "2", "nan"]), ColumnType::Float);
        assert_eq!(kind(&["1", "2"]), ColumnType::Int);
        for odd in ["1.5", "1.234,5", "1,2,3", ",5"] {
            assert_eq!(kind(&["1,5", odd]), ColumnType::Text, "{odd}");
        }
    }

    #[test]
    fn the_first_type_that_fits_all_values() {
        assert_eq!(kind(&["true", "", "FALSE"]), ColumnType::Bool);
        assert_eq!(kind(&["1", "", "-9223372036854775808"]), ColumnType::Int);
        assert_eq!(kind(&["1", "2.50", "-3e-7", "nan", "-inf", "1E5"]), ColumnType::Float);
        assert_eq!(kind(&["-0", "1"]), ColumnType::Float);
        assert_eq!(kind(&["true", "1"]), ColumnType::Text);
        assert_eq!(kind(&["", ""]), ColumnType::Text);
        assert_eq!(kind(&[]), ColumnType::Text);
    }

    #[test]
    fn values_that_would_be_rounded_or_lose_zeros_are_text() {
        for odd in
            ["007", "+1", "1,5", "NA", "0x10", ".5", "5.", "1e", "--1", "9223372036854775808", "1e999", " 1", "1_0"]
        {
            assert_eq!(kind(&["1", odd]), ColumnType::Text, "{odd}");
        }
        // A double can't represent 2^53 + 1.
        assert_eq!(kind(&["9007199254740993"]), ColumnType::Int);
        assert_eq!(kind(&["9007199254740993", "0.5"]), ColumnType::Text);
        assert_eq!(kind(&["0.5", "9007199254740993"]), ColumnType::Text);
        assert_eq!(kind(&["0.5", "9007199254740992"]), ColumnType::Float);
    }
}
