//! What a column holds, as far as its values tell.

use packhorse_core::{DataType, FieldType};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Bool,
    Int,
    Float,
    Text,
}

impl Kind {
    /// What options call them.
    pub(crate) const NAMES: [(&'static str, Kind); 4] =
        [("bool", Kind::Bool), ("int64", Kind::Int), ("float64", Kind::Float), ("text", Kind::Text)];

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn field_type(self) -> FieldType {
        match self {
            Kind::Bool => FieldType::Scalar(DataType::Boolean),
            Kind::Int => FieldType::Scalar(DataType::Int64),
            Kind::Float => FieldType::Scalar(DataType::Float64),
            Kind::Text => FieldType::Text,
        }
    }
}

/// Which types all values so far are of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fits {
    bool: bool,
    int: bool,
    float: bool,
    /// Whether a whole number was more than a double holds exactly.
    wide: bool,
    /// Whether there was a value.
    any: bool,
    /// Whether a value was missing.
    pub(crate) missing: bool,
}

impl Fits {
    pub(crate) const NEW: Self = Self { bool: true, int: true, float: true, wide: false, any: false, missing: false };

    pub(crate) fn add(&mut self, value: &[u8]) {
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
            let number = whole.is_some() || value == b"-0" || (!is_digits(value) && float_of(value).is_some());
            // Among floats a whole number may not lose digits.
            self.float = number && (self.int || !self.wide);
        }
    }

    /// The type of the column.
    pub(crate) fn kind(&self) -> Kind {
        match () {
            () if !self.any => Kind::Text,
            () if self.bool => Kind::Bool,
            () if self.int && self.float => Kind::Int,
            () if self.float => Kind::Float,
            () => Kind::Text,
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

/// Digits without leading zeros, after a minus or nothing.
fn is_digits(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && (digits.len() == 1 || digits.first() != Some(&b'0'))
}

pub(crate) fn int_of(value: &[u8]) -> Option<i64> {
    // "-0" would lose its sign.
    if !is_digits(value) || value == b"-0" {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn is_exact(whole: i64) -> bool {
    whole.unsigned_abs() <= 1 << 53
}

/// A number as JSON writes it, or one of the words for what isn't finite.
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

/// Nothing, or an exponent.
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

    fn kind(values: &[&str]) -> Kind {
        let mut fits = Fits::NEW;
        values.iter().for_each(|value| fits.add(value.as_bytes()));
        fits.kind()
    }

    #[test]
    fn the_first_type_that_fits_all_values() {
        assert_eq!(kind(&["true", "", "FALSE"]), Kind::Bool);
        assert_eq!(kind(&["1", "", "-9223372036854775808"]), Kind::Int);
        assert_eq!(kind(&["1", "2.50", "-3e-7", "nan", "-inf", "1E5"]), Kind::Float);
        assert_eq!(kind(&["-0", "1"]), Kind::Float);
        assert_eq!(kind(&["true", "1"]), Kind::Text);
        assert_eq!(kind(&["", ""]), Kind::Text);
        assert_eq!(kind(&[]), Kind::Text);
    }

    #[test]
    fn what_would_be_rounded_or_lose_zeros_is_text() {
        for odd in
            ["007", "+1", "1,5", "NA", "0x10", ".5", "5.", "1e", "--1", "9223372036854775808", "1e999", " 1", "1_0"]
        {
            assert_eq!(kind(&["1", odd]), Kind::Text, "{odd}");
        }
        // 2^53 + 1 is no double.
        assert_eq!(kind(&["9007199254740993"]), Kind::Int);
        assert_eq!(kind(&["9007199254740993", "0.5"]), Kind::Text);
        assert_eq!(kind(&["0.5", "9007199254740993"]), Kind::Text);
        assert_eq!(kind(&["0.5", "9007199254740992"]), Kind::Float);
    }
}
