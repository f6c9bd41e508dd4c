//! The database file: tables and indexes, the schema, the file header.

use super::btree::BTree;
use super::page::{BTreePage, FILE_HEADER, PAGE, Pages, TABLE_LEAF, put_u16};
use super::record::RowRecord;
use super::{SqlValue, invalid};
use std::io::{self, Write};

/// The library version in the header: any constant is valid.
const LIBRARY_VERSION: u32 = 3_040_001;

/// A handle to a table of a [`Database`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableHandle(pub(super) usize);

/// A handle to an index of a [`Database`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexHandle(pub(super) usize);

/// A database being written.
///
/// Tables and indexes may be filled in any order, also interleaved; the schema lists them in the order of their
/// creation. After an error the output is invalid.
///
/// ```text
/// let mut db = Database::new(BufWriter::with_capacity(1 << 20, out.patchable("fruit.sqlite")?))?;
/// let fruit = db.table("fruit", "CREATE TABLE fruit (name TEXT UNIQUE, weight INTEGER)");
/// let names = db.autoindex(fruit)?;
/// let rowid = db.row(fruit, &[Value::Text("fig"), Value::Integer(40)])?;
/// db.entry(names, &[Value::Text("fig")], rowid)?;
/// let (out, first) = db.finish()?;
/// ```
#[derive(Debug)]
pub(crate) struct Database<W> {
    pages: Pages<W>,
    trees: Vec<BTree>,
}

impl<W: Write> Database<W> {
    /// Starts a database in `out`, which must be empty and should be buffered.
    pub(crate) fn new(out: W) -> io::Result<Self> {
        let mut pages = Pages { out, last: 0 };
        pages.write(&[0; PAGE])?;
        Ok(Database { pages, trees: Vec::new() })
    }

    /// Adds a rowid table. `sql` is its complete `CREATE TABLE` statement.
    ///
    /// Each `UNIQUE` constraint in `sql` needs an [`autoindex`](Self::autoindex); `AUTOINCREMENT` needs a table
    /// `sqlite_sequence`, filled like any other.
    pub(crate) fn table(&mut self, name: &str, sql: &str) -> TableHandle {
        self.trees.push(BTree::table(name, sql));
        TableHandle(self.trees.len() - 1)
    }

    /// Adds a non-unique index of `table`. `sql` is its complete `CREATE INDEX` statement.
    pub(crate) fn index(&mut self, name: &str, table: TableHandle, sql: &str) -> io::Result<IndexHandle> {
        let owner = self.tree(table.0, false)?.0.name.clone();
        self.trees.push(BTree::index(name, &owner, Some(sql), table));
        Ok(IndexHandle(self.trees.len() - 1))
    }

    /// Adds the unique index of the next constraint of `table` that needs one, in the order of its statement: each
    /// `UNIQUE`, and each `PRIMARY KEY` that is not `INTEGER` (2.6.2 Internal Schema Objects).
    pub(crate) fn autoindex(&mut self, table: TableHandle) -> io::Result<IndexHandle> {
        let owner = self.tree(table.0, false)?.0.name.clone();
        let number = self.trees.iter().filter(|tree| tree.sql.is_none() && tree.owner == owner).count() + 1;
        self.trees.push(BTree::index(&format!("sqlite_autoindex_{owner}_{number}"), &owner, None, table));
        Ok(IndexHandle(self.trees.len() - 1))
    }

    /// Appends a row and returns its rowid: 1, 2, 3 and so on.
    pub(crate) fn row(&mut self, table: TableHandle, values: &[SqlValue]) -> io::Result<i64> {
        let (tree, pages) = self.tree(table.0, false)?;
        let rowid = tree.count + 1;
        tree.add(values, rowid, pages)?;
        Ok(rowid)
    }

    /// Appends an index entry: the indexed values of the row `rowid`.
    ///
    /// Entries must be sorted by values, then by rowid; a unique index refuses equal values unless one is null. The
    /// caller must pass the values of the row.
    pub(crate) fn entry(&mut self, index: IndexHandle, values: &[SqlValue], rowid: i64) -> io::Result<()> {
        let (tree, pages) = self.tree(index.0, true)?;
        tree.check_order(values, rowid)?;
        tree.add(values, rowid, pages)
    }

    /// Writes the remaining pages and flushes. Returns the output, and page 1, which must replace the zeros at its start. Fails unless
    /// every index has an entry for each row of its table.
    pub(crate) fn finish(mut self) -> io::Result<(W, Vec<u8>)> {
        self.check_counts()?;
        let (mut schema, mut record) = (BTreePage::new(), RowRecord::default());
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
        self.pages.out.flush()?;
        Ok((self.pages.out, first))
    }

    fn tree(&mut self, at: usize, index: bool) -> io::Result<(&mut BTree, &mut Pages<W>)> {
        let found = self.trees.get_mut(at).filter(|tree| tree.order.is_some() == index);
        let tree = found.ok_or_else(|| invalid("a table or index of another database".into()))?;
        Ok((tree, &mut self.pages))
    }

    fn check_counts(&self) -> io::Result<()> {
        let unlike = |tree: &&BTree| {
            let table = tree.order.as_ref().and_then(|order| self.trees.get(order.table));
            table.is_some_and(|table| table.count != tree.count)
        };
        match self.trees.iter().find(unlike) {
            Some(tree) => Err(tree.refuse("it must have an entry for each row of its table")),
            None => Ok(()),
        }
    }
}

/// The first 100 bytes of the file (1.3 The Database Header).
fn file_header(pages: u32) -> Vec<u8> {
    let mut out = b"SQLite format 3\0".to_vec();
    put_u16(&mut out, PAGE);
    // Rollback journal, no reserved bytes, and the three fixed payload fractions.
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
