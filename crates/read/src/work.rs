//! What a pipeline's threads do for a step.

use crate::Layout;
use crate::batch_metadata::BatchMetadata;
use packhorse_core::Result;
use std::sync::Arc;

/// Makes batches: reads what a step needs, then fills a slab with it. Both are called for any steps from any threads.
pub trait Work: Send + Sync + 'static {
    /// What was read for a step.
    type Fetched: Send + 'static;
    /// What a thread keeps from step to step.
    type Scratch: Default + Send;
    /// Where a loader is, for another one to go on from.
    type State: Clone;

    /// Where the fields of every batch are.
    fn layout(&self) -> &Arc<Layout>;

    /// Where to go on after the first `steps` steps.
    fn state(&self, steps: u64) -> Self::State;

    /// Reads what `step` needs; `None` at the end. Errors are those of the whole batch.
    fn fetch(&self, step: u64, scratch: &mut Self::Scratch) -> Result<Option<Self::Fetched>>;

    /// Ends all waits of `fetch`: nothing that is fetched from now on is used.
    fn stop(&self) {}

    /// Bytes of memory that `fetched` holds.
    fn weight(&self, fetched: &Self::Fetched) -> usize;

    /// Fills `slab`. If that is too small, returns how many bytes are needed and what was fetched.
    fn fill(
        &self,
        step: u64,
        fetched: Self::Fetched,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        scratch: &mut Self::Scratch,
    ) -> Result<Option<(usize, Self::Fetched)>>;
}
