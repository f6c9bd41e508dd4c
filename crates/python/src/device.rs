//! Batches on a GPU and their arrays, for Python: DLPack and CUDA's array interface, without a copy.

#![expect(unsafe_code, reason = "streams of other libraries are named by their handles")]

use crate::array::PyArray;
use crate::dlpack;
use crate::element::ArrayElement;
use crate::error::Raised;
use crate::fork::Owned;
use packhorse::core::{Error, Result};
use packhorse::gpu::{Cuda, DeviceBatch, DeviceTransform, DlDevice, Exported, Output, View};
use packhorse::read::{BatchMetadata, Layout, SlabField};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;

/// The handle of the default stream.
const LEGACY: usize = 1;

/// The batch of an array on a GPU. Its memory is used again when the last array and tensor are gone.
pub(crate) struct DeviceMemory {
    batch: Owned<DeviceBatch<Cuda>>,
    device: DlDevice,
    pub(crate) metadata: BatchMetadata,
    pub(crate) arrays: Arc<Arrays>,
}

/// The arrays of batches on a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrays(pub(crate) Vec<ArrayName>);

/// The name of an array, whether its rows differ in length, and whether it is a part of a field before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArrayName {
    pub(crate) name: String,
    pub(crate) ragged: bool,
    pub(crate) part: bool,
}

impl ArrayName {
    fn of(field: &SlabField) -> Self {
        Self { name: field.name.clone(), ragged: field.ragged, part: field.part }
    }
}

impl Arrays {
    /// Those that come as `layout` has them.
    pub(crate) fn sent(layout: &Layout) -> Arc<Self> {
        Arc::new(Self(layout.fields().iter().map(ArrayName::of).collect()))
    }

    /// Those that were asked for, as they are when the GPU has finished them; all, if none were named. It needs others for that, such
    /// as whole pictures of their own sizes, and keys of random numbers.
    pub(crate) fn made(
        layout: &Layout,
        outputs: &[Output],
        asked: &[String],
        steps: &[Arc<dyn DeviceTransform>],
    ) -> Self {
        let made = |name: &str| outputs.iter().any(|output| output.name == name);
        let needed: Vec<String> = steps.iter().flat_map(|step| step.needs()).map(|field| field.name).collect();
        let is_shown = |field: &&SlabField| {
            let of_made = || field.name.rmatch_indices('.').any(|(end, _)| field.name.get(..end).is_some_and(made));
            let is_needed = field.part && of_made() || needed.contains(&field.name);
            !is_needed || asked.contains(&field.name)
        };
        let shown = layout.fields().iter().filter(is_shown).map(ArrayName::of);
        Self(shown.map(|array| ArrayName { ragged: array.ragged && !made(&array.name), ..array }).collect())
    }
}

impl DeviceMemory {
    pub(crate) fn new(batch: DeviceBatch<Cuda>, arrays: &Arc<Arrays>) -> Result<Arc<Self>> {
        let (metadata, device, arrays) = (batch.metadata()?, batch.device(), Arc::clone(arrays));
        Ok(Arc::new(Self { batch: Owned::new(batch), device, metadata, arrays }))
    }

    /// `cuda:0`.
    pub(crate) fn name(&self) -> String {
        format!("cuda:{}", self.device.device_id)
    }

    /// The batch, if it is this process's.
    fn batch(&self) -> Result<&DeviceBatch<Cuda>> {
        if self.batch.is_here() {
            return Ok(&self.batch);
        }
        let message = "the array is in a GPU's memory of the process that this one was forked from";
        Err(Error::unsupported(message).hint("copy it before the fork, or start processes by spawn or forkserver"))
    }

    /// Makes the memory wait for a stream.
    pub(crate) fn used_on(&self, handle: usize) -> Result<()> {
        // SAFETY: the caller of Python keeps the stream, as `used_on` of `_batch.py` asks.
        unsafe { self.batch()?.wait_on_handle(handle) }
    }

    /// An array; `None` if there is no such one.
    pub(crate) fn array(self: &Arc<Self>, name: &str) -> Result<Option<PyArray>> {
        let Some(view) = self.batch()?.unordered_view(name) else { return Ok(None) };
        let element = view.element.data_type().and_then(|data_type| ArrayElement::of(&data_type));
        let unknown = || Error::unsupported(format!("field {name} has elements of type {:?}", view.element));
        let (element, shape) = (element.ok_or_else(unknown)?, view.shape.clone());
        let field = DeviceField { memory: Arc::clone(self), view };
        PyArray::on_device(Arc::new(field), element, &shape)
            .map_or_else(|| Err(Error::bug("a field of another size")), |made| Ok(Some(made)))
    }
}

/// A field of a batch on a GPU.
pub(crate) struct DeviceField {
    pub(crate) memory: Arc<DeviceMemory>,
    pub(crate) view: View,
}

/// What a consumer asks `__dlpack__` for.
pub(crate) struct Request<'py> {
    pub(crate) stream: Option<Bound<'py, PyAny>>,
    pub(crate) versioned: bool,
    pub(crate) device: Option<(i32, i32)>,
    pub(crate) copy: Option<bool>,
}

impl Request<'_> {
    /// The handle of the consumer's stream; `None` if the consumer takes care of the order itself.
    fn handle(&self) -> PyResult<Option<usize>> {
        let Some(stream) = self.stream.as_ref().filter(|stream| !stream.is_none()) else { return Ok(Some(LEGACY)) };
        match stream.extract::<i64>()? {
            -1 => Ok(None),
            handle @ 1.. => Ok(Some(handle as usize)),
            handle => {
                let message = "is not a stream of CUDA: give 1 for the default stream, 2 for that of the thread, \
                               -1 for none, or a handle";
                Err(PyBufferError::new_err(format!("stream {handle} {message}")))
            }
        }
    }
}

impl DeviceField {
    /// The part of the field that an array is.
    fn part(&self, array: &PyArray) -> View {
        let shape = array.sizes().iter().map(|size| *size as usize).collect();
        View { address: self.view.address + array.range().start as u64, element: self.view.element, shape }
    }

    pub(crate) fn device(&self) -> (i32, i32) {
        (self.memory.device.device_type, self.memory.device.device_id)
    }

    /// The bytes of a part, copied to the host when the batch has arrived.
    pub(crate) fn download(&self, py: Python<'_>, array: &PyArray) -> Result<Vec<u8>> {
        let (batch, part) = (self.memory.batch()?, self.part(array));
        py.detach(|| batch.download_view(&part))
    }

    /// The error of what needs memory of the host.
    pub(crate) fn is_elsewhere(&self) -> PyErr {
        PyTypeError::new_err(format!(
            "the array is on {}: take it there with torch.from_dlpack(array), array.torch() or array.jax(), or copy it \
             to the host with array.cpu()",
            self.memory.name()
        ))
    }

    /// A capsule of the memory, or of a copy, for work on the stream of the consumer.
    pub(crate) fn dlpack<'py>(
        &self,
        py: Python<'py>,
        array: &PyArray,
        asked: &Request<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match asked.device {
            Some(dlpack::CPU) if asked.copy == Some(false) => {
                return Err(PyBufferError::new_err("memory of the host needs a copy"));
            }
            Some(dlpack::CPU) => return dlpack::capsule(py, &array.cpu(py)?, asked.versioned, true),
            Some(device) if device != self.device() => {
                return Err(PyBufferError::new_err(format!("the array is on {}; copy it there", self.memory.name())));
            }
            _ => {}
        }
        let copy = asked.copy == Some(true);
        let exported = if copy { self.copied(array, asked)? } else { self.shared(array, asked)? };
        dlpack::wrapped(py, exported, asked.versioned, if copy { dlpack::COPIED } else { 0 })
    }

    fn shared(&self, array: &PyArray, asked: &Request<'_>) -> PyResult<Exported> {
        if let Some(handle) = asked.handle()? {
            self.memory.used_on(handle).map_err(Raised::from)?;
        }
        let address = self.part(array).address;
        Ok(self.exported(address, array, Box::new(Arc::clone(&self.memory))))
    }

    fn copied(&self, array: &PyArray, asked: &Request<'_>) -> PyResult<Exported> {
        let handle = asked.handle()?;
        let handle = handle.ok_or_else(|| PyBufferError::new_err("a copy needs a stream to be made on"))?;
        let batch = self.memory.batch().map_err(Raised::from)?;
        // SAFETY: consumers of DLPack keep the stream that they name.
        let copied = unsafe { batch.copy_on_handle(&self.part(array), handle) }.map_err(Raised::from)?;
        Ok(self.exported(copied.address(), array, Box::new(copied)))
    }

    fn exported(&self, address: u64, array: &PyArray, keeps: Box<dyn Send>) -> Exported {
        let data = std::ptr::with_exposed_provenance_mut(address as usize);
        let shape = array.sizes().iter().map(|size| *size as i64).collect();
        // SAFETY: the address is that of the array or of its copy, which the batch or the copy in `keeps` holds.
        unsafe { Exported::of_memory(data, self.memory.device, array.element().dlpack(), shape, keeps) }
    }

    /// [CUDA's array interface](https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html), version 3, when the
    /// batch has arrived: not all consumers look at its stream. The memory is used again after work on the default
    /// stream, which is all that the interface tells about its consumer.
    pub(crate) fn array_interface<'py>(&self, py: Python<'py>, array: &PyArray) -> PyResult<Bound<'py, PyDict>> {
        let arrived = || {
            self.memory.used_on(LEGACY)?;
            self.memory.batch()?.synchronize()
        };
        py.detach(arrived).map_err(Raised::from)?;
        let part = self.part(array);
        let address = if part.bytes() == 0 { 0 } else { part.address };
        let shown = PyDict::new(py);
        shown.set_item("shape", PyTuple::new(py, array.sizes())?)?;
        shown.set_item("typestr", array.element().typestr())?;
        shown.set_item("data", (address, false))?;
        shown.set_item("strides", py.None())?;
        shown.set_item("stream", py.None())?;
        shown.set_item("version", 3)?;
        Ok(shown)
    }
}
