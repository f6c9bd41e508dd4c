//! Pinned host memory and GPU memory.

use super::context::PrimaryContext;
use super::fault::CudaResultExt as _;
use cudarc::driver::{result, sys};
use packhorse_core::Result;
use std::ffi::c_void;
use std::sync::Arc;

/// Page-locked host memory, which all GPUs can read directly. It is cached normally, so the host may read and write it
/// in any order.
pub struct Pinned {
    at: *mut u8,
    bytes: usize,
    context: Arc<PrimaryContext>,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: a shared one is only read.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(super) fn new(context: &Arc<PrimaryContext>, bytes: usize) -> Result<Self> {
        let _bound = context.bind()?;
        let mut at: *mut c_void = std::ptr::null_mut();
        // Pages exceed the alignment of slabs. Not write-combined: decoders read what they wrote. SAFETY: `at` is
        // written by a call that succeeds.
        unsafe { sys::cuMemHostAlloc(&raw mut at, bytes.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) }
            .result()
            .context(&format!("take {bytes} bytes of pinned memory"))?;
        // SAFETY: `bytes` bytes were just allocated; they are initialised before they become a slice.
        unsafe { at.cast::<u8>().write_bytes(0, bytes) };
        Ok(Self { at: at.cast(), bytes, context: Arc::clone(context) })
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `bytes` bytes are valid until `self` is dropped, and initialised.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }
    }
}

impl AsMut<[u8]> for Pinned {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: allocated by `new` and not used after this. Copies keep it until they are complete.
            let _ = unsafe { result::free_host(self.at.cast()) };
        }
    }
}

/// Memory of the GPU.
pub struct DeviceMemory {
    pub(super) address: sys::CUdeviceptr,
    pub(super) bytes: usize,
    context: Arc<PrimaryContext>,
}

impl DeviceMemory {
    pub(super) fn new(context: &Arc<PrimaryContext>, bytes: usize) -> Result<Self> {
        let _bound = context.bind()?;
        // SAFETY: only allocates.
        let address = unsafe { result::malloc_sync(bytes.max(1)) };
        let address = address.context(&format!("take {bytes} bytes of the GPU's memory"))?;
        Ok(Self { address, bytes, context: Arc::clone(context) })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: allocated by `new` and not used after this. Queued work keeps it until it has finished.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}
