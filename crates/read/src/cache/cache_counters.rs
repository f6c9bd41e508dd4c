//! Counters of caches.

use crate::count::Count;

/// How often caches had what was asked for.
#[derive(Debug, Default)]
pub(crate) struct CacheCounters {
    /// Reads of chunks that were in memory.
    pub(crate) hits: Count,
    /// Reads of chunks that were not.
    pub(crate) misses: Count,
    pub(crate) hit_bytes: Count,
    pub(crate) miss_bytes: Count,
    /// Shards opened in the cache folder.
    pub(crate) shards_cached: Count,
    /// Shards opened where the dataset is.
    pub(crate) shards_opened: Count,
}
