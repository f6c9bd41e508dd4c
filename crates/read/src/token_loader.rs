//! Batches of tokens in training order.

use crate::batch_metadata::BatchMetadata;
use crate::fill::{Filler, Scratch};
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::steps::Steps;
use crate::work::Work;
use crate::{Batches, Device, Layout, TokenOptions, TokenState, Tokens};
use packhorse_core::Result;
use packhorse_order::{Order, Sampler};
use std::sync::Arc;

/// The batches of one rank, in order. What is in them depends neither on the number of threads nor on how far
/// ahead they are filled. After an error the next call gives the next batch.
pub struct TokenLoader<D: Device> {
    pipeline: Pipeline<D, TokenWork>,
}

struct TokenWork {
    filler: Filler,
    steps: Steps,
}

impl Work for TokenWork {
    /// Tokens are read straight into the slab.
    type Fetched = ();
    type Scratch = Scratch;

    fn layout(&self) -> &Arc<Layout> {
        &self.filler.layout
    }

    fn fetch(&self, _: u64, _: &mut Scratch) -> Result<Option<()>> {
        Ok(Some(()))
    }

    fn weight(&self, (): &()) -> usize {
        0
    }

    fn fill(
        &self,
        step: u64,
        (): (),
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        scratch: &mut Scratch,
    ) -> Result<Option<(usize, ())>> {
        let (_, samples) = self.steps.at(step);
        self.filler.fill(samples, slab, filled, scratch).map(|()| None)
    }
}

impl<D: Device> TokenLoader<D> {
    /// A loader of the samples of `order`, whose segments are of `tokens`.
    ///
    /// Errors (kind `Config`): options that make no sense together, or more samples taken than there are; memory or
    /// threads that the system does not give.
    pub fn new(tokens: Arc<Tokens>, order: Arc<dyn Order>, options: &TokenOptions, device: D) -> Result<Self> {
        let sampler = Sampler::new(options.rank, options.batch)?;
        let steps = Steps::new(sampler, order.len(), (0, options.consumed), Some(1), options.remainder)?;
        let filler = Filler::new(tokens, order, options)?;
        let config = PipelineConfig {
            fillers: options.threads,
            readers: 0,
            ahead: options.ahead,
            budget: 0,
            mean: 0,
            slab: filler.layout.bytes(),
        };
        let pipeline = Pipeline::new(TokenWork { filler, steps }, steps.count, config, device, || ())?;
        Ok(Self { pipeline })
    }

    /// Where the fields of every batch are.
    pub fn layout(&self) -> &Arc<Layout> {
        self.pipeline.work().layout()
    }

    /// Batches that are left.
    pub fn remaining(&self) -> u64 {
        self.pipeline.remaining()
    }

    /// Where to go on after the batches that were taken: [`TokenOptions::consumed`] of another loader, which may
    /// have other ranks and batches.
    pub fn state(&self) -> TokenState {
        let steps = &self.pipeline.work().steps;
        let (_, consumed) = steps.after(self.pipeline.taken());
        TokenState::new(consumed, steps.samples)
    }
}

impl<D: Device> Iterator for TokenLoader<D> {
    type Item = Result<D::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pipeline.next()
    }
}

impl<D: Device> Batches for TokenLoader<D> {
    type Batch = D::Batch;
    type State = TokenState;

    fn state(&self) -> TokenState {
        TokenLoader::state(self)
    }

    fn stopper(&self) -> Box<dyn Fn() + Send + Sync> {
        self.pipeline.stopper()
    }
}
