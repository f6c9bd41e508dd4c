//! Sends a batch to a GPU: the copy, and the kernels after it.

use crate::driver::Driver;
use crate::kernels::{Gathered, Launch};
use crate::timeline::{Sent, Timeline};
use crate::transforms::{Commands, DeviceTransform, Fields, Plan};
use crate::{Gpu, Resident};
use packhorse_core::{Error, Result};
use packhorse_read::{ALIGN, Batch, BatchMetadata, FieldOptions, HeldSamples, Layout};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A GPU with its streams of copies and transforms, as the driver of the ring. `H` is a batch, or owns one.
pub(crate) struct UploadStream<G: Gpu, H = Batch<<G as Gpu>::Pinned>> {
    pub(crate) gpu: G,
    copies: G::Stream,
    /// The stream of transforms; that of copies if there are none.
    after: G::Stream,
    transforms: Vec<Arc<dyn DeviceTransform>>,
    prepared: OnceLock<Prepared<G>>,
    /// Whether transforms of the batch that was sent last asked for its bytes on the host.
    reads_host: AtomicBool,
    timeline: Timeline<G>,
    /// The samples that batches are gathered from, if the GPU has them.
    resident: Option<Arc<Resident<G>>>,
    host: PhantomData<fn(H)>,
}

/// The state that depends on the layout of batches.
struct Prepared<G: Gpu> {
    plan: Arc<Plan>,
    /// Scratch memory. All transforms share it, since they run one after another on one stream.
    scratch: Option<G::Memory>,
}

/// GPU memory of a batch, and its metadata.
pub(crate) struct DeviceSlab<M> {
    memory: M,
    /// Where the slab begins: after the bytes that are sent, if it is gathered.
    address: u64,
    /// Bytes of the slab, before the outputs.
    slab: usize,
    metadata: BatchMetadata,
    plan: Arc<Plan>,
}

impl<G: Gpu, H> UploadStream<G, H> {
    pub(crate) fn new(gpu: G, transforms: Vec<Arc<dyn DeviceTransform>>) -> Result<Self> {
        let (copies, prepared, timeline) = (gpu.urgent_stream()?, OnceLock::new(), Timeline::default());
        let after = if transforms.is_empty() { copies.clone() } else { gpu.urgent_stream()? };
        let reads_host = AtomicBool::new(false);
        let resident = None;
        Ok(Self { copies, after, gpu, transforms, prepared, reads_host, timeline, resident, host: PhantomData })
    }

    /// The same, of batches that are gathered from samples on the GPU.
    pub(crate) fn resident(resident: &Arc<Resident<G>>, transforms: Vec<Arc<dyn DeviceTransform>>) -> Result<Self>
    where
        G: Clone,
    {
        let mut made = Self::new(resident.gpu().clone(), transforms)?;
        made.resident = Some(Arc::clone(resident));
        Ok(made)
    }

    /// The samples that the GPU has.
    pub(crate) fn held(&self) -> Option<Arc<HeldSamples>> {
        self.resident.as_ref().map(|resident| Arc::clone(resident.samples()))
    }

    /// The fields that the transforms need.
    pub(crate) fn needs(&self) -> Vec<FieldOptions> {
        self.transforms.iter().flat_map(|transform| transform.needs()).collect()
    }

    /// Sets the layout of all batches, once.
    pub(crate) fn prepare(&self, layout: &Arc<Layout>) -> Result<()> {
        let plan = Arc::new(Plan::new(layout, &self.transforms)?);
        let scratch =
            self.transforms.iter().map(|transform| transform.scratch(&plan.layout)).collect::<Result<Vec<_>>>()?;
        let scratch = scratch.into_iter().max().filter(|bytes| *bytes > 0);
        let scratch = scratch.map(|bytes| self.gpu.memory(bytes)).transpose()?;
        let prepared = self.prepared.set(Prepared { plan, scratch });
        prepared.map_err(|_| Error::config("an upload belongs to one loader: make another for another"))
    }

    /// Queues the transforms of a batch.
    fn run(&self, sent: &[u8], slot: &DeviceSlab<G::Memory>) -> Result<()> {
        let scratch = self.prepared()?.scratch.as_ref().map_or(0, |scratch| self.gpu.address(scratch));
        self.reads_host.store(false, Ordering::Relaxed);
        let fields = Fields { host: self.resident.is_none().then_some((sent, &self.reads_host)), ..slot.fields() };
        let mut commands = AfterCopies { upload: self };
        self.transforms.iter().try_for_each(|transform| transform.run(&fields, scratch, &mut commands))
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

    fn transforms(&self) -> &G::Stream {
        &self.after
    }

    fn transforms_read_host(&self) -> bool {
        self.reads_host.load(Ordering::Relaxed)
    }

    fn slot(&self, host: &Self::Host) -> Result<Self::Slot> {
        let plan = &self.prepared()?.plan;
        let host = host.borrow();
        let aligned = |bytes: usize| bytes.next_multiple_of(ALIGN);
        let sent = aligned(host.slab().len());
        let (sent, slab) = match host.metadata().gather() {
            // Ragged values may be longer in other batches.
            Some(_) if plan.sent.fields().iter().any(|field| field.ragged) => {
                (sent, aligned(host.used() + host.used() / 8))
            }
            Some(_) => (sent, aligned(host.used())),
            None => (0, sent),
        };
        let memory = self.gpu.memory(sent.saturating_add(slab).saturating_add(plan.bytes))?;
        let address = self.gpu.address(&memory) + sent as u64;
        Ok(DeviceSlab { memory, address, slab, metadata: BatchMetadata::default(), plan: Arc::clone(plan) })
    }

    fn fits(&self, slot: &Self::Slot, host: &Self::Host) -> bool {
        let host = host.borrow();
        let room = slot.address - self.gpu.address(&slot.memory);
        host.used() <= slot.slab && host.metadata().gather().is_none_or(|gather| gather.bytes as u64 <= room)
    }

    #[expect(unsafe_code, reason = "memory is handed to the GPU, which the compiler can't follow")]
    fn copy(&self, host: &Self::Host, slot: &mut Self::Slot) -> Result<()> {
        let host = host.borrow();
        let plan = &self.prepared()?.plan;
        if !Arc::ptr_eq(host.layout(), &plan.sent) && **host.layout() != *plan.sent {
            return Err(Error::config("a batch of another loader: an upload belongs to one"));
        }
        let gather = host.metadata().gather();
        if gather.map(|gather| gather.holder) != self.resident.as_ref().map(|resident| resident.samples().id()) {
            return Err(Error::config("a batch of samples that are not on this GPU"));
        }
        let sent = sent(host)?;
        self.timeline.begin(&self.gpu, &self.copies);
        // SAFETY: the ring owns batch and slot until the copy is complete: a slab is written only by its batch's owner,
        // and a slot only here. The slot was allocated for at least `sent` bytes.
        unsafe { self.gpu.upload(sent, &slot.memory, &self.copies) }?;
        if let Some(gather) = gather.filter(|gather| gather.pieces > 0) {
            let launch = Gathered { pieces: self.gpu.address(&slot.memory), data: slot.address }.launch(gather)?;
            // SAFETY: the pieces are of the resident samples, by their number, which live as long as this, and of the bytes that were
            // just sent; they lie within the slab, as `fits` has checked.
            unsafe { self.gpu.launch(&launch, &self.copies) }?;
        }
        self.timeline.mark(&self.gpu, &self.copies);
        slot.metadata.clone_from(host.metadata());
        Ok(())
    }

    fn transform(&self, host: &Self::Host, slot: &mut Self::Slot) -> Result<()> {
        let host = host.borrow();
        let sent = sent(host)?;
        self.timeline.mark(&self.gpu, &self.after);
        if host.rows() > 0 {
            self.run(sent, slot)?;
        }
        self.timeline.mark(&self.gpu, &self.after);
        let (samples, bytes, transforms) = (host.rows() as u64, sent.len() as u64, !self.transforms.is_empty());
        self.timeline.queued(Sent { samples, bytes, transforms });
        Ok(())
    }

    fn is_capturing(&self, stream: &G::Stream) -> Result<bool> {
        self.gpu.is_capturing(stream)
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

/// The bytes of a batch that are copied.
fn sent<P: AsRef<[u8]> + AsMut<[u8]>>(host: &Batch<P>) -> Result<&[u8]> {
    let bytes = host.metadata().gather().map_or(host.used(), |gather| gather.bytes);
    host.slab().get(..bytes).ok_or_else(|| Error::bug("a batch that ends behind its slab"))
}

/// The stream of transforms, for a [`DeviceTransform`].
struct AfterCopies<'l, G: Gpu, H> {
    upload: &'l UploadStream<G, H>,
}

impl<G: Gpu, H> Commands for AfterCopies<'_, G, H> {
    #[expect(unsafe_code, reason = "memory is handed to the GPU, which the compiler can't follow")]
    fn launch(&mut self, launch: &Launch) -> Result<()> {
        // SAFETY: a `DeviceTransform` guarantees that its kernels access only the slot, which the ring keeps until the
        // queued work has finished, the scratch memory, which only this stream uses, and memory that it keeps itself.
        unsafe { self.upload.gpu.launch(launch, &self.upload.after) }
    }

    fn stream(&self) -> Option<usize> {
        self.upload.gpu.handle(&self.upload.after)
    }
}

impl<M> DeviceSlab<M> {
    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields { host: None, plan: &self.plan, metadata: &self.metadata, address: self.address, slab: self.slab }
    }
}
