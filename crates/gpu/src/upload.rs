//! The device of a loader whose batches go to a GPU.

use crate::ring::Sender;
use crate::upload_stream::UploadStream;
use crate::{DeviceBatch, DeviceTransform, Gpu};
use packhorse_core::Result;
use packhorse_read::{Batch, Device, FieldOptions, Layout};
use std::sync::Arc;

/// The maximum number of copies in flight. Two suffice to keep the link busy: when one ends, the next is already
/// queued.
const IN_FLIGHT: usize = 2;

/// Sends the batches of a loader to a GPU: they are assembled in pinned memory, and each is sent by one copy.
///
/// Taking a batch queues its copy and returns; with [`Ahead`](packhorse_read::Ahead) that happens while earlier batches
/// are in use. Memory in steady state: `LoaderOptions::ahead` + 2 pinned slabs, and on the GPU one slot (slab and
/// outputs) for each batch that is ahead or kept, plus one.
pub struct Upload<G: Gpu> {
    sender: Sender<UploadStream<G>>,
}

impl<G: Gpu> Upload<G> {
    /// Sends batches without transforms.
    ///
    /// Errors: the GPU can't create a stream.
    pub fn new(gpu: G) -> Result<Self> {
        Self::with_transforms(gpu, Vec::new())
    }

    /// Sends batches and runs these transforms on them, one after another.
    ///
    /// Errors: the GPU can't create a stream.
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
