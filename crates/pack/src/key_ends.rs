//! Splits the name of a file into the key of its sample and its field.

use packhorse_core::{Error, MemberName, NameFault, Result, member_name, split_base};
use regex::bytes::Regex;
use std::fmt;
use std::str::FromStr;

/// The rule that splits the names of files and archive members. It applies to the last part of a path.
#[derive(Clone, Debug, Default)]
pub enum KeyEnds {
    /// At the first dot, as WebDataset's readers do: `a.seg.png` is the field `seg.png` of `a`.
    #[default]
    FirstDot,
    /// At the last dot: `2024.05.01.jpg` is the field `jpg` of `2024.05.01`, which readers see as `2024%2E05%2E01`.
    LastDot,
    /// By the groups of an expression: the first is the key, the second the field. Names without a match are ignored.
    Regex(Regex),
}

impl KeyEnds {
    /// Splits the last part of a name.
    pub(crate) fn split(&self, base: &[u8]) -> Result<MemberName, NameFault> {
        let halves = match self {
            KeyEnds::FirstDot => return split_base(base),
            KeyEnds::LastDot => base
                .iter()
                .rposition(|b| *b == b'.')
                .map(|dot| base.split_at(dot))
                .map(|(stem, ext)| (stem, ext.get(1..).unwrap_or_default())),
            KeyEnds::Regex(rule) => rule.captures(base).and_then(|found| {
                let part = |i: usize| found.get(i).map(|part| part.as_bytes());
                Some((part(1).filter(|stem| !stem.is_empty())?, part(2)?))
            }),
        };
        match halves {
            _ if split_base(base) == Err(NameFault::Hidden) => Err(NameFault::Hidden),
            None => Err(NameFault::NoField),
            Some((stem, field)) => member_name(stem, field),
        }
    }

    /// Whether it is WebDataset's rule.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self, KeyEnds::FirstDot)
    }
}

impl PartialEq for KeyEnds {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for KeyEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyEnds::FirstDot => f.write_str("first-dot"),
            KeyEnds::LastDot => f.write_str("last-dot"),
            KeyEnds::Regex(rule) => write!(f, "regex:{rule}"),
        }
    }
}

impl FromStr for KeyEnds {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rule = match text {
            "first-dot" => return Ok(KeyEnds::FirstDot),
            "last-dot" => return Ok(KeyEnds::LastDot),
            _ => text.strip_prefix("regex:").ok_or_else(|| {
                Error::config(format!("takes first-dot, last-dot or regex:EXPRESSION, not \"{text}\""))
            })?,
        };
        let rule = Regex::new(rule).map_err(|e| Error::config(format!("\"{text}\": {e}")))?;
        match rule.captures_len() {
            3 => Ok(KeyEnds::Regex(rule)),
            n => Err(Error::config(format!(
                "\"{text}\" has {} groups; it takes two, the key and the field, such as regex:^(.+)_([a-z]+[.]png)$",
                n - 1
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(rule: &str, base: &str) -> Option<(String, String)> {
        let rule: KeyEnds = rule.parse().unwrap();
        rule.split(base.as_bytes()).ok().map(|name| (name.key, name.field))
    }

    #[test]
    fn names_are_split_where_the_rule_says() {
        let expression = r"regex:^(\d+)_(\w+\.png)$";
        for (rule, base, parts) in [
            ("first-dot", "2024.05.01.jpg", Some(("2024", "05.01.jpg"))),
            ("last-dot", "2024.05.01.JPG", Some(("2024%2E05%2E01", "jpg"))),
            ("last-dot", "a.jpg", Some(("a", "jpg"))),
            ("last-dot", "a b.jpg", Some(("a%20b", "jpg"))),
            ("last-dot", "a.", None),
            ("last-dot", "a", None),
            ("last-dot", ".hidden.jpg", None),
            (expression, "0007_left.png", Some(("0007", "left.png"))),
            (expression, "0007-left.png", None),
            ("regex:^()(.*)$", "a.jpg", None),
            ("regex:^(.+)-(.*)$", "a-", None),
        ] {
            let parts = parts.map(|(key, field): (&str, &str)| (key.to_owned(), field.to_owned()));
            assert_eq!(split(rule, base), parts, "{rule} {base}");
        }
    }

    #[test]
    fn invalid_rules_are_refused() {
        for (rule, why) in [("dot", "not \"dot\""), ("regex:(", "unclosed group"), ("regex:(.*)", "has 1 groups")] {
            let error = rule.parse::<KeyEnds>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
