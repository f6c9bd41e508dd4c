//! Steps under the clock.

use super::usage::{CpuClock, Used};
use packhorse_core::{Cancel, Result};
use std::borrow::Borrow;
use std::time::{Duration, Instant};

/// A training step, which takes a batch: for a closure, each call is one.
pub trait TrainingStep<B> {
    /// Does one step, or queues it for the device: not more than a few at once.
    ///
    /// Errors end the diagnosis.
    fn step(&mut self, batch: &B) -> Result<()>;

    /// Waits until the device has done all steps that are queued.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<B, F: FnMut(&B) -> Result<()>> TrainingStep<B> for F {
    fn step(&mut self, batch: &B) -> Result<()> {
        self(batch)
    }
}

/// How long a cut is measured in a round.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// Steps that do not count.
    pub(super) warm: u64,
    /// At least so many steps, and so much time.
    pub(super) steps: u64,
    pub(super) time: Duration,
    pub(super) cancel: Cancel,
}

/// The measurement of a cut in a round.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    pub(super) steps: u64,
    pub(super) used: Used,
    /// Seconds that the step waited for its batch.
    pub(super) waited: f64,
    /// Seconds of each step and its wait, in order.
    pub(super) each: Vec<f64>,
}

impl Slice {
    /// Seconds per step.
    pub(super) fn seconds(&self) -> f64 {
        self.used.seconds / self.steps.max(1) as f64
    }

    /// The share of the time that processors worked, for any process.
    pub(super) fn saturation(&self, processors: usize) -> f64 {
        (self.used.process + self.used.others) / (self.used.seconds * processors as f64).max(1e-9)
    }
}

/// The most steps whose times are noted.
const NOTED: usize = 100_000;

/// Takes batches from `next` and does a step with each. Ends early where there are no more batches.
pub(super) fn run<T, B: Borrow<T>>(
    pace: &Pace,
    next: &mut dyn FnMut() -> Result<Option<B>>,
    step: &mut dyn TrainingStep<T>,
) -> Result<Slice> {
    let mut slice = Slice::default();
    let (mut clock, mut start) = (CpuClock::start(), Instant::now());
    for number in 0.. {
        pace.cancel.check()?;
        if number == pace.warm {
            step.finish()?;
            (slice, clock, start) = (Slice::default(), CpuClock::start(), Instant::now());
        }
        if number >= pace.warm && slice.steps >= pace.steps && start.elapsed() >= pace.time {
            break;
        }
        let before = Instant::now();
        let Some(batch) = next()? else { break };
        slice.waited += before.elapsed().as_secs_f64();
        step.step(batch.borrow())?;
        slice.steps += 1;
        if slice.each.len() < NOTED {
            slice.each.push(before.elapsed().as_secs_f64());
        }
    }
    step.finish()?;
    slice.used = clock.used();
    Ok(slice)
}
