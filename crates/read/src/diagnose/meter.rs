//! Time of reads, by shard.

use crate::count::{Count, Time};
use crate::dataset::Shard;
use crate::opened::Opener;
use packhorse_core::{BegunRead, Input, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A shard that takes far longer to read than the others.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowShard {
    /// Its name.
    pub name: String,
    /// Bytes per second of its reads.
    pub bytes_per_s: f64,
    /// That of the median shard.
    pub median: f64,
}

/// Reads of all shards, counted from any thread.
#[derive(Clone, Default)]
pub(crate) struct Meter {
    shards: Arc<Mutex<BTreeMap<u32, Arc<Counts>>>>,
    on: Arc<AtomicBool>,
}

#[derive(Default)]
struct Counts {
    name: String,
    reads: Count,
    bytes: Count,
    time: Time,
}

/// Reads a shard needs before its rate means something.
const READS: u64 = 3;
/// How often a slow shard's rate fits into the median one.
const SLOWER: f64 = 4.0;

impl Meter {
    /// Opens shards as `inner` does, and counts their reads.
    pub(crate) fn opener(&self, inner: Opener) -> Opener {
        let meter = self.clone();
        Box::new(move |number, shard: &Shard| {
            let (input, soon) = inner(number, shard)?;
            let metered = Metered { input, counts: meter.of(number, &shard.name), on: Arc::clone(&meter.on) };
            Ok((Box::new(metered), soon))
        })
    }

    /// Whether reads are counted from now on; at first they are not.
    pub(super) fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    fn of(&self, number: u32, name: &str) -> Arc<Counts> {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Counts { name: name.to_owned(), ..Counts::default() });
        Arc::clone(shards.entry(number).or_insert_with(new))
    }

    /// Shards whose reads are far slower than those of the median shard, where at least four were read; the slowest
    /// first.
    pub(super) fn slow(&self) -> Vec<SlowShard> {
        let shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let rates = shards.values().filter(|counts| counts.reads.get() >= READS).map(|counts| {
            let seconds = counts.time.get().as_secs_f64().max(1e-9);
            (&counts.name, counts.bytes.get() as f64 / seconds)
        });
        let mut rates: Vec<_> = rates.collect();
        rates.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
        let median = rates.get(rates.len() / 2).map_or(0.0, |(_, rate)| *rate);
        let enough = rates.len() >= 4;
        let slow = rates.into_iter().take_while(|(_, rate)| enough && rate * SLOWER < median);
        slow.map(|(name, bytes_per_s)| SlowShard { name: name.clone(), bytes_per_s, median }).collect()
    }
}

/// A shard whose reads are counted.
struct Metered {
    input: Box<dyn Input>,
    counts: Arc<Counts>,
    on: Arc<AtomicBool>,
}

impl Metered {
    /// Counts a read of `len` bytes, and the time in it.
    fn counted(&self, len: usize, read: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.on.load(Ordering::Relaxed) {
            return read();
        }
        let Counts { reads, bytes, time, .. } = &*self.counts;
        bytes.add(len as u64);
        reads.add(1);
        time.of(read)
    }
}

impl Input for Metered {
    packhorse_core::forward_input!(input: name len stream sibling stat pinned local_path);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.counted(buf.len(), || self.input.read_at(offset, buf))
    }

    fn begin_read(&self, range: Range<u64>) -> Option<BegunRead<'_>> {
        let read = self.input.begin_read(range)?;
        Some(Box::new(move |buf| self.counted(buf.len(), || read(buf))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn counted(meter: &Meter, number: u32, reads: u64, bytes: u64, milliseconds: u64) {
        let counts = meter.of(number, &format!("shard-{number}"));
        counts.reads.add(reads);
        counts.bytes.add(bytes);
        counts.time.add(Duration::from_millis(milliseconds));
    }

    #[test]
    fn a_shard_is_slow_by_comparison_and_after_several_reads() {
        let even = Meter::default();
        (0..5).for_each(|number| counted(&even, number, 10, 1000, 10));
        assert!(even.slow().is_empty());
        let meter = Meter::default();
        (0..2).for_each(|number| counted(&meter, number, 10, 1000, 10));
        counted(&meter, 2, 10, 1000, 100);
        counted(&meter, 3, 10, 1000, 30);
        counted(&meter, 4, READS - 1, 10, 1000);
        let wanted = SlowShard { name: "shard-2".into(), bytes_per_s: 10_000.0, median: 100_000.0 };
        assert_eq!(meter.slow(), [wanted]);
        let few = Meter::default();
        (0..3).for_each(|number| counted(&few, number, 10, 1000, 1 + 1000 * u64::from(number)));
        assert!(few.slow().is_empty());
    }
}
