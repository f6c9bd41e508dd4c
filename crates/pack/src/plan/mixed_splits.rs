//! Inputs that are named as splits (`train-00000-of-00002.parquet`, `val/`, `c4-validation.jsonl`), of which one dataset is made.

use super::Splits;
use crate::Recipe;
use crate::scan::{Listing, path_of, split_of, split_of_folders};
use packhorse_core::{Event, Observer};
use std::collections::{BTreeMap, HashSet};

/// The splits that names say, each with an input.
#[derive(Default)]
pub(super) struct MixedSplits(BTreeMap<&'static str, String>);

impl MixedSplits {
    /// Adds those of a listing, or of a part of one, unless splits are chosen by something else. Files that are fields have the
    /// splits of their folders alone.
    pub(super) fn add(&mut self, listing: &Listing, recipe: &Recipe) {
        if !matches!(recipe.split, Splits::Keep | Splits::Folders) {
            return;
        }
        let mut seen = HashSet::new();
        for sample in listing.iter().filter(|sample| seen.insert(sample.place())) {
            let is_file = sample.table().is_none() && !sample.is_member();
            let split = if is_file { split_of_folders(&sample) } else { split_of(&sample) };
            let path = path_of(&sample);
            let path = if is_file { path.rsplit_once('/').map_or("", |(folder, _)| folder) } else { &path };
            match split.map(|split| self.0.entry(split).or_insert_with(|| path.to_owned())) {
                // The least, in whatever order parts come.
                Some(known) if path < known.as_str() => path.clone_into(known),
                _ => {}
            }
        }
    }

    /// Warns of two, where the dataset has fewer than two splits.
    pub(super) fn report(&self, splits: &[String], observer: &dyn Observer) {
        let mut paths = self.0.values();
        if let (Some(first), Some(second), 0 | 1) = (paths.next(), paths.next(), splits.len()) {
            let text = format!(
                "{first} and {second} go into one dataset without splits; pass `split=names` or `split=folders` if their names \
                 say splits, or `split=none`"
            );
            observer.event(&Event::Warning(&text));
        }
    }
}
