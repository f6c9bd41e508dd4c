//! The work of a pipeline's threads.

use crate::batch_metadata::BatchMetadata;
use crate::{Layout, LoaderCounters};
use packhorse_core::Result;
use std::sync::Arc;

/// Makes batches: fetches the data of a step, then fills a slab. Both are called for any steps from any threads.
pub trait Work: Send + Sync + 'static {
    /// The data read for a step.
    type Fetched: Send + 'static;
    /// Buffers that a thread reuses between steps.
    type Scratch: Default + Send;
    /// The state of a loader, to resume from.
    type State: Clone;

    /// The layout of every batch.
    fn layout(&self) -> &Arc<Layout>;

    /// What has been done.
    fn counters(&self) -> &Arc<LoaderCounters>;

    /// The state after the first `steps` steps.
    fn state(&self, steps: u64) -> Self::State;

    /// Reads the data of `step`; `None` at the end. Errors apply to the whole batch.
    fn fetch(&self, step: u64, scratch: &mut Self::Scratch) -> Result<Option<Self::Fetched>>;

    /// Whether [`read_ahead`](Self::read_ahead) has anything to do.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// Reads what later steps want, on a thread of its own, until `stop` is called.
    fn read_ahead(&self) {}

    /// Ends all waits of `fetch` and `read_ahead`; data fetched from now on is not used.
    fn stop(&self) {}

    /// The memory held by fetched data, in bytes.
    fn weight(&self, _: &Self::Fetched) -> usize {
        0
    }

    /// The bytes of samples that were read for them.
    fn read_bytes(&self, fetched: &Self::Fetched) -> u64 {
        self.weight(fetched) as u64
    }

    /// Fills `slab`. If it is too small, returns the number of bytes needed and the fetched data.
    fn fill(
        &self,
        step: u64,
        fetched: Self::Fetched,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        scratch: &mut Self::Scratch,
    ) -> Result<Option<(usize, Self::Fetched)>>;
}
