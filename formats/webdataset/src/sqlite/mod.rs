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

mod database;
mod page;
mod record;
mod tree;
mod value;

pub(crate) use database::{Database, Index, Table};
pub(crate) use value::Value;

#[cfg(test)]
mod tests;

/// The refusal of what was asked for.
fn invalid(message: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, message)
}
