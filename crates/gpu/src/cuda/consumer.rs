//! Streams of other libraries that use a batch, by the handles that DLPack and CUDA's array interface name them by.

use super::context::Stream;
use super::{Cuda, DeviceMemory};
use crate::{DeviceBatch, Gpu, View};
use packhorse_core::Result;
use std::mem::ManuallyDrop;

/// The default stream.
const LEGACY: usize = 1;

/// The default stream of the calling thread.
const PER_THREAD: usize = 2;

/// A copy of an array in memory of its own. Dropping it waits for the GPU.
pub struct Copied {
    memory: ManuallyDrop<DeviceMemory>,
    gpu: Cuda,
}

impl Copied {
    /// The address of its first byte.
    pub fn address(&self) -> u64 {
        self.memory.address
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // Its consumer may drop it while kernels that read it are queued. Leaked if they can't be awaited, as in the capture of a graph.
        if self.gpu.drain().is_ok() {
            // SAFETY: not used after this.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

impl DeviceBatch<Cuda> {
    /// [Waits](DeviceBatch::wait) on a stream that other code made in the primary context of the GPU, by its handle
    /// (`cudaStream_t`): 1 is the default stream, and 2 the default stream of this thread.
    ///
    /// Another thread, whose own default stream has the handle 2 too, may drop the batch. So with 2 the memory is reused
    /// after the work that all threads have queued on their default streams by then.
    ///
    /// Errors (kind `Config`): a stream of another GPU.
    ///
    /// # Safety
    ///
    /// The stream must live until the batch, all its tensors and all clones of the stream are dropped.
    pub unsafe fn wait_on_handle(&self, handle: usize) -> Result<()> {
        let (ready, upload) = self.mark()?;
        // SAFETY: this function's contract; default streams live as long as the context.
        let stream = |handle| unsafe { Stream::foreign(&upload.gpu.inner.context, handle) };
        if handle != PER_THREAD {
            return self.wait(&stream(handle)?);
        }
        // An event of this stream follows all work of the default streams of all threads. It is refused while one of these is captured, in
        // which a wait would end the capture.
        self.wait(&stream(LEGACY)?)?;
        upload.gpu.wait(&stream(PER_THREAD)?, &ready)
    }

    /// Queues a copy of an array of the batch on a stream that other code made, as
    /// [`wait_on_handle`](DeviceBatch::wait_on_handle) names it.
    ///
    /// Errors: a view of other memory, a stream of another GPU (kind `Config`); those of the GPU.
    ///
    /// # Safety
    ///
    /// As for [`wait_on_handle`](DeviceBatch::wait_on_handle).
    pub unsafe fn copy_on_handle(&self, view: &View, handle: usize) -> Result<Copied> {
        self.check(view)?;
        let (_, upload) = self.mark()?;
        let gpu = upload.gpu.clone();
        // SAFETY: this function's contract.
        unsafe { self.wait_on_handle(handle) }?;
        // SAFETY: as above.
        let stream = unsafe { Stream::foreign(&gpu.inner.context, handle) }?;
        let copied = Copied { memory: ManuallyDrop::new(gpu.memory(view.bytes())?), gpu };
        if view.bytes() == 0 {
            return Ok(copied);
        }
        // SAFETY: the view lies in the batch, which is reused after the work on the stream, and so after the copy. The
        // new memory has as many bytes and no other use, and is freed after all work.
        unsafe { copied.gpu.copy(view.address, copied.address(), view.bytes(), &stream) }?;
        Ok(copied)
    }
}

impl std::fmt::Debug for Copied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copied").field("address", &self.address()).finish_non_exhaustive()
    }
}
