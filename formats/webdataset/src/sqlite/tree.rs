//! B-trees that grow at their right edge.

use super::page::{MOST_LOCAL_ENTRY, MOST_LOCAL_ROW, Page, Pages, TABLE_LEAF};
use super::record::{Record, put_varint};
use super::{Table, Value, invalid};
use std::io::{self, Write};

/// The longest record that a SQLite library takes without special settings.
const LONGEST_RECORD: usize = 1_000_000_000;

/// A table or index b-tree that grows at its right edge (1.6 B-tree Pages).
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) sql: Option<String>,
    pub(super) count: i64,
    /// The unfinished page of each level, leaves first.
    levels: Vec<Page>,
    /// Only for an index.
    pub(super) order: Option<Order>,
    record: Record,
}

/// The order kept by the entries of an index.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub(super) table: usize,
    unique: bool,
    last: Vec<u8>,
    next: Vec<u8>,
}

impl Tree {
    pub(super) fn table(name: &str, sql: &str) -> Self {
        let (name, owner, sql) = (name.to_owned(), name.to_owned(), Some(sql.to_owned()));
        Tree { name, owner, sql, count: 0, levels: vec![Page::new()], order: None, record: Record::default() }
    }

    pub(super) fn index(name: &str, owner: &str, sql: Option<&str>, table: Table) -> Self {
        let order = Some(Order { table: table.0, unique: sql.is_none(), ..Order::default() });
        Tree { owner: owner.to_owned(), sql: sql.map(str::to_owned), order, ..Tree::table(name, "") }
    }

    pub(super) fn refuse(&self, reason: &str) -> io::Error {
        invalid(format!("SQLite {}, after {} entries: {reason}", self.name, self.count))
    }

    /// The first byte of a page (1.6).
    fn page_type(&self, leaf: bool) -> u8 {
        match (self.order.is_some(), leaf) {
            (false, true) => TABLE_LEAF,
            (false, false) => 0x05,
            (true, true) => 0x0a,
            (true, false) => 0x02,
        }
    }

    pub(super) fn check_order(&mut self, values: &[Value], rowid: i64) -> io::Result<()> {
        let Some(order) = &mut self.order else { return Ok(()) };
        order.next.clear();
        values.iter().for_each(|value| value.put_sort_key(&mut order.next));
        let key = order.next.len();
        Value::Integer(rowid).put_sort_key(&mut order.next);
        let repeated = order.last.get(..key) == order.next.get(..key);
        if repeated && order.unique && !values.contains(&Value::Null) {
            return Err(self.refuse("the next one has the values of the last"));
        }
        if order.next <= order.last {
            return Err(self.refuse("the next one belongs before the last"));
        }
        std::mem::swap(&mut order.last, &mut order.next);
        Ok(())
    }

    pub(super) fn add<W: Write>(&mut self, values: &[Value], rowid: i64, pages: &mut Pages<W>) -> io::Result<()> {
        if values.is_empty() {
            return Err(self.refuse("the next one has no values"));
        }
        let mut record = std::mem::take(&mut self.record);
        record.set(values);
        let (own_rowid, most) = if self.order.is_some() {
            record.push(Value::Integer(rowid));
            (None, MOST_LOCAL_ENTRY)
        } else {
            (Some(rowid), MOST_LOCAL_ROW)
        };
        let size = record.seal(own_rowid);
        if size > LONGEST_RECORD {
            return Err(self.refuse("the next one is longer than 1,000,000,000 bytes"));
        }
        pages.spill(&mut record.cell, size, most)?;
        self.push(&record.cell, pages)?;
        self.record = record;
        Ok(())
    }

    /// Appends a leaf cell. A page with no room left is written, and a cell naming it goes into the
    /// level above, where the same may happen.
    fn push<W: Write>(&mut self, cell: &[u8], pages: &mut Pages<W>) -> io::Result<()> {
        let mut overfull = self.levels.first_mut().and_then(|leaf| leaf.push_or_replace(cell));
        let mut level = 0;
        while let Some(page) = overfull {
            let above = self.write_full(page, level == 0, pages)?;
            level += 1;
            if level == self.levels.len() {
                self.levels.push(Page::new());
            }
            overfull = self.levels.get_mut(level).and_then(|parent| parent.push_or_replace(&above));
        }
        self.count += 1;
        Ok(())
    }

    /// Writes a full page and returns the cell that goes above it: its number, then what divides it
    /// from its right neighbour. A table leaf is divided off by its last rowid. Any other page gives
    /// up its last cell: the entry there is the divider, and the child there its right-most one.
    fn write_full<W: Write>(&self, mut page: Page, leaf: bool, pages: &mut Pages<W>) -> io::Result<Vec<u8>> {
        let mut right = None;
        let mut divider = Vec::new();
        if leaf && self.order.is_none() {
            put_varint(&mut divider, self.count.unsigned_abs());
        } else {
            divider = page.pop();
        }
        if !leaf && let Some((child, rest)) = divider.split_first_chunk() {
            right = Some(u32::from_be_bytes(*child));
            divider = rest.to_vec();
        }
        let number = pages.write(&page.encode(&[], self.page_type(leaf), right))?;
        Ok([number.to_be_bytes().as_slice(), &divider].concat())
    }

    /// Writes the right edge, leaves first, and returns the number of the root.
    pub(super) fn close<W: Write>(&mut self, pages: &mut Pages<W>) -> io::Result<u32> {
        let mut below = None;
        for page in std::mem::take(&mut self.levels) {
            let page_type = self.page_type(below.is_none());
            below = Some(pages.write(&page.encode(&[], page_type, below))?);
        }
        below.ok_or_else(|| self.refuse("it has no root"))
    }

    /// The row of the schema table (2.6 Storage Of The SQL Database Schema).
    pub(super) fn schema_row(&self, root: u32) -> [Value<'_>; 5] {
        let kind = if self.order.is_some() { "index" } else { "table" };
        let sql = self.sql.as_deref().map_or(Value::Null, Value::Text);
        let (name, owner) = (Value::Text(&self.name), Value::Text(&self.owner));
        [Value::Text(kind), name, owner, Value::Integer(root.into()), sql]
    }
}
