//! Transforms blocks on several threads and hands them on in their order.

use crate::block_reader::BlockReader;
use crate::feed::{Feed, PendingBlock};
use crate::sample_block::SampleBlock;
use packhorse_core::{Error, Result};
use std::collections::VecDeque;

/// So many blocks of a run may wait for their turn, for each thread that transforms.
const AHEAD: usize = 2;

/// Where the blocks of a run go, in order: transformed, or as they are read.
pub(crate) struct OrderedTransformer<'a> {
    /// Those who transform, where this thread shall not; `None` where blocks stay as they are read.
    feed: Option<&'a Feed>,
    /// Whether it shall: asked before each block.
    alone: &'a dyn Fn() -> bool,
    /// How many others there are.
    jobs: usize,
    promised: VecDeque<PendingBlock>,
    each: &'a mut dyn FnMut(SampleBlock) -> Result<()>,
}

impl<'a> OrderedTransformer<'a> {
    /// Blocks come out at `each`; while `alone`, this thread transforms them itself.
    pub(crate) fn new(
        feed: &'a Feed,
        jobs: usize,
        alone: &'a dyn Fn() -> bool,
        each: &'a mut dyn FnMut(SampleBlock) -> Result<()>,
    ) -> Self {
        Self { feed: Some(feed), alone, jobs, promised: VecDeque::new(), each }
    }

    /// Blocks come out at `each` as they are read.
    pub(crate) fn raw(each: &'a mut dyn FnMut(SampleBlock) -> Result<()>) -> Self {
        Self { feed: None, alone: &|| true, jobs: 0, promised: VecDeque::new(), each }
    }

    pub(crate) fn push(&mut self, reader: &BlockReader<'_>, block: SampleBlock) -> Result<()> {
        let Some(feed) = self.feed else { return (self.each)(block) };
        if reader.transforms.is_empty() || (self.promised.is_empty() && (self.alone)()) {
            return (self.each)(reader.transformed(block)?);
        }
        self.promised.push_back(feed.transform(block)?);
        if self.promised.len() > AHEAD * self.jobs { self.take() } else { Ok(()) }
    }

    fn take(&mut self) -> Result<()> {
        let Some(promise) = self.promised.pop_front() else { return Ok(()) };
        let block = promise.recv().map_err(|_| Error::bug("a thread that transforms ended early"))??;
        (self.each)(block)
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        while !self.promised.is_empty() {
            self.take()?;
        }
        Ok(())
    }
}
