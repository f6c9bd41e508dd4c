//! Which field of an object is wanted, and what was found of it.

use std::ops::Range;

/// The name of a field: a name at the top, or names inside each other parted by dots.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// As the user wrote it.
    pub(crate) name: String,
    /// Its parts; one where there is no dot.
    parts: Vec<String>,
}

impl Path {
    pub(crate) fn parse(name: &str) -> Self {
        Self { name: name.to_owned(), parts: name.split('.').map(str::to_owned).collect() }
    }
}

/// A value, as a range of the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Value {
    /// There is none.
    #[default]
    Missing,
    /// `null`.
    Null,
    /// What stands between the quotes, and whether there are escapes in it.
    Text(Range<usize>, bool),
    /// A number without fraction and exponent.
    Integer(Range<usize>),
    /// Something else, by its name.
    Other(&'static str),
}

/// What the value after a name is to the field that is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// Nothing.
    #[default]
    Nothing,
    /// The object that holds it.
    Holder,
    /// It, by the parts of its name.
    Nested,
    /// It, by its whole name.
    Literal,
}

/// The search for one field in one line.
#[derive(Debug)]
pub(crate) struct Search<'p> {
    path: &'p Path,
    /// How many of the open objects below the top are on the way.
    on: usize,
    next: Next,
    nested: Value,
    literal: Value,
}

impl<'p> Search<'p> {
    pub(crate) fn new(path: &'p Path) -> Self {
        Self { path, on: 0, next: Next::Nothing, nested: Value::Missing, literal: Value::Missing }
    }

    /// A name in an object inside `depth` others. Of equal names the last counts.
    #[inline]
    pub(crate) fn name(&mut self, depth: usize, name: &[u8]) {
        self.next = Next::Nothing;
        if self.on != depth {
            return;
        }
        if self.path.parts.get(depth).is_some_and(|part| part.as_bytes() == name) {
            self.nested = Value::Missing;
            self.next = if depth + 1 == self.path.parts.len() { Next::Nested } else { Next::Holder };
        } else if depth == 0 && self.path.name.as_bytes() == name {
            self.next = Next::Literal;
        }
    }

    /// Whether the value that comes next is looked for.
    #[inline]
    pub(crate) fn wants(&self) -> bool {
        matches!(self.next, Next::Nested | Next::Literal)
    }

    /// The value after the last name.
    #[inline]
    pub(crate) fn value(&mut self, value: impl FnOnce() -> Value) {
        match std::mem::take(&mut self.next) {
            Next::Nothing | Next::Holder => {}
            Next::Nested => self.nested = value(),
            Next::Literal => self.literal = value(),
        }
    }

    /// The value after the last name is an object or a list that begins.
    #[inline]
    pub(crate) fn open(&mut self, object: bool) {
        if self.next == Next::Holder && object {
            self.on += 1;
        }
        self.value(|| Value::Other(if object { "an object" } else { "a list" }));
    }

    /// An object or a list inside `depth` others ended.
    #[inline]
    pub(crate) fn close(&mut self, depth: usize) {
        self.on = self.on.min(depth.saturating_sub(1));
    }

    /// What was found when the line is at its end.
    pub(crate) fn found(self) -> Value {
        match self.literal {
            Value::Missing => self.nested,
            literal => literal,
        }
    }
}
