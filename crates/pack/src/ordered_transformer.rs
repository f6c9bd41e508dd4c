//! Transforms blocks on several threads and hands them on in their order.

use crate::block_reader::BlockReader;
use crate::feed::{Feed, PendingBlock};
use crate::sample_block::SampleBlock;
use crate::spans;
use packhorse_core::{ByteBudget, ByteShare, Result, rows_bytes};
use std::collections::VecDeque;

/// Blocks in flight per transforming thread.
const AHEAD: usize = 2;

/// Hands blocks on in order, transformed or raw.
pub(crate) struct OrderedTransformer<'a> {
    /// The transforming threads, and the bytes that blocks with them may take up; `None` to hand blocks on untransformed.
    feed: Option<(&'a Feed, &'a ByteBudget)>,
    /// Whether this thread transforms the next block itself.
    alone: &'a dyn Fn() -> bool,
    /// The number of transforming threads.
    jobs: usize,
    promised: VecDeque<(PendingBlock, ByteShare<'a>)>,
    each: &'a mut dyn FnMut(SampleBlock) -> Result<()>,
}

impl<'a> OrderedTransformer<'a> {
    /// Passes transformed blocks to `each`. While `alone` is true, this thread transforms them itself.
    pub(crate) fn new(
        feed: (&'a Feed, &'a ByteBudget),
        jobs: usize,
        alone: &'a dyn Fn() -> bool,
        each: &'a mut dyn FnMut(SampleBlock) -> Result<()>,
    ) -> Self {
        Self { feed: Some(feed), alone, jobs, promised: VecDeque::new(), each }
    }

    /// Passes blocks to `each` untransformed.
    pub(crate) fn raw(each: &'a mut dyn FnMut(SampleBlock) -> Result<()>) -> Self {
        Self { feed: None, alone: &|| true, jobs: 0, promised: VecDeque::new(), each }
    }

    pub(crate) fn push(&mut self, reader: &BlockReader<'_>, block: SampleBlock) -> Result<()> {
        let Some((feed, budget)) = self.feed else { return (self.each)(block) };
        if reader.transforms.is_empty() || (self.promised.is_empty() && (self.alone)()) {
            return (self.each)(reader.transformed(block)?);
        }
        let bytes = block.rows.iter().map(rows_bytes).sum::<usize>() as u64;
        loop {
            match budget.take(bytes) {
                Some(share) if self.promised.len() < AHEAD * self.jobs => {
                    self.promised.push_back((feed.transform(block)?, share));
                    return Ok(());
                }
                None if self.promised.is_empty() => return (self.each)(reader.transformed(block)?),
                _ => self.take()?,
            }
        }
    }

    fn take(&mut self) -> Result<()> {
        let Some((promise, _share)) = self.promised.pop_front() else { return Ok(()) };
        let block = spans::receive(&promise, "transform")??;
        (self.each)(block)
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        while !self.promised.is_empty() {
            self.take()?;
        }
        Ok(())
    }
}
