//! Memory of the host that the GPU reads, and memory of the GPU.

use super::context::Context;
use super::fault::CudaResultExt as _;
use cudarc::driver::{result, sys};
use packhorse_core::Result;
use std::ffi::c_void;
use std::sync::Arc;

/// Memory of the host in fixed pages, which all GPUs read by themselves. It is cached as any other, so it may be read and
/// written in any order.
pub struct Pinned {
    at: *mut u8,
    bytes: usize,
    context: Arc<Context>,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: a shared one is only read.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self> {
        let _bound = context.bind()?;
        let mut at: *mut c_void = std::ptr::null_mut();
        // Pages are larger than what slabs are aligned to. None of it is write-combined: decoders read what they wrote.
        // SAFETY: `at` is written by a call that succeeds.
        unsafe { sys::cuMemHostAlloc(&raw mut at, bytes.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) }
            .result()
            .context(&format!("take {bytes} bytes of pinned memory"))?;
        // SAFETY: so many bytes were just given; they get a value before they are a slice.
        unsafe { at.cast::<u8>().write_bytes(0, bytes) };
        Ok(Self { at: at.cast(), bytes, context: Arc::clone(context) })
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `bytes` bytes are there until `self` is dropped, and all were written.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }
    }
}

impl AsMut<[u8]> for Pinned {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: given by `new`, and gone after this. Who copies from it keeps it until that is over.
            let _ = unsafe { result::free_host(self.at.cast()) };
        }
    }
}

/// Memory of the GPU.
pub struct DeviceMemory {
    pub(super) address: sys::CUdeviceptr,
    pub(super) bytes: usize,
    context: Arc<Context>,
}

impl DeviceMemory {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self> {
        let _bound = context.bind()?;
        // SAFETY: no more than a request.
        let address = unsafe { result::malloc_sync(bytes.max(1)) };
        let address = address.context(&format!("take {bytes} bytes of the GPU's memory"))?;
        Ok(Self { address, bytes, context: Arc::clone(context) })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: given by `new`, and gone after this. Who has the GPU use it keeps it until that is over.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}
