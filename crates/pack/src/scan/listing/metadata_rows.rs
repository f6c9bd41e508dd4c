//! The rows of the metadata that belong to samples.

use super::{Listing, SampleRef, SourceFolder};
use crate::duplicate_keys::hash;
use crate::join_keys::{ambiguous, last_part};
use crate::metadata::{Metadata, folder_part, is_number};
use crate::real_path::real_path;
use packhorse_core::{Code, Error, Event, Observer, Result, counted};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
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
        let unused = metadata.first_unused_key();
        if let (Some(first), Some(key)) = (faults.first_mut(), &unused) {
            let error = first.clone().hint(format!("rows of the table are found by keys such as {key}"));
            let here = "tables that a pattern finds in folders are for the samples in these; a table that is named, and tables in folders \
                 beside the inputs, are for all samples";
            *first = if metadata.folders().next().is_some() { error.hint(here) } else { error };
        }
        self.faults.extend(faults);
        let tell = |text: String| observer.event(&Event::Warning(&text));
        metadata.notes().for_each(tell);
        if let Some((samples, first)) = without {
            let samples = counted(samples, "sample");
            tell(format!("{samples} without a row in the metadata, such as {}: the list is empty", first.display()));
        }
        if let ((n, _), Some(first)) = (metadata.unused(), unused) {
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
    /// A table that is for a folder has rows of the samples there alone, also by their keys from there on.
    ///
    /// Errors: `Content` for a row that may be of several samples, and for a sample with rows of two folders' tables.
    pub(in crate::scan) fn rows_of(&self, metadata: &Metadata) -> Result<Vec<Option<u32>>> {
        let firsts: HashSet<&str> = metadata.keys().filter_map(|key| Some(key.split_once('/')?.0)).collect();
        let below: Vec<Vec<String>> = self.roots.iter().map(|root| last_folders(root, &firsts)).collect();
        let key_of = |sample: &SampleRef<'_>| sample.key().trim_end_matches('/').to_owned();
        let folders = self.table_folders(metadata);
        // The rows of whole keys are of no other samples.
        let (mut rows, mut exact) = (Vec::with_capacity(self.samples()), vec![false; metadata.len() as usize]);
        for sample in self.iter() {
            let key = key_of(&sample);
            let below = sample.root().and_then(|root| below.get(root));
            let row_in = |folder: usize| {
                let row_of = |key: &str| row_of((metadata, folder), &sample, key);
                let inside = metadata.inside(folder, &key).and_then(|key| row_of(&key));
                let mut below = below.into_iter().flatten().filter_map(|folders| row_of(&format!("{folders}{key}")));
                inside.or_else(|| row_of(&key)).or_else(|| below.next())
            };
            let row = only(folders.of(&sample).into_iter().filter_map(row_in), &key)?;
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
            let (base, folders) = (last_part(&key), folders.of(&sample));
            ends.extend(folders.iter().map(|folder| end(base, *folder)));
            if row.is_none() {
                let row_in = |folder: usize| {
                    let row = row_of((metadata, folder), &sample, base);
                    row.filter(|row| exact.get(*row as usize) == Some(&false)).map(|row| (row, folder))
                };
                let found = only(folders.into_iter().filter_map(row_in), &key)?;
                *row = found.map(|(row, _)| row);
                taken.extend(found.map(|(_, folder)| end(base, folder)));
            }
        }
        self.check_ends((ends, &folders), &taken)?;
        Ok(rows)
    }

    /// The folders of the metadata that samples are in.
    fn table_folders(&self, metadata: &Metadata) -> TableFolders {
        let known: HashMap<&Path, usize> = metadata.folders().collect();
        if known.is_empty() {
            return TableFolders { of_places: None };
        }
        let roots: Vec<PathBuf> = self.roots.iter().map(|root| real_path(root)).collect();
        let of_place = |place: &SourceFolder| {
            let path = Path::new(OsStr::from_bytes(&place.path));
            let path = if place.archive.is_some() { path.parent().unwrap_or(path) } else { path };
            let path = roots.get(place.root as usize).map_or(path.to_owned(), |root| root.join(path));
            path.ancestors().filter_map(|above| known.get(above).copied()).collect()
        };
        TableFolders { of_places: Some(self.places.iter().map(of_place).collect()) }
    }

    /// Refuses rows `taken` by the last part of a key, of a hash, where other keys end with it too.
    fn check_ends(&self, (mut ends, folders): (Vec<u64>, &TableFolders), taken: &[u64]) -> Result<()> {
        if taken.is_empty() {
            return Ok(());
        }
        ends.sort_unstable();
        let several =
            |end: &&u64| ends.partition_point(|known| known <= *end) - ends.partition_point(|known| known < *end) > 1;
        let Some(twice) = taken.iter().find(several) else { return Ok(()) };
        let is_twice = |sample: &SampleRef<'_>, key: &str| {
            folders.of(sample).into_iter().any(|folder| end(last_part(key), folder) == *twice)
        };
        let mut keys = self.iter().map(|sample| (sample, sample.key().trim_end_matches('/').to_owned()));
        let key = keys.find(|(sample, key)| is_twice(sample, key)).map(|(_, key)| key).unwrap_or_default();
        Err(ambiguous(last_part(&key)).in_sample(&key))
    }
}

/// The folders of tables that each folder of samples is in, or is; `None` if all tables are for all samples.
struct TableFolders {
    of_places: Option<Vec<Vec<usize>>>,
}

impl TableFolders {
    /// Those of a sample, which may have files in several folders; 0 for tables that are for all samples.
    fn of(&self, sample: &SampleRef<'_>) -> Vec<usize> {
        let Some(of_places) = &self.of_places else { return vec![0] };
        let places = sample.pieces.iter().filter_map(|piece| of_places.get(piece.place as usize));
        let mut folders: Vec<usize> = places.flatten().copied().collect();
        folders.sort_unstable();
        folders.dedup();
        folders
    }
}

/// The hash of the last part of a key, among those of the samples in a folder.
fn end(base: &str, folder: usize) -> u64 {
    hash(base) ^ (folder as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The row that one folder's table has for a sample.
fn only<T>(mut rows: impl Iterator<Item = T>, key: &str) -> Result<Option<T>> {
    let row = rows.next();
    match rows.next() {
        None => Ok(row),
        Some(_) => {
            let error = Error::content("has rows in the tables of two folders; leave one of them");
            Err(error.with_code(Code::KeyTwice).in_sample(key))
        }
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
fn row_of((metadata, folder): (&Metadata, usize), sample: &SampleRef<'_>, key: &str) -> Option<u32> {
    // A slice `scan.001` is a file of the sample `scan`.
    let mut numbers = sample.fields().filter(|(field, _)| is_number(field));
    let of_slice = |(field, _): (&str, _)| metadata.find_in(folder, &format!("{key}%2E{}", field.replace('.', "%2E")));
    metadata.find_in(folder, key).or_else(|| numbers.find_map(of_slice))
}
