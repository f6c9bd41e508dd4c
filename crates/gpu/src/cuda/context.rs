//! The driver, a GPU's primary context, and its streams and events.

use super::fault::{self, CudaResultExt as _};
use super::unsupported;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::CUevent;
use cudarc::driver::sys::{self, CUresult};
use packhorse_core::{Error, Result};
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

/// The driver functions that are used. They are looked up first, because cudarc panics if one is missing.
const CALLED: [&str; 34] = [
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
    "cuStreamIsCapturing",
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
    "cuMemcpyDtoDAsync_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuLaunchKernel",
    "cuGetErrorName",
    "cuGetErrorString",
];

/// Loads and initialises the driver.
pub(super) fn initialize() -> Result<()> {
    if library().is_none() {
        let hint = "install NVIDIA's driver, or leave batches in host memory";
        return Err(unsupported("there is no driver (libcuda.so)", hint));
    }
    if let Some(name) = CALLED.into_iter().find(|name| !has(name)) {
        let why = format!("the driver has no {name}: it is too old, 525 or later is needed");
        return Err(unsupported(why, "update NVIDIA's driver"));
    }
    result::init().map_err(refused)
}

/// The error of a driver that does not start.
fn refused(error: DriverError) -> Error {
    match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => {
            let hint = "nvidia-smi and CUDA_VISIBLE_DEVICES say which GPUs this process may use";
            unsupported("the driver finds no GPU", hint)
        }
        CUresult::CUDA_ERROR_STUB_LIBRARY => {
            let why = "the driver does not start: libcuda.so is the stub of CUDA's toolkit, to link programs with";
            unsupported(why, "take its folder (lib64/stubs) out of LD_LIBRARY_PATH, so that the driver itself is found")
        }
        // The answer to a child of a process that uses the driver.
        CUresult::CUDA_ERROR_NOT_INITIALIZED => {
            let why = "the driver does not start in a process that was forked from one that uses it";
            unsupported(why, "start processes by spawn or forkserver, or use the GPU in one process alone")
        }
        _ => {
            let why = format!("the driver does not start: {}", fault::name(error));
            unsupported(why, "nvidia-smi says whether the driver works")
        }
    }
}

/// Whether the loaded driver has this function.
pub(super) fn has(name: &str) -> bool {
    // SAFETY: the symbol is looked up and not used.
    library().is_some_and(|library| unsafe { library.get::<*const c_void>(name.as_bytes()) }.is_ok())
}

/// The driver, if there is one. cudarc has no handle of it in a build where another crate links it.
fn library() -> Option<&'static libloading::Library> {
    static LIBRARY: OnceLock<Option<libloading::Library>> = OnceLock::new();
    let names = ["libcuda.so", "libcuda.so.1", "nvcuda.dll"];
    // SAFETY: loading the driver runs its initializers, as intended.
    LIBRARY.get_or_init(|| names.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok())).as_ref()
}

/// The primary context of a GPU.
pub(super) struct PrimaryContext {
    pub(super) number: u32,
    pub(super) device: sys::CUdevice,
    raw: sys::CUcontext,
}

// SAFETY: a context may be current in any number of threads.
unsafe impl Send for PrimaryContext {}
// SAFETY: the driver is thread-safe.
unsafe impl Sync for PrimaryContext {}

impl PrimaryContext {
    pub(super) fn new(number: u32) -> Result<Self> {
        initialize()?;
        let count = result::device::get_count().context("count the GPUs")?;
        let number_signed = i32::try_from(number).ok().filter(|number| *number < count).ok_or_else(|| {
            Error::config(format!("there is no GPU {number}: there are {count}, counted from 0 (CUDA_VISIBLE_DEVICES)"))
        })?;
        let device = result::device::get(number_signed).context("find the GPU")?;
        // SAFETY: the driver just returned the device.
        let raw = unsafe { result::primary_ctx::retain(device) }.context("use the GPU")?;
        Ok(Self { number, device, raw })
    }

    /// Makes the context current on this thread while the guard lives, then restores the previous one, which may be
    /// that of a framework on another GPU.
    pub(super) fn bind(&self) -> Result<Bound> {
        let pop = result::ctx::get_current().context("ask for the context")? != Some(self.raw);
        if pop {
            // SAFETY: the context is retained as long as `self` lives, and popped before that.
            unsafe { sys::cuCtxPushCurrent_v2(self.raw) }.result().context("use the GPU")?;
        }
        Ok(Bound { pop, capture: relaxed() })
    }
}

/// Keeps the context current on a thread.
#[must_use = "it ends when this is dropped"]
pub(crate) struct Bound {
    pop: bool,
    /// What the thread's mode of capturing was.
    capture: Option<sys::CUstreamCaptureMode>,
}

/// Lets this thread call the driver during the capture of a graph: in the usual mode what we ask for, memory and whether events
/// are over, would fail, and spoil the capture of whatever thread.
fn relaxed() -> Option<sys::CUstreamCaptureMode> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let known = *KNOWN.get_or_init(|| has("cuThreadExchangeStreamCaptureMode"));
    // SAFETY: the driver replaces the new mode by the old one.
    (known && unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.result().is_ok()).then_some(mode)
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(mut mode) = self.capture {
            // SAFETY: as in `relaxed`.
            let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
        }
        if self.pop {
            let mut ours = std::ptr::null_mut();
            // SAFETY: pops the context that this thread pushed.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut ours) };
        }
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // SAFETY: retained once by `new`. All objects made in the context hold `self`, and are gone.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// A CUDA stream. A stream that packhorse created is destroyed after its work when the last clone is dropped.
#[derive(Clone)]
pub struct Stream(Arc<OfContext>);

struct OfContext {
    handle: usize,
    owned: bool,
    context: Arc<PrimaryContext>,
}

impl Stream {
    /// A non-blocking stream; with `urgent` of the highest priority.
    pub(super) fn new(context: &Arc<PrimaryContext>, urgent: bool) -> Result<Self> {
        let _bound = context.bind()?;
        let (_, greatest) = result::stream::get_priority_range().context("ask for priorities")?;
        let kind = result::stream::StreamKind::NonBlocking;
        let raw =
            result::stream::create_with_priority(kind, if urgent { greatest } else { 0 }).context("make a stream")?;
        Ok(Self(Arc::new(OfContext { handle: raw as usize, owned: true, context: Arc::clone(context) })))
    }

    /// A stream that other code created.
    ///
    /// # Safety
    ///
    /// The stream must outlive all clones of this.
    pub(super) unsafe fn foreign(context: &Arc<PrimaryContext>, handle: usize) -> Result<Self> {
        let made = Self(Arc::new(OfContext { handle, owned: false, context: Arc::clone(context) }));
        if handle > 2 && has("cuStreamGetCtx") {
            let mut of = std::ptr::null_mut();
            // SAFETY: the stream is valid: this function's contract.
            unsafe { sys::cuStreamGetCtx(made.raw(), &raw mut of) }.result().context("ask for a stream's GPU")?;
            if of != context.raw {
                return Err(Error::config("a stream of another GPU, or not of its primary context"));
            }
        }
        Ok(made)
    }

    /// The handle (`cudaStream_t`), for libraries that take streams.
    pub fn handle(&self) -> usize {
        self.0.handle
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.0.handle as sys::CUstream
    }

    pub(super) fn is_of(&self, context: &PrimaryContext) -> bool {
        self.0.context.raw == context.raw
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.0.handle == other.0.handle && self.is_of(&other.0.context)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({:#x})", self.0.handle)
    }
}

impl Drop for OfContext {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_bound) = self.context.bind()
        {
            // SAFETY: made by `new` and not used after this. The driver finishes its work first.
            let _ = unsafe { result::stream::destroy(self.handle as sys::CUstream) };
        }
    }
}

/// A CUDA event.
pub struct Event {
    pub(super) raw: CUevent,
    context: Arc<PrimaryContext>,
}

// SAFETY: events may be used from any thread of their context.
unsafe impl Send for Event {}
// SAFETY: the driver is thread-safe.
unsafe impl Sync for Event {}

impl Event {
    pub(super) fn new(context: &Arc<PrimaryContext>, flags: u32) -> Result<Self> {
        let _bound = context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is written by a call that succeeds.
        unsafe { sys::cuEventCreate(&raw mut raw, flags) }.result().context("make an event")?;
        Ok(Self { raw, context: Arc::clone(context) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: made by `new` and not used after this. Streams that wait for it still do.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}
