//! One pass over a table: its columns and their types, the number of rows, and the offsets of some of them.

use super::MOST_NAMES;
use super::column_type::{ColumnType, JsonScalar};
use super::inference::{HalfPair, Inference, Inferred, joined};
use super::json_types::JsonTypes;
use super::rows::{JsonLine, Lines};
use super::walk::Walk;
use packhorse_core::{
    Error, Input, KEY, LOGICAL, Limits, Omission, Result, RowStart, RowStarts, Schema, SchemaRef, with_metadata,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The metadata of a table.
#[derive(Debug)]
pub(crate) struct TableScan {
    /// The types of the columns, in the order of the schema.
    pub(super) columns: Vec<ColumnType>,
    pub(super) schema: SchemaRef,
    /// Where the values of a line go.
    pub(super) places: ValuePlace,
    /// Fields that are null in all rows.
    pub(super) omitted: Vec<Omission>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) starts: RowStarts,
}

/// Where a value of a line goes.
#[derive(Debug)]
pub(super) enum ValuePlace {
    Column(usize),
    /// The places of the values in an object, by name.
    Object(BTreeMap<Box<[u8]>, ValuePlace>),
}

impl TableScan {
    /// Reads the whole of `input`.
    pub(super) fn new(input: &dyn Input, settings: &JsonTypes, limits: Limits) -> Result<Self> {
        let mut lines = Lines::open(input, RowStart::START, limits)?;
        let (mut all, mut starts, mut rows) = (Inference::default(), RowStarts::default(), 0);
        while let Some(start) = lines.next(|line| add(&mut all, &line))? {
            rows += 1;
            starts.add(start);
        }
        let mut columns = Columns { settings, rows, found: Vec::new(), omitted: Vec::new() };
        let places = columns.object(&all, "", false);
        columns.finish(places, lines.position(), starts)
    }
}

/// Adds a line to what all lines have; the start of the line.
fn add(all: &mut Inference, line: &JsonLine<'_>) -> Result<RowStart> {
    let start = line.start;
    let at = |message: String| Error::content(format!("line {}: {message}", start.line)).at_row(start.row);
    let mut grows = false;
    all.add(&mut Walk::new(line.bytes), start.row + 1, 0, &mut grows).map_err(|HalfPair(name)| {
        let message = format!("the field \"{name}\" holds half of a surrogate pair, which is not Unicode");
        at(message).hint("repair or remove the line").in_field(name)
    })?;
    match grows && all.names() > MOST_NAMES {
        true => Err(at(format!("the lines so far have more than {MOST_NAMES} names of fields"))
            .hint("put names that are values, such as words or dates, into an object")),
        false => Ok(start),
    }
}

/// The columns so far, in the order in which they are found.
struct Columns<'s> {
    settings: &'s JsonTypes,
    rows: u64,
    found: Vec<(String, ColumnType, bool)>,
    omitted: Vec<Omission>,
}

impl Columns<'_> {
    /// The places of the members of `object`, called `path`.
    fn object(&mut self, object: &Inference, path: &str, lacks: bool) -> ValuePlace {
        let Inferred::Object(members) = object.found() else { return ValuePlace::Object(BTreeMap::new()) };
        let places = members.iter().filter_map(|(name, member)| {
            let path = joined(path, name);
            let lacks = lacks || member.lacks(self.rows);
            let place = match (self.settings.types.get(&path), member.found()) {
                (Some((asked, nullable)), _) => {
                    let lacks = lacks || *nullable && path != KEY;
                    self.column(path, *asked, lacks)
                }
                (None, Inferred::Column(found)) => self.column(path, found, lacks),
                (None, Inferred::Object(_)) => self.object(member, &path, lacks),
                (None, Inferred::Nothing) => {
                    self.omitted.push(Omission { field: path, reason: "null in all rows".to_owned(), empty: true });
                    return None;
                }
            };
            Some((name.as_bytes().into(), place))
        });
        ValuePlace::Object(places.collect())
    }

    fn column(&mut self, path: String, kind: ColumnType, lacks: bool) -> ValuePlace {
        self.found.push((path, kind, lacks));
        ValuePlace::Column(self.found.len() - 1)
    }

    fn finish(self, mut places: ValuePlace, bytes: u64, starts: RowStarts) -> Result<TableScan> {
        let Self { settings, rows, found, omitted } = self;
        let names = || found.iter().map(|(name, ..)| name).chain(omitted.iter().map(|omission| &omission.field));
        // Other files may have it.
        let unknown = settings.types.keys().filter(|name| names().all(|known| known != *name));
        let reason = || "named by `schema`, and in no line".to_owned();
        let unknown = unknown.map(|name| Omission { field: name.clone(), reason: reason(), empty: true });
        let omitted = omitted.iter().cloned().chain(unknown.collect::<Vec<_>>()).collect();
        let mut order: Vec<usize> = (0..found.len()).collect();
        let name = |at: &usize| found.get(*at).map(|(name, ..)| (name != KEY, name));
        order.sort_by(|a, b| name(a).cmp(&name(b)));
        let mut fields = Vec::with_capacity(found.len());
        let mut moved = vec![0; found.len()];
        for (to, from) in order.iter().enumerate() {
            moved.iter_mut().skip(*from).take(1).for_each(|place| *place = to);
            let Some((name, kind, lacks)) = found.get(*from) else { continue };
            check(name, *kind, *lacks)?;
            let field = kind.field_type().field(name, *lacks);
            // Text that is JSON is not other text.
            fields.push(if *kind == ColumnType::Json { with_metadata(field, LOGICAL, "json") } else { field });
        }
        let twice = fields
            .windows(2)
            .find_map(|pair| pair.first().filter(|a| pair.last().is_some_and(|b| a.name() == b.name())));
        if let Some(twice) = twice {
            let (name, object) = (twice.name(), twice.name().rsplit_once('.').map_or("", |(object, _)| object));
            let message = format!("two fields are called {name}: one of them lies in the object {object}");
            return Err(Error::content(message).hint(format!("`schema={object}:json` keeps the object whole")));
        }
        places.renumber(&moved);
        let columns = order.iter().filter_map(|at| found.get(*at).map(|(_, kind, _)| *kind)).collect();
        Ok(TableScan { columns, schema: Arc::new(Schema::new(fields)), places, omitted, rows, bytes, starts })
    }
}

fn check(name: &str, kind: ColumnType, lacks: bool) -> Result<()> {
    if name.is_empty() {
        return Err(Error::content("has a field without a name").hint("give it one"));
    }
    let is_key = kind == (ColumnType::Plain { element: JsonScalar::Text, depth: 0 }) && !lacks;
    match name != KEY || is_key {
        true => Ok(()),
        false => {
            Err(Error::content(format!("the field {KEY} is not a string in each line"))
                .hint("rename it, or fill it in"))
        }
    }
}

impl ValuePlace {
    fn renumber(&mut self, moved: &[usize]) {
        match self {
            ValuePlace::Column(at) => *at = moved.get(*at).copied().unwrap_or(*at),
            ValuePlace::Object(places) => places.values_mut().for_each(|place| place.renumber(moved)),
        }
    }
}
