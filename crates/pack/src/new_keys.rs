//! The keys of samples that are to be added to a dataset, by which those that it has already are found.

use crate::plan::PlannedKey;
use crate::runs::row_key;
use crate::seal::read_members;
use packhorse_core::Store;
use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::path::Path;

/// The keys in a shard, by its index of members; none if that can't be read, which sealing tells.
pub(crate) fn keys_in(store: &dyn Store, dir: &Path, shard: &str) -> BTreeSet<String> {
    let members = read_members(store, dir, shard);
    members.map_or_else(|_| BTreeSet::new(), |members| members.iter().map(|(key, _)| key.to_owned()).collect())
}

/// Hashes of keys: of samples, and of runs of rows with the ranges of these.
#[derive(Debug)]
pub(crate) struct NewKeys {
    hasher: RandomState,
    samples: Vec<u64>,
    /// Hash and end of each run, and the first start of it and of all runs with this hash that end later: two tables may have one key.
    runs: Vec<(u64, u64, u64)>,
}

impl NewKeys {
    /// All of `keys`.
    pub(crate) fn of(keys: impl Iterator<Item = PlannedKey>) -> Self {
        let hasher = RandomState::new();
        let (mut samples, mut runs) = (Vec::new(), Vec::new());
        for PlannedKey { key, rows } in keys {
            let hash = hasher.hash_one(key);
            match rows {
                None => samples.push(hash),
                Some(rows) => runs.push((hash, rows.end, rows.start)),
            }
        }
        samples.sort_unstable();
        runs.sort_unstable();
        for at in (1..runs.len()).rev() {
            let Some((hash, _, start)) = runs.get(at).copied() else { continue };
            if let Some(before) = runs.get_mut(at - 1).filter(|before| before.0 == hash) {
                before.2 = before.2.min(start);
            }
        }
        Self { hasher, samples, runs }
    }

    /// The first of these rows of a table that may be among them by its number, and whose key is one of `there`.
    pub(crate) fn row_there(&self, table: &str, rows: &Range<u64>, there: &BTreeSet<String>) -> Option<u64> {
        let is_there = |row: &u64| there.contains(&row_key(table, *row));
        rows.clone().find(|row| is_there(row) && !self.lack(table, Some(&(*row..row + 1))))
    }

    /// Whether a sample with this key, or one of these rows, is surely not among them.
    pub(crate) fn lack(&self, key: &str, rows: Option<&Range<u64>>) -> bool {
        let hash = self.hasher.hash_one(key);
        let Some(rows) = rows else { return self.samples.binary_search(&hash).is_err() };
        let first = self.runs.partition_point(|(other, end, _)| (*other, *end) <= (hash, rows.start));
        self.runs.get(first).is_none_or(|(other, _, start)| *other != hash || *start >= rows.end)
    }
}

/// Whether two samples can be one: both are, or both are rows and share some.
pub(crate) fn overlap(one: &Option<Range<u64>>, two: &Option<Range<u64>>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => one.start < two.end && two.start < one.end,
        (one, two) => one.is_none() && two.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_that_overlap_are_not_lacking(cuts in prop::collection::btree_set(0u64..60, 2..12), whole in any::<bool>(), from in 0u64..70, len in 1u64..20) {
            // Every other range between two cuts is a run, and one of another table may be around them.
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let mut runs: Vec<Range<u64>> = cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
            runs.extend(whole.then_some(0..65));
            let key = |rows: &Range<u64>| PlannedKey { key: "a".to_owned(), rows: Some(rows.clone()) };
            let new = NewKeys::of(runs.iter().map(key).chain([PlannedKey { key: "b".to_owned(), rows: None }]));
            let rows = from..from + len;
            let overlaps = runs.iter().any(|run| run.start < rows.end && rows.start < run.end);
            prop_assert_eq!(new.lack("a", Some(&rows)), !overlaps);
            prop_assert!(new.lack("b", Some(&rows)) && new.lack("a", None) && !new.lack("b", None));
        }
    }
}
