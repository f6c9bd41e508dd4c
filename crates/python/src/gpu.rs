//! GPUs, for Python.

use crate::error::Result;
use crate::fork::Owned;
use packhorse::gpu::Cuda;
use pyo3::prelude::*;

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
