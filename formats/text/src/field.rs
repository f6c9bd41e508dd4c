//! Searches an object for a field while the line is parsed.

use std::ops::Range;

/// The path of a field: a name at the top level, or nested names separated by dots.
#[derive(Clone, Debug)]
pub(crate) struct FieldPath {
    /// As the user wrote it.
    pub(crate) name: String,
    /// The parts between dots.
    parts: Vec<String>,
}

impl FieldPath {
    pub(crate) fn parse(name: &str) -> Self {
        Self { name: name.to_owned(), parts: name.split('.').map(str::to_owned).collect() }
    }
}

/// A value, as a range of bytes of the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValue {
    /// The field is missing.
    #[default]
    Missing,
    /// `null`.
    Null,
    /// A string: the range between its quotes, and whether it contains escapes.
    Text(Range<usize>, bool),
    /// A number without fraction or exponent.
    Integer(Range<usize>),
    /// Any other type, described.
    Other(&'static str),
}

/// How the value after the last name relates to the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// Not at all.
    #[default]
    Nothing,
    /// It is an object on the path.
    Holder,
    /// It is the field, by nested names.
    Nested,
    /// It is the field, by the whole path as one name.
    Literal,
}

/// The search for one field in one line.
#[derive(Debug)]
pub(crate) struct FieldSearch<'p> {
    path: &'p FieldPath,
    /// How many of the open objects below the top level are on the path.
    on: usize,
    next: Next,
    nested: FieldValue,
    literal: FieldValue,
}

impl<'p> FieldSearch<'p> {
    pub(crate) fn new(path: &'p FieldPath) -> Self {
        Self { path, on: 0, next: Next::Nothing, nested: FieldValue::Missing, literal: FieldValue::Missing }
    }

    /// Notes a name in an object at nesting `depth`. The last of equal names counts.
    #[inline]
    pub(crate) fn name(&mut self, depth: usize, name: &[u8]) {
        self.next = Next::Nothing;
        if self.on != depth {
            return;
        }
        if self.path.parts.get(depth).is_some_and(|part| part.as_bytes() == name) {
            self.nested = FieldValue::Missing;
            self.next = if depth + 1 == self.path.parts.len() { Next::Nested } else { Next::Holder };
        } else if depth == 0 && self.path.name.as_bytes() == name {
            self.next = Next::Literal;
        }
    }

    /// Whether the next value is the field.
    #[inline]
    pub(crate) fn wants(&self) -> bool {
        matches!(self.next, Next::Nested | Next::Literal)
    }

    /// Notes the value after the last name.
    #[inline]
    pub(crate) fn value(&mut self, value: impl FnOnce() -> FieldValue) {
        match std::mem::take(&mut self.next) {
            Next::Nothing | Next::Holder => {}
            Next::Nested => self.nested = value(),
            Next::Literal => self.literal = value(),
        }
    }

    /// Notes the start of an object or a list as the value after the last name.
    #[inline]
    pub(crate) fn open(&mut self, object: bool) {
        if self.next == Next::Holder && object {
            self.on += 1;
        }
        self.value(|| FieldValue::Other(if object { "an object" } else { "a list" }));
    }

    /// Notes the end of an object or a list at nesting `depth`.
    #[inline]
    pub(crate) fn close(&mut self, depth: usize) {
        self.on = self.on.min(depth.saturating_sub(1));
    }

    /// The value found, at the end of the line.
    pub(crate) fn found(self) -> FieldValue {
        match self.literal {
            FieldValue::Missing => self.nested,
            literal => literal,
        }
    }
}
