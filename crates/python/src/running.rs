//! A loader that runs, its batches in host memory or on a GPU.

use crate::batch::Batch;
use crate::device::Arrays;
use crate::element::arrow;
use packhorse::core::{Error, Result};
use packhorse::gpu::transforms::{Colors, finished, finished_of_resident};
use packhorse::gpu::{Cuda, DeviceTransform, Output, Resident, Upload};
use packhorse::read::order::{OrderState, Rank};
use packhorse::read::{Ahead, Dataset, FieldOptions, Host, Layout, Loader, LoaderOptions, Next, RandomAccess};
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
    Host(Box<Loader<Host>>),
    Device(Box<OnGpu>),
}

/// A running loader whose batches go to a GPU.
pub(crate) struct OnGpu {
    ahead: Ahead<Loader<Upload<Cuda>>>,
    access: RandomAccess<Upload<Cuda>>,
    outputs: Vec<Output>,
    arrays: Arc<Arrays>,
}

impl Running {
    /// Starts the threads.
    pub(crate) fn start(
        dataset: Dataset,
        fields: Vec<FieldOptions>,
        options: &LoaderOptions,
        colors: &[(String, Colors)],
        target: Target,
    ) -> Result<Self> {
        let asked: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        let (fields, steps) = match &target {
            Target::Host => return Ok(Self::Host(Box::new(Loader::new(dataset, &fields, options, Host::default())?))),
            Target::Gpu(_) => finished(fields, colors)?,
            Target::Resident(_) => finished_of_resident(fields, colors)?,
        };
        let upload = || match &target {
            Target::Resident(resident) => Upload::resident(resident, steps.clone()),
            Target::Gpu(gpu) => Upload::with_transforms(gpu.clone(), steps.clone()),
            Target::Host => Err(Error::bug("host memory in the place of a GPU")),
        };
        let loader = Loader::new(dataset, &fields, options, upload()?)?;
        let access = loader.random_access(upload()?)?;
        let outputs = steps.iter().map(|step| step.outputs(access.layout())).collect::<Result<Vec<_>>>()?.concat();
        let arrays = Arc::new(shown(access.layout(), &outputs, &asked, &steps));
        Ok(Self::Device(Box::new(OnGpu { ahead: Ahead::new(loader, AHEAD)?, access, outputs, arrays })))
    }

    pub(crate) fn next_within(&mut self, wait: Duration) -> Next<Batch> {
        match self {
            Self::Host(loader) => loader.next_within(wait).map(|batch| Ok(Batch::new(batch))),
            Self::Device(gpu) => {
                let arrays = &gpu.arrays;
                gpu.ahead.next_within(wait).map(|batch| Batch::on_device(batch, arrays))
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
                Batch::on_device(batch, &gpu.arrays)
            }
        }
    }

    /// Name, type and shape of each array; the first dimension of ragged values is 0.
    pub(crate) fn layout(&self) -> Result<Vec<LayoutField>> {
        match self {
            Self::Host(loader) => Ok(described(loader.layout())),
            Self::Device(gpu) => {
                let mut fields = described(gpu.access.layout());
                fields.retain(|field| gpu.arrays.0.iter().any(|(name, _)| *name == field.0));
                for output in &gpu.outputs {
                    if let Some(field) = fields.iter_mut().find(|field| field.0 == output.name) {
                        field.1 = arrow(output.tensor.element).map_or_else(String::new, |kind| kind.to_string());
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
        let names = gpu.outputs.iter().map(|output| output.name.clone()).collect();
        Ok(Some((names, dense.map(|field| field.bytes).sum(), made)))
    }
}

/// The arrays of batches: those that were asked for, as they are when the GPU has finished them. It needs others for that, such as
/// whole pictures of their own sizes, and keys of random numbers.
fn shown(layout: &Layout, outputs: &[Output], asked: &[String], steps: &[Arc<dyn DeviceTransform>]) -> Arrays {
    let made = |name: &str| outputs.iter().any(|output| output.name == name);
    let needed: Vec<String> = steps.iter().flat_map(|step| step.needs()).map(|field| field.name).collect();
    let is_shown = |name: &str| {
        let part_of_made = [".offsets", ".shape"].iter().any(|part| name.strip_suffix(part).is_some_and(made));
        let is_needed = part_of_made || needed.iter().any(|field| field == name);
        !is_needed || asked.iter().any(|field| field == name)
    };
    let fields = layout.fields().iter().filter(|field| is_shown(&field.name));
    Arrays(fields.map(|field| (field.name.clone(), field.ragged && !made(&field.name))).collect())
}

fn described(layout: &Layout) -> Vec<LayoutField> {
    let fields = layout.fields().iter();
    fields.map(|f| (f.name.clone(), f.data_type.to_string(), f.shape.clone(), f.ragged)).collect()
}
