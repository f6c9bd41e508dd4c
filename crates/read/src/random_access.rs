//! Batches out of turn, on a device.

use crate::free_slabs::FreeSlabs;
use crate::sample_work::SampleWork;
use crate::work::Work as _;
use crate::{Device, Layout};
use packhorse_core::{Error, Result};
use packhorse_order::{OrderState, Rank};
use std::sync::{Arc, Mutex, PoisonError};

/// The batches of any step and rank of a loader, on a device of their own: see
/// [`Loader::random_access`](crate::Loader::random_access). It needs no threads, and does not disturb those of the loader.
pub struct RandomAccess<D: Device> {
    work: Arc<SampleWork>,
    device: Mutex<D>,
    free: Arc<FreeSlabs<D::Host>>,
}

impl<D: Device> RandomAccess<D> {
    pub(crate) fn new(work: Arc<SampleWork>, mut device: D) -> Result<Self> {
        let layout = work.layout();
        if let Some(needed) = device.needs().iter().find(|needed| layout.field(&needed.name).is_none()) {
            return Err(Error::config(format!("batches have no field {}, which the device needs", needed.name)));
        }
        work.check_held(device.held().as_ref())?;
        device.prepare(layout)?;
        Ok(Self { work, device: Mutex::new(device), free: Arc::default() })
    }

    /// The batch that `rank` takes at step `step`, as [`Loader::at`](crate::Loader::at) has it, on the device. Threads that
    /// call it wait for each other.
    ///
    /// Errors: those of [`Loader::at`](crate::Loader::at) and of the device.
    pub fn at(&self, step: u64, rank: Rank) -> Result<D::Batch> {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = self.work.at(step, rank, &self.free, &mut *device)?;
        device.upload(batch)
    }

    /// The layout of every batch in host memory.
    pub fn layout(&self) -> &Arc<Layout> {
        self.work.layout()
    }

    /// As [`Loader::steps_per_epoch`](crate::Loader::steps_per_epoch).
    pub fn steps_per_epoch(&self) -> u64 {
        self.work.steps_left(0)
    }

    /// As [`Loader::remaining_in_epoch`](crate::Loader::remaining_in_epoch).
    pub fn remaining_in_epoch(&self, state: &OrderState) -> u64 {
        self.work.steps_left(state.consumed)
    }
}

impl<D: Device> std::fmt::Debug for RandomAccess<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RandomAccess").field("layout", self.layout()).finish_non_exhaustive()
    }
}
