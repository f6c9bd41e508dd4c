//! Batches of tokens in training order.

use crate::batch_metadata::BatchMetadata;
use crate::fill::{Filler, TokenScratch};
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::steps::Steps;
use crate::token_state::identify;
use crate::work::Work;
use crate::{Device, Layout, Loader, LoaderCounters, TokenOptions, TokenState, Tokens};
use packhorse_core::Result;
use packhorse_order::{Order, Sampler};
use std::sync::Arc;

/// The batches of tokens of one rank, in training order: a [`Loader`] whose state is a [`TokenState`].
pub type TokenLoader<D> = Loader<D, TokenWork>;

/// Fills batches with the tokens of an order's samples.
pub struct TokenWork {
    filler: Filler,
    steps: Steps,
    counters: Arc<LoaderCounters>,
    /// What identifies the order.
    order: String,
}

impl Work for TokenWork {
    /// Tokens are read directly into the slab.
    type Fetched = ();
    type Scratch = TokenScratch;
    type State = TokenState;

    fn layout(&self) -> &Arc<Layout> {
        &self.filler.layout
    }

    fn counters(&self) -> &Arc<LoaderCounters> {
        &self.counters
    }

    fn state(&self, steps: u64) -> TokenState {
        TokenState::new(self.steps.after(steps).1, self.steps.samples, &self.order)
    }

    fn fetch(&self, _: u64, _: &mut TokenScratch) -> Result<Option<()>> {
        Ok(Some(()))
    }

    fn fill(
        &self,
        step: u64,
        (): (),
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        scratch: &mut TokenScratch,
    ) -> Result<Option<(usize, ())>> {
        let (_, samples) = self.steps.at(step);
        self.filler.fill(samples, slab, filled, scratch).map(|()| None)
    }
}

impl<D: Device> Loader<D, TokenWork> {
    /// A loader of the samples of `order`, whose segments refer to `tokens`.
    ///
    /// Errors (kind `Config`): contradictory options, or more samples taken than the order has; also, not enough memory
    /// or threads.
    pub fn tokens(tokens: Arc<Tokens>, order: Arc<dyn Order>, options: &TokenOptions, device: D) -> Result<Self> {
        let sampler = Sampler::new(options.rank, options.batch)?;
        let steps = Steps::new(sampler, order.len(), (0, options.consumed), Some(1), options.remainder)?;
        let named = identify(&*order);
        let filler = Filler::new(tokens, order, options)?;
        let config = PipelineConfig {
            fillers: options.threads,
            readers: 0,
            ahead: options.ahead,
            budget: 0,
            mean: 0,
            slab: filler.layout.bytes(),
        };
        let work = TokenWork { filler, steps, counters: Arc::default(), order: named };
        let pipeline = Pipeline::new(work, steps.count, config, device, || ())?;
        Ok(Self { pipeline })
    }
}
