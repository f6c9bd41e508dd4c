//! Which split each unit of a plan goes to. Pure.

use super::split::is_name;
use super::units::Unit;
use super::{PlanOptions, SplitBy, Splits};
use crate::scan::{Listing, SampleRef};
use packhorse_core::{Error, Result};

/// The splits of a plan, and the rule by which units go to them.
pub(super) struct Groups<'a> {
    names: Vec<String>,
    rule: Rule<'a>,
}

enum Rule<'a> {
    /// There are no splits.
    None,
    /// By shares, of samples or of places in the order.
    Shares(&'a PlanOptions),
    /// The split of each entry of the listing.
    Known(Vec<u16>),
}

impl<'a> Groups<'a> {
    /// Errors (`Config`): a sample that has no split where others have one; a name that can't be that of a split.
    pub(super) fn of(listing: &Listing, options: &'a PlanOptions) -> Result<Self> {
        match &options.splits {
            Splits::Shares(shares) => {
                Ok(Self { names: shares.names().map(str::to_owned).collect(), rule: Rule::Shares(options) })
            }
            Splits::Folders => Self::known(listing, top_folder, "lies in no folder that names its split"),
            Splits::Keep if has_splits(listing) => {
                let split = |sample: &SampleRef<'_>| sample.shard().and_then(|(_, shard)| shard.split.clone());
                let advice = "has no split, though other inputs have; pass --split none or shares for all of them";
                Self::known(listing, split, advice)
            }
            Splits::Keep | Splits::Off => Ok(Self { names: Vec::new(), rule: Rule::None }),
        }
    }

    fn known(listing: &Listing, split: impl Fn(&SampleRef<'_>) -> Option<String>, missing: &str) -> Result<Self> {
        // Those of sealed datasets keep their order.
        let mut names: Vec<String> = Vec::new();
        for split in listing.sealed().iter().flat_map(|sealed| &sealed.manifest.splits) {
            if !names.contains(&split.name) {
                names.push(split.name.clone());
            }
        }
        let found = listing.iter().map(|sample| match split(&sample) {
            Some(name) if is_name(&name) => Ok(name),
            Some(name) => {
                Err(Error::config(format!("\"{name}\" can't name a split: that is letters, digits, _ and -")))
            }
            None => Err(Error::config(missing)),
        });
        let named = |(found, sample): (Result<String>, SampleRef<'_>)| {
            found.map_err(|e| e.in_input(sample.first_path().display()))
        };
        let found = found.zip(listing.iter()).map(named).collect::<Result<Vec<String>>>()?;
        let mut others: Vec<&String> = found.iter().filter(|name| !names.contains(name)).collect();
        others.sort();
        others.dedup();
        let others: Vec<String> = others.into_iter().cloned().collect();
        names.extend(others);
        let empty = |name: &String| {
            let mut splits = listing.sealed().iter().flat_map(|sealed| &sealed.manifest.splits);
            splits.any(|split| split.name == *name && split.samples == 0)
        };
        names.retain(|name| found.contains(name) || empty(name));
        let position = |name: &String| names.iter().position(|known| known == name).unwrap_or_default() as u16;
        let rule = Rule::Known(found.iter().map(position).collect());
        Ok(Self { names, rule })
    }

    /// The names of the splits, in order; empty without splits.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The split of a unit, a position in the names, if there are splits. `place` of `total` samples come before it.
    pub(super) fn split(&self, listing: &Listing, unit: &Unit, place: u64, total: u64) -> usize {
        match &self.rule {
            Rule::None => 0,
            Rule::Known(splits) => splits.get(unit.sample as usize).copied().unwrap_or_default().into(),
            Rule::Shares(options) => {
                let Splits::Shares(shares) = &options.splits else { return 0 };
                let split = match options.split_by {
                    SplitBy::Order => shares.by_place(place as usize, total as usize),
                    SplitBy::Hash => {
                        let sample = listing.sample(unit.sample as usize);
                        sample.map_or(0, |sample| shares.by_key(&unit_key(&sample, unit)))
                    }
                };
                split.into()
            }
        }
    }
}

fn has_splits(listing: &Listing) -> bool {
    listing.sealed().iter().any(|sealed| !sealed.manifest.splits.is_empty())
}

/// The first folder of a sample's path; of an archive's member, inside the archive.
fn top_folder(sample: &SampleRef<'_>) -> Option<String> {
    let folder = match sample.table() {
        Some(_) => sample.relative_path().parent()?.to_string_lossy().into_owned(),
        None => sample.folder().to_owned(),
    };
    folder.split('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// What decides the split of a unit: the key of its first sample.
fn unit_key(sample: &SampleRef<'_>, unit: &Unit) -> String {
    match sample.table() {
        Some(_) => format!("{}{}", sample.key(), unit.from),
        None => sample.key(),
    }
}
