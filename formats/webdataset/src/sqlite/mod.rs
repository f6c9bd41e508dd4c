//! Writes a SQLite 3 database file in one forward pass.
//!
//! This module owns only the file format: pages, records, table and index b-trees, overflow chains, the schema table
//! and the file header, as specified in "SQLite database file format" (<https://www.sqlite.org/fileformat2.html>;
//! comments name its sections). The same calls always give the same bytes: nothing depends on a clock, a library or a
//! machine.
//!
//! It does not know SQL. `CREATE` statements are stored verbatim, and the caller must pass values that match them: an
//! `INTEGER` column needs integers (an `INTEGER PRIMARY KEY` column [`SqlValue::Null`], since the rowid replaces it).
//! It does not sort, read, update or journal; SQLite can do all that with the result.
//!
//! A page is written when it is full, so memory holds one page for each level of each b-tree, independent of the number
//! of rows. Only page 1, which lists the roots, is written last, which needs [`Seek`](std::io::Seek).

mod btree;
mod database;
mod page;
mod record;
mod value;

pub(crate) use database::{Database, IndexHandle, TableHandle};
pub(crate) use value::SqlValue;

#[cfg(test)]
mod tests;

/// An `InvalidInput` error.
fn invalid(message: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, message)
}
