//! Diagnoses of loops whose steps are functions of Python.

use crate::batch::Batch;
use crate::dataset::PyDataset;
use crate::device::Arrays;
use crate::error::{Raised, Result};
use crate::fields::Asked;
use crate::gpu::PyGpu;
use crate::loader::{options, setting};
use packhorse::core::{Error, Result as OurResult};
use packhorse::gpu::transforms::{Finished, outputs};
use packhorse::gpu::{Cuda, Upload, diagnose_on_gpu};
use packhorse::read::diagnose::{DiagnoseOptions, Diagnosis, TrainingStep, diagnose, diagnose_iterator};
use packhorse::read::{Device, FieldOptions, Host, Layout};
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
        (Err(error), None) => Err(error.into()),
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
    /// What arrays batches have, by their layout.
    shown: Shown,
    arrays: Arc<Arrays>,
    make: fn(D::Batch, &Arc<Arrays>) -> OurResult<Batch>,
}

/// The arrays of batches with a layout.
type Shown = Arc<dyn Fn(&Arc<Layout>) -> OurResult<Arrays> + Send + Sync>;

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
        self.arrays = Arc::new((self.shown)(layout)?);
        self.device.prepare(layout)
    }

    fn host(&mut self, bytes: usize) -> OurResult<D::Host> {
        self.device.host(bytes)
    }

    fn upload(&mut self, batch: packhorse::read::Batch<D::Host>) -> OurResult<Py<Batch>> {
        let made = (self.make)(self.device.upload(batch)?, &self.arrays)?;
        let object = Python::attach(|py| Py::new(py, made));
        object.map_err(|raised| Error::bug(raised.to_string()))
    }
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
    let (asked, options, how) = (Asked::of(described)?, options(settings)?, self::how(how)?);
    let (dataset, gpu) = (dataset.ours.clone(), gpu.map(PyGpu::cuda));
    let caught = Caught::default();
    let mut step = Step { call, caught: Arc::clone(&caught) };
    let found = py.detach(|| match gpu {
        None => {
            let (host, shown): (_, Shown) = (Host::default(), Arc::new(|_| Ok(Arrays::default())));
            let (arrays, make) = (Arc::<Arrays>::default(), |batch, _: &Arc<Arrays>| Ok(Batch::new(batch)));
            let mut device =
                || Ok(ForPython { device: host.clone(), shown: shown.clone(), arrays: arrays.clone(), make });
            diagnose(&dataset, &asked.fields, &options, &mut device, &mut step, &how)
        }
        Some(gpu) => {
            let sent = asked.sent(&gpu)?;
            let names: Vec<String> = asked.fields.iter().map(|field| field.name.clone()).collect();
            let make = |device: Upload<Cuda>, (_, steps): &Finished| {
                let (names, steps) = (names.clone(), steps.clone());
                let shown =
                    move |layout: &Arc<Layout>| Ok(Arrays::made(layout, &outputs(layout, &steps)?, &names, &steps));
                let make = |batch, arrays: &Arc<Arrays>| Batch::on_device(batch, arrays);
                ForPython { device, shown: Arc::new(shown), arrays: Arc::default(), make }
            };
            diagnose_on_gpu(&gpu, &dataset, (&asked.fields, &asked.colors, &sent), &options, &make, &mut step, &how)
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
