//! A GPU: memory, streams, events, copies and kernels.

#![expect(
    unsafe_code,
    reason = "memory is handed to a GPU, which the compiler can't follow: contracts say what it may touch"
)]

use crate::DlDevice;
use crate::kernels::Launch;
use packhorse_core::Result;
use std::time::Duration;

/// A GPU as far as batches need one: [`Cuda`](crate::Cuda), or [`Simulated`](crate::Simulated) by threads of the host.
///
/// Calls may come from any thread. None waits for the GPU but [`synchronize`](Gpu::synchronize), [`drain`](Gpu::drain) and
/// those that give memory.
///
/// # Safety
/// Calls do what they promise: memory has its size and address and no other use until it is dropped; events and streams
/// order work as they say. Safe code relies on this contract.
pub unsafe trait Gpu: Send + Sync + 'static {
    /// Memory of the host that the GPU reads by itself, of a fixed length, at an address that is a multiple of
    /// [`ALIGN`](packhorse_read::ALIGN).
    type Pinned: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + 'static;
    /// Memory of the GPU.
    type Memory: Send + Sync + 'static;
    /// A mark in a stream. One that was never recorded is over.
    type Event: Send + Sync;
    /// A queue of work that is done in order.
    /// Clones are the same one, which is there as long as any of them.
    type Stream: Clone + PartialEq + Send + Sync + std::fmt::Debug;

    /// Which device it is, for other libraries.
    fn device(&self) -> DlDevice;

    /// `bytes` bytes of the host's, zeros.
    fn pinned(&self, bytes: usize) -> Result<Self::Pinned>;

    /// `bytes` bytes of the GPU's, in which is whatever was there.
    fn memory(&self, bytes: usize) -> Result<Self::Memory>;

    /// Where memory is, for kernels.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// A stream of this GPU's, which waits for no other.
    fn stream(&self) -> Result<Self::Stream>;

    /// A stream for copies, before others where they compete.
    fn urgent_stream(&self) -> Result<Self::Stream> {
        self.stream()
    }

    /// The handle of a stream (`cudaStream_t`), for libraries that take one; `None` if they can't.
    fn handle(&self, stream: &Self::Stream) -> Option<usize> {
        let _ = stream;
        None
    }

    /// A mark that may be recorded again and again.
    fn event(&self) -> Result<Self::Event>;

    /// Marks the end of what is queued on `stream` now.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Lets what is queued on `stream` from now on begin after what `event` marks now.
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<()>;

    /// Whether the GPU is past what `event` marks.
    fn over(&self, event: &Self::Event) -> Result<bool>;

    /// Waits until the GPU is past what `event` marks.
    fn synchronize(&self, event: &Self::Event) -> Result<()>;

    /// Keeps `stream` busy for about `time`: a training step that computes nothing.
    fn pause(&self, time: Duration, stream: &Self::Stream) -> Result<()>;

    /// Waits until the GPU has done all that is queued.
    fn drain(&self) -> Result<()>;

    /// Queues a copy of `from`, which is in [pinned](Gpu::pinned) memory, to the beginning of `to`.
    ///
    /// # Safety
    /// Until it is over both must be there, `from` must not change, and `to` must have no other use.
    unsafe fn upload(&self, from: &[u8], to: &Self::Memory, stream: &Self::Stream) -> Result<()>;

    /// Copies memory of the GPU at `from`: for looking at results, not for speed.
    ///
    /// # Safety
    /// So many bytes must be there, all that writes them must be over, and nothing may write them meanwhile.
    unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<()>;

    /// Queues a kernel.
    ///
    /// # Safety
    /// What its arguments point to must be there until it is over, and be used by nothing else meanwhile that it writes,
    /// or that writes it.
    unsafe fn launch(&self, launch: &Launch, stream: &Self::Stream) -> Result<()>;
}
