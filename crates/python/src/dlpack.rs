//! Arrays as capsules of [DLPack](https://dmlc.github.io/dlpack/latest/python_spec.html), versioned and legacy.

#![expect(unsafe_code, reason = "the layout is that of the DLPack specification")]

use crate::array::{ArrayMemory, PyArray};
use packhorse::gpu::{DlDevice, DlManagedTensor, DlTensor, Exported};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// DLPack's number for memory of the host.
pub(crate) const CPU: (i32, i32) = (DlDevice::CPU.device_type, DlDevice::CPU.device_id);

const VERSIONED: &CStr = c"dltensor_versioned";
const LEGACY: &CStr = c"dltensor";

/// Bits of the flags: the consumer must not write into this memory, or has it alone.
const READ_ONLY: u64 = 1;
pub(crate) const COPIED: u64 = 2;

/// The tensor of consumers that know no versions (`DLManagedTensor`), and the versioned one that it stands for.
#[repr(C)]
struct Legacy {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
    _versioned: Exported,
}

/// A capsule of `array`, which is in host memory: of its memory, or of a copy. The deleter needs no interpreter: it may run in any thread, and
/// after the interpreter is gone.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    array: &PyArray,
    versioned: bool,
    copy: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (shared, bytes) = array.host()?;
    let (memory, data): (Arc<dyn ArrayMemory>, *const u8) = match copy {
        false => (Arc::clone(shared), bytes.as_ptr()),
        true => {
            let bytes = Arc::new(bytes.to_vec());
            let data = bytes.as_ptr();
            (bytes, data)
        }
    };
    let shape = array.sizes().iter().map(|size| *size as i64).collect();
    let dtype = array.element().dlpack();
    let data = data.cast_mut().cast();
    // SAFETY: the bytes are those of the array, or of its copy, and `memory` keeps them.
    let exported = unsafe { Exported::of_memory(data, DlDevice::CPU, dtype, shape, Box::new(memory)) };
    wrapped(py, exported, versioned, if copy { COPIED } else { READ_ONLY })
}

/// A capsule of a tensor, with these flags if it is versioned.
pub(crate) fn wrapped<'py>(
    py: Python<'py>,
    exported: Exported,
    versioned: bool,
    flags: u64,
) -> PyResult<Bound<'py, PyAny>> {
    if !versioned {
        let DlTensor { data, device, ndim, dtype, shape, strides, byte_offset } = *exported.tensor();
        let tensor = DlTensor { data, device, ndim, dtype, shape, strides, byte_offset };
        let legacy = Legacy { tensor, context: null_mut(), deleter: Some(delete_legacy), _versioned: exported };
        return wrap(py, Box::into_raw(Box::new(legacy)).cast(), LEGACY, drop_legacy);
    }
    let tensor = exported.into_raw().as_ptr();
    // SAFETY: the tensor was made before, and has no consumer yet.
    unsafe { (*tensor).flags |= flags };
    wrap(py, tensor.cast(), VERSIONED, drop_versioned)
}

fn wrap<'py>(
    py: Python<'py>,
    managed: *mut c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is not null, the name lives forever, and the result is a new reference or an error.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(managed, name.as_ptr(), Some(destructor))) }
}

/// # Safety
///
/// `tensor` is one that [`capsule`] leaked, and is not used after this.
unsafe extern "C" fn delete_legacy(tensor: *mut Legacy) {
    // SAFETY: it is the address of a box.
    drop(unsafe { Box::from_raw(tensor) });
}

/// Frees the tensor of a capsule that was not consumed: a consumer changes the name.
///
/// # Safety
///
/// Python calls it once with a capsule of [`wrap`].
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a valid capsule of this name holds the tensor.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            let tensor: *mut DlManagedTensor = ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast();
            if let Some(delete) = (*tensor).deleter {
                delete(tensor);
            }
        }
    }
}

/// # Safety
///
/// As [`drop_versioned`].
unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: as there.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}
