//! Assigns the items of a plan to splits. Pure.

use super::plan_item::PlanItem;
use super::split::{NAMES, is_name};
use super::{Shares, SplitBy, Splits};
use crate::Recipe;
use crate::scan::{Listing, SampleRef, name_in, no_value, of_two_splits, path_of, split_of};
use packhorse_core::{Error, Result};
use std::borrow::Cow;
use std::collections::HashMap;

/// The splits of a plan, and the rule that assigns items to them.
pub(super) struct SplitAssignment<'a> {
    names: Vec<String>,
    rule: Rule<'a>,
}

enum Rule<'a> {
    /// There are no splits.
    None,
    /// By shares of keys.
    Keys(&'a Shares),
    /// By shares of positions in the order.
    Places(&'a Shares),
    /// The split of each entry of the listing.
    Known(Vec<u16>),
}

impl<'a> SplitAssignment<'a> {
    /// Errors: `Config` for a sample without a split if others have one, and for an invalid split name.
    pub(super) fn of(listing: &Listing, recipe: &'a Recipe) -> Result<Self> {
        match &recipe.split {
            Splits::Shares(shares) => {
                let rule = match &recipe.split_by {
                    SplitBy::Hash => Rule::Keys(shares),
                    SplitBy::Order => Rule::Places(shares),
                    SplitBy::Group(rule) => by_groups(listing, shares, |sample| {
                        let none = || Error::config("is in no group by the expression of `split-by`");
                        rule.group(&path_to(sample)).map(str::to_owned).ok_or_else(none)
                    })?,
                    SplitBy::Column(name) => by_groups(listing, shares, |sample| {
                        let group = name_in(sample.row().unwrap_or_default(), name, "group")?;
                        group.map(Cow::into_owned).ok_or_else(|| no_value(name))
                    })?,
                };
                Ok(Self { names: shares.names().map(str::to_owned).collect(), rule })
            }
            Splits::Folders => Self::known(listing, top_folder, "lies in no folder that names its split"),
            Splits::Names => {
                if let Some((sample, [a, b])) = listing.iter().find_map(|s| of_two_splits(&s).map(|splits| (s, splits)))
                {
                    let error =
                        Error::config(format!("is of the splits {a} and {b}, since files of both have its key"));
                    let hint = "give the folder that holds both as the input: then their folders are in the keys";
                    return Err(error.in_input(sample.first_path().display()).in_sample(sample.key()).hint(hint));
                }
                let split = |sample: &SampleRef<'_>| split_of(sample).map(str::to_owned);
                Self::known(listing, split, "has no word such as train, val or test in its name or its folders")
            }
            Splits::Path(rule) => {
                let split = |sample: &SampleRef<'_>| rule.group(&path_of(sample)).map(str::to_owned);
                Self::known(listing, split, "has no split by the expression of `split`")
            }
            Splits::Column(name) => {
                let split = |sample: &SampleRef<'_>| {
                    let split = name_in(sample.row().unwrap_or_default(), name, "split");
                    split.ok().flatten().map(Cow::into_owned)
                };
                Self::known(listing, split, "has no split in the metadata")
            }
            Splits::Lists(lists) => {
                let numbers = listing.iter().map(|sample| sample.split_list().unwrap_or_default()).collect();
                Ok(Self { names: lists.iter().map(|(name, _)| name.clone()).collect(), rule: Rule::Known(numbers) })
            }
            Splits::Keep if has_splits(listing) => {
                let split = |sample: &SampleRef<'_>| sample.shard().and_then(|(_, shard)| shard.split.clone());
                let advice = "has no split, though other inputs have; pass `split=none` or shares for all of them";
                Self::known(listing, split, advice)
            }
            Splits::Keep | Splits::Off => Ok(Self { names: Vec::new(), rule: Rule::None }),
        }
    }

    fn known(listing: &Listing, split: impl Fn(&SampleRef<'_>) -> Option<String>, missing: &str) -> Result<Self> {
        // Numbers only, since there may be many samples.
        let (mut seen, mut known, mut numbers) = (Vec::new(), HashMap::new(), Vec::with_capacity(listing.samples()));
        for sample in listing.iter() {
            let named = match split(&sample) {
                Some(name) if is_name(&name) => Ok(name),
                Some(name) => Err(format!("\"{name}\" can't name a split: names are {NAMES}")),
                None => Err(missing.to_owned()),
            };
            let name = named.map_err(|e| Error::config(e).in_input(sample.first_path().display()))?;
            let number = match known.get(&name) {
                Some(number) => *number,
                None => {
                    known.insert(name.clone(), seen.len());
                    seen.push(name);
                    seen.len() - 1
                }
            };
            let many =
                |_| Error::config(format!("more than {} splits are not supported; choose another `split`", u16::MAX));
            numbers.push(u16::try_from(number).map_err(many)?);
        }
        let names = ordered(listing, &seen);
        let position = |name: &String| names.iter().position(|known| known == name).unwrap_or_default() as u16;
        let positions: Vec<u16> = seen.iter().map(position).collect();
        numbers.iter_mut().for_each(|n| *n = positions.get(usize::from(*n)).copied().unwrap_or_default());
        Ok(Self { names, rule: Rule::Known(numbers) })
    }

    /// The names of the splits, in order; empty without splits.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The split of an item, as a position in the names, and the number of its first samples that are in that split; the split is
    /// 0 without splits. `place` of `total` samples come before the item.
    pub(super) fn split(&self, listing: &Listing, item: &PlanItem, place: u64, total: u64) -> (usize, u32) {
        let whole = |split: u16| (split.into(), item.count);
        match &self.rule {
            Rule::None => whole(0),
            Rule::Known(splits) => whole(splits.get(item.sample as usize).copied().unwrap_or_default()),
            Rule::Places(shares) => {
                let at = |n: u32| shares.by_place((place + u64::from(n)) as usize, total as usize);
                // Splits follow each other, so those of the samples of an item ascend.
                let first = at(0);
                let (mut same, mut other) = (0, item.count);
                while other - same > 1 {
                    let middle = same + (other - same) / 2;
                    if at(middle) == first { same = middle } else { other = middle }
                }
                (first.into(), other.max(1))
            }
            Rule::Keys(shares) => {
                let sample = listing.sample(item.sample as usize);
                whole(sample.map_or(0, |sample| shares.by_key(&unit_key(&sample, item))))
            }
        }
    }
}

/// By shares of groups, which `group` names for each sample.
fn by_groups<'a>(
    listing: &Listing,
    shares: &Shares,
    group: impl Fn(&SampleRef<'_>) -> Result<String>,
) -> Result<Rule<'a>> {
    let split = |sample: SampleRef<'_>| match group(&sample) {
        Ok(group) => Ok(shares.by_key(&group)),
        Err(e) => Err(e.in_input(sample.first_path().display())),
    };
    Ok(Rule::Known(listing.iter().map(split).collect::<Result<_>>()?))
}

/// The splits of sealed datasets in their order, with empty ones; then the others by name.
fn ordered(listing: &Listing, seen: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for split in listing.sealed().iter().flat_map(|sealed| &sealed.manifest.splits) {
        if !names.contains(&split.name) && (split.samples == 0 || seen.contains(&split.name)) {
            names.push(split.name.clone());
        }
    }
    let mut others: Vec<String> = seen.iter().filter(|name| !names.contains(name)).cloned().collect();
    others.sort();
    names.extend(others);
    names
}

fn has_splits(listing: &Listing) -> bool {
    listing.sealed().iter().any(|sealed| !sealed.manifest.splits.is_empty())
}

/// The first folder of a sample's path; of an archive's member inside the archive, or where there is none that of the archive.
fn top_folder(sample: &SampleRef<'_>) -> Option<String> {
    let top = |folder: &str| folder.split('/').next().filter(|name| !name.is_empty()).map(str::to_owned);
    let of_input = || top(&sample.relative_path().parent()?.to_string_lossy());
    match sample.table().is_some() {
        true => of_input(),
        false => top(sample.folder()).or_else(|| if sample.is_member() { of_input() } else { None }),
    }
}

/// The path of a file, as expressions see it, and of a member with its own name.
fn path_to(sample: &SampleRef<'_>) -> String {
    let path = path_of(sample);
    if sample.table().is_some() || !sample.is_member() {
        return path;
    }
    let (key, field) = (sample.key(), sample.fields().next().map_or("", |(field, _)| field));
    format!("{path}/{}.{field}", key.rsplit('/').next().unwrap_or(&key))
}

/// The key that decides the split of an item: that of its first sample.
fn unit_key(sample: &SampleRef<'_>, item: &PlanItem) -> String {
    match sample.table() {
        Some(_) => format!("{}{}", sample.key(), item.from),
        None => sample.key(),
    }
}
