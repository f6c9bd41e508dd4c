//! Conditions as text.

use packhorse_core::{Error, Result};

/// A field and what it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) field: String,
    /// One of [`OPERATORS`], or [`IN`].
    pub(crate) operator: &'static str,
    /// One, or for [`IN`] several of one kind: numbers or texts.
    pub(crate) literals: Vec<Literal>,
}

/// Longer operators come before those that they begin with.
const OPERATORS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

/// The field is one of several values.
pub(crate) const IN: &str = "in";

/// A value in a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Integer(i128),
    Float(f64),
    Text(String),
}

/// The comparisons of a condition.
///
/// Errors (kind `Config`): text that is not one; the error says where.
pub(crate) fn comparisons(text: &str) -> Result<Vec<Comparison>> {
    let refused = |what: &str| Err(Error::config(format!("can't understand the condition {text:?}: {what}")));
    let (mut all, mut rest) = (Vec::new(), text);
    loop {
        let Some((field, after)) = word(rest) else { return refused("a field is missing") };
        let after = after.trim_start();
        let found = OPERATORS.iter().find_map(|sign| Some((*sign, after.strip_prefix(sign)?)));
        let (operator, values, after) = match (found, list(after)) {
            (Some((operator, after)), _) => {
                let Some((value, after)) = word(after) else { return refused("a value is missing at the end") };
                (operator, vec![value], after)
            }
            (None, Some((values, after))) => (IN, values, after),
            (None, None) => {
                let spaced = "; a field whose name has spaces is written in quotes";
                return refused(&format!(
                    "after {} comes one of ==, !=, <, <=, >, >= or in [1, 2]{spaced}",
                    field.text
                ));
            }
        };
        let literals: Option<Vec<Literal>> = values.iter().map(Word::literal).collect();
        let Some(literals) = literals else {
            let wrong = values.iter().find(|value| value.literal().is_none()).map_or("", |value| value.text);
            return refused(&format!("{wrong} is not a number; write text in quotes"));
        };
        let texts = literals.iter().filter(|literal| matches!(literal, Literal::Text(_))).count();
        if literals.is_empty() || (texts > 0 && texts < literals.len()) {
            return refused("a list has numbers or texts, one or more");
        }
        all.push(Comparison { field: field.text.to_owned(), operator, literals });
        match word(after) {
            None if after.trim().is_empty() => return Ok(all),
            Some((Word { text: "and", quoted: false }, after)) => rest = after,
            Some((Word { text: "or", quoted: false }, _)) => {
                return refused("comparisons are joined by \"and\"; for several values of a field write cls in [1, 2]");
            }
            _ => return refused("comparisons are joined by \"and\""),
        }
    }
}

/// The values after `in`, and the rest: words between brackets, with commas between them.
fn list(text: &str) -> Option<(Vec<Word<'_>>, &str)> {
    let after = text.strip_prefix(IN)?;
    let (close, mut rest) = [("[", ']'), ("(", ')')]
        .into_iter()
        .find_map(|(open, close)| Some((close, after.trim_start().strip_prefix(open)?.trim_start())))?;
    let mut values = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(close) {
            return Some((values, after));
        }
        let is_quoted = rest.starts_with(['"', '\'']);
        let end = if is_quoted { rest.len() } else { rest.find([',', close]).unwrap_or(rest.len()) };
        let (value, _) = word(rest.get(..end)?.trim_end())?;
        let taken = value.text.len() + if is_quoted { 2 } else { 0 };
        rest = rest.get(taken..)?.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(after) => after.trim_start(),
            None if rest.starts_with(close) => rest,
            None => return None,
        };
        values.push(value);
    }
}

struct Word<'t> {
    text: &'t str,
    quoted: bool,
}

/// The first word of `text`, and the rest: up to a space or an operator, or in quotes.
fn word(text: &str) -> Option<(Word<'_>, &str)> {
    let text = text.trim_start();
    for quote in ['"', '\''] {
        if let Some(inside) = text.strip_prefix(quote) {
            return inside.split_once(quote).map(|(text, rest)| (Word { text, quoted: true }, rest));
        }
    }
    let end = text.find(|c: char| c.is_whitespace() || "=!<>\"'".contains(c)).unwrap_or(text.len());
    let (text, rest) = text.split_at_checked(end)?;
    (!text.is_empty()).then_some((Word { text, quoted: false }, rest))
}

impl Word<'_> {
    fn literal(&self) -> Option<Literal> {
        match self.text {
            text if self.quoted => Some(Literal::Text(text.to_owned())),
            "true" => Some(Literal::Integer(1)),
            "false" => Some(Literal::Integer(0)),
            text => match without_zeros(text).parse() {
                Ok(integer) => Some(Literal::Integer(integer)),
                Err(_) => text.parse().ok().filter(|float: &f64| float.is_finite()).map(Literal::Float),
            },
        }
    }
}

/// A number without a fraction of zeros.
fn without_zeros(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|digit| digit == b'0') => whole,
        _ => text,
    }
}
