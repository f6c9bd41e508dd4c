//! Which row of a table is that of a sample.
//!
//! It is the row of the sample's key, as the dataset stores it or before it was escaped (`my photo` for `my%20photo`); else the row that names a file of the sample (`1.jpg` for `1`), unless that is the key of another sample;
//! else the same of the last part of the key, unless it is that of a whole key, or other samples end with it too.

use crate::KeyEnds;
use crate::duplicate_keys::hash;
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
    /// The samples whose keys end with the key of the row.
    ends: Vec<Ends>,
    /// The row of each sample, and whether it is that of the last part of the key.
    rows: Vec<(Row, bool)>,
}

/// The keys of samples that have one last part.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Ends {
    #[default]
    None,
    /// All are this one, by its hash.
    One(u64),
    Several,
}

impl Ends {
    fn add(&mut self, key: u64) {
        *self = match *self {
            Ends::None => Ends::One(key),
            Ends::One(known) if known == key => Ends::One(key),
            _ => Ends::Several,
        };
    }
}

/// The rows that name files of a sample.
#[derive(Clone, Copy, Default)]
struct Named {
    /// The last such row whose name has one dot, and how many there are.
    plain: (u32, u32),
    /// The same of names with several dots.
    dotted: (u32, u32),
    /// The samples whose keys end with that of the sample.
    ends: Ends,
    /// Whether a sample has that key.
    exact: bool,
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
        let (exact, ends) = (vec![false; table.len() as usize], vec![Ends::None; table.len() as usize]);
        Self { first, last, named, keys_have_dots: false, exact, ends, rows: Vec::new() }
    }

    /// Adds the next sample. Returns whether a row may be its own.
    pub(crate) fn push(&mut self, table: &Metadata, key: &str) -> bool {
        let base = last_part(key);
        self.keys_have_dots |= base.contains("%2E");
        let of_base = self.row(table, base);
        let ends = match of_base {
            Row::None => None,
            Row::Exact(row) => self.ends.get_mut(row as usize),
            Row::File(at) => self.named.get_mut(at as usize).map(|named| &mut named.ends),
        };
        if let Some(ends) = ends {
            ends.add(hash(key));
        }
        let whole = if base == key { of_base } else { self.row(table, key) };
        let (found, by_end) = if matches!(whole, Row::None) { (of_base, true) } else { (whole, false) };
        let exact = match found {
            Row::Exact(row) if !by_end => self.exact.get_mut(row as usize),
            Row::File(at) if !by_end => self.named.get_mut(at as usize).map(|named| &mut named.exact),
            _ => None,
        };
        exact.into_iter().for_each(|exact| *exact = true);
        self.rows.push((found, by_end));
        !matches!(found, Row::None)
    }

    fn row(&self, table: &Metadata, key: &str) -> Row {
        if let Some(row) = table.find(key).or_else(|| table.find(&unescape(key))) {
            return Row::Exact(row);
        }
        self.first.get(key).or_else(|| self.last.get(key)).map_or(Row::None, |at| Row::File(*at))
    }

    /// The row of each sample.
    ///
    /// Errors: several rows name files of a sample; a row is that of the last part of several keys.
    pub(crate) fn rows(&self, table: &Metadata) -> impl Iterator<Item = Result<Option<u32>>> {
        self.rows.iter().map(|(row, by_end)| match row {
            Row::Exact(row) if *by_end && self.exact.get(*row as usize) == Some(&true) => Ok(None),
            Row::Exact(row) if *by_end && self.ends.get(*row as usize) == Some(&Ends::Several) => {
                Err(ambiguous(table.key(*row)))
            }
            Row::Exact(row) => Ok(Some(*row)),
            Row::File(at) => {
                let named = self.named.get(*at as usize).copied().unwrap_or_default();
                let key = || self.first.iter().chain(&self.last).find(|(_, of)| *of == at).map_or("", |(key, _)| key);
                match named.row(self.keys_have_dots) {
                    _ if *by_end && named.exact => Ok(None),
                    Ok(row) => match row.filter(|row| self.exact.get(*row as usize) == Some(&false)) {
                        Some(_) if *by_end && named.ends == Ends::Several => Err(ambiguous(key())),
                        row => Ok(row),
                    },
                    Err(()) => {
                        let message = format!("several rows of the table name files of the sample {}", key());
                        Err(Error::config(message).with_code(Code::KeyTwice).hint("leave one row for each sample"))
                    }
                }
            }
            Row::None => Ok(None),
        })
    }
}

/// What follows the folders of a key.
pub(crate) fn last_part(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

/// The error of a row that is that of the last part of several keys.
pub(crate) fn ambiguous(base: &str) -> Error {
    let error = Error::config(format!("{base} fits several samples, in different folders"));
    error.with_code(Code::KeyTwice).hint("give whole keys there, such as cat/0001 for cat/0001.jpg")
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Registry;

    /// The rows of samples in a table with these keys; `Err` of the first error.
    fn rows(table: &[&str], samples: &[&str]) -> Result<Vec<Option<u32>>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        let lines = table.iter().enumerate().map(|(i, key)| format!("{key},{i}\n"));
        std::fs::write(&path, format!("key,n\n{}", lines.collect::<String>())).unwrap();
        let table = Metadata::read_exact(&Registry::new(), &path, "key", None).unwrap();
        let mut keys = JoinKeys::new(&table);
        samples.iter().for_each(|key| _ = keys.push(&table, key));
        keys.rows(&table).collect()
    }

    #[test]
    fn a_row_is_of_the_last_part_of_one_key_alone() {
        let ambiguous = |table: &[&str], samples: &[&str]| {
            let error = rows(table, samples).unwrap_err();
            assert_eq!(error.code(), Code::KeyTwice, "{error}");
            error.message().to_owned()
        };
        for table in [["1", "2"], ["1.wav", "2.wav"]] {
            assert_eq!(rows(&table, &["a/2", "b/1"]).unwrap(), [Some(1), Some(0)], "{table:?}");
            // Samples with one key are one.
            assert_eq!(rows(&table, &["a/1", "a/1"]).unwrap(), [Some(0), Some(0)], "{table:?}");
            assert!(ambiguous(&table, &["a/1", "b/1"]).contains("1 fits several samples"), "{table:?}");
            // That of a whole key is of no other.
            assert_eq!(rows(&table, &["1", "b/1"]).unwrap(), [Some(0), None], "{table:?}");
        }
        // Also where one of the samples has a row of its whole key.
        assert_eq!(rows(&["a/1", "b/1", "2"], &["b/1", "a/1", "c/2"]).unwrap(), [Some(1), Some(0), Some(2)]);
        ambiguous(&["a/1", "1"], &["a/1", "b/1"]);
        ambiguous(&["a/1.wav", "1.wav"], &["a/1", "b/1"]);
    }
}
