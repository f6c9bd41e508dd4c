//! Which row of a table is that of a sample.
//!
//! It is the row of the sample's key, as the dataset stores it or before it was escaped (`my photo` for `my%20photo`); else the row that names a file of the sample (`1.jpg` for `1`), unless that is the key of another sample;
//! else the same of the last part of the key.

use crate::KeyEnds;
use crate::metadata::{Metadata, key_of_file};
use packhorse_core::{Code, Error, Result, unescape};
use std::collections::HashMap;

/// The rows of samples, in their order.
pub(crate) struct JoinKeys {
    /// The rows that name files, by the key of the file's sample where keys end at the first dot.
    first: HashMap<String, u32>,
    /// The same where they end at the last one, of names with several dots.
    last: HashMap<String, u32>,
    /// What the two say, by position.
    named: Vec<Named>,
    /// Whether a sample has a dot in its key, so that keys end at the last one.
    keys_have_dots: bool,
    /// Whether a sample has the key of the row.
    exact: Vec<bool>,
    rows: Vec<Row>,
}

/// The rows that name files of a sample.
#[derive(Clone, Copy, Default)]
struct Named {
    /// The last such row whose name has one dot, and how many there are.
    plain: (u32, u32),
    /// The same of names with several dots.
    dotted: (u32, u32),
}

impl Named {
    fn add(&mut self, row: u32, dotted: bool) {
        let of = if dotted { &mut self.dotted } else { &mut self.plain };
        *of = (row, of.1 + 1);
    }

    /// The row; `Err` if there are several. Names with several dots are of another sample if keys have dots.
    fn row(self, keys_have_dots: bool) -> Result<Option<u32>, ()> {
        match (self.plain, self.dotted) {
            ((row, 1), (_, 0)) => Ok(Some(row)),
            ((row, 1), _) if keys_have_dots => Ok(Some(row)),
            ((_, 0), (row, 1)) => Ok(Some(row).filter(|_| !keys_have_dots)),
            ((_, 0), _) if keys_have_dots => Ok(None),
            _ => Err(()),
        }
    }
}

/// The row of a sample.
#[derive(Clone, Copy)]
enum Row {
    None,
    /// Of its key.
    Exact(u32),
    /// Of a name of its file: a position in [`JoinKeys::named`].
    File(u32),
}

impl JoinKeys {
    /// Of the rows of a table whose keys are as they stand there.
    pub(crate) fn new(table: &Metadata) -> Self {
        let (mut first, mut last, mut named) = (HashMap::new(), HashMap::new(), Vec::<Named>::new());
        let mut add = |of: &mut HashMap<String, u32>, sample: String, row: u32, dotted: bool| {
            let at = *of.entry(sample).or_insert(named.len() as u32) as usize;
            if at == named.len() {
                named.push(Named::default());
            }
            if let Some(named) = named.get_mut(at) {
                named.add(row, dotted);
            }
        };
        for (row, key) in (0..).zip(table.keys()) {
            let [by_first, by_last] = [KeyEnds::FirstDot, KeyEnds::LastDot].map(|ends| key_of_file(key, &ends));
            let dotted = by_first != by_last;
            if let Some(sample) = by_first.filter(|sample| sample != key) {
                add(&mut first, sample, row, dotted);
            }
            if let Some(sample) = by_last.filter(|sample| dotted && sample != key) {
                add(&mut last, sample, row, false);
            }
        }
        let exact = vec![false; table.len() as usize];
        Self { first, last, named, keys_have_dots: false, exact, rows: Vec::new() }
    }

    /// Adds the next sample. Returns whether a row may be its own.
    pub(crate) fn push(&mut self, table: &Metadata, key: &str) -> bool {
        let base = key.rsplit('/').next().unwrap_or_default();
        self.keys_have_dots |= base.contains("%2E");
        let mut found = self.row(table, key);
        if matches!(found, Row::None) && base != key {
            found = self.row(table, base);
        }
        if let Row::Exact(row) = found
            && let Some(exact) = self.exact.get_mut(row as usize)
        {
            *exact = true;
        }
        self.rows.push(found);
        !matches!(self.rows.last(), Some(Row::None))
    }

    fn row(&self, table: &Metadata, key: &str) -> Row {
        if let Some(row) = table.find(key).or_else(|| table.find(&unescape(key))) {
            return Row::Exact(row);
        }
        self.first.get(key).or_else(|| self.last.get(key)).map_or(Row::None, |at| Row::File(*at))
    }

    /// The row of each sample.
    ///
    /// Errors: several rows name files of a sample.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Result<Option<u32>>> {
        self.rows.iter().map(|row| match row {
            Row::Exact(row) => Ok(Some(*row)),
            Row::File(at) => {
                match self.named.get(*at as usize).map_or(Ok(None), |named| named.row(self.keys_have_dots)) {
                    Ok(row) => Ok(row.filter(|row| self.exact.get(*row as usize) == Some(&false))),
                    Err(()) => {
                        let key =
                            self.first.iter().chain(&self.last).find(|(_, of)| *of == at).map_or("", |(key, _)| key);
                        let message = format!("several rows of the table name files of the sample {key}");
                        Err(Error::config(message).with_code(Code::KeyTwice).hint("leave one row for each sample"))
                    }
                }
            }
            Row::None => Ok(None),
        })
    }
}
