//! Parses the range in the title of `Double32_t` and `Float16_t` members: `[min, max, bits]`.
//! The limits are arithmetic expressions, as in `[-pi, 2*pi, 12]`.

/// The range in a title.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Range {
    /// No brackets, or no range in them.
    None,
    /// Minimum, maximum, bits.
    Given(f64, f64, i64),
}

/// The default number of bits.
const BITS: i64 = 32;

impl Range {
    /// The range in the first brackets of `title`.
    pub(crate) fn of_title(title: &str) -> Self {
        let inside = title.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inside, _)| inside);
        inside.and_then(Self::parse).unwrap_or(Range::None)
    }

    fn parse(inside: &str) -> Option<Self> {
        let mut parts = inside.split(',').map(str::trim);
        let (low, high) = (sum(parts.next()?)?, sum(parts.next()?)?);
        let bits = parts.next().map_or(Some(BITS), |bits| bits.parse().ok())?;
        if parts.next().is_some() || !low.is_finite() || !high.is_finite() {
            return None;
        }
        Some(Range::Given(low, high, if (2..=BITS).contains(&bits) { bits } else { BITS }))
    }
}

fn sum(text: &str) -> Option<f64> {
    let mut parser = Parser { rest: text };
    let value = parser.sum()?;
    parser.rest.trim().is_empty().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn next_is(&mut self, wanted: char) -> bool {
        match self.rest.trim_start().strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Option<f64> {
        let mut value = self.product()?;
        loop {
            if self.next_is('+') {
                value += self.product()?;
            } else if self.next_is('-') {
                value -= self.product()?;
            } else {
                return Some(value);
            }
        }
    }

    fn product(&mut self) -> Option<f64> {
        let mut value = self.atom()?;
        loop {
            if self.next_is('*') {
                value *= self.atom()?;
            } else if self.next_is('/') {
                value /= self.atom()?;
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<f64> {
        let mut negative = false;
        while self.next_is('-') {
            negative = !negative;
        }
        let text = self.rest.trim_start();
        let mut previous = ' ';
        let end = text.find(|c: char| {
            let sign = (c == '-' || c == '+') && matches!(previous, 'e' | 'E');
            previous = c;
            !(c.is_ascii_alphanumeric() || c == '.' || sign)
        });
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        self.rest = rest;
        let value = match word.to_ascii_lowercase().as_str() {
            "pi" => std::f64::consts::PI,
            "twopi" => std::f64::consts::TAU,
            number if number.starts_with(|c: char| c.is_ascii_digit() || c == '.') => number.parse().ok()?,
            _ => return None,
        };
        Some(if negative { -value } else { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn ranges_in_titles() {
        for (title, wanted) in [
            ("phi [-pi, pi, 12]", Range::Given(-PI, PI, 12)),
            ("x[-2.71,10,30]", Range::Given(-2.71, 10.0, 30)),
            ("[0, 2*pi/4]", Range::Given(0.0, PI / 2.0, 32)),
            ("[-1e-3, 1e+3, 99]", Range::Given(-1e-3, 1e3, 32)),
            ("a[3]", Range::None),
            ("a[n]", Range::None),
            ("plain", Range::None),
            ("[1, inf]", Range::None),
            ("[1/0, 2]", Range::None),
            ("[1, 2, 3, 4]", Range::None),
        ] {
            assert_eq!(Range::of_title(title), wanted, "{title}");
        }
    }
}
