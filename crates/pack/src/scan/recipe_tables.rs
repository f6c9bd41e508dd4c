//! The tables that a recipe names beside its inputs: of metadata, the class list, and lists of splits. Where they lie among the inputs they are none.

use crate::metadata::tables;
use crate::real_path::real_path;
use crate::{Recipe, Splits};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Their real paths, by the names that they are given by.
pub(super) struct RecipeTables(BTreeMap<OsString, BTreeSet<PathBuf>>);

impl RecipeTables {
    pub(super) fn of(recipe: &Recipe) -> Self {
        let mut found: BTreeMap<OsString, BTreeSet<PathBuf>> = BTreeMap::new();
        // What can't be listed is an error of those who read it.
        let metadata = recipe.metadata.iter().flat_map(|path| tables(path).unwrap_or_default());
        let lists = match &recipe.split {
            Splits::Lists(lists) => lists.iter().map(|(_, list)| list.clone()).collect(),
            _ => Vec::new(),
        };
        for table in metadata.chain(recipe.classes.clone()).chain(lists) {
            let name = table.file_name().unwrap_or_default().to_owned();
            found.entry(name).or_default().insert(real_path(&table));
        }
        Self(found)
    }

    /// Whether this file is one of them.
    pub(super) fn has(&self, path: &Path) -> bool {
        let named = path.file_name().and_then(|name| self.0.get(name));
        named.is_some_and(|tables| tables.contains(&real_path(path)))
    }
}
