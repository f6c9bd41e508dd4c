//! The rows of the metadata that belong to samples.

use super::{Listing, SampleRef};
use crate::duplicate_keys::hash;
use crate::join_keys::{ambiguous, last_part};
use crate::metadata::{Metadata, folder_part, is_number};
use packhorse_core::{Code, Error, Event, Observer, Result, counted};
use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

impl Listing {
    /// Gives each sample its row of the metadata. A sample without a row is a bad input, or has an empty list where rows are lists
    /// and some sample has one; rows without a sample are a warning.
    pub fn attach_metadata(&mut self, metadata: &Metadata, observer: &dyn Observer) -> Result<()> {
        let of_samples = self.rows_of(metadata)?;
        let empty = if metadata.is_of_lists() && of_samples.iter().any(Option::is_some) { "[]" } else { "" };
        let (mut rows, mut json, mut faults) = (Vec::with_capacity(self.samples()), String::new(), Vec::new());
        let mut without: Option<(u64, PathBuf)> = None;
        for (sample, row) in self.iter().zip(of_samples) {
            let found = row.and_then(|row| metadata.text(row));
            let row = found.unwrap_or(if sample.table().is_none() { empty } else { "" });
            if found.is_none() && !row.is_empty() {
                without.get_or_insert_with(|| (0, sample.first_path())).0 += 1;
            }
            if row.is_empty() {
                let fault = Error::content("has no row in the metadata").with_code(Code::NoMetadata);
                let fault = match sample.table() {
                    None => fault,
                    Some(_) => fault.hint("it holds rows: pack them without `metadata`, and join the table then"),
                };
                let key = sample.key().trim_end_matches('/').to_owned();
                faults.push(fault.in_input(sample.first_path().display()).in_sample(&key));
            }
            rows.push((json.len() as u64, row.len() as u32));
            json.push_str(row);
        }
        let keep: Vec<bool> = rows.iter().map(|(_, len)| *len > 0).collect();
        (self.rows, self.json) = (rows, json);
        self.retain(&keep);
        if let (Some(first), (_, Some(key))) = (faults.first_mut(), metadata.unused()) {
            *first = first.clone().hint(format!("rows of the table are found by keys such as {key}"));
        }
        self.faults.extend(faults);
        let tell = |text: String| observer.event(&Event::Warning(&text));
        metadata.notes().for_each(tell);
        if let Some((samples, first)) = without {
            let samples = counted(samples, "sample");
            tell(format!("{samples} without a row in the metadata, such as {}: the list is empty", first.display()));
        }
        if let (n, Some(first)) = metadata.unused() {
            let text = match n {
                1 if metadata.is_of_lists() => format!("the rows of {first} in the metadata belong to no sample"),
                n if metadata.is_of_lists() => {
                    format!("the metadata has rows of {n} keys that no sample has, such as {first}")
                }
                1 => format!("1 row of the metadata belongs to no sample, that of {first}"),
                n => format!("{n} rows of the metadata belong to no sample, such as that of {first}"),
            };
            tell(text);
        }
        Ok(())
    }

    /// Keeps samples that lists name; `splits` has only theirs.
    pub(in crate::scan) fn keep_listed(&mut self, keep: &[bool]) {
        let splits = std::mem::take(&mut self.splits);
        self.retain(keep);
        self.splits = splits;
    }

    /// The row of each sample: that of its key, also behind the last folders of the input's path, or of the last part of its key.
    ///
    /// Errors: `Content` for a row that may be of several samples.
    pub(in crate::scan) fn rows_of(&self, metadata: &Metadata) -> Result<Vec<Option<u32>>> {
        let firsts: HashSet<&str> = metadata.keys().filter_map(|key| Some(key.split_once('/')?.0)).collect();
        let below: Vec<Vec<String>> = self.roots.iter().map(|root| last_folders(root, &firsts)).collect();
        let key_of = |sample: &SampleRef<'_>| sample.key().trim_end_matches('/').to_owned();
        // The rows of whole keys are of no other samples.
        let (mut rows, mut exact) = (Vec::with_capacity(self.samples()), vec![false; metadata.len() as usize]);
        for sample in self.iter() {
            let key = key_of(&sample);
            let below = sample.root().and_then(|root| below.get(root)).into_iter().flatten();
            let mut below = below.filter_map(|folders| row_of(metadata, &sample, &format!("{folders}{key}")));
            let row = row_of(metadata, &sample, &key).or_else(|| below.next());
            if let Some(exact) = row.and_then(|row| exact.get_mut(row as usize))
                && std::mem::replace(exact, true)
            {
                return Err(ambiguous(metadata.key(row.unwrap_or_default())).in_sample(&key));
            }
            rows.push(row);
        }
        // Last parts of keys, and those whose rows were taken.
        let (mut ends, mut taken) = (Vec::with_capacity(self.samples()), Vec::new());
        for (sample, row) in self.iter().zip(&mut rows) {
            let key = key_of(&sample);
            let base = last_part(&key);
            ends.push(hash(base));
            if row.is_none() {
                *row = row_of(metadata, &sample, base).filter(|row| exact.get(*row as usize) == Some(&false));
                taken.extend(row.map(|_| hash(base)));
            }
        }
        self.check_ends(ends, &taken)?;
        Ok(rows)
    }

    /// Refuses rows `taken` by the last part of a key, of a hash, where other keys end with it too.
    fn check_ends(&self, mut ends: Vec<u64>, taken: &[u64]) -> Result<()> {
        if taken.is_empty() {
            return Ok(());
        }
        ends.sort_unstable();
        let several =
            |end: &&u64| ends.partition_point(|known| known <= *end) - ends.partition_point(|known| known < *end) > 1;
        let Some(end) = taken.iter().find(several) else { return Ok(()) };
        let mut keys = self.iter().map(|sample| sample.key().trim_end_matches('/').to_owned());
        let key = keys.find(|key| hash(last_part(key)) == *end).unwrap_or_default();
        Err(ambiguous(last_part(&key)).in_sample(&key))
    }
}

/// The last folders of an input's path that keys of a table may begin with, the fewest first: `c/`, `b/c/` and so on for `/a/b/c`.
/// `firsts`: the first folders of its keys.
fn last_folders(root: &Path, firsts: &HashSet<&str>) -> Vec<String> {
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let names = root.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str().map(folder_part),
        _ => None,
    });
    let names: Vec<String> = names.collect();
    let begins = |from: &usize| names.get(*from).is_some_and(|name| firsts.contains(name.trim_end_matches('/')));
    let folders = (0..names.len()).rev().filter(begins);
    folders.map(|from| names.iter().skip(from).map(String::as_str).collect()).collect()
}

/// The row of a sample by its key, or by the last part of it.
fn row_of(metadata: &Metadata, sample: &SampleRef<'_>, key: &str) -> Option<u32> {
    // A slice `scan.001` is a file of the sample `scan`.
    let mut numbers = sample.fields().filter(|(field, _)| is_number(field));
    let of_slice = |(field, _): (&str, _)| metadata.find(&format!("{key}%2E{}", field.replace('.', "%2E")));
    metadata.find(key).or_else(|| numbers.find_map(of_slice))
}
