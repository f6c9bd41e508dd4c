//! Which samples a sink can write, and the keys that are shortened for it.

use crate::long_keys::{LongKeys, shorten};
use crate::scan::{Listing, SampleRef, other_field};
use crate::{OnError, Recipe};
use packhorse_core::{Error, Event, Kind, Observer, Result, Sink};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The length of a slash and a sample's number after the key of its run.
const NUMBER: usize = 10;

/// The samples of a listing that a sink can write.
pub(super) struct Admission {
    /// Whether each is kept.
    pub(super) keep: Vec<bool>,
    /// Why others are not.
    pub(super) faults: Vec<Error>,
    /// Keys that were shortened, by the number of their sample among those that are kept.
    pub(super) short: BTreeMap<u32, String>,
}

/// Samples that are looked at side by side.
const AT_ONCE: usize = 1 << 16;

impl Admission {
    pub(super) fn of(listing: &Listing, sink: &dyn Sink, recipe: &Recipe) -> Self {
        let mut made = Self { keep: Vec::with_capacity(listing.samples()), faults: Vec::new(), short: BTreeMap::new() };
        let mut kept = 0;
        for first in (0..listing.samples()).step_by(AT_ONCE) {
            let some = first..listing.samples().min(first + AT_ONCE);
            let look = |i| listing.sample(i).map(|sample| admitted(listing, &sample, sink, recipe));
            let found: Vec<_> = some.into_par_iter().filter_map(look).collect();
            for found in found {
                let keep = found.is_ok();
                made.keep.push(keep);
                match found {
                    Ok(Some(short)) => drop(made.short.insert(kept, short)),
                    Ok(None) => {}
                    Err(fault) => made.faults.push(fault),
                }
                kept += u32::from(keep);
            }
        }
        made
    }
}

/// The shortened key of a sample, if it is too long; or why the sink can't write it.
fn admitted(listing: &Listing, sample: &SampleRef<'_>, sink: &dyn Sink, recipe: &Recipe) -> Result<Option<String>> {
    let labels: &[(&str, u64)] = if listing.classes().is_empty() { &[] } else { &[("cls", 1)] };
    let row = sample.row().map(|row| ("json", row.len() as u64));
    let fields = || sample.fields().chain(labels.iter().copied()).chain(row);
    let (mut key, mut short) = (sample.key(), None);
    let longest = fields().map(|(field, _)| sink.longest_key(field)).min().unwrap_or(usize::MAX);
    // The keys of a run's samples end with their numbers.
    let longest = longest.saturating_sub(if sample.table().is_some() { NUMBER } else { 0 });
    if recipe.long_keys == LongKeys::Hash && key.len() > longest {
        key = shorten(&key, longest);
        short = Some(key.clone());
    }
    let at = |field: &str, error: Error| error.in_input(sample.paths_of(field).1.display());
    if listing.has_metadata() && sample.fields().any(|(field, _)| field == "json") {
        let error = Error::config("has a field json of its own, and `metadata` makes another");
        return Err(at("json", error.hint(other_field("json")).in_sample(&key)));
    }
    // Values of table rows are checked when they are written.
    if sample.table().is_none() {
        fields().try_for_each(|(field, bytes)| sink.admit(&key, field, bytes).map_err(|e| at(field, e)))?;
    }
    Ok(short)
}

/// Skips or refuses samples that the sink can't write, and shortens long keys.
pub(super) fn admit(
    listing: &mut Listing,
    sink: &dyn Sink,
    recipe: &Recipe,
    observer: &dyn Observer,
) -> Result<BTreeMap<u32, String>> {
    let Admission { keep, faults, short } = Admission::of(listing, sink, recipe);
    settle_refused(faults, listing, recipe, observer)?;
    if keep.contains(&false) {
        listing.retain(&keep);
    }
    Ok(short)
}

/// Records why samples were not kept, or fails with the first that may not be skipped.
pub(super) fn settle_refused(
    mut faults: Vec<Error>,
    listing: &mut Listing,
    recipe: &Recipe,
    observer: &dyn Observer,
) -> Result<()> {
    let refused =
        |fault: &Error| recipe.on_error == OnError::Fail || !matches!(fault.kind(), Kind::Content | Kind::Limit);
    if let Some(at) = faults.iter().position(refused) {
        return Err(faults.swap_remove(at));
    }
    for fault in faults {
        observer.event(&Event::Skipped(&fault));
        listing.add_fault(fault);
    }
    Ok(())
}
