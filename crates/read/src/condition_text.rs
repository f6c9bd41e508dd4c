//! Conditions as text.

use packhorse_core::{Error, Result};

/// A field and what it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) field: String,
    /// One of [`OPERATORS`], [`IN`] or [`IS_NULL`].
    pub(crate) operator: &'static str,
    /// One; for [`IN`] several of one kind, numbers or texts; for [`IS_NULL`] none.
    pub(crate) literals: Vec<Literal>,
}

/// Longer operators come before those that they begin with.
const OPERATORS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

/// The field is one of several values.
pub(crate) const IN: &str = "in";

/// The sample lacks the field.
pub(crate) const IS_NULL: &str = "is null";

/// A value in a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Integer(i128),
    Float(f64),
    Text(String),
}

/// How comparisons are joined, each by its place among them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Logic {
    One(usize),
    Not(Box<Logic>),
    All(Vec<Logic>),
    Any(Vec<Logic>),
}

impl Logic {
    /// Whether samples must meet each of the comparisons.
    pub(crate) fn needs_all(&self) -> bool {
        let is_one = |part: &Logic| matches!(part, Self::One(_));
        is_one(self) || matches!(self, Self::All(parts) if parts.iter().all(is_one))
    }

    /// Whether a sample meets it, by SQL's logic of three values: `None` is unknown. `holds` tells of one comparison, and is not asked where
    /// others decide.
    pub(crate) fn holds(&self, holds: &mut impl FnMut(usize) -> Result<Option<bool>>) -> Result<Option<bool>> {
        let (parts, decisive) = match self {
            Self::One(at) => return holds(*at),
            Self::Not(part) => return Ok(part.holds(holds)?.map(|met| !met)),
            Self::All(parts) => (parts, false),
            Self::Any(parts) => (parts, true),
        };
        let mut all = Some(!decisive);
        for part in parts {
            match part.holds(holds)? {
                Some(met) if met == decisive => return Ok(Some(decisive)),
                Some(_) => {}
                None => all = None,
            }
        }
        Ok(all)
    }
}

/// The comparisons of a condition, and how they are joined.
///
/// Errors (kind `Config`): text that is not one; the error says where.
pub(crate) fn parsed(text: &str) -> Result<(Vec<Comparison>, Logic)> {
    let mut parser = Parser { rest: text, comparisons: Vec::new(), depth: 0 };
    let logic = parser.any().and_then(|logic| match parser.rest.trim() {
        "" => Ok(logic),
        rest if rest.starts_with(')') => Err("it has a ) without a (".to_owned()),
        _ => Err("comparisons are joined by \"and\" or \"or\"".to_owned()),
    });
    match logic {
        Ok(logic) => Ok((parser.comparisons, logic)),
        Err(what) => Err(Error::config(format!("can't understand the condition {text:?}: {what}"))),
    }
}

/// Parentheses and `not` in one another, at most.
const DEPTH: usize = 100;

struct Parser<'t> {
    rest: &'t str,
    comparisons: Vec<Comparison>,
    depth: usize,
}

/// A part of a condition, or the fault in it.
type Parsed<T> = std::result::Result<T, String>;

impl<'t> Parser<'t> {
    /// Parts joined by `or`, which binds less than `and`.
    fn any(&mut self) -> Parsed<Logic> {
        let mut parts = vec![self.all()?];
        while self.takes("or") {
            parts.push(self.all()?);
        }
        Ok(one_of(parts, Logic::Any))
    }

    fn all(&mut self) -> Parsed<Logic> {
        let mut parts = vec![self.part()?];
        while self.takes("and") {
            parts.push(self.part()?);
        }
        Ok(one_of(parts, Logic::All))
    }

    /// A comparison, something in parentheses, or `not` of one of these.
    fn part(&mut self) -> Parsed<Logic> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("it is nested more than {DEPTH} deep"));
        }
        let before = self.rest;
        let part = if self.takes("not") && operator(self.rest).is_none() {
            Logic::Not(Box::new(self.part()?))
        } else if let Some(inside) = before.trim_start().strip_prefix('(') {
            self.rest = inside;
            let part = self.any()?;
            self.rest = self.rest.trim_start().strip_prefix(')').ok_or("a ) is missing")?;
            part
        } else {
            self.rest = before;
            self.comparison()?
        };
        self.depth -= 1;
        Ok(part)
    }

    fn comparison(&mut self) -> Parsed<Logic> {
        let (field, after) = word(self.rest).ok_or("a field is missing")?;
        self.rest = after;
        let mut negated = false;
        let (operator, values) = if let Some((operator, after)) = operator(after) {
            let (value, after) = word(after).ok_or("a value is missing")?;
            self.rest = after;
            (operator, vec![value])
        } else if self.takes("is") {
            negated = self.takes("not");
            match self.takes("null") {
                true => (IS_NULL, Vec::new()),
                false => return Err("after is comes null or not null".to_owned()),
            }
        } else {
            negated = self.takes("not");
            if !self.takes(IN) {
                let spaced = "a field whose name has spaces is written in quotes";
                let signs = "==, !=, <, <=, >, >=, in [1, 2] or is null";
                return Err(format!("after {} comes one of {signs}; {spaced}", field.text));
            }
            let (values, after) =
                list(self.rest).ok_or("after in comes a list of one or more values, such as [1, 2]")?;
            self.rest = after;
            (IN, values)
        };
        let literals = literals(&values)?;
        self.comparisons.push(Comparison { field: field.text.to_owned(), operator, literals });
        let one = Logic::One(self.comparisons.len() - 1);
        Ok(if negated { Logic::Not(Box::new(one)) } else { one })
    }

    /// Passes over a word of conditions, if it comes next; in upper case as well, as SQL has it.
    fn takes(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        let after = rest.split_at_checked(word.len()).filter(|(first, _)| first.eq_ignore_ascii_case(word));
        let ends = |after: &str| after.chars().next().is_none_or(|c| c.is_whitespace() || "()[\"'=!<>".contains(c));
        match after.filter(|(_, after)| ends(after)) {
            Some((_, after)) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }
}

/// Several parts joined, or the only one.
fn one_of(mut parts: Vec<Logic>, join: fn(Vec<Logic>) -> Logic) -> Logic {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            join(parts)
        }
    }
}

/// The sign that comes next, and the rest.
fn operator(text: &str) -> Option<(&'static str, &str)> {
    OPERATORS.iter().find_map(|sign| Some((*sign, text.trim_start().strip_prefix(sign)?)))
}

/// The values that a field is compared with: of one kind.
fn literals(values: &[Word<'_>]) -> Parsed<Vec<Literal>> {
    let literal = |value: &Word<'_>| {
        value.literal().ok_or_else(|| format!("{} is not a number; write text in quotes", value.text))
    };
    let literals = values.iter().map(literal).collect::<Parsed<Vec<_>>>()?;
    let texts = literals.iter().filter(|literal| matches!(literal, Literal::Text(_))).count();
    if texts > 0 && texts < literals.len() {
        return Err("a list has either numbers or texts".to_owned());
    }
    Ok(literals)
}

/// The values after `in`, and the rest: words between brackets, with commas between them.
fn list(text: &str) -> Option<(Vec<Word<'_>>, &str)> {
    let (close, mut rest) = [("[", ']'), ("(", ')')]
        .into_iter()
        .find_map(|(open, close)| Some((close, text.trim_start().strip_prefix(open)?.trim_start())))?;
    let mut values = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(close).filter(|_| !values.is_empty()) {
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

/// The first word of `text`, and the rest: up to a space, an operator or a parenthesis that it did not open, or in quotes.
fn word(text: &str) -> Option<(Word<'_>, &str)> {
    let text = text.trim_start();
    for quote in ['"', '\''] {
        if let Some(inside) = text.strip_prefix(quote) {
            return inside.split_once(quote).map(|(text, rest)| (Word { text, quoted: true }, rest));
        }
    }
    let mut open = 0;
    let ends = |c: char| {
        open += i32::from(c == '(') - i32::from(c == ')');
        open < 0 || c.is_whitespace() || "=!<>\"'".contains(c)
    };
    let (text, rest) = text.split_at_checked(text.find(ends).unwrap_or(text.len()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn comparisons(text: &str) -> Vec<Comparison> {
        parsed(text).unwrap().0
    }

    #[test]
    fn conditions_are_parsed() {
        let (all, logic) = parsed(r#" cls==3 and "a field" >= 'it"s' and x.y<-1.5e3 and ok != true"#).unwrap();
        let fields: Vec<&str> = all.iter().map(|comparison| comparison.field.as_str()).collect();
        assert_eq!(fields, ["cls", "a field", "x.y", "ok"]);
        assert_eq!(logic, Logic::All((0..4).map(Logic::One).collect()));
        assert_eq!(all[0].literals, [Literal::Integer(3)]);
        assert_eq!(all[1].literals, [Literal::Text("it\"s".into())]);
        assert_eq!((all[2].operator, &all[2].literals[..]), ("<", &[Literal::Float(-1500.0)][..]));
        assert_eq!(all[3].literals, [Literal::Integer(1)]);
    }

    /// Whether a condition on fields called by one letter is met where those in `met` are 1, those in `unknown` null, others 0.
    fn holds(text: &str, met: &str, unknown: &str) -> Option<bool> {
        let (comparisons, logic) = parsed(text).unwrap();
        let of = |at: usize| {
            let Comparison { field, operator, .. } = &comparisons[at];
            let null = unknown.contains(field.as_str());
            Ok(if *operator == IS_NULL { Some(null) } else { (!null).then(|| met.contains(field.as_str())) })
        };
        logic.holds(&mut { of }).unwrap()
    }

    #[test]
    fn comparisons_are_joined_as_in_sql() {
        for (text, met, unknown, wanted) in [
            ("a == 1 or b == 1 and c == 1", "a", "", Some(true)),
            ("(a == 1 or b == 1) and c == 1", "a", "", Some(false)),
            ("((a==1)or(b==1))and c==1", "bc", "", Some(true)),
            ("not a == 1 and b == 1", "b", "", Some(true)),
            ("not (a == 1 and b == 1)", "b", "", Some(true)),
            ("NOT(a == 1 OR b == 1)", "b", "", Some(false)),
            ("a IN [1] AND b NOT IN(1)", "a", "", Some(true)),
            ("a IS NULL", "", "a", Some(true)),
            ("not not a == 1", "a", "", Some(true)),
            ("a not in [1, 2] and b in (1, 2)", "b", "", Some(true)),
            // Unknown, unless others decide.
            ("a == 1 and b == 1", "a", "b", None),
            ("a == 1 and b == 1", "", "b", Some(false)),
            ("a == 1 or b == 1", "a", "b", Some(true)),
            ("a == 1 or b == 1", "", "b", None),
            ("not b == 1", "", "b", None),
            ("b is null and a is not null", "a", "b", Some(true)),
            ("b is not null or a is null", "a", "b", Some(false)),
        ] {
            assert_eq!(holds(text, met, unknown), wanted, "{text} where {met} are met and {unknown} null");
        }
    }

    #[test]
    fn fields_may_be_called_like_words_of_conditions() {
        let fields = |text: &str| comparisons(text).into_iter().map(|one| one.field).collect::<Vec<_>>();
        assert_eq!(fields("in == 1 and not == 2 or is in [3]"), ["in", "not", "is"]);
        assert_eq!(fields("not in == 1 and android is null"), ["in", "android"]);
        assert_eq!(fields("or == 1 or and == 1 and 'not' is null"), ["or", "and", "not"]);
        assert_eq!(fields("(f(x) == 1) and (g(1)(2) < 3)"), ["f(x)", "g(1)(2)"]);
    }

    #[test]
    fn what_is_not_a_condition_is_refused() {
        for bad in [
            "",
            "cls",
            "cls = 3",
            "cls ==",
            "cls == dog",
            "cls == 3 or",
            "cls == 3 and",
            "== 3",
            "a == 1 b == 2",
            "x == inf",
            "x == 'open",
            "(x == 1",
            "x == 1)",
            "()",
            "not",
            "x is 3",
            "x is not",
            "x not == 3",
            "x in",
            "x in 1",
            "x in []",
            "x in [1",
            "x in [1, 'a']",
            "x in [1,, 2]",
            "x in [1 2]",
            "x in ('a' 'b')",
            "x in [a]",
            "x in ['a]",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
        for deep in ["(", "not "] {
            assert!(parsed(&format!("{}x == 1", deep.repeat(100_000))).is_err());
        }
    }
}
