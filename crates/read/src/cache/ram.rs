//! A cache in memory, by chunks.

use super::chunks::{Chunks, Found, Held};
use super::share::Share;
use super::{CacheCounters, RamCounters, RamOptions};
use packhorse_core::{BegunRead, Error, Input, InputRange, Result};
use packhorse_order::draw;
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum length of a cached shard: a longer one must be an error, and would take too many chunks.
const LONGEST: u64 = 1 << 46;

/// Chunks of shards in memory, shared by all threads.
///
/// The set of cached chunks is fixed from the start, by shard and number: as many as fit. Each is read once, by the
/// first thread that needs it, while others wait; from then on it stays, and reading it takes no lock. Of other chunks,
/// the requested bytes are read every time.
#[derive(Clone)]
pub(crate) struct RamCache(Arc<Inner>);

struct Inner {
    options: RamOptions,
    share: Share,
    shards: Mutex<BTreeMap<u64, Arc<Chunks>>>,
    counters: Arc<CacheCounters>,
    held: Arc<Held>,
}

impl RamCache {
    /// An empty cache, which adds to `counters`. Errors (kind `Config`): chunks of less than 4 KiB or more than 1 GiB.
    pub(crate) fn new(options: &RamOptions, counters: Arc<CacheCounters>) -> Result<Self> {
        if !(4096..=1 << 30).contains(&options.chunk) {
            return Err(Error::config(format!("chunks of {} bytes: give 4 KiB to 1 GiB", options.chunk)));
        }
        let share = Share::new((options.limit as f64 / options.total.max(1) as f64).min(1.0))?;
        let held = Arc::new(Held { limit: options.limit, bytes: AtomicU64::new(0) });
        let (options, shards) = (options.clone(), Mutex::default());
        Ok(Self(Arc::new(Inner { options, share, shards, counters, held })))
    }

    /// Reads `input`, the shard of this number, through the cache. An input of unknown length, or of more than 64 TiB,
    /// is returned unchanged. Cached chunks of a shard of this number with another length are dropped.
    pub(crate) fn wrap(&self, shard: u64, input: Box<dyn Input>) -> Box<dyn Input> {
        let Some(len) = input.len().filter(|&len| len <= LONGEST) else { return input };
        let cache = &*self.0;
        let mut shards = cache.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shards.get(&shard).filter(|chunks| chunks.len() == len).map(Arc::clone);
        let chunks = known.unwrap_or_else(|| {
            let keep = |number| cache.share.has(draw(cache.options.seed, 0, shard, number));
            let chunks = Arc::new(Chunks::new(len, cache.options.chunk, Arc::clone(&cache.held), keep));
            shards.insert(shard, Arc::clone(&chunks));
            chunks
        });
        Box::new(Cached { input, chunks, cache: Arc::clone(&self.0) })
    }

    /// The counters so far.
    pub(crate) fn counters(&self) -> RamCounters {
        let Inner { counters, held, .. } = &*self.0;
        RamCounters {
            hits: counters.hits.get(),
            misses: counters.misses.get(),
            bytes_hit: counters.hit_bytes.get(),
            bytes_read: counters.miss_bytes.get(),
            held: held.bytes.load(Ordering::Relaxed),
        }
    }
}

impl Inner {
    fn hit(&self, bytes: usize) {
        self.counters.hits.add(1);
        self.counters.hit_bytes.add(bytes as u64);
    }

    fn missed(&self, chunks: u64, bytes: usize) {
        self.counters.misses.add(chunks);
        self.counters.miss_bytes.add(bytes as u64);
    }
}

/// A shard read through the cache.
struct Cached {
    input: Box<dyn Input>,
    chunks: Arc<Chunks>,
    cache: Arc<Inner>,
}

impl Cached {
    /// Reads from one chunk that is to be cached.
    fn read_kept(&self, number: u64, offset: u64, out: &mut [u8]) -> Result<()> {
        let chunk = self.cache.options.chunk;
        let read = |from: u64, buf: &mut [u8]| {
            self.input.read_at(from, buf)?;
            self.cache.missed(1, buf.len());
            Ok(())
        };
        match self.chunks.get(number, offset - number * chunk, out, &read)? {
            Found::Held => self.cache.hit(out.len()),
            Found::Read => {}
            Found::NoRoom => {
                self.cache.missed(1, out.len());
                self.input.read_at(offset, out)?;
            }
        }
        Ok(())
    }

    /// Fills the start of `out` from one cached chunk, or from several consecutive chunks that are not cached; returns
    /// how much.
    fn read_some(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let chunk = self.cache.options.chunk;
        let upto = |number: u64| usize::try_from((number + 1) * chunk - offset).map_or(out.len(), |n| n.min(out.len()));
        let first = offset / chunk;
        if self.chunks.keeps(first) {
            let n = upto(first);
            self.read_kept(first, offset, out.get_mut(..n).unwrap_or_default())?;
            return Ok(n);
        }
        let mut last = first;
        while upto(last) < out.len() && !self.chunks.keeps(last + 1) {
            last += 1;
        }
        let n = upto(last);
        self.input.read_at(offset, out.get_mut(..n).unwrap_or_default())?;
        self.cache.missed(last - first + 1, n);
        Ok(n)
    }
}

impl Input for Cached {
    packhorse_core::forward_input!(input: name sibling stat);

    fn len(&self) -> Option<u64> {
        Some(self.chunks.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = self.chunks.len();
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > len) {
            return Err(Error::past_end(buf.len() as u64, offset, len).in_input(self.name()));
        }
        let mut done = 0;
        while done < buf.len() {
            let rest = buf.get_mut(done..).unwrap_or_default();
            done += self.read_some(offset + done as u64, rest)?;
        }
        Ok(())
    }

    /// Of chunks that are not cached; the others are read by the first thread that needs them.
    fn begin_read(&self, range: Range<u64>) -> Option<BegunRead<'_>> {
        let chunk = self.cache.options.chunk;
        let mut chunks = range.start / chunk..range.end.div_ceil(chunk);
        let missed = chunks.end.saturating_sub(chunks.start);
        if chunks.any(|number| self.chunks.keeps(number)) {
            return None;
        }
        let read = self.input.begin_read(range)?;
        Some(Box::new(move |buf| {
            self.cache.missed(missed, buf.len());
            read(buf)
        }))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(InputRange { input: self, offset: 0, len: self.chunks.len() }))
    }
}

#[cfg(test)]
mod tests;
