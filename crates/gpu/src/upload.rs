//! The device of a loader whose batches go to a GPU.

use crate::ring::Sender;
use crate::upload_stream::UploadStream;
use crate::{DeviceBatch, DeviceTransform, Gpu, Resident};
use packhorse_core::Result;
use packhorse_read::{Batch, Device, FieldOptions, HeldSamples, Layout};
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
        Ok(Self::of(UploadStream::new(gpu, transforms)?))
    }

    /// Gathers the batches from samples that the GPU has, instead of sending them, and runs these transforms on them. Loaders take
    /// the fields that the samples were loaded with.
    ///
    /// Errors: the GPU can't create a stream.
    pub fn resident(resident: &Arc<Resident<G>>, transforms: Vec<Arc<dyn DeviceTransform>>) -> Result<Self>
    where
        G: Clone,
    {
        Ok(Self::of(UploadStream::resident(resident, transforms)?))
    }

    fn of(stream: UploadStream<G>) -> Self {
        Self { sender: Sender::new(Arc::new(stream), IN_FLIGHT, IN_FLIGHT + 1) }
    }
}

impl<G: Gpu> Device for Upload<G> {
    type Host = G::Pinned;
    type Batch = DeviceBatch<G>;

    fn needs(&self) -> Vec<FieldOptions> {
        self.sender.driver().needs()
    }

    fn held(&self) -> Option<Arc<HeldSamples>> {
        self.sender.driver().held()
    }

    fn room(&self) -> Option<u64> {
        self.sender.driver().gpu.free_memory().ok().flatten().map(|bytes| bytes as u64)
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

#[cfg(test)]
#[expect(unsafe_code, reason = "a transform is declared, which accesses no memory")]
mod tests {
    use super::*;
    use crate::Simulated;
    use crate::driver::Driver as _;
    use crate::kernels::Spin;
    use crate::transforms::{Commands, Fields, Output};
    use packhorse_read::{LoaderOptions, NullLoader};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Makes nothing, by one kernel.
    struct Waits;

    // SAFETY: the kernel accesses no memory.
    unsafe impl DeviceTransform for Waits {
        fn outputs(&self, _: &Layout) -> Result<Vec<Output>> {
            Ok(Vec::new())
        }

        fn run(&self, _: &Fields<'_>, _: u64, commands: &mut dyn Commands) -> Result<()> {
            commands.launch(&Spin::new(0).launch()?)
        }
    }

    /// The kernel of a batch ends only after the copy of the next one.
    #[test]
    fn the_next_copy_does_not_wait_for_kernels() {
        let (copied, over) = channel();
        let (over, ended) = (Mutex::new(over), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&ended);
        let gpu = Simulated::new().with_kernels(move |_| {
            // In vain, if that copy waits for this kernel.
            if over.lock().unwrap().recv_timeout(Duration::from_secs(10)).is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        });
        let upload = Upload::with_transforms(gpu.clone(), vec![Arc::new(Waits)]).unwrap();
        let copies = upload.sender.driver().copies().clone();
        let mut loader = NullLoader::null(64, &LoaderOptions::new(8), upload).unwrap();
        let batches: Vec<_> = (0..4)
            .map(|number| {
                let batch = loader.next().unwrap().unwrap();
                let copied = copied.clone();
                if number > 0 {
                    gpu.run(&copies, move || copied.send(()).unwrap_or(())).unwrap();
                }
                batch
            })
            .collect();
        batches[..3].iter().for_each(|batch| batch.synchronize().unwrap());
        // The last one has no next one.
        copied.send(()).unwrap();
        batches[3].synchronize().unwrap();
        assert_eq!(ended.load(Ordering::SeqCst), 4);
    }
}
