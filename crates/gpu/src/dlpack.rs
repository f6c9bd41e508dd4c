//! Fields of batches for other libraries, without a copy: [DLPack](https://dmlc.github.io/dlpack/latest/c_api.html), version 1.1.
//!
//! A tensor keeps the memory of its batch. The memory is reused after the batch and all its tensors are dropped and the
//! work queued by then on the streams that waited for them has finished. So a consumer may drop a tensor while its
//! kernels are still queued, if they are on the stream that it named.

#![expect(unsafe_code, reason = "the layout is that of the DLPack specification")]

use crate::ring::Lease;
use crate::upload_stream::UploadStream;
use crate::{Element, Gpu, View};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// The version of the layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlVersion {
    /// Incremented by incompatible changes.
    pub major: u32,
    /// Incremented by compatible additions.
    pub minor: u32,
}

/// A device: its type (1 CPU, 2 CUDA) and number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDevice {
    /// Its type.
    pub device_type: i32,
    /// Its number.
    pub device_id: i32,
}

impl DlDevice {
    /// Memory of the process.
    pub const CPU: Self = Self { device_type: 1, device_id: 0 };

    /// An NVIDIA GPU.
    pub(crate) fn cuda(number: u32) -> Self {
        Self { device_type: 2, device_id: i32::try_from(number).unwrap_or(i32::MAX) }
    }
}

/// The type of elements: code (0 signed, 1 unsigned, 2 float, 4 bfloat), bits, and lanes (always 1 here).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDataType {
    /// The type code.
    pub code: u8,
    /// Bits per element.
    pub bits: u8,
    /// 1.
    pub lanes: u16,
}

impl From<Element> for DlDataType {
    fn from(element: Element) -> Self {
        let code = match element {
            Element::I8 | Element::I16 | Element::I32 | Element::I64 => 0,
            Element::U8 | Element::U16 | Element::U32 | Element::U64 => 1,
            Element::F16 | Element::F32 | Element::F64 => 2,
            Element::Bf16 => 4,
        };
        Self { code, bits: 8 * element.width() as u8, lanes: 1 }
    }
}

/// An array.
#[repr(C)]
#[derive(Debug)]
pub struct DlTensor {
    /// The address of its first byte: a multiple of 256, except for ragged values, which are not aligned.
    pub data: *mut c_void,
    /// The device of that memory.
    pub device: DlDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of its elements.
    pub dtype: DlDataType,
    /// The size of each dimension.
    pub shape: *mut i64,
    /// Elements from one entry to the next in each dimension.
    pub strides: *mut i64,
    /// 0.
    pub byte_offset: u64,
}

/// An array and its owner (`DLManagedTensorVersioned`).
#[repr(C)]
#[derive(Debug)]
pub struct DlManagedTensor {
    /// The version of this layout.
    pub version: DlVersion,
    /// Private to the owner.
    pub manager_ctx: *mut c_void,
    /// Releases the array. The consumer calls it once, from any thread.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
    /// Bit 0: read-only.
    pub flags: u64,
    /// The array.
    pub dl_tensor: DlTensor,
}

/// The memory that a tensor points to, in one allocation.
struct Owner {
    tensor: DlManagedTensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// Any value that must live as long as the tensor.
    _keeps: Box<dyn Send>,
}

/// A field of a batch, as a tensor for another library; freed on drop unless it was handed over.
#[derive(Debug)]
pub struct Exported {
    tensor: NonNull<DlManagedTensor>,
}

// SAFETY: the deleter may be called from any thread.
unsafe impl Send for Exported {}

impl Exported {
    pub(crate) fn new<G: Gpu>(view: &View, device: DlDevice, lease: &Arc<Mutex<Lease<UploadStream<G>>>>) -> Self {
        let entries = |entries: &usize| i64::try_from(*entries).unwrap_or(i64::MAX);
        let shape = view.shape.iter().map(entries).collect();
        let data = std::ptr::with_exposed_provenance_mut(view.address as usize);
        // SAFETY: the batch has the memory of its views, for as long as the lease is held.
        unsafe { Self::of_memory(data, device, view.element.into(), shape, Box::new(Arc::clone(lease))) }
    }

    /// A dense array at `data`, in C order.
    ///
    /// # Safety
    /// `data` is the address of as many elements of `dtype` as `shape` says, in the memory of `device`, which stay there and are not written
    /// until `keeps` is dropped. The last consumer drops it, in any thread.
    pub unsafe fn of_memory(
        data: *mut c_void,
        device: DlDevice,
        dtype: DlDataType,
        shape: Vec<i64>,
        keeps: Box<dyn Send>,
    ) -> Self {
        let mut strides = vec![1i64; shape.len()];
        let mut stride = 1i64;
        for (to, entries) in strides.iter_mut().zip(&shape).rev() {
            *to = stride;
            stride = stride.saturating_mul(*entries);
        }
        let dl_tensor = DlTensor {
            data,
            device,
            ndim: shape.len() as i32,
            dtype,
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let tensor = DlManagedTensor {
            version: DlVersion { major: 1, minor: 1 },
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor,
        };
        let mut owner = Box::new(Owner { tensor, shape, strides, _keeps: keeps });
        owner.tensor.dl_tensor.shape = owner.shape.as_mut_ptr();
        owner.tensor.dl_tensor.strides = owner.strides.as_mut_ptr();
        let owner = NonNull::from(Box::leak(owner));
        // SAFETY: the owner is alive, and this is the only reference.
        let tensor = unsafe {
            (*owner.as_ptr()).tensor.manager_ctx = owner.as_ptr().cast();
            NonNull::new_unchecked(&raw mut (*owner.as_ptr()).tensor)
        };
        Self { tensor }
    }

    /// The tensor.
    pub fn tensor(&self) -> &DlTensor {
        // SAFETY: it is valid until its deleter is called, which only this value does.
        unsafe { &self.tensor.as_ref().dl_tensor }
    }

    /// Transfers ownership to code that will call its deleter, such as a Python capsule named `dltensor_versioned`.
    pub fn into_raw(self) -> NonNull<DlManagedTensor> {
        std::mem::ManuallyDrop::new(self).tensor
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        // SAFETY: the tensor was made by `new` and not handed over.
        unsafe { delete(self.tensor.as_ptr()) }
    }
}

/// Releases a tensor.
///
/// # Safety
///
/// `tensor` was made by [`Exported::new`] and is not used after this.
unsafe extern "C" fn delete(tensor: *mut DlManagedTensor) {
    // SAFETY: the tensor holds the address of its owner's box.
    drop(unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Owner>()) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!((size_of::<DlTensor>(), size_of::<DlManagedTensor>()), (48, 80));
        assert_eq!((offset_of!(DlTensor, dtype), offset_of!(DlTensor, shape)), (20, 24));
        assert_eq!((offset_of!(DlManagedTensor, flags), offset_of!(DlManagedTensor, dl_tensor)), (24, 32));
        assert_eq!(DlDataType::from(Element::Bf16), DlDataType { code: 4, bits: 16, lanes: 1 });
        assert_eq!(DlDataType::from(Element::U16), DlDataType { code: 1, bits: 16, lanes: 1 });
    }
}
