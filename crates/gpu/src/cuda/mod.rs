//! CUDA by the driver API alone. The driver is loaded at first use; no toolkit is needed.
//!
//! Streams, events and memory use the driver directly: cudarc's safe layer tracks the streams that use memory, at the
//! cost of five records, seven waits and a synchronisation per batch, and the ring already does that.

#![expect(unsafe_code, reason = "the driver is called here, and nowhere else")]

mod consumer;
mod context;
mod fault;
mod memory;
mod modules;
mod near;

pub use consumer::Copied;
pub use context::Stream;
pub use memory::{DeviceMemory, Pinned};

use crate::kernels::{Launch, Spin};
use crate::{DlDevice, Gpu};
use context::{Bound, Event, PrimaryContext};
use cudarc::driver::{result, sys};
use fault::CudaResultExt as _;
use modules::Modules;
use packhorse_core::{Code, Error, Kind, Result};
use packhorse_order::local_rank_from_environment;
use std::sync::Arc;
use std::time::Duration;

/// An NVIDIA GPU. Clones share it.
#[derive(Clone)]
pub struct Cuda {
    inner: Arc<Inner>,
}

struct Inner {
    modules: Modules,
    context: Arc<PrimaryContext>,
}

impl Cuda {
    /// The GPU of this number, with its primary context, which it shares with frameworks in the same process.
    ///
    /// Errors: no driver, or one that is too old or fails to start (kind `Unsupported`); no such GPU (kind `Config`).
    pub fn new(number: u32) -> Result<Self> {
        let context = Arc::new(PrimaryContext::new(number)?);
        Ok(Self { inner: Arc::new(Inner { modules: Modules::default(), context }) })
    }

    /// The GPU for the process of local rank `rank`. Processes share GPUs only if there are more processes than GPUs.
    ///
    /// Errors: as for [`Cuda::new`].
    pub fn of_rank(rank: u32) -> Result<Self> {
        Self::new(rank % Self::count()?.max(1))
    }

    /// The GPU for this process by its local rank in the environment: see [`local_rank_from_environment`].
    ///
    /// Errors: as for [`Cuda::new`]; a local rank that is not a number (kind `Config`).
    pub fn from_environment() -> Result<Self> {
        Self::of_rank(local_rank_from_environment(&|name| std::env::var(name).ok())?)
    }

    /// The number of GPUs that the process may use (see `CUDA_VISIBLE_DEVICES`).
    ///
    /// Errors: no driver, or one that fails to start (kind `Unsupported`).
    pub fn count() -> Result<u32> {
        context::initialize()?;
        let count = result::device::get_count().context("count the GPUs")?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The number of the GPU.
    pub fn number(&self) -> u32 {
        self.inner.context.number
    }

    /// The GPU's name.
    pub fn name(&self) -> Result<String> {
        result::device::get_name(self.inner.context.device).context("ask for the GPU's name")
    }

    /// The GPU's unique identifier (`GPU-01234567-…`), if the driver has one.
    pub(crate) fn uuid(&self) -> Option<String> {
        if !context::has("cuDeviceGetUuid") {
            return None;
        }
        let uuid = result::device::get_uuid(self.inner.context.device).ok()?;
        let hex: String = uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| hex.get(part).unwrap_or_default());
        Some(format!("GPU-{}", parts.join("-")))
    }

    /// A stream that other code made in the primary context of this GPU, by its handle, for example
    /// `torch.cuda.Stream.cuda_stream`. 0 and 1 are the default stream.
    ///
    /// Errors (kind `Config`): a stream of another GPU; 2, the per-thread default stream, since batches may be dropped
    /// by a thread other than the one that used them.
    ///
    /// # Safety
    ///
    /// The stream must outlive all clones of the result, including those held by batches that waited on it.
    pub unsafe fn stream_from_raw(&self, handle: usize) -> Result<Stream> {
        if handle == 2 {
            return Err(Error::config("the per-thread default stream can't be shared: give a stream that was created"));
        }
        // SAFETY: this function's contract.
        unsafe { Stream::foreign(&self.inner.context, handle) }
    }

    /// Queues a copy of `bytes` bytes of the GPU's memory.
    ///
    /// # Safety
    ///
    /// Until the copy is complete, both ends must stay valid, `from` must not change, and `to` must have no other use.
    unsafe fn copy(&self, from: u64, to: u64, bytes: usize, stream: &Stream) -> Result<()> {
        let (raw, _bound) = self.use_stream(stream)?;
        // SAFETY: this function's contract.
        unsafe { result::memcpy_dtod_async(to, from, bytes, raw) }.context("copy in the GPU's memory")
    }

    /// Blocks until all work queued on `stream` has finished.
    pub fn drain_stream(&self, stream: &Stream) -> Result<()> {
        let (raw, _bound) = self.use_stream(stream)?;
        // SAFETY: the stream is valid as long as `stream`.
        unsafe { result::stream::synchronize(raw) }.context("wait for a stream")
    }

    /// Makes the GPU's context current on this thread while the guard lives, for libraries that use the current
    /// context.
    pub(crate) fn bind(&self) -> Result<Bound> {
        self.inner.context.bind()
    }

    /// Queues a copy of `from`, which is in pinned memory, to an address of the GPU's memory.
    ///
    /// # Safety
    ///
    /// Until the copy is complete, `from.len()` bytes must stay valid at both ends, `from` must not change,
    /// and `to` must have no other use.
    pub(crate) unsafe fn upload_to(&self, from: &[u8], to: u64, stream: &Stream) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        let (raw, _bound) = self.use_stream(stream)?;
        // SAFETY: this function's contract.
        unsafe { result::memcpy_htod_async(to, from, raw) }.context("copy to the GPU")
    }

    /// The raw stream, if it belongs to this GPU, with the context made current.
    fn use_stream(&self, stream: &Stream) -> Result<(sys::CUstream, Bound)> {
        if !stream.is_of(&self.inner.context) {
            return Err(Error::config("a stream of another GPU"));
        }
        Ok((stream.raw(), self.inner.context.bind()?))
    }
}

// SAFETY: memory, streams and events are those of the driver.
unsafe impl Gpu for Cuda {
    type Pinned = Pinned;
    type Memory = DeviceMemory;
    type Event = Event;
    type Stream = Stream;

    fn device(&self) -> DlDevice {
        DlDevice::cuda(self.number())
    }

    fn pinned(&self, bytes: usize) -> Result<Pinned> {
        Pinned::new(&self.inner.context, bytes)
    }

    fn memory(&self, bytes: usize) -> Result<DeviceMemory> {
        DeviceMemory::new(&self.inner.context, bytes)
    }

    fn free_memory(&self) -> Result<Option<usize>> {
        if !context::has("cuMemGetInfo_v2") {
            return Ok(None);
        }
        let _bound = self.inner.context.bind()?;
        result::mem_get_info().context("ask for free memory").map(|(free, _)| Some(free))
    }

    fn address(&self, memory: &DeviceMemory) -> u64 {
        memory.address
    }

    fn stream(&self) -> Result<Stream> {
        Stream::new(&self.inner.context, false)
    }

    fn urgent_stream(&self) -> Result<Stream> {
        Stream::new(&self.inner.context, true)
    }

    fn handle(&self, stream: &Stream) -> Option<usize> {
        Some(stream.handle())
    }

    fn event(&self) -> Result<Event> {
        let flags =
            sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32 | sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        Event::new(&self.inner.context, flags)
    }

    fn timer(&self) -> Result<Option<Event>> {
        if !context::has("cuEventElapsedTime") {
            return Ok(None);
        }
        let flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        Event::new(&self.inner.context, flags).map(Some)
    }

    fn elapsed(&self, from: &Event, to: &Event) -> Result<Duration> {
        let _bound = self.inner.context.bind()?;
        // SAFETY: both events are valid.
        let millis =
            unsafe { result::event::elapsed(from.raw, to.raw) }.context("ask for the time between two events")?;
        Ok(Duration::try_from_secs_f64(f64::from(millis) / 1e3).unwrap_or_default())
    }

    fn record(&self, event: &Event, stream: &Stream) -> Result<()> {
        let (raw, _bound) = self.use_stream(stream)?;
        // SAFETY: the event keeps its context, and the stream is valid as long as `stream`.
        unsafe { result::event::record(event.raw, raw) }.context("record an event")
    }

    fn wait(&self, stream: &Stream, event: &Event) -> Result<()> {
        let (raw, _bound) = self.use_stream(stream)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: as for `record`.
        unsafe { result::stream::wait_event(raw, event.raw, flags) }.context("let a stream wait")
    }

    fn is_capturing(&self, stream: &Stream) -> Result<bool> {
        let (raw, _bound) = self.use_stream(stream)?;
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is valid as long as `stream`, and the driver writes the status.
        match unsafe { sys::cuStreamIsCapturing(raw, &raw mut status) }.result() {
            // The default stream, while a stream is captured that waits for it.
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT => Ok(true),
            other => other
                .context("ask whether a stream is captured")
                .map(|()| status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE),
        }
    }

    fn over(&self, event: &Event) -> Result<bool> {
        let _bound = self.inner.context.bind()?;
        // SAFETY: the event is valid.
        match unsafe { result::event::query(event.raw) } {
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.context("ask for an event").map(|()| true),
        }
    }

    fn synchronize(&self, event: &Event) -> Result<()> {
        let _bound = self.inner.context.bind()?;
        // SAFETY: the event is valid.
        unsafe { result::event::synchronize(event.raw) }.context("wait for an event")
    }

    fn pause(&self, time: Duration, stream: &Stream) -> Result<()> {
        let spin = Spin::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).launch()?;
        // SAFETY: the kernel accesses no memory.
        unsafe { self.launch(&spin, stream) }
    }

    fn drain(&self) -> Result<()> {
        let _bound = self.inner.context.bind()?;
        result::ctx::synchronize().context("wait for the GPU")
    }

    unsafe fn upload(&self, from: &[u8], to: &DeviceMemory, stream: &Stream) -> Result<()> {
        if from.len() > to.bytes {
            return Err(Error::bug(format!("{} bytes into {} of the GPU's", from.len(), to.bytes)));
        }
        // SAFETY: the length was checked, the rest is this function's contract.
        unsafe { self.upload_to(from, to.address, stream) }
    }

    unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<()> {
        let _bound = self.inner.context.bind()?;
        // SAFETY: this function's contract.
        unsafe { result::memcpy_dtoh_sync(to, from) }.context("copy from the GPU")
    }

    unsafe fn launch(&self, launch: &Launch, stream: &Stream) -> Result<()> {
        let (raw, _bound) = self.use_stream(stream)?;
        let function = self.inner.modules.function(launch)?;
        // SAFETY: the function belongs to a module that stays loaded, and a `Launch` has the arguments of its
        // parameters; the memory they point to is this function's contract.
        unsafe { modules::launch(function, launch, raw) }.context("launch a kernel")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            self.modules.unload(|| result::ctx::synchronize().is_ok());
        }
    }
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda").field("number", &self.number()).finish_non_exhaustive()
    }
}

/// The error of a process without a usable GPU.
fn unsupported(why: impl std::fmt::Display, hint: &str) -> Error {
    let error = Error::new(Kind::Unsupported, format!("no NVIDIA GPU can be used here: {why}"));
    error.with_code(Code::GpuFailed).hint(hint)
}
