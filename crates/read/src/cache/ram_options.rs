//! Settings of a cache in memory, and its counters.

/// How much a cache in memory keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RamOptions {
    /// The most bytes that are kept.
    pub limit: u64,
    /// Bytes of all shards that will be read: what part of them fits follows from that.
    pub total: u64,
    /// Bytes that are read and kept together, at least 4096: a shard's, from a multiple of this on.
    pub chunk: u64,
    /// The seed of the choice of the part: different seeds on ranks that can share their parts.
    pub seed: u64,
}

impl RamOptions {
    /// `limit` bytes of `total`, by the MiB.
    pub fn new(limit: u64, total: u64) -> Self {
        Self { limit, total, chunk: 1 << 20, seed: 0 }
    }
}

/// What a cache in memory did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RamCounters {
    /// Chunks that reads found in memory.
    pub hits: u64,
    /// Chunks that reads did not find.
    pub misses: u64,
    /// Bytes that reads were given from memory.
    pub bytes_hit: u64,
    /// Bytes that were read from shards.
    pub bytes_read: u64,
    /// Bytes that are kept now.
    pub held: u64,
}
