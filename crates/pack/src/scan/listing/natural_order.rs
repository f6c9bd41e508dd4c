//! The order of samples without a shuffle.

use super::Listing;
use packhorse_dataset::SampleRun;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// An entry of a listing, and ranges of its items.
pub(crate) type EntryRuns = (u32, Vec<Range<u64>>);

impl Listing {
    /// The order of entries without a shuffle: those of sealed datasets in shard and file order, of views in the order of
    /// the view; then the others by key.
    pub(crate) fn natural_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.samples() as u32).collect();
        if !self.sealed.is_empty() {
            order.sort_by_cached_key(|i| self.place_of(*i));
        }
        order
    }

    /// Where an entry stands in the natural order: whether it is in no dataset; the dataset; the shard and the offset
    /// in it, or the position in the view; its number.
    fn place_of(&self, i: u32) -> (bool, u32, u64, u64, u32) {
        let first = self.sample(i as usize).and_then(|sample| sample.pieces.first());
        let place = first.and_then(|piece| self.places.get(piece.place as usize));
        let Some((piece, (dataset, shard))) = first.zip(place.and_then(|place| place.shard)) else {
            return (true, 0, 0, 0, i);
        };
        let chosen = self.sealed.get(dataset as usize).and_then(|sealed| sealed.chosen.as_ref());
        match chosen.filter(|_| !self.is_table(piece)) {
            Some(chosen) => {
                let position = chosen.place(shard, piece.a).map_or(u64::MAX, |place| place.position);
                (false, dataset, position, 0, i)
            }
            None => (false, dataset, u64::from(shard), piece.a, i),
        }
    }

    /// All entries with their items: in the natural order, or else by key and each with ascending items.
    pub(crate) fn runs(&self, natural: bool) -> Vec<EntryRuns> {
        let order = if natural { self.natural_order() } else { (0..self.samples() as u32).collect() };
        let view_of = |i: u32| {
            let place = self.sample(i as usize)?.pieces.first().map(|piece| piece.place)?;
            let place = self.places.get(place as usize).filter(|place| place.table.is_some())?;
            let (dataset, shard) = place.shard?;
            self.sealed.get(dataset as usize)?.chosen.as_ref().map(|chosen| (dataset, shard, chosen))
        };
        let entries: HashMap<(u32, u32), u32> =
            order.iter().filter_map(|i| view_of(*i).map(|(dataset, shard, _)| ((dataset, shard), *i))).collect();
        let range = |run: &SampleRun| run.first..run.first + run.len;
        let mut ascending = if natural { BTreeMap::new() } else { self.ascending() };
        let (mut all, mut done) = (Vec::with_capacity(order.len()), None);
        for i in order {
            match view_of(i) {
                None => {
                    let items = 0..self.sample(i as usize).map_or(0, |sample| sample.items());
                    all.push((i, std::iter::once(items).collect()));
                }
                Some((dataset, shard, _)) if !natural => {
                    all.push((i, ascending.remove(&(dataset, shard)).unwrap_or_default()));
                }
                // The entries of a dataset follow each other.
                Some((dataset, ..)) if done == Some(dataset) => {}
                Some((dataset, _, chosen)) => {
                    let entry = |run: &SampleRun| {
                        entries.get(&(dataset, run.shard)).map(|i| (*i, std::iter::once(range(run)).collect()))
                    };
                    all.extend(chosen.runs.iter().filter_map(entry));
                    done = Some(dataset);
                }
            }
        }
        all
    }

    /// The samples of views, by dataset and shard.
    fn ascending(&self) -> BTreeMap<(u32, u32), Vec<Range<u64>>> {
        let mut ascending: BTreeMap<(u32, u32), Vec<Range<u64>>> = BTreeMap::new();
        for (dataset, sealed) in self.sealed.iter().enumerate() {
            for run in sealed.chosen.iter().flat_map(|chosen| &chosen.runs) {
                ascending.entry((dataset as u32, run.shard)).or_default().push(run.first..run.first + run.len);
            }
        }
        ascending.values_mut().for_each(|ranges| ranges.sort_unstable_by_key(|range| range.start));
        ascending
    }
}
