//! The driver, a GPU's primary context, and its streams and events.

use super::fault::{self, Told as _};
use super::unsupported;
use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{result, sys::CUevent};
use packhorse_core::{Error, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// What is called of the driver. It is looked up first, since cudarc panics where something is missing.
const CALLED: [&str; 30] = [
    "cuInit",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSynchronize",
    "cuCtxGetStreamPriorityRange",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuGetErrorString",
];

/// Loads the driver and starts it.
pub(super) fn initialize() -> Result<()> {
    // SAFETY: loading the driver runs its initializers, which is what it is loaded for.
    if !unsafe { sys::is_culib_present() } {
        return Err(unsupported("there is no driver (libcuda.so)"));
    }
    if let Some(name) = CALLED.into_iter().find(|name| !has(name)) {
        return Err(unsupported(format!("the driver has no {name}: it is too old, 525 or later is needed")));
    }
    result::init().map_err(|error| match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => unsupported("the driver finds no GPU"),
        _ => unsupported(format!("the driver does not start: {}", fault::name(error))),
    })
}

/// Whether the driver, which is loaded, has this call.
pub(super) fn has(name: &str) -> bool {
    // SAFETY: the symbol is looked up, and not used.
    unsafe { sys::culib().get::<*const c_void>(name.as_bytes()) }.is_ok()
}

/// The primary context of a GPU.
pub(super) struct Context {
    pub(super) number: u32,
    pub(super) device: sys::CUdevice,
    raw: sys::CUcontext,
}

// SAFETY: a context may be current in any thread, and in several.
unsafe impl Send for Context {}
// SAFETY: the driver's calls are safe for threads.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn new(number: u32) -> Result<Self> {
        initialize()?;
        let count = result::device::get_count().told("count the GPUs")?;
        let number_signed = i32::try_from(number).ok().filter(|number| *number < count).ok_or_else(|| {
            Error::config(format!("there is no GPU {number}: there are {count}, counted from 0 (CUDA_VISIBLE_DEVICES)"))
        })?;
        let device = result::device::get(number_signed).told("find the GPU")?;
        // SAFETY: the device was just given.
        let raw = unsafe { result::primary_ctx::retain(device) }.told("use the GPU")?;
        Ok(Self { number, device, raw })
    }

    /// Makes the context that of this thread for as long as what is given lives; then the thread has its own again, maybe that
    /// of a framework on another GPU.
    pub(super) fn bind(&self) -> Result<Bound> {
        let pop = result::ctx::get_current().told("ask for the context")? != Some(self.raw);
        if pop {
            // SAFETY: the context is retained for as long as `self` lives, and is taken off before.
            unsafe { sys::cuCtxPushCurrent_v2(self.raw) }.result().told("use the GPU")?;
        }
        Ok(Bound { pop })
    }

    /// A stream that does not wait for the default one, before others in the queue for the GPU's multiprocessors.
    pub(super) fn stream(&self) -> Result<Stream> {
        let _bound = self.bind()?;
        let (_, greatest) = result::stream::get_priority_range().told("ask for priorities")?;
        let kind = result::stream::StreamKind::NonBlocking;
        let raw = result::stream::create_with_priority(kind, greatest).told("make a stream")?;
        Ok(Stream(raw as usize))
    }
}

/// A thread whose context is ours.
#[must_use = "it ends when this is dropped"]
pub(crate) struct Bound {
    pop: bool,
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.pop {
            let mut ours = std::ptr::null_mut();
            // SAFETY: what was put on in this thread is taken off.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut ours) };
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once by `new`. All that was made in it holds it, and is gone.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// A CUDA stream, by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub(super) usize);

impl Stream {
    /// The handle (`cudaStream_t`), for libraries that take streams.
    pub fn handle(self) -> usize {
        self.0
    }

    pub(super) fn raw(self) -> sys::CUstream {
        self.0 as sys::CUstream
    }
}

/// A CUDA event.
pub struct Event {
    pub(super) raw: CUevent,
    context: Arc<Context>,
}

// SAFETY: events may be used from any thread of their context.
unsafe impl Send for Event {}
// SAFETY: the driver's calls are safe for threads.
unsafe impl Sync for Event {}

impl Event {
    pub(super) fn new(context: &Arc<Context>, flags: u32) -> Result<Self> {
        let _bound = context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is written by a call that succeeds.
        unsafe { sys::cuEventCreate(&raw mut raw, flags) }.result().told("make an event")?;
        Ok(Self { raw, context: Arc::clone(context) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: made by `new`, and gone after this. Streams that wait for it go on doing so.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}
