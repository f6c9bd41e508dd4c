//! The device of a loader whose batches go to a GPU.

use crate::ring::Sender;
use crate::upload_stream::UploadStream;
use crate::{DeviceBatch, DeviceTransform, Gpu};
use packhorse_core::Result;
use packhorse_read::{Batch, Device, FieldOptions, Layout};
use std::sync::Arc;

/// Batches of the host that are being copied at most. The next waits on the stream already when one is over, which is all
/// that keeps a link busy.
const IN_FLIGHT: usize = 2;

/// Sends the batches of a loader to a GPU: they are put together in pinned memory, and copied from there by one copy each.
///
/// Taking a batch queues its copy and returns; with [`Ahead`](packhorse_read::Ahead) that happens while earlier batches are
/// worked on. Memory in a steady state: `LoaderOptions::ahead` slabs and two more that are pinned, and on the GPU one slot
/// (slab and outputs) for each batch that is ahead or kept, and one more.
pub struct Upload<G: Gpu> {
    sender: Sender<UploadStream<G>>,
}

impl<G: Gpu> Upload<G> {
    /// Batches arrive as they were put together.
    ///
    /// Errors: a stream that the GPU does not give.
    pub fn new(gpu: G) -> Result<Self> {
        Self::with_transforms(gpu, Vec::new())
    }

    /// Batches arrive with what these make of the fields that came, one after another.
    ///
    /// Errors: a stream that the GPU does not give.
    pub fn with_transforms(gpu: G, transforms: Vec<Arc<dyn DeviceTransform>>) -> Result<Self> {
        Ok(Self { sender: Sender::new(Arc::new(UploadStream::new(gpu, transforms)?), IN_FLIGHT, IN_FLIGHT + 1) })
    }
}

impl<G: Gpu> Device for Upload<G> {
    type Host = G::Pinned;
    type Batch = DeviceBatch<G>;

    fn needs(&self) -> Vec<FieldOptions> {
        self.sender.driver().needs()
    }

    fn prepare(&mut self, layout: &Arc<Layout>) -> Result<()> {
        self.sender.driver().prepare(layout)
    }

    fn host(&mut self, bytes: usize) -> Result<G::Pinned> {
        self.sender.driver().gpu.pinned(bytes)
    }

    fn upload(&mut self, batch: Batch<G::Pinned>) -> Result<DeviceBatch<G>> {
        self.sender.send(batch).map(DeviceBatch::new)
    }
}
