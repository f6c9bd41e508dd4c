//! Batches in order, filled ahead by threads.

use crate::fill::{Filler, Scratch};
use crate::ring::{Claim, Ring};
use crate::{Batch, Device, Layout, LoaderOptions, LoaderState, Remainder, Tokens};
use packhorse_core::{Error, Result};
use packhorse_order::{Order, Sampler};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The batches of one rank, in order. What is in them depends neither on the number of threads nor on how far
/// ahead they are filled. After an error the next call gives the next batch.
pub struct TokenLoader<D: Device> {
    device: D,
    ring: Arc<Ring<D::Host>>,
    filler: Arc<Filler>,
    steps: Steps,
    taken: u64,
    threads: Vec<JoinHandle<()>>,
    scratch: Scratch,
}

impl<D: Device> TokenLoader<D> {
    /// A loader of the samples of `order`, whose segments are of `tokens`.
    ///
    /// Errors (kind `Config`): options that make no sense together, or more samples taken than there are; memory or
    /// threads that the system does not give.
    pub fn new(tokens: Arc<Tokens>, order: Arc<dyn Order>, options: &LoaderOptions, mut device: D) -> Result<Self> {
        let steps = Steps::new(order.len(), options)?;
        let filler = Arc::new(Filler::new(tokens, order, options)?);
        let ahead = if options.threads == 0 { 1 } else { options.ahead.max(1) };
        let ring = Arc::new(Ring::new(ahead, steps.count));
        // No more than will be used.
        for _ in 0..u64::min(ahead as u64, steps.count) {
            ring.give_back(device.host(filler.layout.bytes())?);
        }
        let mut loader =
            Self { device, ring, filler, steps, taken: 0, threads: Vec::new(), scratch: Scratch::default() };
        for number in 0..options.threads.min(ahead) {
            let (ring, filler, steps) = (Arc::clone(&loader.ring), Arc::clone(&loader.filler), loader.steps);
            let thread = std::thread::Builder::new().name(format!("packhorse-read-{number}"));
            let spawned = thread.spawn(move || {
                let mut scratch = Scratch::default();
                while let Some(claim) = ring.claim(true) {
                    fill(claim, &filler, &steps, &mut scratch);
                }
            });
            loader.threads.push(spawned.map_err(|error| Error::io("start a thread", error))?);
        }
        Ok(loader)
    }

    /// Where the fields of every batch are.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.filler.layout
    }

    /// Batches that are left.
    pub fn remaining(&self) -> u64 {
        self.steps.count.saturating_sub(self.taken)
    }

    /// Where to go on after the batches that were taken: [`LoaderOptions::consumed`] of another loader, which may
    /// have other ranks and batches.
    pub fn state(&self) -> LoaderState {
        LoaderState::new(self.steps.consumed(self.taken), self.steps.samples)
    }

    fn take(&mut self) -> Option<Result<D::Batch>> {
        let missing = (self.ring.missing() as u64).min(self.remaining());
        for _ in 0..missing {
            match self.device.host(self.filler.layout.bytes()) {
                Ok(slab) => self.ring.give_back(slab),
                Err(error) => return Some(Err(error)),
            }
        }
        if self.threads.is_empty()
            && let Some(claim) = self.ring.claim(false)
        {
            fill(claim, &self.filler, &self.steps, &mut self.scratch);
        }
        let outcome = self.ring.take()?;
        self.taken += 1;
        Some(outcome.and_then(|(slab, filled)| {
            let batch = Batch::new(slab, filled, Arc::clone(&self.filler.layout), Arc::clone(&self.ring));
            self.device.upload(batch)
        }))
    }
}

fn fill<H: AsMut<[u8]>>(mut claim: Claim<'_, H>, filler: &Filler, steps: &Steps, scratch: &mut Scratch) {
    let samples = steps.range(claim.step);
    let Some(slab) = claim.slab.as_mut() else { return };
    let outcome = filler.fill(samples, slab.as_mut(), scratch);
    claim.complete(outcome);
}

impl<D: Device> Iterator for TokenLoader<D> {
    type Item = Result<D::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take()
    }
}

impl<D: Device> Drop for TokenLoader<D> {
    fn drop(&mut self) {
        self.ring.stop();
        for thread in self.threads.drain(..) {
            // One that panicked has said so in its batch.
            let _ = thread.join();
        }
    }
}

/// Which samples this rank takes when.
#[derive(Clone, Copy, Debug)]
struct Steps {
    sampler: Sampler,
    samples: u64,
    /// Samples before the first step.
    first: u64,
    count: u64,
}

impl Steps {
    fn new(samples: u64, options: &LoaderOptions) -> Result<Self> {
        let sampler = Sampler::new(options.rank, options.ranks, options.batch)?;
        let first = options.consumed;
        if first > samples {
            let message =
                format!("{first} samples were taken and the order has {samples}: the state is of another order");
            return Err(Error::config(message));
        }
        let mut count = sampler.steps(samples, first, options.remainder != Remainder::Drop);
        if options.remainder == Remainder::Uneven
            && let Some(last) = count.checked_sub(1)
            && sampler.range(samples, first, last).is_empty()
        {
            count = last;
        }
        Ok(Self { sampler, samples, first, count })
    }

    fn range(&self, step: u64) -> Range<u64> {
        self.sampler.range(self.samples, self.first, step)
    }

    fn consumed(&self, steps: u64) -> u64 {
        self.first.saturating_add(steps.saturating_mul(self.sampler.step())).min(self.samples)
    }
}
