//! The counters that the threads of a loader add to.

use crate::LoaderStats;
use crate::cache::CacheCounters;
use crate::count::{Count, Time};
use std::sync::Arc;

/// What a loader has done so far, counted by its threads: [`Loader::counters`](crate::Loader::counters). It can be looked at from
/// any thread, also after the loader has moved to an [`Ahead`](crate::Ahead), and outlives the loader.
///
/// Loaders that are given the same counters ([`LoaderOptions::counters`](crate::LoaderOptions::counters)) add up.
#[derive(Debug, Default)]
pub struct LoaderCounters {
    pub(crate) batches: Count,
    pub(crate) samples: Count,
    pub(crate) bytes: Count,
    pub(crate) errors: Count,
    pub(crate) skipped: Count,
    pub(crate) late: Count,
    pub(crate) wait: Time,
    pub(crate) read: Time,
    pub(crate) read_bytes: Count,
    pub(crate) readahead_bytes: Count,
    pub(crate) decode: Time,
    pub(crate) upload: Time,
    pub(crate) read_blocked: Time,
    pub(crate) decode_starved: Time,
    pub(crate) decode_blocked: Time,
    pub(crate) upload_starved: Time,
    pub(crate) ready: Count,
    pub(crate) ahead: Count,
    pub(crate) prefetched: Count,
    pub(crate) prefetched_bytes: Count,
    pub(crate) cache: Arc<CacheCounters>,
}

impl LoaderCounters {
    /// Counts a batch that the caller got, or its error.
    pub(crate) fn taken(&self, is_ok: bool, (samples, bytes): (u64, u64)) {
        if !is_ok {
            return self.errors.add(1);
        }
        self.batches.add(1);
        self.samples.add(samples);
        self.bytes.add(bytes);
    }

    /// Their values now. They are read one after another while threads add to them, so a sum may be a batch off.
    pub fn stats(&self) -> LoaderStats {
        let cache = &self.cache;
        LoaderStats {
            batches: self.batches.get(),
            samples: self.samples.get(),
            bytes: self.bytes.get(),
            errors: self.errors.get(),
            skipped: self.skipped.get(),
            late: self.late.get(),
            wait: self.wait.get(),
            read: self.read.get(),
            read_bytes: self.read_bytes.get(),
            readahead_bytes: self.readahead_bytes.get(),
            decode: self.decode.get(),
            upload: self.upload.get(),
            read_blocked: self.read_blocked.get(),
            decode_starved: self.decode_starved.get(),
            decode_blocked: self.decode_blocked.get(),
            upload_starved: self.upload_starved.get(),
            ready: self.ready.get(),
            ahead: self.ahead.get(),
            prefetched: self.prefetched.get(),
            prefetched_bytes: self.prefetched_bytes.get(),
            cache_hits: cache.hits.get(),
            cache_misses: cache.misses.get(),
            cache_hit_bytes: cache.hit_bytes.get(),
            cache_miss_bytes: cache.miss_bytes.get(),
            shards_cached: cache.shards_cached.get(),
            shards_opened: cache.shards_opened.get(),
        }
    }
}
