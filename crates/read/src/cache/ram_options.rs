//! Settings of a cache in memory, and its counters.

/// The size of a cache in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RamOptions {
    /// The maximum number of cached bytes.
    pub(crate) limit: u64,
    /// Bytes of all shards that will be read, which determine the cached fraction.
    pub(crate) total: u64,
    /// The size of a chunk, at least 4096 bytes; chunks begin at multiples of it.
    pub(crate) chunk: u64,
    /// The seed that selects the cached part: give different ones to ranks that can share their parts.
    pub(crate) seed: u64,
}

impl RamOptions {
    /// `limit` bytes of `total`, in chunks of 1 MiB.
    pub(crate) fn new(limit: u64, total: u64) -> Self {
        Self { limit, total, chunk: 1 << 20, seed: 0 }
    }
}

/// Counters of a cache in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RamCounters {
    /// Reads of chunks that were in memory.
    pub hits: u64,
    /// Reads of chunks that were not in memory.
    pub misses: u64,
    /// Bytes served from memory.
    pub bytes_hit: u64,
    /// Bytes read from shards.
    pub bytes_read: u64,
    /// Bytes cached now.
    pub held: u64,
}
