//! Diagnoses of loops whose steps are functions of Python.

use crate::batch::Batch;
use crate::dataset::PyDataset;
use crate::device::Arrays;
use crate::error::{Raised, Result};
use crate::fields::{colors, fields};
use crate::gpu::PyGpu;
use crate::loader::{options, setting};
use packhorse::core::{Error, Result as OurResult};
use packhorse::gpu::transforms::finished;
use packhorse::gpu::{Cuda, DeviceBatch, Upload};
use packhorse::read::diagnose::{DiagnoseOptions, Diagnosis, TrainingStep, diagnose, diagnose_iterator};
use packhorse::read::{Device, FieldOptions, Host, HostSlab, Layout};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What Python raised inside of a diagnosis.
type Caught = Arc<Mutex<Option<PyErr>>>;

/// A step that is a function of Python.
struct Step {
    call: Py<PyAny>,
    caught: Caught,
}

/// Calls `work` with the interpreter; keeps its exception, which the diagnosis ends with.
fn python<T>(caught: &Caught, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> OurResult<T> {
    Python::attach(|py| py.check_signals().and_then(|()| work(py))).map_err(|raised| {
        *caught.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
        Error::config("the step raised an exception")
    })
}

/// The result, or the exception of Python.
fn ended(found: OurResult<Diagnosis>, caught: &Caught) -> Result<(String, String)> {
    match (found, caught.lock().unwrap_or_else(PoisonError::into_inner).take()) {
        (_, Some(raised)) => Err(Raised::Python(raised)),
        (Err(error), None) => Err(Raised::Ours(error)),
        (Ok(found), None) => Ok((found.to_json().to_string(), found.to_string())),
    }
}

impl TrainingStep<Py<Batch>> for Step {
    fn step(&mut self, batch: &Py<Batch>) -> OurResult<()> {
        python(&self.caught, |py| self.call.call1(py, (batch,)).map(drop))
    }
}

impl TrainingStep<Py<PyAny>> for Step {
    fn step(&mut self, batch: &Py<PyAny>) -> OurResult<()> {
        python(&self.caught, |py| self.call.call1(py, (batch,)).map(drop))
    }
}

/// A device whose batches are objects of Python.
struct ForPython<D: Device> {
    device: D,
    layout: Option<Arc<Layout>>,
    make: fn(D::Batch, &Arc<Layout>) -> OurResult<Batch>,
}

impl<D: Device> Device for ForPython<D> {
    type Host = D::Host;
    type Batch = Py<Batch>;

    fn needs(&self) -> Vec<FieldOptions> {
        self.device.needs()
    }

    fn room(&self) -> Option<u64> {
        self.device.room()
    }

    fn prepare(&mut self, layout: &Arc<Layout>) -> OurResult<()> {
        self.layout = Some(Arc::clone(layout));
        self.device.prepare(layout)
    }

    fn host(&mut self, bytes: usize) -> OurResult<D::Host> {
        self.device.host(bytes)
    }

    fn upload(&mut self, batch: packhorse::read::Batch<D::Host>) -> OurResult<Py<Batch>> {
        let batch = self.device.upload(batch)?;
        let layout = self.layout.as_ref().ok_or_else(|| Error::bug("a device that was not prepared"))?;
        let made = (self.make)(batch, layout)?;
        let object = Python::attach(|py| Py::new(py, made));
        object.map_err(|raised| Error::bug(raised.to_string()))
    }
}

fn on_gpu(batch: DeviceBatch<Cuda>, layout: &Arc<Layout>) -> OurResult<Batch> {
    Batch::on_device(batch, &Arrays::sent(layout))
}

fn on_host(batch: packhorse::read::Batch<HostSlab>, _: &Arc<Layout>) -> OurResult<Batch> {
    Ok(Batch::new(batch))
}

/// The settings of a diagnosis.
fn how(settings: &Bound<'_, PyDict>) -> Result<DiagnoseOptions> {
    let get = |name: &str| setting(settings, name);
    let seconds: f64 = get("seconds")?.extract()?;
    let time =
        Duration::try_from_secs_f64(seconds).map_err(|_| Error::config(format!("seconds={seconds} must be a time")))?;
    Ok(DiagnoseOptions {
        time,
        rounds: get("rounds")?.extract()?,
        cold: get("cold")?.extract()?,
        apply: get("apply")?.extract()?,
        ..DiagnoseOptions::default()
    })
}

/// Diagnoses the loop of a loader with these settings, whose step is `call`. Returns the result as JSON and as text.
#[pyfunction]
#[pyo3(name = "diagnose", signature = (dataset, described, settings, gpu, call, how))]
pub(crate) fn diagnose_loader(
    py: Python<'_>,
    dataset: &PyDataset,
    described: Vec<(String, String, String, bool, Bound<'_, PyAny>)>,
    settings: &Bound<'_, PyDict>,
    gpu: Option<&PyGpu>,
    call: Py<PyAny>,
    how: &Bound<'_, PyDict>,
) -> Result<(String, String)> {
    let colors = colors(&described)?;
    let (chosen, options, how) = (fields(described)?, options(settings)?, self::how(how)?);
    let (dataset, gpu) = (dataset.ours.clone(), gpu.map(PyGpu::cuda));
    let caught = Caught::default();
    let mut step = Step { call, caught: Arc::clone(&caught) };
    let found = py.detach(|| match gpu {
        None => {
            let host = Host::default();
            let mut device = || Ok(ForPython { device: host.clone(), layout: None, make: on_host });
            diagnose(&dataset, &chosen, &options, &mut device, &mut step, &how)
        }
        Some(gpu) => {
            let (chosen, steps) = finished(chosen, &colors)?;
            let mut device = || {
                let upload: Upload<Cuda> = Upload::with_transforms(gpu.clone(), steps.clone())?;
                Ok(ForPython { device: upload, layout: None, make: on_gpu })
            };
            diagnose(&dataset, &chosen, &options, &mut device, &mut step, &how)
        }
    });
    ended(found, &caught)
}

/// Diagnoses the loop over any iterable, which `start` begins.
#[pyfunction]
pub(crate) fn diagnose_iterable(
    py: Python<'_>,
    start: Py<PyAny>,
    call: Py<PyAny>,
    how: &Bound<'_, PyDict>,
) -> Result<(String, String)> {
    let how = self::how(how)?;
    let caught = Caught::default();
    let mut step = Step { call, caught: Arc::clone(&caught) };
    let mut begin = || {
        let begun = python(&caught, |py| start.call0(py))?;
        let caught = Arc::clone(&caught);
        let next = move || {
            let next = python(&caught, |py| {
                let item = begun.bind(py).clone().cast_into::<pyo3::types::PyIterator>()?.next();
                item.transpose().map(|item| item.map(Bound::unbind))
            });
            next.transpose()
        };
        Ok(std::iter::from_fn(next))
    };
    let found = py.detach(|| diagnose_iterator::<Py<PyAny>, _>(&mut begin, &mut step, &how));
    ended(found, &step.caught)
}
