//! Tables that a pattern found in folders (`*/metadata.csv`): each is for the samples in and below its folder.

use super::column_choice::ColumnRequest;
use super::{Metadata, table_kind};
use crate::real_path::real_path;
use packhorse_core::{Registry, Result, folder_key};
use packhorse_storage::Location;
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The folders of tables, in the order of their rows. Numbers count from 1.
#[derive(Debug, Default)]
pub(super) struct FolderTables(Vec<(TablePlace, u32)>);

/// The folder of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TablePlace {
    /// Its path, which starts with the real path of an input if it is in one.
    path: PathBuf,
    /// The same from that input on.
    below: Option<PathBuf>,
    /// How keys of samples in it start; empty if that is unknown.
    prefix: String,
}

/// Where inputs are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InputFolders<'a> {
    /// The inputs.
    pub(crate) inputs: &'a [PathBuf],
    /// The folders that paths of samples start at: inputs, and those that hold inputs which are files.
    pub(crate) roots: &'a [PathBuf],
}

impl FolderTables {
    /// The folder of a row, or 0.
    pub(super) fn of_row(&self, row: u32) -> usize {
        self.0.partition_point(|(_, first)| *first <= row)
    }

    /// The folder that rows are added to, or 0.
    pub(super) fn last(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TablePlace> {
        self.0.iter().map(|(place, _)| place)
    }

    /// Adds folders, whose rows begin with row `first`; not the last one again.
    pub(super) fn extend<'p>(&mut self, places: impl Iterator<Item = &'p TablePlace>, first: usize) {
        for place in places {
            if self.0.last().is_none_or(|(last, _)| last != place) {
                self.0.push((place.clone(), first as u32));
            }
        }
    }
}

impl Metadata {
    /// Reads a table in a folder. Names of files start there if one of them is there; others may start at the input too.
    pub(super) fn read_in_folder(
        registry: &Registry,
        (table, place): (&Path, &TablePlace),
        request: &ColumnRequest<'_>,
    ) -> Result<Self> {
        let plain = table_kind::read(registry, table, &ColumnRequest { key_ends: None, ..request.clone() })?;
        let beside = table.parent().unwrap_or(Path::new(""));
        let is_beside = |row| {
            let name = Path::new(plain.key(row));
            name.is_relative() && beside.join(name).is_file()
        };
        let below = place.below.as_ref().filter(|_| (0..plain.rows.len() as u32).any(is_beside));
        let mut read = Self::empty(plain.unit, request);
        read.folders.extend(std::iter::once(place), 0);
        read.keyless = plain.keyless;
        read.notes.clone_from(&plain.notes);
        for (row, at) in (0..).zip(&plain.rows) {
            let (name, json) = plain.parts(row).unwrap_or_default();
            let name = name.strip_prefix("./").unwrap_or(name);
            let whole = below.map(|below| below.join(name));
            let value = whole.as_deref().and_then(Path::to_str).unwrap_or(name);
            read.insert(value, json, at.at.into())?;
        }
        Ok(read)
    }

    /// The folders whose samples alone may have rows, with their numbers.
    pub(crate) fn folders(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.folders.iter().map(|place| place.path.as_path()).zip(1..)
    }

    /// What follows the folder of this number in a key, if that is in an input.
    pub(crate) fn inside<'k>(&self, folder: usize, key: &'k str) -> Option<Cow<'k, str>> {
        let prefix = self.prefix(folder).filter(|prefix| !prefix.is_empty())?;
        let inside = key.strip_prefix(prefix)?;
        // As `insert` has names that start with it.
        Some(match inside.strip_prefix("__") {
            Some(rest) => format!("%5F_{rest}").into(),
            None => inside.into(),
        })
    }

    fn prefix(&self, folder: usize) -> Option<&str> {
        Some(self.folders.0.get(folder.checked_sub(1)?)?.0.prefix.as_str())
    }

    /// The key of the first row that no sample has, from the input on.
    pub(crate) fn first_unused_key(&self) -> Option<Cow<'_, str>> {
        let row = self.first_unused()?;
        let (key, prefix) = (self.key(row), self.prefix(self.folders.of_row(row)).unwrap_or_default());
        Some(if key.starts_with(prefix) { key.into() } else { format!("{prefix}{key}").into() })
    }
}

/// The tables of a path, each with its folder if it is for the samples there alone: `pattern` is one for folders, and one of
/// these is in an input or around one. Those of one folder follow each other.
pub(super) fn places(
    tables: Vec<PathBuf>,
    pattern: &Path,
    InputFolders { inputs, roots }: InputFolders<'_>,
) -> Vec<(PathBuf, Option<TablePlace>)> {
    let is_pattern = pattern.parent().is_some_and(|folder| folder.to_string_lossy().contains(['*', '?', '[', '{']));
    if !is_pattern || tables.iter().all(|table| table == pattern) {
        return tables.into_iter().map(|table| (table, None)).collect();
    }
    let [inputs, roots] = [inputs, roots].map(|paths| paths.iter().map(|path| real_path(path)).collect::<Vec<_>>());
    let in_place = |table: PathBuf| {
        let place = place(table.parent().unwrap_or(Path::new("")), &inputs);
        (table, place)
    };
    let mut found: Vec<(PathBuf, TablePlace)> = tables.into_iter().map(in_place).collect();
    found.sort_by(|(_, a), (_, b)| a.cmp(b));
    let is_near =
        |(_, place): &(_, TablePlace)| place.below.is_some() || roots.iter().any(|root| root.starts_with(&place.path));
    let are_near = found.iter().any(is_near);
    found.into_iter().map(|(table, place)| (table, are_near.then_some(place))).collect()
}

/// Where a folder is, given the real paths of inputs. A folder in an input may be a link.
fn place(folder: &Path, inputs: &[PathBuf]) -> TablePlace {
    let real = real_path(folder);
    let in_input = |path: &PathBuf| {
        let (above, input) =
            path.ancestors().map(|above| (above, real_path(above))).find(|(_, real)| inputs.contains(real))?;
        let below = path.strip_prefix(above).ok()?.to_owned();
        let prefix = folder_key(below.as_os_str().as_bytes()).unwrap_or_default();
        Some(TablePlace { path: input.join(&below), below: Some(below), prefix })
    };
    let found = [Location::absolute(folder), real.clone()].iter().find_map(in_input);
    found.unwrap_or(TablePlace { path: real, below: None, prefix: String::new() })
}
