//! Which row of a table is that of a sample.
//!
//! It is the row of the sample's key, as the dataset stores it or before it was escaped (`my photo` for `my%20photo`); else the row that names a file of the sample (`1.jpg` for `1`), unless that is the key of another sample;
//! else the same of the last part of the key.

use crate::metadata::{Metadata, key_of_file};
use packhorse_core::{Code, Error, Result, unescape};
use std::collections::HashMap;

/// The rows of samples, in their order.
pub(crate) struct JoinKeys {
    /// The rows that name files, by the key of the file's sample; [`SEVERAL`] where several do.
    files: HashMap<String, u32>,
    /// Whether a sample has the key of the row.
    exact: Vec<bool>,
    rows: Vec<Row>,
}

/// The row of a sample.
#[derive(Clone, Copy)]
enum Row {
    None,
    /// Of its key.
    Exact(u32),
    /// Of a name of its file.
    File(u32),
}

/// In the place of a row: several name files of one sample.
const SEVERAL: u32 = u32::MAX;

impl JoinKeys {
    /// Of the rows of a table whose keys are as they stand there.
    pub(crate) fn new(table: &Metadata) -> Self {
        let mut files = HashMap::new();
        for (row, key) in (0..).zip(table.keys()) {
            if let Some(sample) = key_of_file(key).filter(|sample| sample != key) {
                files.entry(sample).and_modify(|row| *row = SEVERAL).or_insert(row);
            }
        }
        Self { files, exact: vec![false; table.len() as usize], rows: Vec::new() }
    }

    /// The row of the next sample, as far as is known before the others.
    ///
    /// Errors: several rows name files of the sample.
    pub(crate) fn push(&mut self, table: &Metadata, key: &str) -> Result<Option<u32>> {
        let base = key.rsplit('/').next().unwrap_or_default();
        let mut found = self.row(table, key)?;
        if matches!(found, Row::None) && base != key {
            found = self.row(table, base)?;
        }
        if let Row::Exact(row) = found
            && let Some(exact) = self.exact.get_mut(row as usize)
        {
            *exact = true;
        }
        self.rows.push(found);
        Ok(match found {
            Row::Exact(row) | Row::File(row) => Some(row),
            Row::None => None,
        })
    }

    fn row(&self, table: &Metadata, key: &str) -> Result<Row> {
        if let Some(row) = table.find(key).or_else(|| table.find(&unescape(key))) {
            return Ok(Row::Exact(row));
        }
        match self.files.get(key) {
            Some(&SEVERAL) => {
                let message = format!("several rows of the table name files of the sample {key}");
                Err(Error::config(message).with_code(Code::KeyTwice).hint("leave one row for each sample"))
            }
            Some(row) => Ok(Row::File(*row)),
            None => Ok(Row::None),
        }
    }

    /// The row of each sample.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Option<u32>> {
        self.rows.iter().map(|row| match row {
            Row::Exact(row) => Some(*row),
            Row::File(row) => Some(*row).filter(|row| self.exact.get(*row as usize) == Some(&false)),
            Row::None => None,
        })
    }
}
