//! The work of a loader of which the first stages are served from memory.

use super::cut::Cut;
use super::held::HeldBatches;
use super::usage::thread_seconds;
use crate::batch_metadata::BatchMetadata;
use crate::count::{Count, Time};
use crate::sample_work::{SampleWork, WorkerState};
use crate::work::Work;
use crate::{Layout, LoaderCounters, SampleBlock};
use packhorse_core::Result;
use packhorse_order::OrderState;
use std::sync::Arc;
use std::time::Duration;

/// Where the samples of a step come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Served {
    /// A slab that holds a batch already.
    Batches,
    /// A decoded batch, which is copied.
    Decoded,
    /// Stored samples in memory.
    Stored,
    /// The files of the held batches.
    HeldFiles,
    /// The steps of the loader from this one on.
    Loader { from: u64 },
    /// So many of them, again and again.
    Repeated { from: u64, steps: u64 },
}

impl Served {
    /// Where samples come from at `cut`, where the loader has got to step `from`.
    pub(super) fn at(cut: Cut, from: u64) -> Self {
        match cut {
            Cut::Device | Cut::Host => Self::Batches,
            Cut::Decoded => Self::Decoded,
            Cut::Stored => Self::Stored,
            Cut::Files => Self::HeldFiles,
            Cut::Busy | Cut::Loader => Self::Loader { from },
        }
    }

    /// Whether there is anything to read.
    pub(super) fn reads(self) -> bool {
        matches!(self, Self::HeldFiles | Self::Loader { .. } | Self::Repeated { .. })
    }
}

/// Fills batches from those in memory.
pub(super) struct CutWork {
    pub(super) work: Arc<SampleWork>,
    pub(super) held: Arc<HeldBatches>,
    pub(super) served: Served,
    pub(super) spent: Arc<Spent>,
}

/// Time of the threads of a loader.
#[derive(Debug, Default)]
pub(super) struct Spent {
    pub(super) fetch: StageTime,
    pub(super) fill: StageTime,
}

/// Time of one stage.
#[derive(Debug, Default)]
pub(super) struct StageTime {
    steps: Count,
    wall: Time,
    cpu: Time,
}

impl StageTime {
    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let cpu = thread_seconds();
        let done = self.wall.of(work);
        self.cpu.add(Duration::from_secs_f64((thread_seconds() - cpu).max(0.0)));
        self.steps.add(1);
        done
    }

    /// Seconds per step: of wall clock, and of processors.
    pub(super) fn of_step(&self) -> (f64, f64) {
        let steps = self.steps.get().max(1) as f64;
        (self.wall.get().as_secs_f64() / steps, self.cpu.get().as_secs_f64() / steps)
    }
}

impl Work for CutWork {
    type Fetched = Option<SampleBlock>;
    type Scratch = WorkerState;
    type State = OrderState;

    fn layout(&self) -> &Arc<Layout> {
        self.work.layout()
    }

    fn counters(&self) -> &Arc<LoaderCounters> {
        self.work.counters()
    }

    fn state(&self, steps: u64) -> OrderState {
        self.work.state(steps)
    }

    fn fetch(&self, step: u64, kept: &mut WorkerState) -> Result<Option<Self::Fetched>> {
        let step = match self.served {
            Served::Batches | Served::Decoded | Served::Stored => return Ok(Some(None)),
            served => self.step(served, step),
        };
        let fetched = self.spent.fetch.timed(|| self.work.fetch(step, kept))?;
        Ok(fetched.map(Some))
    }

    fn weight(&self, fetched: &Self::Fetched) -> usize {
        fetched.as_ref().map_or(0, SampleBlock::weight)
    }

    fn fill(
        &self,
        step: u64,
        fetched: Self::Fetched,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        kept: &mut WorkerState,
    ) -> Result<Option<(usize, Self::Fetched)>> {
        self.spent.fill.timed(|| self.serve(step, fetched, slab, filled, kept))
    }
}

impl CutWork {
    /// The loader's step that takes the place of step `step`.
    fn step(&self, served: Served, step: u64) -> u64 {
        match served {
            Served::Loader { from } => from.saturating_add(step),
            Served::Repeated { from, steps } => from.saturating_add(step % steps.max(1)),
            _ => self.held.steps.get(self.held.at(step)).copied().unwrap_or_default(),
        }
    }

    fn serve(
        &self,
        step: u64,
        fetched: Option<SampleBlock>,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        kept: &mut WorkerState,
    ) -> Result<Option<(usize, Option<SampleBlock>)>> {
        let at = self.held.at(step);
        if let Some(fetched) = fetched {
            let step = self.step(self.served, step);
            let room = self.work.fill(step, fetched, slab, filled, kept)?;
            return Ok(room.map(|(bytes, fetched)| (bytes, Some(fetched))));
        }
        if matches!(self.served, Served::Stored) {
            let (Some(step), Some(block)) = (self.held.steps.get(at), self.held.blocks.get(at)) else {
                return Ok(None);
            };
            let room = self.work.isolation.run(|| self.work.collate(*step, block, slab, filled, kept))?;
            return Ok(room.map(|bytes| (bytes, None)));
        }
        let Some((bytes, metadata)) = self.held.slabs.get(at) else { return Ok(None) };
        // A slab that holds one of these batches still does: consumers only read.
        let holds = self.held.slabs.iter().any(|(_, metadata)| metadata == filled);
        if matches!(self.served, Served::Batches) && holds {
            return Ok(None);
        }
        match slab.get_mut(..bytes.len()) {
            Some(to) => to.copy_from_slice(bytes),
            None => return Ok(Some((bytes.len(), None))),
        }
        filled.clone_from(metadata);
        Ok(None)
    }
}
