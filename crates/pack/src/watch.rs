//! watch: how far a plan is while other processes fill it. Known from receipts and staging folders alone.

use crate::parallel_map::parallel_map;
use crate::part_errors::of_missing;
use crate::plans::open_plans;
use crate::recorded_files::sealed_manifest;
use crate::replace::is_replacing;
use crate::shard_stems::shard_stems;
use crate::stored_plan::{threads, unless_late, valid_receipt};
use packhorse_core::{Error, Result, Store};
use packhorse_dataset::{PartError, PlanReader, RECEIPT_SUFFIX, ShardFrame};
use packhorse_storage::{Staging, staged};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Looks again and again at a plan that is being filled. Reads each receipt once.
pub struct Watch {
    store: Arc<dyn Store>,
    place: PathBuf,
    plan: PlanReader,
    /// Of each shard: when its receipt was written, in nanoseconds since 1970.
    done: Vec<Option<i64>>,
    /// The positions of shards, sorted by name.
    by_name: Vec<usize>,
    packed: u64,
    /// Shards, samples and bytes of input of the plans before, whose shards are sealed.
    before: (u64, u64, u64),
}

/// How far a plan is.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Planned shards.
    pub shards: u64,
    /// Those of the last plan, which the tasks of an array divide among them.
    pub divided: u64,
    /// Complete shards.
    pub complete: u64,
    /// Planned samples; `None` if not all inputs count theirs.
    pub samples: Option<u64>,
    /// Samples in complete shards.
    pub packed: u64,
    /// Bytes of input.
    pub bytes: u64,
    /// Bytes of input of complete shards.
    pub packed_bytes: u64,
    /// Shards that processes are writing, in plan order.
    pub running: Vec<RunningShard>,
    /// The other shards without a valid receipt, in plan order.
    pub waiting: Vec<MissingShard>,
    /// The last errors of parts of the plan that still lack shards, in order of the parts.
    pub errors: Vec<PartError>,
    /// Bytes of input a second over the last ten minutes; `None` if fewer than two shards became complete in them.
    pub rate: Option<f64>,
    /// Whether the dataset is sealed.
    pub sealed: bool,
}

/// A shard without a valid receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingShard {
    /// Its number in the plan, from 0.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Bytes of input.
    pub bytes: u64,
}

/// A shard that a process is writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningShard {
    /// The shard.
    pub shard: MissingShard,
    /// The host of the process.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// Bytes of the shard's files so far.
    pub written: u64,
}

/// Staged files that were written to within this time are those of a running process, and shards that were completed
/// within it count for the rate: ten minutes, in nanoseconds.
const RECENT: i64 = 600_000_000_000;

impl Watch {
    /// Opens the plan in the folder `out`: the last one, or that of the replacement, if one is under way.
    pub(crate) fn open(store: Arc<dyn Store>, out: &Path) -> Result<Self> {
        let place = if is_replacing(&*store, out)? { Staging::replacing(out) } else { out.to_owned() };
        let mut plans = open_plans(&*store, &place)?;
        let plan = plans.pop().ok_or_else(|| Error::bug("a folder with plans, but without one"))?;
        let all = || plans.iter().flat_map(|plan| plan.shards());
        let names: HashSet<&str> = all().map(|shard| shard.name.as_str()).collect();
        // Shards are added to a sealed dataset, whose manifest knows their samples.
        let manifest = if names.is_empty() { None } else { sealed_manifest(&*store, &place)? };
        let old = manifest.iter().flat_map(|manifest| &manifest.shards).filter(|shard| names.contains(&*shard.name));
        let before = (names.len() as u64, old.map(|shard| shard.samples).sum(), all().map(|shard| shard.bytes).sum());
        let mut by_name: Vec<usize> = (0..plan.shards().len()).collect();
        by_name.sort_unstable_by_key(|i| plan.shards().get(*i).map(|shard| shard.name.as_str()));
        Ok(Self { store, place, done: vec![None; plan.shards().len()], by_name, packed: 0, before, plan })
    }

    /// How far the plan is now.
    pub fn look(&mut self) -> Result<Snapshot> {
        self.look_at(SystemTime::now())
    }

    fn look_at(&mut self, now: SystemTime) -> Result<Snapshot> {
        self.find_receipts()?;
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
        let (shards, before) = (self.plan.shards(), self.before);
        let done = || self.done.iter().zip(shards).filter_map(|(time, shard)| Some(((*time)?, shard.bytes)));
        let complete = done().count() as u64;
        let running = self.running(now);
        let busy: HashSet<usize> = running.iter().map(|running| running.shard.number).collect();
        let waiting = (0..shards.len()).filter(|i| !busy.contains(i)).filter_map(|i| self.missing(i)).collect();
        let open = shards.iter().zip(&self.done).filter(|(_, done)| done.is_none()).map(|(shard, _)| &*shard.name);
        let errors = of_missing(&*self.store, &self.place, &self.plan, &open.collect::<Vec<_>>());
        let whole = complete == shards.len() as u64;
        let manifest = if whole { sealed_manifest(&*self.store, &self.place)? } else { None };
        Ok(Snapshot {
            shards: before.0 + shards.len() as u64,
            divided: shards.len() as u64,
            complete: before.0 + complete,
            samples: self.plan.samples().map(|samples| before.1 + samples),
            packed: before.1 + self.packed,
            bytes: before.2 + shards.iter().map(|shard| shard.bytes).sum::<u64>(),
            packed_bytes: before.2 + done().map(|(_, bytes)| bytes).sum::<u64>(),
            running,
            waiting,
            errors,
            rate: rate(&done().collect::<Vec<_>>(), now),
            sealed: manifest.is_some_and(|manifest| manifest.plans().any(|plan| plan == self.plan.digest())),
        })
    }

    /// Notes the shards that became complete.
    fn find_receipts(&mut self) -> Result<()> {
        let mut names = unless_late(&self.place, self.store.list(&self.place))?;
        names.retain(|name| name.to_string_lossy().ends_with(RECEIPT_SUFFIX));
        names.sort_unstable();
        let shards = self.plan.shards();
        let receipt = |shard: &ShardFrame| PathBuf::from(format!("{}{RECEIPT_SUFFIX}", shard.name));
        let is_open = |i: &usize| self.done.get(*i).is_some_and(Option::is_none);
        let is_listed = |shard: &ShardFrame| names.binary_search(&receipt(shard)).is_ok();
        let new: Vec<usize> =
            (0..shards.len()).filter(|i| is_open(i) && shards.get(*i).is_some_and(is_listed)).collect();
        let look = |i: &usize| {
            let Some(shard) = shards.get(*i) else { return Ok(None) };
            let Some(valid) = valid_receipt(&*self.store, &self.place, self.plan.digest(), shard)? else {
                return Ok(None);
            };
            Ok(Some((self.store.stat(&self.place.join(receipt(shard)), true)?.mtime, valid.samples)))
        };
        let found = parallel_map(&new, threads(new.len()), &look)?;
        for (i, (time, samples)) in new.into_iter().zip(found).filter_map(|(i, found)| Some((i, found?))) {
            if let Some(done) = self.done.get_mut(i) {
                *done = Some(time);
            }
            self.packed += samples;
        }
        Ok(())
    }

    fn missing(&self, number: usize) -> Option<MissingShard> {
        let shard = self.plan.shards().get(number)?;
        let missing = self.done.get(number)?.is_none();
        missing.then(|| MissingShard { number, name: shard.name.clone(), bytes: shard.bytes })
    }

    fn running(&self, now: i64) -> Vec<RunningShard> {
        let mut running = BTreeMap::new();
        for group in staged(&*self.store, &self.place) {
            let number = group.files.iter().find_map(|file| self.shard_of(file));
            if now.saturating_sub(group.written) < RECENT
                && let Some(shard) = number.and_then(|number| self.missing(number))
            {
                let number = shard.number;
                running.insert(number, RunningShard { shard, host: group.host, pid: group.pid, written: group.bytes });
            }
        }
        running.into_values().collect()
    }

    /// The shard that a file belongs to, by its name up to one of its dots.
    fn shard_of(&self, file: &str) -> Option<usize> {
        let name = |i: &usize| self.plan.shards().get(*i).map(|shard| shard.name.as_str());
        let mut found = shard_stems(file).filter_map(|stem| self.by_name.binary_search_by_key(&Some(stem), name).ok());
        self.by_name.get(found.next()?).copied()
    }
}

impl Snapshot {
    /// All shards without a valid receipt, in plan order.
    pub fn missing(&self) -> Vec<&MissingShard> {
        let mut missing: Vec<&MissingShard> =
            self.running.iter().map(|running| &running.shard).chain(&self.waiting).collect();
        missing.sort_by_key(|shard| shard.number);
        missing
    }

    /// Seconds until the last shard is complete, at the rate of the last ten minutes.
    pub fn seconds_left(&self) -> Option<f64> {
        let left = self.bytes.saturating_sub(self.packed_bytes) as f64;
        self.rate.filter(|rate| *rate > 0.0 && self.complete < self.shards).map(|rate| left / rate)
    }
}

/// Bytes a second of the shards that were completed lately: `done` has time and bytes of each.
fn rate(done: &[(i64, u64)], now: i64) -> Option<f64> {
    // Clocks of other machines may be ahead.
    let now = done.iter().map(|(time, _)| *time).max()?.max(now);
    let recent = || done.iter().filter(|(time, _)| now - time < RECENT);
    let (start, first) = recent().min()?;
    let seconds = (now - start) as f64 / 1e9;
    let bytes = recent().map(|(_, bytes)| bytes).sum::<u64>() - first;
    (recent().count() > 1 && seconds > 0.0).then(|| bytes as f64 / seconds)
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("place", &self.place).field("shards", &self.done.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_ten_minutes() {
        const SECOND: i64 = 1_000_000_000;
        assert_eq!(rate(&[], 0), None);
        assert_eq!(rate(&[(SECOND, 10)], 2 * SECOND), None);
        let done = [(SECOND, 100), (1000 * SECOND, 7), (1010 * SECOND, 50), (1020 * SECOND, 150)];
        assert_eq!(rate(&done, 1020 * SECOND), Some(10.0));
        assert_eq!(rate(&done, 1040 * SECOND), Some(5.0));
        assert_eq!(rate(&done, 0), Some(10.0));
        assert_eq!(rate(&done, 5000 * SECOND), None);
    }
}
