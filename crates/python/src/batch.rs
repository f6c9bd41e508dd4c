//! Batches for Python: the arrays of a slab, which is reused after the last of them is gone.

use crate::array::{ArrayMemory, PyArray};
use crate::device::{Arrays, DeviceMemory};
use crate::element::ArrayElement;
use crate::error::Result;
use crate::fork::Owned;
use packhorse::core::Error;
use packhorse::gpu::{Cuda, DeviceBatch};
use packhorse::read::{BatchMetadata, HostSlab};
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

impl Kept {
    fn array(self: &Arc<Self>, name: &str) -> Result<Option<PyArray>> {
        let Some((field, place)) = self.0.layout().field(name).zip(self.0.place(name)) else { return Ok(None) };
        let unknown = || Error::unsupported(format!("field {name} has elements of type {}", field.data_type));
        let element = ArrayElement::of(&field.data_type).ok_or_else(unknown)?;
        let mut shape = field.shape.clone();
        let stride = field.strides.first().copied().unwrap_or(1);
        if let Some(rows) = shape.first_mut() {
            // Rows without elements take no bytes.
            *rows = place.len().checked_div(stride).unwrap_or_else(|| self.0.rows());
        }
        let memory: Arc<dyn ArrayMemory> = Arc::clone(self) as _;
        Ok(Some(PyArray::new(memory, place, element, &shape).ok_or_else(unknown)?))
    }
}

/// A batch: see `packhorse/_batch.py`, which owns the words for Python.
#[pyclass(frozen, module = "packhorse._packhorse")]
pub(crate) struct Batch(Place);

enum Place {
    Host(Arc<Kept>),
    Device(Arc<DeviceMemory>),
}

impl Batch {
    pub(crate) fn new(ours: Ours) -> Self {
        Self(Place::Host(Arc::new(Kept(Owned::new(ours)))))
    }

    pub(crate) fn on_device(ours: DeviceBatch<Cuda>, arrays: &Arc<Arrays>) -> Result<Self, Error> {
        Ok(Self(Place::Device(DeviceMemory::new(ours, arrays)?)))
    }

    fn metadata(&self) -> &BatchMetadata {
        match &self.0 {
            Place::Host(kept) => kept.0.metadata(),
            Place::Device(memory) => &memory.metadata,
        }
    }
}

#[pymethods]
impl Batch {
    #[getter]
    fn epoch(&self) -> u64 {
        self.metadata().epoch()
    }

    /// The first of its positions in the epoch's order, and the one after its last.
    #[getter]
    fn positions(&self) -> (u64, u64) {
        let positions = self.metadata().positions();
        (positions.start, positions.end)
    }

    #[getter]
    fn rows(&self) -> usize {
        self.metadata().rows()
    }

    /// The numbers of its samples in the dataset.
    #[getter]
    fn numbers(&self) -> Vec<u64> {
        self.metadata().numbers().to_vec()
    }

    #[getter]
    fn longest(&self) -> u32 {
        self.metadata().longest()
    }

    /// `"cpu"`, or a GPU such as `"cuda:0"`.
    #[getter]
    fn device(&self) -> String {
        match &self.0 {
            Place::Host(_) => "cpu".to_owned(),
            Place::Device(memory) => memory.name(),
        }
    }

    /// The keys of its samples.
    fn sample_keys(&self) -> Vec<&str> {
        (0..self.metadata().rows()).map(|row| self.metadata().key(row).unwrap_or_default()).collect()
    }

    /// The names of all arrays, whether they are the values of ragged fields, and whether they are parts of one before them: `NAME.offsets`,
    /// `NAME.shape`, or `NAME.lengths`.
    fn fields(&self) -> Vec<(&str, bool, bool)> {
        match &self.0 {
            Place::Host(kept) => {
                kept.0.layout().fields().iter().map(|field| (&*field.name, field.ragged, field.part)).collect()
            }
            Place::Device(memory) => {
                memory.arrays.0.iter().map(|array| (&*array.name, array.ragged, array.part)).collect()
            }
        }
    }

    /// Whether the samples have numbers, and keys.
    #[getter]
    fn has_numbers(&self) -> bool {
        !self.metadata().numbers().is_empty()
    }

    /// An array, with as many rows as there are samples; `None` if there is no such one.
    fn array(&self, name: &str) -> Result<Option<PyArray>> {
        match &self.0 {
            Place::Host(kept) => kept.array(name),
            Place::Device(memory) => Ok(memory.array(name)?),
        }
    }

    /// Keeps its memory from being used again before the work on a stream; does nothing in host memory.
    fn used_on(&self, handle: usize) -> Result<()> {
        match &self.0 {
            Place::Host(_) => Ok(()),
            Place::Device(memory) => Ok(memory.used_on(handle)?),
        }
    }
}
