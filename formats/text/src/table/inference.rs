//! Infers the types of columns from all of their values.

use super::column_type::{ColumnType, JsonScalar};
use super::walk::{ValueKind, Walk, text};
use super::{DEPTH, NAMES};
use std::collections::BTreeMap;

/// What the values of one name were so far.
#[derive(Debug, Default)]
pub(super) struct Inference {
    /// How many rows have the name.
    rows: u64,
    /// The last of them, from 1.
    last: u64,
    null: bool,
    bool: bool,
    text: bool,
    numbers: Option<Numbers>,
    /// What the elements of its lists were.
    elements: Option<Box<Inference>>,
    /// What its objects have, by name.
    members: Option<BTreeMap<String, Inference>>,
    /// Whether no other type than JSON fits.
    json: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    negative: bool,
    /// Above what fits in a signed integer.
    above_signed: bool,
    /// An integer that a double does not represent exactly.
    inexact: bool,
    fraction: bool,
    /// Beyond integers of 64 bits, or beyond doubles.
    beyond: bool,
}

/// A string with half of a surrogate pair, at the field of this name.
pub(super) struct HalfPair(pub(super) String);

/// What became of one name.
pub(super) enum Inferred<'i> {
    /// It has only nulls.
    Nothing,
    /// A column.
    Column(ColumnType),
    /// An object whose members are columns.
    Object(&'i BTreeMap<String, Inference>),
}

impl Inference {
    /// Adds the next value of `walk`, that of `row`, counted from 1; `grows` where it has a new name.
    pub(super) fn add(
        &mut self,
        walk: &mut Walk<'_>,
        row: u64,
        depth: usize,
        grows: &mut bool,
    ) -> Result<(), HalfPair> {
        let again = self.last == row;
        if !again {
            (self.last, self.rows) = (row, self.rows + 1);
        }
        match walk.kind() {
            ValueKind::Null => {
                walk.pass();
                self.null = true;
            }
            _ if self.json => drop(walk.pass()),
            ValueKind::List | ValueKind::Object if depth > DEPTH => {
                walk.pass();
                self.json = true;
            }
            ValueKind::Bool => {
                walk.pass();
                self.bool = true;
            }
            ValueKind::Number => self.numbers.get_or_insert_default().add(walk.pass()),
            ValueKind::Text => {
                let quoted = walk.pass();
                self.text = true;
                if memchr::memmem::find(quoted, b"\\u").is_some() && text(quoted, &mut Vec::new()).is_none() {
                    return Err(HalfPair(String::new()));
                }
            }
            ValueKind::List => {
                let elements = self.elements.get_or_insert_default();
                walk.elements(|walk| match walk.kind() {
                    // Lists have no objects and no nulls in packhorse.
                    ValueKind::Object | ValueKind::Null => {
                        walk.pass();
                        elements.json = true;
                        Ok(())
                    }
                    _ => elements.add(walk, row, depth + 1, grows),
                })?;
            }
            ValueKind::Object => {
                let members = self.members.get_or_insert_default();
                // Of equal names the last counts, whose object may lack what the first one has.
                members.values_mut().filter(|member| again && member.last == row).for_each(|member| member.null = true);
                walk.members(|walk, name| {
                    let name = String::from_utf8_lossy(&name);
                    if !members.contains_key(&*name) {
                        members.insert(name.clone().into_owned(), Inference::default());
                        *grows = true;
                    }
                    match members.get_mut(&*name) {
                        Some(member) => member
                            .add(walk, row, depth + 1, grows)
                            .map_err(|HalfPair(inside)| HalfPair(joined(&name, &inside))),
                        None => Ok(()),
                    }
                })?;
                // An object with so many names is a map, such as from words to counts.
                if members.len() > NAMES && depth > 0 {
                    (self.json, self.members) = (true, None);
                }
            }
        }
        Ok(())
    }

    /// How many names the objects have so far, those inside of others too.
    pub(super) fn names(&self) -> usize {
        let inside = |members: &BTreeMap<String, Inference>| members.values().map(Inference::names).sum::<usize>();
        self.members.as_ref().map_or(0, |members| members.len() + inside(members))
    }

    /// Whether one of the first `rows` rows has no value.
    pub(super) fn lacks(&self, rows: u64) -> bool {
        self.null || self.rows < rows
    }

    pub(super) fn found(&self) -> Inferred<'_> {
        let Self { bool, text, numbers, elements, members, .. } = self;
        let kinds = [*bool, *text, numbers.is_some(), elements.is_some(), members.is_some()];
        let of = |element| Inferred::Column(ColumnType::Plain { element, depth: 0 });
        match (numbers, elements, members) {
            _ if self.json || kinds.iter().filter(|is| **is).count() > 1 => Inferred::Column(ColumnType::Json),
            (Some(numbers), ..) => numbers.element().map_or(Inferred::Column(ColumnType::Json), of),
            (_, Some(elements), _) => Inferred::Column(match elements.found() {
                Inferred::Column(ColumnType::Plain { element, depth }) if depth < DEPTH => {
                    ColumnType::Plain { element, depth: depth + 1 }
                }
                // Also lists that are all empty: nothing tells the type of their elements.
                _ => ColumnType::Json,
            }),
            (.., Some(members)) if members.is_empty() => Inferred::Column(ColumnType::Json),
            (.., Some(members)) => Inferred::Object(members),
            _ if *bool => of(JsonScalar::Bool),
            _ if *text => of(JsonScalar::Text),
            _ => Inferred::Nothing,
        }
    }
}

impl Numbers {
    fn add(&mut self, number: &[u8]) {
        let number = std::str::from_utf8(number).unwrap_or_default();
        let digits = number.strip_prefix('-').unwrap_or(number);
        if digits.is_empty() || digits.bytes().any(|byte| !byte.is_ascii_digit()) {
            self.fraction = true;
            // NaN and Infinity are what they say.
            let is_written = digits.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
            self.beyond |= is_written && !number.parse::<f64>().is_ok_and(f64::is_finite);
        } else if let Ok(signed) = number.parse::<i64>() {
            self.negative |= signed < 0;
            self.inexact |= signed.unsigned_abs() > 1 << 53;
        } else {
            (self.inexact, self.above_signed) = (true, true);
            self.beyond |= number.parse::<u64>().is_err();
        }
    }

    /// The first type that fits all of them.
    fn element(self) -> Option<JsonScalar> {
        match self {
            Numbers { beyond: true, .. } | Numbers { fraction: true, inexact: true, .. } => None,
            Numbers { fraction: true, .. } => Some(JsonScalar::Float),
            Numbers { above_signed: false, .. } => Some(JsonScalar::Int),
            Numbers { negative: false, .. } => Some(JsonScalar::Unsigned),
            Numbers { .. } => None,
        }
    }
}

/// The name of the member `name` of the object `path`.
pub(super) fn joined(path: &str, name: &str) -> String {
    match (path, name) {
        ("", name) => name.to_owned(),
        (path, "") => path.to_owned(),
        (path, name) => format!("{path}.{name}"),
    }
}
