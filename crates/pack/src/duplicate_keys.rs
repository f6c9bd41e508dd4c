//! Keys that occur twice in a dataset, found from the shards' member indexes in passes of bounded memory.

use crate::damage::Damage;
use crate::parallel_map::parallel_map;
use crate::stored_plan::threads;
use packhorse_core::{Cancel, Members, Result};
use packhorse_dataset::{Manifest, ShardRecord};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, PoisonError};

/// Keys per pass, 8 bytes each.
const PASS: u64 = 1 << 24;

/// At most this many duplicates are reported.
pub(crate) const NAMED: usize = 100;

/// A key that two samples have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DuplicateKey {
    pub(crate) key: String,
    /// The shards of the first and of the second sample; may be the same shard.
    pub(crate) shards: (usize, usize),
}

/// Duplicates, up to [`NAMED`], among `samples` samples in `shards` shards, ordered by their second sample. `members` loads the
/// index of a shard; `None` if it has no readable index.
pub(crate) fn doubles(
    shards: usize,
    samples: u64,
    cancel: &Cancel,
    members: &(dyn Fn(usize) -> Result<Option<Members>> + Sync),
) -> Result<Vec<DuplicateKey>> {
    doubles_by(PASS, shards, samples, cancel, members)
}

/// The duplicate keys of a sealed dataset, as damage.
pub(crate) fn duplicate_key_damages(
    manifest: &Manifest,
    cancel: &Cancel,
    members: &(dyn Fn(&ShardRecord) -> Result<Option<Members>> + Sync),
) -> Result<Vec<Damage>> {
    let load = |i: usize| manifest.shards.get(i).map_or(Ok(None), members);
    let file = |i: usize| manifest.shards.get(i).map_or("", |shard| shard.file.as_str());
    let damage = |double: DuplicateKey| {
        let problem = format!("is the key of two samples; the other is in {}", file(double.shards.0));
        Damage { file: file(double.shards.1).to_owned(), member: Some(double.key), problem }
    };
    Ok(doubles(manifest.shards.len(), manifest.samples, cancel, &load)?.into_iter().map(damage).collect())
}

fn doubles_by(
    most: u64,
    shards: usize,
    samples: u64,
    cancel: &Cancel,
    members: &(dyn Fn(usize) -> Result<Option<Members>> + Sync),
) -> Result<Vec<DuplicateKey>> {
    let passes = samples.div_ceil(most).max(1);
    let numbers: Vec<usize> = (0..shards).collect();
    let mut suspects = Vec::new();
    for pass in 0..passes {
        let hashes = Mutex::new(Vec::new());
        parallel_map(&numbers, threads(shards), &|shard| {
            cancel.check()?;
            let Some(members) = members(*shard)? else { return Ok(()) };
            let mine = members.iter().map(|(key, _)| hash(key)).filter(|hash| hash % passes == pass);
            hashes.lock().unwrap_or_else(PoisonError::into_inner).extend(mine);
            Ok(())
        })?;
        let mut hashes = hashes.into_inner().unwrap_or_else(PoisonError::into_inner);
        hashes.sort_unstable();
        let equal = hashes.windows(2).filter(|pair| pair.first() == pair.last()).filter_map(|pair| pair.first());
        suspects.extend(equal.take(NAMED));
        if suspects.len() >= NAMED {
            break;
        }
    }
    if suspects.is_empty() { Ok(Vec::new()) } else { named(&mut suspects, shards, cancel, members) }
}

/// The keys of hashes that occurred twice; different keys with equal hashes are dropped.
fn named(
    suspects: &mut Vec<u64>,
    shards: usize,
    cancel: &Cancel,
    members: &(dyn Fn(usize) -> Result<Option<Members>> + Sync),
) -> Result<Vec<DuplicateKey>> {
    suspects.sort_unstable();
    suspects.dedup();
    let (mut first, mut found) = (HashMap::new(), Vec::new());
    for shard in 0..shards {
        cancel.check()?;
        let Some(members) = members(shard)? else { continue };
        for (key, _) in members.iter().filter(|(key, _)| suspects.binary_search(&hash(key)).is_ok()) {
            match first.get(key) {
                None => drop(first.insert(key.to_owned(), shard)),
                Some(before) if found.len() < NAMED => {
                    found.push(DuplicateKey { key: key.to_owned(), shards: (*before, shard) });
                }
                Some(_) => {}
            }
        }
    }
    Ok(found)
}

/// A number that tells keys apart, mostly.
pub(crate) fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn keys_that_come_twice_are_found_in_any_number_of_passes(
            shards in proptest::collection::vec(proptest::collection::vec(0u8..40, 0..8), 1..6),
            most in 1u64..50,
        ) {
            let load = |i: usize| {
                let mut members = Members::new(Vec::new());
                shards.get(i).into_iter().flatten().for_each(|key| members.push_sample(&format!("key {key}")));
                Ok(Some(members))
            };
            let samples = shards.iter().map(Vec::len).sum::<usize>() as u64;
            let found = doubles_by(most, shards.len(), samples, &Cancel::default(), &load).unwrap();
            let (mut seen, mut wanted) = (BTreeSet::new(), BTreeSet::new());
            for key in shards.iter().flatten() {
                if !seen.insert(key) {
                    wanted.insert(format!("key {key}"));
                }
            }
            prop_assert_eq!(found.iter().map(|d| d.key.clone()).collect::<BTreeSet<_>>(), wanted);
            for double in found {
                let holds = |shard: usize| shards[shard].iter().any(|key| format!("key {key}") == double.key);
                prop_assert!(holds(double.shards.0) && holds(double.shards.1) && double.shards.0 <= double.shards.1);
            }
        }
    }
}
