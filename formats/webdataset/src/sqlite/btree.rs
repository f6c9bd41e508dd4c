//! B-trees that are filled in order, at their right edge.

use super::page::{BTreePage, MOST_LOCAL_ENTRY, MOST_LOCAL_ROW, Pages, TABLE_LEAF};
use super::record::{RowRecord, put_varint};
use super::{SqlValue, TableHandle, invalid};
use std::io::{self, Write};

/// The longest record that a SQLite library reads without special settings.
const LONGEST_RECORD: usize = 1_000_000_000;

/// A table or index b-tree that is filled in order (1.6 B-tree Pages).
#[derive(Debug)]
pub(super) struct BTree {
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) sql: Option<String>,
    pub(super) count: i64,
    /// The unfinished page of each level, leaves first.
    levels: Vec<BTreePage>,
    /// Set for an index.
    pub(super) order: Option<IndexOrder>,
    record: RowRecord,
}

/// Checks the order of the entries of an index.
#[derive(Debug, Default)]
pub(super) struct IndexOrder {
    pub(super) table: usize,
    unique: bool,
    last: Vec<u8>,
    next: Vec<u8>,
}

impl BTree {
    pub(super) fn table(name: &str, sql: &str) -> Self {
        let (name, owner, sql) = (name.to_owned(), name.to_owned(), Some(sql.to_owned()));
        BTree { name, owner, sql, count: 0, levels: vec![BTreePage::new()], order: None, record: RowRecord::default() }
    }

    pub(super) fn index(name: &str, owner: &str, sql: Option<&str>, table: TableHandle) -> Self {
        let order = Some(IndexOrder { table: table.0, unique: sql.is_none(), ..IndexOrder::default() });
        BTree { owner: owner.to_owned(), sql: sql.map(str::to_owned), order, ..BTree::table(name, "") }
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

    pub(super) fn check_order(&mut self, values: &[SqlValue], rowid: i64) -> io::Result<()> {
        let Some(order) = &mut self.order else { return Ok(()) };
        order.next.clear();
        values.iter().for_each(|value| value.put_sort_key(&mut order.next));
        let key = order.next.len();
        SqlValue::Integer(rowid).put_sort_key(&mut order.next);
        let repeated = order.last.get(..key) == order.next.get(..key);
        if repeated && order.unique && !values.contains(&SqlValue::Null) {
            return Err(self.refuse("the next one has the values of the last"));
        }
        if order.next <= order.last {
            return Err(self.refuse("the next one belongs before the last"));
        }
        std::mem::swap(&mut order.last, &mut order.next);
        Ok(())
    }

    pub(super) fn add<W: Write>(&mut self, values: &[SqlValue], rowid: i64, pages: &mut Pages<W>) -> io::Result<()> {
        if values.is_empty() {
            return Err(self.refuse("the next one has no values"));
        }
        let mut record = std::mem::take(&mut self.record);
        record.set(values);
        let (own_rowid, most) = if self.order.is_some() {
            record.push(SqlValue::Integer(rowid));
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

    /// Appends a leaf cell. A full page is written, and a cell that points to it is added to the level above,
    /// recursively.
    fn push<W: Write>(&mut self, cell: &[u8], pages: &mut Pages<W>) -> io::Result<()> {
        let mut overfull = self.levels.first_mut().and_then(|leaf| leaf.push_or_replace(cell));
        let mut level = 0;
        while let Some(page) = overfull {
            let above = self.write_full(page, level == 0, pages)?;
            level += 1;
            if level == self.levels.len() {
                self.levels.push(BTreePage::new());
            }
            overfull = self.levels.get_mut(level).and_then(|parent| parent.push_or_replace(&above));
        }
        self.count += 1;
        Ok(())
    }

    /// Writes a full page and returns the cell for the level above: its number, then the divider from its right
    /// neighbour. The divider of a table leaf is its last rowid. Any other page gives up its last cell: its entry is
    /// the divider, and its child becomes the right-most child.
    fn write_full<W: Write>(&self, mut page: BTreePage, leaf: bool, pages: &mut Pages<W>) -> io::Result<Vec<u8>> {
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

    /// Writes the pages of the right edge, leaves first; returns the number of the root.
    pub(super) fn close<W: Write>(&mut self, pages: &mut Pages<W>) -> io::Result<u32> {
        let mut below = None;
        for page in std::mem::take(&mut self.levels) {
            let page_type = self.page_type(below.is_none());
            below = Some(pages.write(&page.encode(&[], page_type, below))?);
        }
        below.ok_or_else(|| self.refuse("it has no root"))
    }

    /// The row of the schema table (2.6 Storage Of The SQL Database Schema).
    pub(super) fn schema_row(&self, root: u32) -> [SqlValue<'_>; 5] {
        let kind = if self.order.is_some() { "index" } else { "table" };
        let sql = self.sql.as_deref().map_or(SqlValue::Null, SqlValue::Text);
        let (name, owner) = (SqlValue::Text(&self.name), SqlValue::Text(&self.owner));
        [SqlValue::Text(kind), name, owner, SqlValue::Integer(root.into()), sql]
    }
}
