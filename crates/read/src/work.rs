//! What a pipeline's threads do for a step.

use crate::Layout;
use crate::batch_metadata::BatchMetadata;
use packhorse_core::Result;
use std::sync::Arc;

/// Makes batches: reads what a step needs, then fills a slab with it. Both are called for any steps from any threads.
pub(crate) trait Work: Send + Sync + 'static {
    /// What was read for a step.
    type Fetched: Send + 'static;
    /// What a thread keeps from step to step.
    type Scratch: Default + Send;

    fn layout(&self) -> &Arc<Layout>;

    /// Reads what `step` needs; `None` where there is nothing any more. Errors are those of the whole batch.
    fn fetch(&self, step: u64, scratch: &mut Self::Scratch) -> Result<Option<Self::Fetched>>;

    /// Nothing that is fetched from now on is used: whoever waits for something ends.
    fn stop(&self) {}

    /// Bytes of memory that `fetched` holds.
    fn weight(&self, fetched: &Self::Fetched) -> usize;

    /// Fills `slab`. Where that is too small nothing is done but to say how many bytes it takes, and to give back
    /// what was fetched.
    fn fill(
        &self,
        step: u64,
        fetched: Self::Fetched,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        scratch: &mut Self::Scratch,
    ) -> Result<Option<(usize, Self::Fetched)>>;
}
