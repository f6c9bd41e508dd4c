//! Sends a batch to a GPU: the copy, and the kernels after it.

use crate::Gpu;
use crate::driver::Driver;
use crate::kernels::Launch;
use crate::timeline::{Sent, Timeline};
use crate::transforms::{Commands, DeviceTransform, Fields, Plan};
use packhorse_core::{Error, Result};
use packhorse_read::{ALIGN, Batch, BatchMetadata, FieldOptions, Layout};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

/// A GPU with its copy stream, as the driver of the ring. `H` is a batch, or owns one.
pub(crate) struct UploadStream<G: Gpu, H = Batch<<G as Gpu>::Pinned>> {
    pub(crate) gpu: G,
    copies: G::Stream,
    transforms: Vec<Arc<dyn DeviceTransform>>,
    prepared: OnceLock<Prepared<G>>,
    timeline: Timeline<G>,
    host: PhantomData<fn(H)>,
}

/// The state that depends on the layout of batches.
struct Prepared<G: Gpu> {
    plan: Arc<Plan>,
    /// Scratch memory. All steps share it, since they run one after another on one stream.
    scratch: Option<G::Memory>,
}

/// GPU memory of a batch, and its metadata.
pub(crate) struct DeviceSlab<M> {
    memory: M,
    address: u64,
    /// Bytes before the outputs.
    slab: usize,
    metadata: BatchMetadata,
    plan: Arc<Plan>,
}

impl<G: Gpu, H> UploadStream<G, H> {
    pub(crate) fn new(gpu: G, transforms: Vec<Arc<dyn DeviceTransform>>) -> Result<Self> {
        let (copies, prepared, timeline) = (gpu.urgent_stream()?, OnceLock::new(), Timeline::default());
        Ok(Self { copies, gpu, transforms, prepared, timeline, host: PhantomData })
    }

    /// Sets the layout of all batches, once. The fields that the transforms need.
    pub(crate) fn needs(&self) -> Vec<FieldOptions> {
        self.transforms.iter().flat_map(|transform| transform.needs()).collect()
    }

    pub(crate) fn prepare(&self, layout: &Arc<Layout>) -> Result<()> {
        let plan = Arc::new(Plan::new(layout, &self.transforms)?);
        let scratch = self.transforms.iter().map(|transform| transform.scratch(layout)).collect::<Result<Vec<_>>>()?;
        let scratch = scratch.into_iter().max().filter(|bytes| *bytes > 0);
        let scratch = scratch.map(|bytes| self.gpu.memory(bytes)).transpose()?;
        let prepared = self.prepared.set(Prepared { plan, scratch });
        prepared.map_err(|_| Error::config("an upload belongs to one loader: make another for another"))
    }

    /// Queues the transforms of a batch that is copied.
    fn transform(&self, used: &[u8], slot: &DeviceSlab<G::Memory>) -> Result<()> {
        let scratch = self.prepared()?.scratch.as_ref().map_or(0, |scratch| self.gpu.address(scratch));
        let fields = Fields { host: Some(used), ..slot.fields() };
        self.transforms.iter().try_for_each(|transform| transform.run(&fields, scratch, &mut OnCopies { upload: self }))
    }

    fn prepared(&self) -> Result<&Prepared<G>> {
        self.prepared.get().ok_or_else(|| Error::bug("batches come before their layout"))
    }
}

impl<G: Gpu, H: Borrow<Batch<G::Pinned>> + Send + 'static> Driver for UploadStream<G, H> {
    type Host = H;
    type Slot = DeviceSlab<G::Memory>;
    type Event = G::Event;
    type Stream = G::Stream;

    fn copies(&self) -> &G::Stream {
        &self.copies
    }

    fn slot(&self, host: &Self::Host) -> Result<Self::Slot> {
        let plan = &self.prepared()?.plan;
        let slab = host.borrow().slab().len().next_multiple_of(ALIGN);
        let memory = self.gpu.memory(slab.saturating_add(plan.bytes))?;
        let address = self.gpu.address(&memory);
        Ok(DeviceSlab { memory, address, slab, metadata: BatchMetadata::default(), plan: Arc::clone(plan) })
    }

    fn fits(&self, slot: &Self::Slot, host: &Self::Host) -> bool {
        host.borrow().used() <= slot.slab
    }

    #[expect(unsafe_code, reason = "memory is handed to the GPU, which the compiler can't follow")]
    fn send(&self, host: &Self::Host, slot: &mut Self::Slot) -> Result<()> {
        let host = host.borrow();
        let plan = &self.prepared()?.plan;
        if !Arc::ptr_eq(host.layout(), &plan.layout) && **host.layout() != *plan.layout {
            return Err(Error::config("a batch of another loader: an upload belongs to one"));
        }
        let used = host.slab().get(..host.used()).ok_or_else(|| Error::bug("a batch that ends behind its slab"))?;
        let mut timers = self.timeline.begin(&self.gpu, &self.copies);
        // SAFETY: the ring owns batch and slot until the copy is complete: a slab is written only by its batch's owner,
        // and a slot only here. The slot was allocated for at least `used` bytes.
        unsafe { self.gpu.upload(used, &slot.memory, &self.copies) }?;
        self.timeline.mark(&self.gpu, &self.copies, &mut timers);
        slot.metadata.clone_from(host.metadata());
        if host.rows() > 0 {
            self.transform(used, slot)?;
        }
        self.timeline.mark(&self.gpu, &self.copies, &mut timers);
        let (samples, bytes, transforms) = (host.rows() as u64, used.len() as u64, !self.transforms.is_empty());
        self.timeline.queued(timers, Sent { samples, bytes, transforms });
        Ok(())
    }

    fn event(&self) -> Result<G::Event> {
        self.gpu.event()
    }

    fn record(&self, event: &G::Event, stream: &G::Stream) -> Result<()> {
        self.gpu.record(event, stream)
    }

    fn wait(&self, stream: &G::Stream, event: &G::Event) -> Result<()> {
        self.gpu.wait(stream, event)
    }

    fn over(&self, event: &G::Event) -> Result<bool> {
        self.gpu.over(event)
    }

    fn synchronize(&self, event: &G::Event) -> Result<()> {
        self.gpu.synchronize(event)
    }

    fn drain(&self) -> Result<()> {
        self.gpu.drain()
    }
}

/// The last batches are told to subscribers.
impl<G: Gpu, H> Drop for UploadStream<G, H> {
    fn drop(&mut self) {
        self.timeline.finish(&self.gpu);
    }
}

/// The copy stream, for a [`DeviceTransform`].
struct OnCopies<'l, G: Gpu, H> {
    upload: &'l UploadStream<G, H>,
}

impl<G: Gpu, H> Commands for OnCopies<'_, G, H> {
    #[expect(unsafe_code, reason = "memory is handed to the GPU, which the compiler can't follow")]
    fn launch(&mut self, launch: &Launch) -> Result<()> {
        // SAFETY: a `DeviceTransform` guarantees that its kernels access only the slot, which the ring keeps until the
        // queued work has finished, the scratch memory, which only this stream uses, and memory that it keeps itself.
        unsafe { self.upload.gpu.launch(launch, &self.upload.copies) }
    }

    fn stream(&self) -> Option<usize> {
        self.upload.gpu.handle(&self.upload.copies)
    }
}

impl<M> DeviceSlab<M> {
    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields { host: None, plan: &self.plan, metadata: &self.metadata, address: self.address, slab: self.slab }
    }
}
