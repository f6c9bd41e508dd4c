//! A loader that runs, its batches in host memory or on a GPU.

use crate::batch::Batch;
use crate::element::arrow;
use crate::fields::finished_on_gpu;
use packhorse::core::{Error, Result};
use packhorse::gpu::{Cuda, DeviceTransform, Upload};
use packhorse::read::order::{OrderState, Rank};
use packhorse::read::{Ahead, Dataset, FieldOptions, Host, Layout, Loader, LoaderOptions, Next, RandomAccess};
use std::sync::Arc;
use std::time::Duration;

/// Batches that are sent to a GPU before they are asked for.
pub(crate) const AHEAD: usize = 2;

/// Name, type, shape, and whether its rows differ in length.
pub(crate) type LayoutField = (String, String, Vec<usize>, bool);

/// A running loader.
pub(crate) enum Running {
    Host(Box<Loader<Host>>),
    Device(Box<OnGpu>),
}

/// A running loader whose batches go to a GPU.
pub(crate) struct OnGpu {
    ahead: Ahead<Loader<Upload<Cuda>>>,
    access: RandomAccess<Upload<Cuda>>,
    steps: Vec<Arc<dyn DeviceTransform>>,
}

impl Running {
    /// Starts the threads.
    pub(crate) fn start(
        dataset: Dataset,
        fields: Vec<FieldOptions>,
        options: &LoaderOptions,
        gpu: Option<&Cuda>,
    ) -> Result<Self> {
        let Some(gpu) = gpu else {
            return Ok(Self::Host(Box::new(Loader::new(dataset, &fields, options, Host::default())?)));
        };
        let (fields, steps) = finished_on_gpu(fields);
        let upload = || Upload::with_transforms(gpu.clone(), steps.clone());
        let loader = Loader::new(dataset, &fields, options, upload()?)?;
        let access = loader.random_access(upload()?)?;
        Ok(Self::Device(Box::new(OnGpu { ahead: Ahead::new(loader, AHEAD)?, access, steps })))
    }

    pub(crate) fn next_within(&mut self, wait: Duration) -> Next<Batch> {
        match self {
            Self::Host(loader) => loader.next_within(wait).map(|batch| Ok(Batch::new(batch))),
            Self::Device(gpu) => {
                let layout = gpu.access.layout();
                gpu.ahead.next_within(wait).map(|batch| Batch::on_device(batch, layout))
            }
        }
    }

    pub(crate) fn state(&self) -> OrderState {
        match self {
            Self::Host(loader) => loader.state(),
            Self::Device(gpu) => gpu.ahead.state(),
        }
    }

    /// The steps of a whole epoch, and those left of the current one.
    pub(crate) fn steps(&self) -> (u64, u64) {
        match self {
            Self::Host(loader) => (loader.steps_per_epoch(), loader.remaining_in_epoch(&loader.state())),
            Self::Device(gpu) => (gpu.access.steps_per_epoch(), gpu.access.remaining_in_epoch(&gpu.ahead.state())),
        }
    }

    /// The batch of any step and rank.
    pub(crate) fn at(&mut self, step: u64, rank: Rank) -> Result<Batch> {
        match self {
            Self::Host(loader) => Ok(Batch::new(loader.at(step, rank)?)),
            Self::Device(gpu) => {
                let batch = gpu.access.at(step, rank)?;
                Batch::on_device(batch, gpu.access.layout())
            }
        }
    }

    /// Name, type and shape of each array; the first dimension of ragged values is 0.
    pub(crate) fn layout(&self) -> Result<Vec<LayoutField>> {
        match self {
            Self::Host(loader) => Ok(described(loader.layout())),
            Self::Device(gpu) => {
                let mut fields = described(gpu.access.layout());
                for output in gpu.outputs()? {
                    if let Some(field) = fields.iter_mut().find(|field| field.0 == output.name) {
                        field.1 = arrow(output.tensor.element).map_or_else(String::new, |kind| kind.to_string());
                        field.2 = output.tensor.shape;
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
        let outputs = gpu.outputs()?;
        let made = outputs.iter().map(|output| output.tensor.bytes()).sum();
        let names = outputs.into_iter().map(|output| output.name).collect();
        Ok(Some((names, dense.map(|field| field.bytes).sum(), made)))
    }
}

impl OnGpu {
    fn outputs(&self) -> Result<Vec<packhorse::gpu::Output>> {
        let outputs = self.steps.iter().map(|step| step.outputs(self.access.layout()));
        Ok(outputs.collect::<Result<Vec<_>, Error>>()?.concat())
    }
}

fn described(layout: &Layout) -> Vec<LayoutField> {
    let fields = layout.fields().iter();
    fields.map(|f| (f.name.clone(), f.data_type.to_string(), f.shape.clone(), f.ragged)).collect()
}
