//! Writes a SQLite 3 database file in one forward pass.
//!
//! This module owns the file format and nothing else: pages, records, table and index b-trees,
//! overflow chains, the schema table and the file header, as laid down in "SQLite database file
//! format" (<https://www.sqlite.org/fileformat2.html>; the sections are named beside the code).
//! The same calls always give the same bytes: nothing depends on a clock, a library or a machine.
//!
//! It refuses to know SQL. `CREATE` statements are stored word for word, so the caller answers for
//! their fitting the values given, and values are stored as given, so an `INTEGER` column must be
//! given integers (an `INTEGER PRIMARY KEY` column: [`Value::Null`], since the rowid stands for
//! it). It does not sort, read, update or journal; SQLite itself can do all that to the result.
//!
//! Pages go out as they fill, so memory holds one page for each level of each b-tree, however many
//! rows there are. Only page 1, which lists the roots, is written at the end: hence [`Seek`].

use std::io::{self, Seek, SeekFrom, Write};

/// Bytes in a page.
const PAGE: usize = 4096;
/// The page holding the byte at 1 GiB, on which SQLite takes locks (1.4 The Lock-Byte Page).
const LOCK_PAGE: u32 = 0x4000_0000 / 4096 + 1;
/// The most pages that a SQLite library opens without special settings.
const MOST_PAGES: u32 = 0x3fff_fffe;
/// The longest record that a SQLite library takes without special settings.
const LONGEST_RECORD: usize = 1_000_000_000;
/// Bytes of the file header, which opens page 1 (1.3 The Database Header).
const FILE_HEADER: usize = 100;
/// Bytes of the longer b-tree page header, that of interior pages.
const PAGE_HEADER: usize = 12;
/// The least of a spilled record that stays on its page (1.6 B-tree Pages: "M").
const LEAST_LOCAL: usize = (PAGE - 12) * 32 / 255 - 23;
/// The most of a table row that stays on its page (1.6: "X", table leaves).
const MOST_LOCAL_ROW: usize = PAGE - 35;
/// The most of an index entry that stays on its page (1.6: "X", index pages).
const MOST_LOCAL_ENTRY: usize = (PAGE - 12) * 64 / 255 - 23;
/// The type of a table leaf page.
const TABLE_LEAF: u8 = 0x0d;
/// The library version named in the header: any will do, so long as it never changes.
const LIBRARY_VERSION: u32 = 3_040_001;

/// One value of a row or of an index entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// SQL `NULL`, and the stored form of an `INTEGER PRIMARY KEY`.
    Null,
    /// A signed integer.
    Integer(i64),
    /// UTF-8 text.
    Text(&'a str),
}

impl Value<'_> {
    /// Appends bytes that compare as SQLite compares the values: nulls, then integers by size, then
    /// text by its bytes (the `BINARY` collation). No value's bytes begin another's.
    fn put_sort_key(self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(0),
            Value::Integer(number) => {
                out.push(1);
                out.extend_from_slice(&(number ^ i64::MIN).to_be_bytes());
            }
            Value::Text(text) => {
                out.push(2);
                if text.contains('\0') {
                    out.extend_from_slice(text.replace('\0', "\0\u{1}").as_bytes());
                } else {
                    out.extend_from_slice(text.as_bytes());
                }
                out.extend_from_slice(&[0, 0]);
            }
        }
    }
}

/// Names a table of one [`Database`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table(usize);

/// Names an index of one [`Database`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index(usize);

/// A database being written.
///
/// Tables and indexes may be filled in any order, and in turns; the schema lists them in the order
/// of their making. After an error the output is worth nothing and should be thrown away.
///
/// ```ignore
/// let mut db = Database::new(BufWriter::with_capacity(1 << 20, File::create(path)?))?;
/// let fruit = db.table("fruit", "CREATE TABLE fruit (name TEXT UNIQUE, weight INTEGER)");
/// let names = db.autoindex(fruit)?;
/// let rowid = db.row(fruit, &[Value::Text("fig"), Value::Integer(40)])?;
/// db.entry(names, &[Value::Text("fig")], rowid)?;
/// db.finish()?;
/// ```
#[derive(Debug)]
pub(crate) struct Database<W> {
    pages: Pages<W>,
    trees: Vec<Tree>,
}

impl<W: Write + Seek> Database<W> {
    /// Begins a database at the start of `out`, which must be empty, and had better be buffered.
    pub(crate) fn new(out: W) -> io::Result<Self> {
        let mut pages = Pages { out, last: 0 };
        pages.write(&[0; PAGE])?;
        Ok(Database { pages, trees: Vec::new() })
    }

    /// Adds a rowid table. `sql` is its whole `CREATE TABLE` statement.
    ///
    /// Each `UNIQUE` constraint in `sql` calls for an [`autoindex`](Self::autoindex), and
    /// `AUTOINCREMENT` for a table `sqlite_sequence`, filled like any other.
    pub(crate) fn table(&mut self, name: &str, sql: &str) -> Table {
        self.trees.push(Tree::table(name, sql));
        Table(self.trees.len() - 1)
    }

    /// Adds an index of `table`, not a unique one. `sql` is its whole `CREATE INDEX` statement.
    pub(crate) fn index(&mut self, name: &str, table: Table, sql: &str) -> io::Result<Index> {
        let owner = self.tree(table.0, false)?.0.name.clone();
        self.trees.push(Tree::index(name, &owner, Some(sql), table));
        Ok(Index(self.trees.len() - 1))
    }

    /// Adds the unique index behind the next constraint of `table` that needs one, in the order of
    /// its statement: each `UNIQUE`, each `PRIMARY KEY` but an `INTEGER` one (2.6.2 Internal Schema
    /// Objects).
    pub(crate) fn autoindex(&mut self, table: Table) -> io::Result<Index> {
        let owner = self.tree(table.0, false)?.0.name.clone();
        let number = self.trees.iter().filter(|tree| tree.sql.is_none() && tree.owner == owner).count() + 1;
        self.trees.push(Tree::index(&format!("sqlite_autoindex_{owner}_{number}"), &owner, None, table));
        Ok(Index(self.trees.len() - 1))
    }

    /// Appends a row and returns its rowid: 1, 2, 3 and so on.
    pub(crate) fn row(&mut self, table: Table, values: &[Value]) -> io::Result<i64> {
        let (tree, pages) = self.tree(table.0, false)?;
        let rowid = tree.count + 1;
        tree.add(values, rowid, pages)?;
        Ok(rowid)
    }

    /// Appends an index entry: the indexed values of the row `rowid`.
    ///
    /// Entries must come in the order of their values, then of their rowids; a unique index takes
    /// no values twice (but for those with a null). Anything else is an error. That the row has those
    /// values is for the caller to see to.
    pub(crate) fn entry(&mut self, index: Index, values: &[Value], rowid: i64) -> io::Result<()> {
        let (tree, pages) = self.tree(index.0, true)?;
        tree.check_order(values, rowid)?;
        tree.add(values, rowid, pages)
    }

    /// Writes what is still held, page 1 last, and flushes. Every index must by now have an entry
    /// for each row of its table.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.check_counts()?;
        let (mut schema, mut record) = (Page::new(), Record::default());
        for (row, tree) in (1..).zip(&mut self.trees) {
            let root = tree.close(&mut self.pages)?;
            record.set(&tree.schema_row(root));
            record.seal(Some(row));
            if !schema.fits(&record.cell, FILE_HEADER) {
                return Err(tree.refuse("its statement does not fit in page 1 beside the others"));
            }
            schema.push(&record.cell);
        }
        let first = schema.encode(&file_header(self.pages.last), TABLE_LEAF, None);
        let mut out = self.pages.out;
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&first)?;
        out.seek(SeekFrom::End(0))?;
        out.flush()?;
        Ok(out)
    }

    fn tree(&mut self, at: usize, index: bool) -> io::Result<(&mut Tree, &mut Pages<W>)> {
        let found = self.trees.get_mut(at).filter(|tree| tree.order.is_some() == index);
        let tree = found.ok_or_else(|| invalid("a table or index of another database".into()))?;
        Ok((tree, &mut self.pages))
    }

    fn check_counts(&self) -> io::Result<()> {
        let unlike = |tree: &&Tree| {
            let table = tree.order.as_ref().and_then(|order| self.trees.get(order.table));
            table.is_some_and(|table| table.count != tree.count)
        };
        match self.trees.iter().find(unlike) {
            Some(tree) => Err(tree.refuse("it has not as many entries as its table has rows")),
            None => Ok(()),
        }
    }
}

/// A table or index b-tree that grows at its right edge (1.6 B-tree Pages).
#[derive(Debug)]
struct Tree {
    name: String,
    owner: String,
    sql: Option<String>,
    count: i64,
    /// The unfinished page of each level, leaves first.
    levels: Vec<Page>,
    /// Only for an index.
    order: Option<Order>,
    record: Record,
}

/// The order kept by the entries of an index.
#[derive(Debug, Default)]
struct Order {
    table: usize,
    unique: bool,
    last: Vec<u8>,
    next: Vec<u8>,
}

impl Tree {
    fn table(name: &str, sql: &str) -> Self {
        let (name, owner, sql) = (name.to_owned(), name.to_owned(), Some(sql.to_owned()));
        Tree { name, owner, sql, count: 0, levels: vec![Page::new()], order: None, record: Record::default() }
    }

    fn index(name: &str, owner: &str, sql: Option<&str>, table: Table) -> Self {
        let order = Some(Order { table: table.0, unique: sql.is_none(), ..Order::default() });
        Tree { owner: owner.to_owned(), sql: sql.map(str::to_owned), order, ..Tree::table(name, "") }
    }

    fn refuse(&self, reason: &str) -> io::Error {
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

    fn check_order(&mut self, values: &[Value], rowid: i64) -> io::Result<()> {
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

    fn add<W: Write>(&mut self, values: &[Value], rowid: i64, pages: &mut Pages<W>) -> io::Result<()> {
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
    fn close<W: Write>(&mut self, pages: &mut Pages<W>) -> io::Result<u32> {
        let mut below = None;
        for page in std::mem::take(&mut self.levels) {
            let page_type = self.page_type(below.is_none());
            below = Some(pages.write(&page.encode(&[], page_type, below))?);
        }
        below.ok_or_else(|| self.refuse("it has no root"))
    }

    /// The row of the schema table (2.6 Storage Of The SQL Database Schema).
    fn schema_row(&self, root: u32) -> [Value<'_>; 5] {
        let kind = if self.order.is_some() { "index" } else { "table" };
        let sql = self.sql.as_deref().map_or(Value::Null, Value::Text);
        let (name, owner) = (Value::Text(&self.name), Value::Text(&self.owner));
        [Value::Text(kind), name, owner, Value::Integer(root.into()), sql]
    }
}

/// The cells of a b-tree page being filled.
#[derive(Debug)]
struct Page {
    cells: Vec<u8>,
    /// Where each cell begins in `cells`.
    starts: Vec<usize>,
}

impl Page {
    fn new() -> Self {
        Page { cells: Vec::with_capacity(PAGE), starts: Vec::with_capacity(PAGE / 16) }
    }

    fn fits(&self, cell: &[u8], before: usize) -> bool {
        let pointers = 2 * (self.starts.len() + 1);
        before + PAGE_HEADER + pointers + self.cells.len() + cell.len() <= PAGE
    }

    fn push(&mut self, cell: &[u8]) {
        self.starts.push(self.cells.len());
        self.cells.extend_from_slice(cell);
    }

    /// Appends a cell or, if there is no room, becomes a new page with that cell and returns the
    /// full one.
    fn push_or_replace(&mut self, cell: &[u8]) -> Option<Page> {
        let full = (!self.fits(cell, 0)).then(|| std::mem::replace(self, Page::new()));
        self.push(cell);
        full
    }

    /// Takes the last cell off.
    fn pop(&mut self) -> Vec<u8> {
        let start = self.starts.pop().unwrap_or(0);
        self.cells.split_off(start.min(self.cells.len()))
    }

    /// The page as stored: `before`, the header, the pointers to the cells, a gap, the cells.
    fn encode(&self, before: &[u8], page_type: u8, right: Option<u32>) -> Vec<u8> {
        let content = PAGE.saturating_sub(self.cells.len());
        let mut out = Vec::with_capacity(PAGE);
        out.extend_from_slice(before);
        out.extend_from_slice(&[page_type, 0, 0]);
        put_u16(&mut out, self.starts.len());
        put_u16(&mut out, content);
        out.push(0);
        out.extend(right.into_iter().flat_map(u32::to_be_bytes));
        self.starts.iter().for_each(|start| put_u16(&mut out, content + start));
        out.resize(content, 0);
        out.extend_from_slice(&self.cells);
        out
    }
}

/// Numbers pages as they are written; the first is 1.
#[derive(Debug)]
struct Pages<W> {
    out: W,
    last: u32,
}

impl<W: Write> Pages<W> {
    fn after(number: u32) -> u32 {
        if number + 1 == LOCK_PAGE { LOCK_PAGE + 1 } else { number + 1 }
    }

    fn write(&mut self, page: &[u8]) -> io::Result<u32> {
        let number = Self::after(self.last);
        if number > MOST_PAGES {
            return Err(invalid("SQLite: the database would be larger than 4 TiB".into()));
        }
        if number == LOCK_PAGE + 1 {
            self.out.write_all(&[0; PAGE])?;
        }
        self.out.write_all(page)?;
        self.last = number;
        Ok(number)
    }

    /// Moves the end of a cell's record, of `size` bytes, to overflow pages if it is longer than
    /// `most` (1.7 Cell Payload Overflow Pages).
    fn spill(&mut self, cell: &mut Vec<u8>, size: usize, most: usize) -> io::Result<()> {
        if size <= most {
            return Ok(());
        }
        let wanted = LEAST_LOCAL + (size - LEAST_LOCAL) % (PAGE - 4);
        let local = if wanted <= most { wanted } else { LEAST_LOCAL };
        let tail = cell.split_off(cell.len() - (size - local));
        cell.extend_from_slice(&Self::after(self.last).to_be_bytes());
        let mut pieces = tail.chunks(PAGE - 4).peekable();
        while let Some(piece) = pieces.next() {
            let own = Self::after(self.last);
            let next = if pieces.peek().is_some() { Self::after(own) } else { 0 };
            let mut page = [next.to_be_bytes().as_slice(), piece].concat();
            page.resize(PAGE, 0);
            self.write(&page)?;
        }
        Ok(())
    }
}

/// The first 100 bytes of the file (1.3 The Database Header).
fn file_header(pages: u32) -> Vec<u8> {
    let mut out = b"SQLite format 3\0".to_vec();
    put_u16(&mut out, PAGE);
    // Rollback journal, no reserved bytes, and three fractions that are always these.
    out.extend_from_slice(&[1, 1, 0, 64, 32, 32]);
    // Change counter, size, no free pages (2), schema cookie, schema format.
    let counters = [1, pages, 0, 0, 1, 4];
    // Cache size, largest root, UTF-8, user version, vacuum, application, unused (5).
    let settings = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    // The change counter for which the size is valid, and the library that wrote it.
    let validity = [1, LIBRARY_VERSION];
    out.extend(counters.into_iter().chain(settings).chain(validity).flat_map(u32::to_be_bytes));
    out
}

/// A record: the serial types and the bodies of its values (2.1 Record Format), and its b-tree cell.
#[derive(Debug, Default)]
struct Record {
    types: Vec<u8>,
    bodies: Vec<u8>,
    cell: Vec<u8>,
}

impl Record {
    fn set(&mut self, values: &[Value]) {
        self.types.clear();
        self.bodies.clear();
        values.iter().for_each(|value| self.push(*value));
    }

    fn push(&mut self, value: Value) {
        match value {
            Value::Null => self.types.push(0),
            Value::Integer(number) => {
                let (serial, size) = integer_type(number);
                self.types.push(serial);
                self.bodies.extend_from_slice(number.to_be_bytes().get(8 - size..).unwrap_or_default());
            }
            Value::Text(text) => {
                put_varint(&mut self.types, 13 + 2 * wide(text.len()));
                self.bodies.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Makes the cell: the record's size, the rowid if in a table, the record. Returns the size.
    fn seal(&mut self, rowid: Option<i64>) -> usize {
        let types = self.types.len();
        let header = (types + 1..).find(|all| types + varint_size(wide(*all)) == *all).unwrap_or(types);
        let size = header + self.bodies.len();
        self.cell.clear();
        put_varint(&mut self.cell, wide(size));
        rowid.into_iter().for_each(|rowid| put_varint(&mut self.cell, rowid.cast_unsigned()));
        put_varint(&mut self.cell, wide(header));
        self.cell.extend_from_slice(&self.types);
        self.cell.extend_from_slice(&self.bodies);
        size
    }
}

/// The serial type of an integer, and the bytes of its body.
fn integer_type(number: i64) -> (u8, usize) {
    match number {
        0 => (8, 0),
        1 => (9, 0),
        -0x80..=0x7f => (1, 1),
        -0x8000..=0x7fff => (2, 2),
        -0x80_0000..=0x7f_ffff => (3, 3),
        -0x8000_0000..=0x7fff_ffff => (4, 4),
        -0x8000_0000_0000..=0x7fff_ffff_ffff => (5, 6),
        _ => (6, 8),
    }
}

/// The bytes that a varint takes: seven bits in each, but eight in a ninth.
fn varint_size(value: u64) -> usize {
    (1..9).find(|size| value >> (7 * size) == 0).unwrap_or(9)
}

fn put_varint(out: &mut Vec<u8>, value: u64) {
    let size = varint_size(value);
    let (high, low) = if size == 9 { (value >> 8, low_byte(value)) } else { (value >> 7, low_byte(value) & 0x7f) };
    for group in (0..size - 1).rev() {
        out.push(low_byte(high >> (7 * group)) | 0x80);
    }
    out.push(low);
}

fn low_byte(value: u64) -> u8 {
    let [.., low] = value.to_be_bytes();
    low
}

/// Appends the low 16 bits: no place in a page needs more.
fn put_u16(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(&[low_byte(wide(value) >> 8), low_byte(wide(value))]);
}

/// A size as the format counts it. No platform has sizes beyond 64 bits.
fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    const ROWS: &str = "CREATE TABLE t (k TEXT UNIQUE, n INTEGER)";
    const BY_N: &str = "CREATE INDEX by_n ON t (n)";

    #[derive(Clone, Debug, PartialEq)]
    enum Cell {
        Null,
        Integer(i64),
        Text(String),
    }

    /// The FNV-1a sum of a database of 2000 rows: a change of it is a change of every index written.
    const GOLDEN: u64 = 0xaff9_19d1_d583_ff3c;

    /// Reads a database from the format's own description, sharing no code with the writer.
    struct Reader(Vec<u8>);

    impl Reader {
        fn page(&self, number: u32) -> &[u8] {
            &self.0[(number as usize - 1) * 4096..number as usize * 4096]
        }

        fn number(&self, at: usize, size: usize) -> u64 {
            self.0[at..at + size].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        }

        fn varint(bytes: &[u8], at: &mut usize) -> u64 {
            let mut value = 0;
            for turn in 0..9 {
                let byte = u64::from(bytes[*at]);
                *at += 1;
                if turn == 8 {
                    return value << 8 | byte;
                }
                value = value << 7 | byte & 0x7f;
                if byte < 0x80 {
                    break;
                }
            }
            value
        }

        /// The whole payload that starts at `at` of a page.
        fn payload(&self, page: &[u8], at: usize, size: usize, most: usize) -> Vec<u8> {
            let spilled = 489 + (size.max(489) - 489) % 4092;
            let local = if size <= most { size } else { [489, spilled][usize::from(spilled <= most)] };
            let mut out = page[at..at + local].to_vec();
            if size > local {
                let mut next = u32::from_be_bytes(page[at + local..at + local + 4].try_into().unwrap());
                while next != 0 {
                    let more = self.page(next);
                    out.extend(&more[4..4 + (size - out.len()).min(4092)]);
                    next = u32::from_be_bytes(more[..4].try_into().unwrap());
                }
            }
            assert_eq!(out.len(), size);
            out
        }

        fn record(bytes: &[u8]) -> Vec<Cell> {
            let mut at = 0;
            let header = usize::try_from(Self::varint(bytes, &mut at)).unwrap();
            let mut body = header;
            let mut out = Vec::new();
            while at < header {
                let serial = Self::varint(bytes, &mut at);
                let size = match serial {
                    0 | 8 | 9 => 0,
                    1..=4 => serial,
                    5 => 6,
                    6 => 8,
                    _ => (serial - 13) / 2,
                };
                let own = &bytes[body..body + usize::try_from(size).unwrap()];
                body += own.len();
                let sign = own.first().map_or(0, |first| i64::from(*first as i8) >> 7);
                out.push(match serial {
                    0 => Cell::Null,
                    8 | 9 => Cell::Integer(i64::from(serial == 9)),
                    1..=6 => Cell::Integer(own.iter().fold(sign, |sum, byte| sum << 8 | i64::from(*byte))),
                    _ => Cell::Text(String::from_utf8(own.to_vec()).unwrap()),
                });
            }
            assert_eq!(body, bytes.len());
            out
        }

        /// Every record below a page in order, with its rowid if in a table; checks what SQLite would.
        fn walk(&self, number: u32, depth: &mut Vec<u32>, out: &mut Vec<(i64, Vec<Cell>)>) {
            let page = self.page(number);
            let head = if number == 1 { 100 } else { 0 };
            let two = |at: usize| usize::from(u16::from_be_bytes([page[at], page[at + 1]]));
            let four = |at: usize| u32::from_be_bytes(page[at..at + 4].try_into().unwrap());
            let (kind, cells) = (page[head], two(head + 3));
            let leaf = kind == 0x0d || kind == 0x0a;
            assert!(leaf || cells > 0, "an interior page without cells");
            let pointers = head + if leaf { 8 } else { 12 };
            assert!(two(head + 5) >= pointers + 2 * cells, "cells over pointers");
            for cell in 0..cells {
                let mut at = two(pointers + 2 * cell);
                if !leaf {
                    self.walk(four(at), depth, out);
                    at += 4;
                }
                let first = Self::varint(page, &mut at);
                if kind == 0x05 {
                    assert_eq!(out.last().unwrap().0.unsigned_abs(), first, "a divider that is not the last rowid");
                    continue;
                }
                let rowid = if kind == 0x0d { Self::varint(page, &mut at) } else { 0 };
                let most = if kind == 0x0d { 4061 } else { 1002 };
                let payload = self.payload(page, at, usize::try_from(first).unwrap(), most);
                out.push((rowid.cast_signed(), Self::record(&payload)));
            }
            if leaf {
                depth.push(number);
            } else {
                self.walk(four(head + 8), depth, out);
            }
        }

        fn rows(&self, root: u32) -> Vec<(i64, Vec<Cell>)> {
            let mut out = Vec::new();
            self.walk(root, &mut Vec::new(), &mut out);
            out
        }

        /// Name, root and statement of each table and index.
        fn schema(&self) -> Vec<(String, u32, Cell)> {
            let parts = |(_, row): (i64, Vec<Cell>)| match row.as_slice() {
                [_, Cell::Text(name), _, Cell::Integer(root), sql] => {
                    (name.clone(), u32::try_from(*root).unwrap(), sql.clone())
                }
                other => panic!("{other:?}"),
            };
            self.rows(1).into_iter().map(parts).collect()
        }
    }

    fn text(value: &str) -> Cell {
        Cell::Text(value.to_owned())
    }

    fn new() -> Database<Cursor<Vec<u8>>> {
        Database::new(Cursor::new(Vec::new())).unwrap()
    }

    /// Keys of many lengths, in their order, each with a number.
    fn keys(count: usize, pad: usize) -> Vec<(String, i64)> {
        let key = |n: usize| (format!("{n:08}{}", "x".repeat(n * 7 % (pad + 1))), (n * 37 % 1000) as i64 - 300);
        (0..count).map(key).collect()
    }

    fn build(keys: &[(String, i64)]) -> Reader {
        let mut db = new();
        let table = db.table("t", ROWS);
        let unique = db.autoindex(table).unwrap();
        let by_n = db.index("by_n", table, BY_N).unwrap();
        for (key, n) in keys {
            let rowid = db.row(table, &[Value::Text(key), Value::Integer(*n)]).unwrap();
            db.entry(unique, &[Value::Text(key)], rowid).unwrap();
        }
        let mut order: Vec<_> = (1..).zip(keys).map(|(rowid, (_, n))| (*n, rowid)).collect();
        order.sort_unstable();
        for (n, rowid) in order {
            db.entry(by_n, &[Value::Integer(n)], rowid).unwrap();
        }
        Reader(db.finish().unwrap().into_inner())
    }

    fn check(keys: &[(String, i64)]) -> Reader {
        let file = build(keys);
        assert_eq!(file.0.len() % 4096, 0);
        assert_eq!(file.number(28, 4) as usize, file.0.len() / 4096);
        let schema = file.schema();
        let names: Vec<_> = schema.iter().map(|(name, _, sql)| (name.as_str(), sql.clone())).collect();
        assert_eq!(names, [("t", text(ROWS)), ("sqlite_autoindex_t_1", Cell::Null), ("by_n", text(BY_N))]);
        let rows = |at: usize| file.rows(schema[at].1);
        let numbered = || (1i64..).zip(keys);
        let want: Vec<_> = numbered().map(|(rowid, (key, n))| (rowid, vec![text(key), Cell::Integer(*n)])).collect();
        assert!(rows(0) == want);
        let want: Vec<_> = numbered().map(|(rowid, (key, _))| (0, vec![text(key), Cell::Integer(rowid)])).collect();
        assert!(rows(1) == want);
        let mut order: Vec<_> = numbered().map(|(rowid, (_, n))| (*n, rowid)).collect();
        order.sort_unstable();
        let want: Vec<_> = order.iter().map(|(n, rowid)| (0, vec![Cell::Integer(*n), Cell::Integer(*rowid)])).collect();
        assert!(rows(2) == want);
        file
    }

    #[test]
    fn all_that_was_put_in_is_read_back() {
        (0..400).for_each(|count| drop(check(&keys(count, 90))));
        for (count, pad) in [(1000, 0), (5000, 1500), (100_000, 60), (300_000, 0)] {
            check(&keys(count, pad));
        }
    }

    #[test]
    fn long_records_continue_on_overflow_pages() {
        for around in [489, 1002, 4061, 4092, 8184, 20_000] {
            for size in around - 12..around + 12 {
                let keys = ["a", "b", "c"].map(|letter| (letter.repeat(size), 5));
                check(&keys);
            }
        }
        check(&keys(30, 9000));
    }

    #[test]
    fn an_empty_database_is_these_bytes() {
        let file = new().finish().unwrap().into_inner();
        let start =
            b"SQLite format 3\0\x10\0\x01\x01\0\x40\x20\x20\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04";
        assert_eq!(file[..48], start[..]);
        assert_eq!(file[48..60], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(file[60..92], [0; 32]);
        assert_eq!(file[92..108], [0, 0, 0, 1, 0, 0x2e, 0x63, 0x01, 0x0d, 0, 0, 0, 0, 0x10, 0, 0]);
        assert_eq!(file[108..], [0; 4096 - 108]);
    }

    #[test]
    fn a_small_table_is_these_bytes() {
        let mut db = new();
        let table = db.table("t", "CREATE TABLE t (a, b, c)");
        db.row(table, &[Value::Integer(1), Value::Text("hi"), Value::Integer(-2)]).unwrap();
        db.row(table, &[Value::Null, Value::Integer(0), Value::Integer(300)]).unwrap();
        let file = db.finish().unwrap().into_inner();
        assert_eq!(file.len(), 8192);
        let cells = [7, 1, 4, 9, 17, 1, b'h', b'i', 0xfe, 6, 2, 4, 0, 8, 2, 1, 0x2c];
        assert_eq!(file[4096..4108], [0x0d, 0, 0, 0, 2, 0x0f, 0xef, 0, 0x0f, 0xef, 0x0f, 0xf8]);
        assert_eq!(file[8192 - cells.len()..], cells);
    }

    #[test]
    fn the_same_calls_give_the_same_bytes() {
        let keys = keys(2000, 80);
        assert!(build(&keys).0 == build(&keys).0);
        let sum = build(&keys)
            .0
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        assert_eq!(sum, GOLDEN, "{sum:#x}");
    }

    #[test]
    fn every_integer_width_is_read_back() {
        let edges = (0..64).flat_map(|bit| [-1, 0, 1].map(|step| (1_i64 << bit).wrapping_add(step)));
        let mut numbers: Vec<i64> = edges.flat_map(|edge| [edge, edge.wrapping_neg()]).collect();
        numbers.sort_unstable();
        let mut db = new();
        let table = db.table("t", "CREATE TABLE t (n INTEGER)");
        let index = db.index("i", table, "CREATE INDEX i ON t (n)").unwrap();
        for number in &numbers {
            let rowid = db.row(table, &[Value::Integer(*number)]).unwrap();
            db.entry(index, &[Value::Integer(*number)], rowid).unwrap();
        }
        let file = Reader(db.finish().unwrap().into_inner());
        let root = file.schema()[0].1;
        let read: Vec<_> = file.rows(root).into_iter().map(|(_, row)| row).collect();
        assert_eq!(read, numbers.into_iter().map(|number| vec![Cell::Integer(number)]).collect::<Vec<_>>());
    }

    #[test]
    fn varints_are_as_short_as_they_can_be() {
        for (value, size) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), ((1 << 56) - 1, 8), (1 << 56, 9)] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!((bytes.len(), varint_size(value)), (size, size));
            assert_eq!(Reader::varint(&bytes, &mut 0), value);
        }
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::MAX);
        assert_eq!(bytes, [0xff; 9]);
    }

    #[test]
    fn records_with_many_columns_have_long_headers() {
        for columns in [125, 126, 127, 128, 2000] {
            let values: Vec<_> = (0..columns).map(Value::Integer).collect();
            let mut record = Record::default();
            record.set(&values);
            let size = record.seal(None);
            let read = Reader::record(&record.cell[record.cell.len() - size..]);
            assert_eq!(read, (0..columns).map(Cell::Integer).collect::<Vec<_>>());
        }
    }

    #[test]
    fn index_entries_out_of_order_or_twice_are_refused() {
        let entries = [
            (Value::Null, 2),
            (Value::Integer(i64::MIN), 1),
            (Value::Integer(-1), 1),
            (Value::Integer(0), 1),
            (Value::Integer(256), 1),
            (Value::Text(""), 1),
            (Value::Text("\0"), 1),
            (Value::Text("\u{1}"), 1),
            (Value::Text("a"), 1),
            (Value::Text("a\0"), 1),
            (Value::Text("a\0b"), 1),
            (Value::Text("aa"), 1),
            (Value::Text("é"), 1),
        ];
        let put = |first: (Value, i64), second: (Value, i64), unique: bool| {
            let mut db = new();
            let table = db.table("t", ROWS);
            let index = if unique { db.autoindex(table) } else { db.index("i", table, BY_N) }.unwrap();
            db.entry(index, &[first.0], first.1).unwrap();
            db.entry(index, &[second.0], second.1).is_ok()
        };
        for (at, first) in entries.iter().enumerate() {
            for (next, second) in entries.iter().enumerate() {
                assert_eq!(put(*first, *second, false), at < next, "{first:?} {second:?}");
            }
            let later = (first.0, 3);
            assert!(put(*first, later, false));
            assert_eq!(put(*first, later, true), first.0 == Value::Null);
        }
    }

    #[test]
    fn an_index_must_have_an_entry_for_each_row() {
        let mut db = new();
        let table = db.table("t", ROWS);
        db.autoindex(table).unwrap();
        db.row(table, &[Value::Text("a"), Value::Null]).unwrap();
        let error = db.finish().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("sqlite_autoindex_t_1"), "{error}");
    }

    #[test]
    fn what_cannot_be_stored_is_refused() {
        let mut db = new();
        let table = db.table("t", &format!("CREATE TABLE t (a) -- {}", "x".repeat(4000)));
        assert!(db.row(table, &[]).is_err());
        assert!(db.row(Table(1), &[Value::Null]).is_err());
        assert!(db.entry(Index(0), &[Value::Null], 1).is_err());
        assert!(db.finish().is_err());
    }

    #[test]
    fn the_page_of_locks_is_left_empty() {
        let mut pages = Pages { out: Vec::new(), last: LOCK_PAGE - 2 };
        let mut cell = vec![7; 9500];
        pages.spill(&mut cell, 9500, MOST_LOCAL_ROW).unwrap();
        assert_eq!(pages.write(&[9; PAGE]).unwrap(), LOCK_PAGE + 2);
        let ends: Vec<_> = pages.out.chunks(PAGE).map(|page| page[PAGE - 1]).collect();
        assert_eq!(ends, [7, 0, 7, 9]);
        assert_eq!(&pages.out[..4], &(LOCK_PAGE + 1).to_be_bytes());
    }

    #[test]
    fn a_file_too_large_is_refused() {
        let mut pages = Pages { out: io::sink(), last: MOST_PAGES - 1 };
        assert!(pages.write(&[0; PAGE]).is_ok());
        assert!(pages.write(&[0; PAGE]).is_err());
    }
}
