//! Batches for Python: the arrays of a slab, which is reused after the last of them is gone.

use crate::array::{ArrayMemory, PyArray};
use crate::element::ArrayElement;
use crate::error::Result;
use crate::fork::Owned;
use packhorse::core::Error;
use packhorse::read::HostSlab;
use pyo3::prelude::*;
use std::sync::Arc;

type Ours = packhorse::read::Batch<HostSlab>;

/// The slab of a batch, kept by its arrays.
struct Kept(Owned<Ours>);

impl ArrayMemory for Kept {
    fn bytes(&self) -> &[u8] {
        self.0.slab()
    }
}

/// A batch: see `packhorse/_batch.py`, which owns the words for Python.
#[pyclass(frozen, module = "packhorse._packhorse")]
pub(crate) struct Batch(Arc<Kept>);

impl Batch {
    pub(crate) fn new(ours: Ours) -> Self {
        Self(Arc::new(Kept(Owned::new(ours))))
    }
}

#[pymethods]
impl Batch {
    #[getter]
    fn epoch(&self) -> u64 {
        self.0.0.epoch()
    }

    /// The first of its positions in the epoch's order, and the one after its last.
    #[getter]
    fn positions(&self) -> (u64, u64) {
        let positions = self.0.0.positions();
        (positions.start, positions.end)
    }

    #[getter]
    fn rows(&self) -> usize {
        self.0.0.rows()
    }

    /// The numbers of its samples in the dataset.
    #[getter]
    fn numbers(&self) -> Vec<u64> {
        self.0.0.numbers().to_vec()
    }

    #[getter]
    fn longest(&self) -> u32 {
        self.0.0.longest()
    }

    /// The keys of its samples.
    fn sample_keys(&self) -> Vec<&str> {
        (0..self.0.0.rows()).map(|row| self.0.0.key(row).unwrap_or_default()).collect()
    }

    /// The names of its arrays; those of a ragged field follow it, as `NAME.offsets` and `NAME.shape`.
    fn names(&self) -> Vec<&str> {
        self.0.0.layout().fields().iter().map(|field| field.name.as_str()).collect()
    }

    fn is_ragged(&self, name: &str) -> bool {
        self.0.0.layout().field(name).is_some_and(|field| field.ragged)
    }

    /// An array, with as many rows as there are samples; `None` if there is no such one.
    fn array(&self, name: &str) -> Result<Option<PyArray>> {
        let batch = &self.0.0;
        let Some((field, place)) = batch.layout().field(name).zip(batch.place(name)) else { return Ok(None) };
        let unknown = || Error::unsupported(format!("field {name} has elements of type {}", field.data_type));
        let element = ArrayElement::of(&field.data_type).ok_or_else(unknown)?;
        let mut shape = field.shape.clone();
        let stride = field.strides.first().copied().unwrap_or(1).max(1);
        if let Some(rows) = shape.first_mut() {
            *rows = place.len() / stride;
        }
        let memory: Arc<dyn ArrayMemory> = Arc::clone(&self.0) as _;
        Ok(Some(PyArray::new(memory, place, element, &shape).ok_or_else(unknown)?))
    }
}
