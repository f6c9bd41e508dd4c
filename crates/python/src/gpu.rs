//! GPUs, for Python.

use crate::dataset::PyDataset;
use crate::error::Result;
use crate::fields::Asked;
use crate::fork::Owned;
use crate::loader::{Messages, options};
use crate::watch::abandonable;
use packhorse::core::Cancel;
use packhorse::gpu::{Cuda, Resident};
use packhorse::read::LoaderOptions;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A GPU of NVIDIA: its driver is loaded by the first of these.
#[pyclass(frozen, module = "packhorse._packhorse", name = "Gpu")]
pub(crate) struct PyGpu(Owned<Cuda>);

impl PyGpu {
    pub(crate) fn cuda(&self) -> Cuda {
        self.0.clone()
    }
}

#[pymethods]
impl PyGpu {
    /// The GPU of this number, or that of the process's local rank.
    #[new]
    #[pyo3(signature = (number=None))]
    fn new(py: Python<'_>, number: Option<u32>) -> Result<Self> {
        let open = || number.map_or_else(Cuda::from_environment, Cuda::new);
        Ok(Self(Owned::new(py.detach(open)?)))
    }

    #[getter]
    fn number(&self) -> u32 {
        self.0.number()
    }

    #[getter]
    fn name(&self) -> Result<String> {
        Ok(self.0.name()?)
    }
}

/// The samples of a dataset in a GPU's memory.
#[pyclass(frozen, module = "packhorse._packhorse", name = "Resident")]
pub(crate) struct PyResident {
    samples: Owned<Arc<Resident<Cuda>>>,
    messages: Arc<Messages>,
}

impl PyResident {
    pub(crate) fn samples(&self) -> Arc<Resident<Cuda>> {
        Arc::clone(&self.samples)
    }
}

#[pymethods]
impl PyResident {
    /// Reads and decodes all samples, once, with the settings of a loader.
    #[new]
    fn new(
        py: Python<'_>,
        gpu: &PyGpu,
        dataset: &PyDataset,
        described: Vec<(String, String, String, bool, Bound<'_, PyAny>)>,
        settings: &Bound<'_, PyDict>,
    ) -> Result<Self> {
        let messages = Arc::new(Messages::default());
        let (kept, _) = Asked::of(described)?.kept()?;
        let options = LoaderOptions { observer: Arc::clone(&messages) as _, ..options(settings)? };
        let (gpu, dataset) = (gpu.cuda(), dataset.ours.clone());
        let cancel = Cancel::default();
        let until = cancel.clone();
        let loaded = abandonable(py, move || Resident::load_until(&gpu, &dataset, &kept, &options, &until));
        // After Ctrl-C the thread that loads ends, too.
        let samples = loaded.inspect_err(|_| cancel.cancel())?;
        Ok(Self { samples: Owned::new(Arc::new(samples)), messages })
    }

    /// The bytes of the GPU's memory that the samples take.
    #[getter]
    fn bytes(&self) -> usize {
        self.samples.bytes()
    }

    /// Takes the messages of loading: whether each is of a skipped sample, and its text.
    fn messages(&self) -> Vec<(bool, String)> {
        self.messages.take()
    }
}
