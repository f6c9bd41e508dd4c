//! Settings of a cache in a folder.

use std::path::PathBuf;

/// Settings of a cache in a local folder.
#[derive(Clone, Debug, PartialEq)]
pub struct DirOptions {
    /// The local folder; several datasets may share it.
    pub dir: PathBuf,
    /// The maximum number of bytes for all datasets; the least recently used copies are evicted first.
    pub limit: Option<u64>,
    /// The fraction of the shards to cache, from 0 to 1. If not all fit the limit, give the fraction that does: shards
    /// that evict each other are copied in vain.
    pub fraction: f64,
    /// Whether to wait for a shard that another process is copying; else it is read from the source.
    pub wait: bool,
    /// Whether the dataset's copies are removed when the last user on this machine closes the cache.
    pub remove: bool,
    /// Concurrent reads per copy.
    pub reads: usize,
}

impl DirOptions {
    /// All shards, in `dir`, without a limit, not removed; four concurrent reads; does not wait for other processes.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), limit: None, fraction: 1.0, wait: false, remove: false, reads: 4 }
    }
}
