//! Settings of a loader.

use crate::{CacheOptions, LoaderCounters, OnError, ReadOptions, Remainder};
use packhorse_core::{Limits, Observer};
use packhorse_order::{OrderState, Rank, Shuffle};
use std::sync::Arc;

/// How samples are ordered, shared among ranks, batched and read ahead.
#[derive(Clone)]
pub struct LoaderOptions {
    /// Samples per batch and rank.
    pub batch: u32,
    /// The rank of this loader, and the number of ranks that share the samples.
    pub rank: Rank,
    /// How samples are shuffled; `None` is [`Dataset::default_shuffle`](crate::Dataset::default_shuffle).
    pub shuffle: Option<Shuffle>,
    /// The seed of the order and of all random numbers.
    pub seed: u64,
    /// The total number of epochs, counted from epoch 0 even when resuming; `None` for no end.
    pub epochs: Option<u64>,
    /// The state to resume from, by [`Loader::state`](crate::Loader::state) on any number of ranks. `None` is the
    /// beginning of epoch 0.
    pub state: Option<OrderState>,
    /// The treatment of samples that don't fill the last step of an epoch.
    pub remainder: Remainder,
    /// The treatment of samples with bad content, and of those of missing and damaged shards.
    pub on_error: OnError,
    /// The numbers of samples to leave out. Order and states are as without them: their batches have fewer
    /// rows.
    pub skip: Arc<[u64]>,
    /// Threads that decode and fill batches, one batch each; with 0 the caller's thread does this when it takes a
    /// batch.
    pub threads: usize,
    /// Threads that read ahead; with 0 the filling threads read. Use many for storage with high latency.
    pub readers: usize,
    /// Batches that are filled or being filled ahead of the caller, each in a slab of memory; at least as many as
    /// threads.
    pub ahead: usize,
    /// Bytes that may be read ahead, in addition to the slabs.
    pub budget: usize,
    /// Whether a thread reads the shards of a shuffled block from begin to end, a block before the loader needs them, so that they are in the page
    /// cache by then: random reads are slow. It reads files of this machine's file systems alone, where one node reads most of their bytes and
    /// its memory holds two blocks twice, and none of a dataset below 8 MiB, without `readers`, or with a cache.
    pub readahead: bool,
    /// How bytes are read and checked.
    pub read: ReadOptions,
    /// The cache of shards.
    pub cache: CacheOptions,
    /// The CPUs that the loader's threads run on; if empty, all that the process may use.
    pub cores: Vec<usize>,
    /// Limits on the size of samples.
    pub limits: Limits,
    /// Receives skipped samples and warnings.
    pub observer: Arc<dyn Observer>,
    /// What the loader adds its counts to; `None` for counters of its own.
    pub counters: Option<Arc<LoaderCounters>>,
}

impl LoaderOptions {
    /// One rank, one epoch, shuffled as the dataset's default is with seed 0, the last incomplete batch dropped, bad samples
    /// an error; as many threads as CPUs, two readers, two batches more ahead than threads, 1 GiB read ahead.
    pub fn new(batch: u32) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            batch,
            rank: Rank::default(),
            shuffle: None,
            seed: 0,
            epochs: Some(1),
            state: None,
            remainder: Remainder::Drop,
            on_error: OnError::Fail,
            skip: Arc::default(),
            threads,
            readers: 2,
            ahead: threads + 2,
            budget: 1 << 30,
            readahead: true,
            read: ReadOptions::default(),
            cache: CacheOptions::default(),
            cores: Vec::new(),
            limits: Limits::default(),
            observer: Arc::new(()),
            counters: None,
        }
    }

    /// How samples are read: who gives memory to a cache of shards gives it to decoded rows too.
    pub(crate) fn reading(&self) -> ReadOptions {
        let rows = self.read.rows.max(usize::try_from(self.cache.ram).unwrap_or(usize::MAX));
        ReadOptions { rows, ..self.read.clone() }
    }

    /// The numbers of samples to leave out, ascending.
    pub(crate) fn skipped(&self) -> Arc<[u64]> {
        if self.skip.is_sorted() {
            return Arc::clone(&self.skip);
        }
        let mut sorted = self.skip.to_vec();
        sorted.sort_unstable();
        sorted.into()
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
