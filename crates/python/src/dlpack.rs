//! Arrays as capsules of [DLPack](https://dmlc.github.io/dlpack/latest/python_spec.html), versioned and legacy.

#![expect(unsafe_code, reason = "the layout is that of the DLPack specification")]

use crate::array::{ArrayMemory, PyArray};
use packhorse::gpu::{DlDevice, DlManagedTensor, DlTensor, DlVersion};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// DLPack's number for memory of the host.
pub(crate) const CPU: (i32, i32) = (1, 0);

const VERSIONED: &CStr = c"dltensor_versioned";
const LEGACY: &CStr = c"dltensor";

/// Bit 1 of the flags: the consumer alone has this memory.
const COPIED: u64 = 2;

/// The capsule of consumers that know no versions (`DLManagedTensor`).
#[repr(C)]
struct Legacy {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
}

/// What a capsule points to, and the memory that it keeps, in one allocation.
struct Owner<T> {
    managed: T,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    _memory: Arc<dyn ArrayMemory>,
}

/// A capsule of `array`: of its memory, or of a copy. The deleter needs no interpreter: it may run in any thread, and
/// after the interpreter is gone.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    array: &PyArray,
    versioned: bool,
    copy: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (memory, data): (Arc<dyn ArrayMemory>, *const u8) = match copy {
        false => (array.memory(), array.bytes().as_ptr()),
        true => {
            let bytes = Arc::new(array.bytes().to_vec());
            let data = bytes.as_ptr();
            (bytes, data)
        }
    };
    let shape: Box<[i64]> = array.sizes().iter().map(|size| *size as i64).collect();
    let mut strides = vec![1; shape.len()].into_boxed_slice();
    let mut stride = 1;
    for (to, size) in strides.iter_mut().zip(&shape).rev() {
        *to = stride;
        stride *= *size;
    }
    let (device_type, device_id) = CPU;
    let tensor = DlTensor {
        data: data.cast_mut().cast(),
        device: DlDevice { device_type, device_id },
        ndim: shape.len() as i32,
        dtype: array.element().dlpack(),
        shape: null_mut(),
        strides: null_mut(),
        byte_offset: 0,
    };
    if versioned {
        let managed = DlManagedTensor {
            version: DlVersion { major: 1, minor: 1 },
            manager_ctx: null_mut(),
            deleter: Some(delete_versioned),
            flags: if copy { COPIED } else { 0 },
            dl_tensor: tensor,
        };
        let mut owner = Box::new(Owner { managed, shape, strides, _memory: memory });
        owner.managed.dl_tensor.shape = owner.shape.as_mut_ptr();
        owner.managed.dl_tensor.strides = owner.strides.as_mut_ptr();
        let owner = Box::into_raw(owner);
        // SAFETY: the owner was leaked just now; the deleter takes it back.
        let managed = unsafe {
            (*owner).managed.manager_ctx = owner.cast();
            &raw mut (*owner).managed
        };
        wrap(py, managed.cast(), VERSIONED, drop_versioned)
    } else {
        let mut owner = Box::new(Owner {
            managed: Legacy { tensor, context: null_mut(), deleter: Some(delete_legacy) },
            shape,
            strides,
            _memory: memory,
        });
        owner.managed.tensor.shape = owner.shape.as_mut_ptr();
        owner.managed.tensor.strides = owner.strides.as_mut_ptr();
        let owner = Box::into_raw(owner);
        // SAFETY: as above.
        let managed = unsafe {
            (*owner).managed.context = owner.cast();
            &raw mut (*owner).managed
        };
        wrap(py, managed.cast(), LEGACY, drop_legacy)
    }
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
/// `tensor` is the one of an owner that [`capsule`] leaked, and is not used after this.
unsafe extern "C" fn delete_versioned(tensor: *mut DlManagedTensor) {
    // SAFETY: the context is the address of the owner's box.
    drop(unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Owner<DlManagedTensor>>()) });
}

/// # Safety
///
/// As [`delete_versioned`].
unsafe extern "C" fn delete_legacy(tensor: *mut Legacy) {
    // SAFETY: as there.
    drop(unsafe { Box::from_raw((*tensor).context.cast::<Owner<Legacy>>()) });
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
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
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
