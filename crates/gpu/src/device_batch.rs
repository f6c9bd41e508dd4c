//! A batch on a GPU.

use crate::driver::Driver;
use crate::ring::Lease;
use crate::transforms::Fields;
use crate::upload_stream::UploadStream;
use crate::{DlDevice, Exported, Gpu, View};
use packhorse_core::{Error, Result};
use packhorse_read::BatchMetadata;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A batch in the memory of a GPU, or being copied there.
///
/// [`on`](DeviceBatch::on) makes a stream wait for it and gives its fields to work on that stream. The wait happens on the GPU;
/// the call returns at once. The memory is reused after this is dropped and the work queued by then on those streams has finished; the
/// caller waits for neither. Batches that the caller keeps hold memory of their own.
pub struct DeviceBatch<G: Gpu> {
    lease: Arc<Mutex<Lease<UploadStream<G>>>>,
}

/// An event, and the stream that can query it.
pub(crate) type Mark<G> = (Arc<<G as Gpu>::Event>, Arc<UploadStream<G>>);

impl<G: Gpu> DeviceBatch<G> {
    pub(crate) fn new(lease: Lease<UploadStream<G>>) -> Self {
        Self { lease: Arc::new(Mutex::new(lease)) }
    }

    fn lease(&self) -> MutexGuard<'_, Lease<UploadStream<G>>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, ask: impl FnOnce(Fields<'_>) -> R) -> Result<R> {
        let lease = self.lease();
        let slot = lease.slot().ok_or_else(|| Error::bug("a batch without memory"))?;
        Ok(ask(slot.fields()))
    }

    /// Makes `stream` wait for the batch ([`wait`](Self::wait)), and gives its fields to work that is queued on that stream
    /// from now on.
    pub fn on(&self, stream: &G::Stream) -> Result<OnStream<'_, G>> {
        self.wait(stream)?;
        Ok(OnStream { batch: self })
    }

    /// Work queued on `stream` after this call starts when the batch is complete. The batch's memory is reused only
    /// after the work that is queued on `stream` when the batch is dropped.
    ///
    /// Neither this nor the drop may be captured into a graph: every batch has different memory.
    pub fn wait(&self, stream: &G::Stream) -> Result<()> {
        self.lease().wait(stream)
    }

    /// The event to wait for and its stream, so that the caller waits without the lock.
    pub(crate) fn mark(&self) -> Result<Mark<G>> {
        let lease = self.lease();
        let ready = lease.ready().ok_or_else(|| Error::bug("a batch without memory"))?;
        Ok((ready, Arc::clone(lease.driver())))
    }

    /// Whether the batch has arrived.
    pub fn ready(&self) -> Result<bool> {
        let (ready, upload) = self.mark()?;
        upload.over(&ready)
    }

    /// Blocks this thread until the batch has arrived.
    pub fn synchronize(&self) -> Result<()> {
        let (ready, upload) = self.mark()?;
        Driver::synchronize(&*upload, &ready)
    }

    /// The GPU, as other libraries identify it.
    pub fn device(&self) -> DlDevice {
        self.lease().driver().gpu.device()
    }

    /// The metadata of its samples.
    pub fn metadata(&self) -> Result<BatchMetadata> {
        self.with(|fields| fields.metadata().clone())
    }

    /// Rows that hold samples.
    pub fn rows(&self) -> usize {
        self.with(|fields| fields.metadata().rows()).unwrap_or(0)
    }

    /// Bytes copied for it.
    pub(crate) fn used(&self) -> Result<usize> {
        self.with(|fields| fields.metadata().gather().map_or(fields.metadata().used(), |gather| gather.bytes))
    }

    /// The names of its fields.
    pub fn names(&self) -> Vec<String> {
        self.with(|fields| fields.names().map(str::to_owned).collect()).unwrap_or_default()
    }

    /// The view of a field, for its type and its shape: one made on the GPU, else one copied with the batch. Its memory is for
    /// streams that [waited](Self::wait), until this is dropped; [`on`](Self::on) does both.
    pub fn unordered_view(&self, name: &str) -> Option<View> {
        self.with(|fields| fields.view(name)).ok().flatten()
    }

    fn view(&self, name: &str) -> Result<View> {
        self.unordered_view(name).ok_or_else(|| Error::config(format!("batches have no field {name}")))
    }

    /// A field for another library, without a copy, for use on `stream`: the result of `__dlpack__(stream=…)`. The
    /// memory is reused after this batch and all its tensors are dropped and the work queued by then on `stream` has
    /// finished.
    ///
    /// Errors: no such field (kind `Config`).
    pub fn dlpack(&self, name: &str, stream: &G::Stream) -> Result<Exported> {
        let view = self.view(name)?;
        self.wait(stream)?;
        let device = self.device();
        if device == DlDevice::CPU {
            // Consumers of host memory read it at once.
            self.synchronize()?;
        }
        Ok(Exported::new(&view, device, &self.lease))
    }

    /// The bytes of a field, copied to the host. Blocks, so it is meant for inspection.
    ///
    /// Errors: no such field (kind `Config`); those of the GPU.
    pub fn download(&self, name: &str) -> Result<Vec<u8>> {
        let view = self.view(name)?;
        self.download_view(&view)
    }

    /// A `Config` error for a view of other memory.
    pub(crate) fn check(&self, view: &View) -> Result<()> {
        match self.with(|fields| fields.hold(view))? {
            true => Ok(()),
            false => Err(Error::config("a view of memory that is not the batch's")),
        }
    }

    /// The bytes of a field's view, or of a part of it, copied to the host. Blocks.
    ///
    /// Errors: a view of other memory (kind `Config`); those of the GPU.
    #[expect(unsafe_code, reason = "memory of the GPU is read")]
    pub fn download_view(&self, view: &View) -> Result<Vec<u8>> {
        self.check(view)?;
        let mut bytes = vec![0; view.bytes()];
        if bytes.is_empty() {
            return Ok(bytes);
        }
        self.synchronize()?;
        let upload = Arc::clone(self.lease().driver());
        // SAFETY: the view is in the slot that the lease holds, and all writes to it are complete.
        unsafe { upload.gpu.download(view.address, &mut bytes) }?;
        Ok(bytes)
    }
}

/// A batch that a stream waits for: the fields that work on this stream may read, until the batch is dropped.
pub struct OnStream<'a, G: Gpu> {
    batch: &'a DeviceBatch<G>,
}

impl<G: Gpu> OnStream<'_, G> {
    /// The view of a field: one made on the GPU, else one copied with the batch.
    ///
    /// Errors: no such field (kind `Config`).
    pub fn view(&self, name: &str) -> Result<View> {
        self.batch.view(name)
    }
}

impl<G: Gpu> std::fmt::Debug for OnStream<'_, G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OnStream").field(self.batch).finish()
    }
}

impl<G: Gpu> std::fmt::Debug for DeviceBatch<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceBatch").field("rows", &self.rows()).finish_non_exhaustive()
    }
}
