//! Settings of a loader.

use crate::{CacheOptions, OnError, ReadOptions, Remainder};
use packhorse_core::{Limits, Observer};
use packhorse_order::{OrderState, Rank, Shuffle};
use std::sync::Arc;

/// How samples become batches, who takes which, in what order, and how far ahead they are read.
#[derive(Clone)]
pub struct LoaderOptions {
    /// Samples a batch, of one rank.
    pub batch: u32,
    /// The rank that takes these batches, and the number of ranks that share the samples.
    pub rank: Rank,
    /// How samples are shuffled.
    pub shuffle: Shuffle,
    /// What decides the order and all that is drawn at random.
    pub seed: u64,
    /// Epochs in all, counted from 0, from wherever the loader begins; `None` for no end.
    pub epochs: Option<u64>,
    /// Where to begin: what [`Loader::state`](crate::Loader::state) said, on any number of ranks. `None` is the beginning of
    /// epoch 0.
    pub state: Option<OrderState>,
    /// What becomes of samples that don't fill a last step of an epoch.
    pub remainder: Remainder,
    /// What becomes of samples whose content is bad.
    pub on_error: OnError,
    /// Threads that decode and fill batches, a batch each; with 0 of them the caller's thread does all when it takes one.
    pub threads: usize,
    /// Threads that read ahead of those; with 0 of them those read. For storage that answers late, many.
    pub readers: usize,
    /// Batches that are filled or being filled ahead of the caller: so many slabs of memory. At least as many as threads.
    pub ahead: usize,
    /// Bytes that may be read ahead, beside the slabs.
    pub budget: usize,
    /// How bytes are read and checked.
    pub read: ReadOptions,
    /// What of the shards is kept near.
    pub cache: CacheOptions,
    /// CPUs of this machine that the loader's threads run on; all that the process may use if empty.
    pub cores: Vec<usize>,
    /// Bounds on what samples may cost.
    pub limits: Limits,
    /// Sees what was left out, and warnings.
    pub observer: Arc<dyn Observer>,
}

impl LoaderOptions {
    /// One rank, one epoch, blocks of 16 shards shuffled by seed 0, samples dropped that don't fill a last batch, bad samples
    /// an error; as many threads as there are CPUs, two that read, two batches more ahead than threads, 1 GiB read ahead.
    pub fn new(batch: u32) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            batch,
            rank: Rank::default(),
            shuffle: Shuffle::Blocks { shards: 16 },
            seed: 0,
            epochs: Some(1),
            state: None,
            remainder: Remainder::Drop,
            on_error: OnError::Fail,
            threads,
            readers: 2,
            ahead: threads + 2,
            budget: 1 << 30,
            read: ReadOptions::default(),
            cache: CacheOptions::default(),
            cores: Vec::new(),
            limits: Limits::default(),
            observer: Arc::new(()),
        }
    }
}

impl std::fmt::Debug for LoaderOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoaderOptions")
            .field("batch", &self.batch)
            .field("rank", &self.rank)
            .field("shuffle", &self.shuffle)
            .field("seed", &self.seed)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
