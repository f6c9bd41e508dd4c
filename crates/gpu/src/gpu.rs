//! A GPU: memory, streams, events, copies and kernels.

#![expect(unsafe_code, reason = "the compiler can't check memory accesses of a GPU: contracts limit them")]

use crate::DlDevice;
use crate::kernels::Launch;
use packhorse_core::Result;
use std::time::Duration;

/// The operations of a GPU that batches need: [`Cuda`](crate::Cuda), or [`Simulated`](crate::Simulated) by host
/// threads.
///
/// Calls may come from any thread. Only [`synchronize`](Gpu::synchronize), [`drain`](Gpu::drain) and memory allocation
/// may wait for the GPU.
///
/// # Safety
///
/// Implementations must do as documented: memory has the stated size and address and no other use until it is
/// dropped, and events and streams order work as described. Safe code relies on this contract.
pub unsafe trait Gpu: Send + Sync + 'static {
    /// Host memory of fixed length that the GPU reads directly, aligned to [`ALIGN`](packhorse_read::ALIGN).
    type Pinned: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + 'static;
    /// Memory of the GPU.
    type Memory: Send + Sync + 'static;
    /// A mark in a stream. One that was never recorded counts as past.
    type Event: Send + Sync;
    /// A queue of work that runs in order. Clones share the stream, which lives as long as any of them.
    type Stream: Clone + PartialEq + Send + Sync + std::fmt::Debug;

    /// The device, as other libraries identify it.
    fn device(&self) -> DlDevice;

    /// `bytes` bytes of pinned host memory, zeroed.
    fn pinned(&self, bytes: usize) -> Result<Self::Pinned>;

    /// `bytes` bytes of GPU memory, uninitialised.
    fn memory(&self, bytes: usize) -> Result<Self::Memory>;

    /// Bytes of the GPU's memory that are free; `None` if that is not known.
    fn free_memory(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    /// The device address of memory, for kernels.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// A new stream that does not synchronise with others.
    fn stream(&self) -> Result<Self::Stream>;

    /// A stream for copies, of high priority.
    fn urgent_stream(&self) -> Result<Self::Stream> {
        self.stream()
    }

    /// The handle of a stream (`cudaStream_t`) for other libraries; `None` if it has none.
    fn handle(&self, stream: &Self::Stream) -> Option<usize> {
        let _ = stream;
        None
    }

    /// An event, which may be recorded repeatedly.
    fn event(&self) -> Result<Self::Event>;

    /// An event that also takes the GPU's time when it is passed, for [`elapsed`](Gpu::elapsed); `None` if the GPU has none.
    fn timer(&self) -> Result<Option<Self::Event>> {
        Ok(None)
    }

    /// The time from one timer to another, both recorded and passed.
    fn elapsed(&self, from: &Self::Event, to: &Self::Event) -> Result<Duration> {
        let _ = (from, to);
        Ok(Duration::ZERO)
    }

    /// Records `event` after all work that is queued on `stream`.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Makes work queued on `stream` after this call wait for the position that `event` marks now.
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<()>;

    /// Whether work that is queued on `stream` now is captured into a graph instead of done.
    fn is_capturing(&self, stream: &Self::Stream) -> Result<bool> {
        let _ = stream;
        Ok(false)
    }

    /// Whether the GPU has passed `event`.
    fn over(&self, event: &Self::Event) -> Result<bool>;

    /// Blocks until the GPU has passed `event`.
    fn synchronize(&self, event: &Self::Event) -> Result<()>;

    /// Keeps `stream` busy for about `time`, and little else of the GPU.
    fn pause(&self, time: Duration, stream: &Self::Stream) -> Result<()>;

    /// Blocks until the GPU has finished all queued work.
    fn drain(&self) -> Result<()>;

    /// Queues a copy of `from`, which is in [pinned](Gpu::pinned) memory, to the beginning of `to`.
    ///
    /// # Safety
    ///
    /// Until the copy is complete, both must stay valid, `from` must not change, and `to` must have no other
    /// use.
    unsafe fn upload(&self, from: &[u8], to: &Self::Memory, stream: &Self::Stream) -> Result<()>;

    /// Copies GPU memory at `from` to the host. Blocks; meant for inspecting results.
    ///
    /// # Safety
    ///
    /// `to.len()` bytes at `from` must be valid, all writes to them complete, and nothing may write them
    /// during the call.
    unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<()>;

    /// Queues a kernel.
    ///
    /// # Safety
    ///
    /// All memory that its arguments point to must stay valid until the kernel has finished, and until then
    /// nothing else may access what it writes or write what it reads.
    unsafe fn launch(&self, launch: &Launch, stream: &Self::Stream) -> Result<()>;
}
