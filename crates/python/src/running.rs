//! A loader that runs, its batches in host memory or on a GPU.

use crate::batch::Batch;
use crate::device::Arrays;
use crate::fields::Asked;
use crate::handover::RunningLoader;
use packhorse::core::{Error, Result};
use packhorse::gpu::transforms::outputs;
use packhorse::gpu::{Cuda, Output, Resident, Upload};
use packhorse::read::order::{OrderState, Rank};
use packhorse::read::{Ahead, Dataset, Host, Layout, Loader, LoaderOptions, Next, RandomAccess};
use std::sync::Arc;
use std::time::Duration;

/// Batches that are sent to a GPU before they are asked for.
pub(crate) const AHEAD: usize = 2;

/// Name, type, shape, and whether its rows differ in length.
pub(crate) type LayoutField = (String, String, Vec<usize>, bool);

/// Where batches are made.
pub(crate) enum Target {
    Host,
    Gpu(Cuda),
    /// From samples that a GPU keeps.
    Resident(Arc<Resident<Cuda>>),
}

/// A running loader.
pub(crate) enum Running {
    Host(Box<Loader<Host>>, Arc<RandomAccess<Host>>),
    Device(Box<OnGpu>),
}

/// The batches of any step and rank.
pub(crate) enum Access {
    Host(Arc<RandomAccess<Host>>),
    Device(Arc<RandomAccess<Upload<Cuda>>>, Arc<Arrays>),
}

impl Access {
    pub(crate) fn at(&self, step: u64, rank: Rank) -> Result<Batch> {
        match self {
            Self::Host(access) => Ok(Batch::new(access.at(step, rank)?)),
            Self::Device(access, arrays) => Batch::on_device(access.at(step, rank)?, arrays),
        }
    }
}

/// A running loader whose batches go to a GPU.
pub(crate) struct OnGpu {
    ahead: Ahead<Loader<Upload<Cuda>>>,
    access: Arc<RandomAccess<Upload<Cuda>>>,
    outputs: Vec<Output>,
    arrays: Arc<Arrays>,
}

impl Running {
    /// Starts the threads.
    pub(crate) fn start(dataset: Dataset, asked: Asked, options: &LoaderOptions, target: Target) -> Result<Self> {
        let (fields, steps) = match &target {
            Target::Host => {
                let loader = Loader::new(dataset, &asked.fields, options, Host::default())?;
                let access = Arc::new(loader.random_access(Host::default())?);
                return Ok(Self::Host(Box::new(loader), access));
            }
            Target::Gpu(gpu) => asked.sent(gpu)?,
            Target::Resident(_) => asked.kept()?,
        };
        let upload = || match &target {
            Target::Resident(resident) => Upload::resident(resident, steps.clone()),
            Target::Gpu(gpu) => Upload::with_transforms(gpu.clone(), steps.clone()),
            Target::Host => Err(Error::bug("host memory in the place of a GPU")),
        };
        let loader = Loader::new(dataset, &fields, options, upload()?)?;
        let access = Arc::new(loader.random_access(upload()?)?);
        let outputs = outputs(access.layout(), &steps)?;
        let asked: Vec<String> = asked.fields.into_iter().map(|field| field.name).collect();
        let arrays = Arc::new(Arrays::made(access.layout(), &outputs, &asked, &steps));
        Ok(Self::Device(Box::new(OnGpu { ahead: Ahead::new(loader, AHEAD)?, access, outputs, arrays })))
    }

    fn state(&self) -> OrderState {
        match self {
            Self::Host(loader, _) => loader.state(),
            Self::Device(gpu) => gpu.ahead.state(),
        }
    }

    /// The steps of a whole epoch, and those left of the current one.
    fn steps(&self) -> (u64, u64) {
        match self {
            Self::Host(loader, _) => (loader.steps_per_epoch(), loader.remaining_in_epoch(&loader.state())),
            Self::Device(gpu) => (gpu.access.steps_per_epoch(), gpu.access.remaining_in_epoch(&gpu.ahead.state())),
        }
    }

    pub(crate) fn access(&self) -> Access {
        match self {
            Self::Host(_, access) => Access::Host(Arc::clone(access)),
            Self::Device(gpu) => Access::Device(Arc::clone(&gpu.access), Arc::clone(&gpu.arrays)),
        }
    }

    /// Name, type and shape of each array; the first dimension of ragged values is 0.
    pub(crate) fn layout(&self) -> Result<Vec<LayoutField>> {
        match self {
            Self::Host(loader, _) => Ok(described(loader.layout())),
            Self::Device(gpu) => {
                let mut fields = described(gpu.access.layout());
                fields.retain(|field| gpu.arrays.0.iter().any(|array| array.name == field.0));
                for output in &gpu.outputs {
                    if let Some(field) = fields.iter_mut().find(|field| field.0 == output.name) {
                        field.1 = output.tensor.element.data_type().map_or_else(String::new, |kind| kind.to_string());
                        (field.2, field.3) = (output.tensor.shape.clone(), false);
                    }
                }
                Ok(fields)
            }
        }
    }

    /// The fields that a GPU finishes, and the bytes of a batch, as it is sent and of those fields, without values of rows
    /// that differ in length. `None` without a GPU.
    pub(crate) fn on_gpu(&self) -> Result<Option<(Vec<String>, usize, usize)>> {
        let Self::Device(gpu) = self else { return Ok(None) };
        let dense = gpu.access.layout().fields().iter().filter(|field| !field.ragged);
        let made = gpu.outputs.iter().map(|output| output.tensor.bytes()).sum();
        let is_shown = |name: &String| gpu.arrays.0.iter().any(|array| array.name == *name);
        let names = gpu.outputs.iter().map(|output| output.name.clone()).filter(is_shown).collect();
        Ok(Some((names, dense.map(|field| field.bytes).sum(), made)))
    }
}

impl RunningLoader for Running {
    /// With the state, the steps of an epoch and those left.
    type Progress = (OrderState, (u64, u64));

    fn progress(&self) -> Self::Progress {
        (self.state(), self.steps())
    }

    fn next_within(&mut self, wait: Duration) -> Next<Batch> {
        match self {
            Self::Host(loader, _) => loader.next_within(wait).map(|batch| Ok(Batch::new(batch))),
            Self::Device(gpu) => {
                let arrays = &gpu.arrays;
                gpu.ahead.next_within(wait).map(|batch| Batch::on_device(batch, arrays))
            }
        }
    }
}

fn described(layout: &Layout) -> Vec<LayoutField> {
    let fields = layout.fields().iter();
    fields.map(|f| (f.name.clone(), f.data_type.to_string(), f.shape.clone(), f.ragged)).collect()
}
