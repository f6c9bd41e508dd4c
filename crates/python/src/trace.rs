//! Traces, for Python.

use crate::error::Result;
use crate::fork::Owned;
use packhorse_cli::Trace;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A trace of this process: see `packhorse/_trace.py`.
#[pyclass(frozen, module = "packhorse._packhorse", name = "Trace")]
pub(crate) struct PyTrace(Mutex<Option<Owned<Trace>>>);

#[pymethods]
impl PyTrace {
    /// Begins the trace.
    #[new]
    fn new(path: PathBuf) -> Result<Self> {
        Ok(Self(Mutex::new(Some(Owned::new(Trace::start(&path)?)))))
    }

    /// Completes the file. In a process that was forked meanwhile, nothing: it is its parent's.
    fn finish(&self, py: Python<'_>) -> Result<()> {
        let trace = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(trace) = trace.filter(Owned::is_here) else { return Ok(()) };
        Ok(py.detach(|| trace.finish())?)
    }
}

/// A forked child adds nothing to the trace of its parent.
#[pyfunction]
pub(crate) fn leave_trace() {
    Trace::leave();
}
