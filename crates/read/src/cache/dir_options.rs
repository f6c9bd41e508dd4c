//! Settings of a cache in a folder.

use std::path::PathBuf;

/// Where copies lie, how many, and who makes them.
#[derive(Clone, Debug, PartialEq)]
pub struct DirOptions {
    /// The folder, of this machine; several datasets may share it.
    pub dir: PathBuf,
    /// The most bytes that are kept there, of all datasets: what was used least recently goes first.
    pub limit: Option<u64>,
    /// The part of the shards that is kept, from 0 to 1. Where not all fit below the limit, give the part that does:
    /// shards that push each other out are copied for nothing.
    pub fraction: f64,
    /// Whether a shard that another process is copying is waited for; else it counts as not there.
    pub wait: bool,
    /// Whether the dataset's copies are removed when the last user on this machine is through.
    pub remove: bool,
    /// Reads in flight for a copy.
    pub reads: usize,
}

impl DirOptions {
    /// All shards, in `dir`, without a limit, kept; four reads at once; does not wait for copies by others.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), limit: None, fraction: 1.0, wait: false, remove: false, reads: 4 }
    }
}
