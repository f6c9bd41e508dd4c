//! Arrays for Python: buffers and DLPack, without a copy. An array keeps the memory that it points to, in the host or on a
//! GPU (`device.rs`).

#![expect(unsafe_code, reason = "buffers and capsules of Python hold addresses")]

use crate::device::{DeviceField, Request};
use crate::dlpack;
use crate::element::ArrayElement;
use crate::error::Raised;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyIndexError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt};
use pyo3::{IntoPyObjectExt, ffi};
use std::ffi::c_int;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;

/// Host memory that an array keeps. Its address does not change.
pub(crate) trait ArrayMemory: Send + Sync {
    fn bytes(&self) -> &[u8];
}

impl ArrayMemory for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl ArrayMemory for arrow_buffer::Buffer {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Where the elements of an array are.
#[derive(Clone)]
enum Place {
    Host(Arc<dyn ArrayMemory>),
    Device(Arc<DeviceField>),
}

impl Place {
    fn len(&self) -> usize {
        match self {
            Self::Host(memory) => memory.bytes().len(),
            Self::Device(field) => field.view.bytes(),
        }
    }
}

/// An array of one field: little-endian, C order, read-only.
///
/// `torch.from_dlpack` takes it without a copy, and in host memory `numpy.asarray` and `memoryview` too. It keeps its
/// batch's memory.
#[pyclass(frozen, module = "packhorse", name = "Array")]
pub(crate) struct PyArray {
    place: Place,
    range: Range<usize>,
    element: ArrayElement,
    shape: Box<[isize]>,
    strides: Box<[isize]>,
}

impl PyArray {
    /// `range` of `memory`, which holds exactly the elements of `shape`; `None` if it does not.
    pub(crate) fn new(
        memory: Arc<dyn ArrayMemory>,
        range: Range<usize>,
        element: ArrayElement,
        shape: &[usize],
    ) -> Option<Self> {
        Self::of(Place::Host(memory), range, element, shape)
    }

    /// A field on a GPU, which holds exactly the elements of `shape`; `None` if it does not.
    pub(crate) fn on_device(field: Arc<DeviceField>, element: ArrayElement, shape: &[usize]) -> Option<Self> {
        let range = 0..field.view.bytes();
        Self::of(Place::Device(field), range, element, shape)
    }

    fn of(place: Place, range: Range<usize>, element: ArrayElement, shape: &[usize]) -> Option<Self> {
        let bytes = shape.iter().try_fold(element.width, |bytes, size| bytes.checked_mul(*size))?;
        if range.end > place.len() || range.end.checked_sub(range.start) != Some(bytes) {
            return None;
        }
        let shape: Box<[isize]> = shape.iter().map(|size| *size as isize).collect();
        let mut strides = vec![0; shape.len()].into_boxed_slice();
        let mut stride = element.width as isize;
        for (to, size) in strides.iter_mut().zip(&shape).rev() {
            *to = stride;
            stride *= (*size).max(1);
        }
        Some(Self { place, range, element, shape, strides })
    }

    /// Its memory in the host, and its bytes there; a `TypeError` if they are on a GPU.
    pub(crate) fn host(&self) -> PyResult<(&Arc<dyn ArrayMemory>, &[u8])> {
        match &self.place {
            Place::Host(memory) => Ok((memory, memory.bytes().get(self.range.clone()).unwrap_or_default())),
            Place::Device(field) => Err(field.is_elsewhere()),
        }
    }

    /// What `look` finds in the array, or in a copy in host memory.
    fn on_host<R>(&self, py: Python<'_>, look: impl FnOnce(&Self) -> PyResult<R>) -> PyResult<R> {
        match &self.place {
            Place::Host(_) => look(self),
            Place::Device(_) => look(&self.cpu(py)?),
        }
    }

    pub(crate) fn range(&self) -> &Range<usize> {
        &self.range
    }

    pub(crate) fn element(&self) -> ArrayElement {
        self.element
    }

    pub(crate) fn sizes(&self) -> &[isize] {
        &self.shape
    }

    fn number<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (_, bytes) = self.host()?;
        let error = || pyo3::exceptions::PyValueError::new_err(format!("{} bytes are not one number", bytes.len()));
        macro_rules! number {
            ($type:ty $(, $as:ident)?) => {
                <$type>::from_le_bytes(bytes.try_into().map_err(|_| error())?)$(.$as())?.into_bound_py_any(py)
            };
        }
        match self.element.name {
            "bool" => (bytes.first().copied().ok_or_else(error)? != 0).into_bound_py_any(py),
            "int8" => number!(i8),
            "int16" => number!(i16),
            "int32" => number!(i32),
            "int64" => number!(i64),
            "uint8" => number!(u8),
            "uint16" => number!(u16),
            "uint32" => number!(u32),
            "uint64" => number!(u64),
            "float16" => number!(half::f16, to_f64),
            "float32" => number!(f32),
            _ => number!(f64),
        }
    }

    fn part(&self, row: usize) -> Option<Self> {
        let (rows, inner) = self.shape.split_first()?;
        if row >= *rows as usize {
            return None;
        }
        let inner: Vec<usize> = inner.iter().map(|size| *size as usize).collect();
        // Strides are not 0 where rows have no elements.
        let stride = self.element.width * inner.iter().product::<usize>();
        let start = self.range.start + row * stride;
        Self::of(self.place.clone(), start..start + stride, self.element, &inner)
    }
}

/// The array of these bytes, as a pickle has it.
#[pyfunction]
pub(crate) fn array_of(bytes: Vec<u8>, dtype: &str, shape: Vec<usize>) -> PyResult<PyArray> {
    let element = ArrayElement::named(dtype);
    let range = 0..bytes.len();
    let array = element.and_then(|element| PyArray::new(Arc::new(bytes), range, element, &shape));
    array.ok_or_else(|| pyo3::exceptions::PyValueError::new_err("not an array"))
}

#[pymethods]
impl PyArray {
    /// The size of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pyo3::types::PyTuple::new(py, self.shape.iter())?.into_any())
    }

    /// The name of the element's type, as NumPy writes it: `"uint8"`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.element.name
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// The bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.range.len()
    }

    /// The address of the first element.
    #[getter]
    fn address(&self) -> usize {
        match &self.place {
            Place::Host(memory) => memory.bytes().as_ptr().addr() + self.range.start,
            Place::Device(field) => field.view.address as usize + self.range.start,
        }
    }

    /// Where the elements are: `"cpu"`, or a GPU such as `"cuda:0"`.
    #[getter]
    fn device(&self) -> String {
        match &self.place {
            Place::Host(_) => "cpu".to_owned(),
            Place::Device(field) => field.memory.name(),
        }
    }

    /// The array in host memory: itself, or a copy of one on a GPU, made when its batch has arrived.
    pub(crate) fn cpu(&self, py: Python<'_>) -> PyResult<Self> {
        let (place, range) = match &self.place {
            Place::Host(_) => (self.place.clone(), self.range.clone()),
            Place::Device(field) => {
                let bytes = field.download(py, self).map_err(Raised::from)?;
                let whole = 0..bytes.len();
                (Place::Host(Arc::new(bytes)), whole)
            }
        };
        Ok(Self { place, range, element: self.element, shape: self.shape.clone(), strides: self.strides.clone() })
    }

    fn __len__(&self) -> PyResult<usize> {
        let rows =
            self.shape.first().ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("a number has no length"))?;
        Ok(*rows as usize)
    }

    /// Row `index` as an array, a number from an array of one dimension; whatever else is asked for, of a NumPy array.
    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let is_number = index.is_instance_of::<PyInt>();
        if !is_number && index.getattr("ndim").is_ok_and(|ndim| ndim.is_truthy().unwrap_or(true)) {
            // NumPy takes a tensor of one number for that number, though it has a dimension.
            return Self::numpy(slf)?.get_item(py.import("numpy")?.call_method1("asarray", (index,))?);
        }
        // A bool is a mask.
        let Some(index) = (!index.is_instance_of::<PyBool>()).then(|| index.extract::<isize>().ok()).flatten() else {
            return Self::numpy(slf)?.get_item(index);
        };
        let rows = this.shape.first().copied().unwrap_or(0);
        let at = if index < 0 { index + rows } else { index };
        let part = usize::try_from(at).ok().and_then(|at| this.part(at));
        let part = part.ok_or_else(|| PyIndexError::new_err(format!("row {index} of {rows}")))?;
        if part.shape.is_empty() { part.item(py) } else { part.into_bound_py_any(py) }
    }

    /// Copies and pickles have memory of their own, in the host.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let restore = py.import("packhorse._batch")?.getattr("_array")?;
        let bytes = self.on_host(py, |array| Ok(PyBytes::new(py, array.host()?.1)))?;
        (restore, (bytes, self.element.name, self.shape.to_vec())).into_bound_py_any(py)
    }

    /// Compares element by element, as NumPy does.
    fn __richcmp__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        how: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = Self::numpy(slf)?;
        let other = match other.cast::<Self>() {
            Ok(array) => Self::numpy(array)?,
            Err(_) => other.clone(),
        };
        own.rich_compare(other, how)
    }

    /// The number of an array with one element.
    pub(crate) fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.on_host(py, |array| array.number(py))
    }

    /// Rows `start` to `stop` of values without a shape, as an array of `shape`; as a row of rows without one.
    #[pyo3(signature = (start, stop, shape=None))]
    fn cut(&self, start: usize, stop: usize, shape: Option<Vec<usize>>) -> PyResult<Self> {
        let stride = self.strides.first().map_or(self.element.width, |stride| *stride as usize);
        let rows = self.shape.iter().skip(1).map(|size| *size as usize);
        let shape = shape.unwrap_or_else(|| std::iter::once(stop.saturating_sub(start)).chain(rows).collect());
        let place = |row: usize| row.checked_mul(stride)?.checked_add(self.range.start);
        let range =
            place(start).zip(place(stop)).map(|(from, to)| from..to).filter(|range| range.end <= self.range.end);
        let cut = range.and_then(|range| Self::of(self.place.clone(), range, self.element, &shape));
        cut.ok_or_else(|| PyIndexError::new_err(format!("rows {start} to {stop} are not there")))
    }

    /// The numbers as lists inside of lists.
    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, array) = (slf.py(), slf.get());
        if let Place::Device(_) = array.place {
            return Self::tolist(&Bound::new(py, array.cpu(py)?)?);
        }
        if array.element.name != "float16" {
            return pyo3::types::PyMemoryView::from(slf)?.call_method0("tolist");
        }
        // Memory views of Python 3.11 know no halves.
        if array.shape.is_empty() {
            return array.item(py);
        }
        let rows = (0..array.shape.first().copied().unwrap_or(0) as usize).filter_map(|row| array.part(row));
        let lists = rows.map(|row| Self::tolist(&Bound::new(py, row)?)).collect::<PyResult<Vec<_>>>()?;
        lists.into_bound_py_any(py)
    }

    /// A copy of the bytes.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.on_host(py, |array| Ok(PyBytes::new(py, array.host()?.1)))
    }

    /// As a NumPy array, read-only and without a copy. Copy an array on a GPU first: `array.cpu().numpy()`.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("numpy")?.call_method1("asarray", (slf,))
    }

    /// As a torch tensor, without a copy. Other arrays of the same memory see writes to it.
    fn torch<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("torch")?.call_method1("from_dlpack", (slf,))
    }

    /// As a JAX array.
    fn jax<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("jax.numpy")?.call_method1("from_dlpack", (slf,))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().host()?;
        let numpy = slf.py().import("numpy")?;
        let view = numpy.call_method1("asarray", (pyo3::types::PyMemoryView::from(slf)?,))?;
        let kwargs = pyo3::types::PyDict::new(slf.py());
        kwargs.set_item("copy", copy.unwrap_or(false))?;
        match dtype {
            Some(dtype)
                if copy == Some(false) && !view.getattr("dtype")?.eq(numpy.call_method1("dtype", (&dtype,))?)? =>
            {
                Err(pyo3::exceptions::PyValueError::new_err("another type of elements needs a copy"))
            }
            Some(dtype) => view.call_method("astype", (dtype,), Some(&kwargs)),
            None if copy == Some(true) => view.call_method0("copy"),
            None => Ok(view),
        }
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        if let Place::Device(field) = &self.place {
            return field.dlpack(py, self, &Request { stream, versioned, device: dl_device, copy });
        }
        if stream.is_some_and(|stream| !stream.is_none()) {
            return Err(PyBufferError::new_err("memory of the host has no streams"));
        }
        if dl_device.is_some_and(|device| device != dlpack::CPU) {
            return Err(PyBufferError::new_err("the array is in memory of the host; copy it to the device there"));
        }
        dlpack::capsule(py, self, versioned, copy == Some(true))
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        match &self.place {
            Place::Host(_) => dlpack::CPU,
            Place::Device(field) => field.device(),
        }
    }

    /// CUDA's array interface; arrays in host memory have none.
    #[getter(__cuda_array_interface__)]
    fn cuda_array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &self.place {
            Place::Host(_) => Err(PyAttributeError::new_err("the array is in host memory")),
            Place::Device(field) => field.array_interface(py, self),
        }
    }

    fn __repr__(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(isize::to_string).collect();
        let place = match &self.place {
            Place::Host(_) => String::new(),
            Place::Device(field) => format!(", {}", field.memory.name()),
        };
        format!("Array({}, [{}]{place})", self.element.name, shape.join(", "))
    }

    /// # Safety
    ///
    /// Python gives a `view` to fill, and releases it before the array.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() || flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("the array is read-only; copy it first"));
        }
        let array = slf.get();
        let (_, bytes) = array.host()?;
        let asks = |flag: c_int| flags & flag == flag;
        // SAFETY: `view` is valid. The addresses are those of memory that `slf`, which the view keeps, owns and never
        // changes; readers do not write through them, since the view is read-only.
        unsafe {
            (*view).buf = bytes.as_ptr().cast_mut().cast();
            (*view).len = array.range.len() as isize;
            (*view).readonly = 1;
            (*view).itemsize = array.element.width as isize;
            (*view).format =
                if asks(ffi::PyBUF_FORMAT) { array.element.format.as_ptr().cast_mut() } else { null_mut() };
            (*view).ndim = array.shape.len() as c_int;
            (*view).shape = if asks(ffi::PyBUF_ND) { array.shape.as_ptr().cast_mut() } else { null_mut() };
            (*view).strides = if asks(ffi::PyBUF_STRIDES) { array.strides.as_ptr().cast_mut() } else { null_mut() };
            (*view).suboffsets = null_mut();
            (*view).internal = null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }
}
