//! A batch's way over a GPU: the copy, the kernels after it, and where its fields are then.

use crate::driver::Driver;
use crate::finish::{Commands, Finish, Output};
use crate::kernels::Launch;
use crate::{Element, Gpu, View};
use packhorse_core::{Error, Result};
use packhorse_read::{ALIGN, Batch, Contents, Layout};
use std::sync::{Arc, OnceLock};

/// A GPU with its stream for copies, as the ring sees it.
pub(crate) struct Line<G: Gpu> {
    pub(crate) gpu: G,
    copies: G::Stream,
    finish: Vec<Arc<dyn Finish>>,
    plan: OnceLock<Arc<Plan>>,
}

/// Where in a slot everything is: the slab as it is on the host, then what is made of it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) layout: Arc<Layout>,
    /// With offsets from the end of the slab. Later ones cover earlier ones.
    outputs: Vec<(Output, usize)>,
    /// Bytes of all outputs.
    bytes: usize,
}

/// Memory for a batch, and what is known of the batch in it.
pub(crate) struct OnGpu<M> {
    memory: M,
    address: u64,
    /// Bytes before the outputs.
    slab: usize,
    contents: Contents,
    plan: Arc<Plan>,
}

impl Plan {
    pub(crate) fn new(layout: &Arc<Layout>, finish: &[Arc<dyn Finish>]) -> Result<Self> {
        let (mut outputs, mut bytes) = (Vec::new(), 0usize);
        for output in finish.iter().map(|finish| finish.outputs(layout)).collect::<Result<Vec<_>>>()?.concat() {
            let width = output.shape.iter().try_fold(output.element.bytes(), |bytes, n| bytes.checked_mul(*n));
            let at = bytes.checked_next_multiple_of(ALIGN);
            let end = at.zip(width).and_then(|(at, width)| at.checked_add(width));
            let too_large =
                || Error::config(format!("field {} is larger than memory: make batches smaller", output.name));
            bytes = end.ok_or_else(too_large)?;
            outputs.push((output, at.unwrap_or_default()));
        }
        Ok(Self { layout: Arc::clone(layout), outputs, bytes })
    }
}

impl<G: Gpu> Line<G> {
    pub(crate) fn new(gpu: G, finish: Vec<Arc<dyn Finish>>) -> Result<Self> {
        Ok(Self { copies: gpu.stream()?, gpu, finish, plan: OnceLock::new() })
    }

    /// Says where the fields of all batches will be.
    pub(crate) fn prepare(&self, layout: &Arc<Layout>) -> Result<()> {
        let plan = Arc::new(Plan::new(layout, &self.finish)?);
        match Arc::ptr_eq(self.plan.get_or_init(|| Arc::clone(&plan)), &plan) {
            true => Ok(()),
            false => Err(Error::config("an upload belongs to one loader: make another for another")),
        }
    }
}

impl<G: Gpu> Driver for Line<G> {
    type Host = Batch<G::Pinned>;
    type Slot = OnGpu<G::Memory>;
    type Event = G::Event;
    type Stream = G::Stream;

    fn copies(&self) -> G::Stream {
        self.copies
    }

    fn slot(&self, host: &Self::Host) -> Result<Self::Slot> {
        let plan = self.plan.get().ok_or_else(|| Error::bug("batches come before their layout"))?;
        let slab = host.slab().len().next_multiple_of(ALIGN);
        let memory = self.gpu.memory(slab.saturating_add(plan.bytes))?;
        let address = self.gpu.address(&memory);
        Ok(OnGpu { memory, address, slab, contents: Contents::default(), plan: Arc::clone(plan) })
    }

    fn fits(&self, slot: &Self::Slot, host: &Self::Host) -> bool {
        host.used() <= slot.slab
    }

    #[expect(unsafe_code, reason = "memory is handed to the GPU, which the compiler can't follow")]
    fn send(&self, host: &Self::Host, slot: &mut Self::Slot) -> Result<()> {
        let used = host.slab().get(..host.used()).ok_or_else(|| Error::bug("a batch that ends behind its slab"))?;
        // SAFETY: the ring keeps batch and slot until the copy is over, and lends neither to anybody meanwhile: a slab
        // is written by nobody but its batch's owner, and a slot by nobody but us. The slot was made for `used` bytes.
        unsafe { self.gpu.upload(used, &slot.memory, self.copies) }?;
        slot.contents.clone_from(host.contents());
        let fields = Fields { host: Some(used), ..slot.fields() };
        self.finish.iter().try_for_each(|finish| finish.run(&fields, &mut OnCopies { line: self }))
    }

    fn event(&self) -> Result<G::Event> {
        self.gpu.event()
    }

    fn record(&self, event: &G::Event, stream: G::Stream) -> Result<()> {
        self.gpu.record(event, stream)
    }

    fn wait(&self, stream: G::Stream, event: &G::Event) -> Result<()> {
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

/// The stream of the copies, for a [`Finish`].
struct OnCopies<'l, G: Gpu> {
    line: &'l Line<G>,
}

impl<G: Gpu> Commands for OnCopies<'_, G> {
    #[expect(unsafe_code, reason = "memory is handed to the GPU, which the compiler can't follow")]
    fn launch(&mut self, launch: &Launch) -> Result<()> {
        // SAFETY: a `Finish` knows addresses from `Fields`, all in the slot, which the ring keeps until what is queued here is
        // over, and of memory of its own, which it keeps as long; its kernels stay inside of the arrays that they are given.
        unsafe { self.line.gpu.launch(launch, self.line.copies) }
    }

    fn stream(&self) -> Option<usize> {
        self.line.gpu.handle(self.line.copies)
    }
}

impl<M> OnGpu<M> {
    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields { host: None, plan: &self.plan, contents: &self.contents, address: self.address, slab: self.slab }
    }
}

/// The fields of a batch that is on a GPU, or will be.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'b> {
    host: Option<&'b [u8]>,
    plan: &'b Plan,
    contents: &'b Contents,
    address: u64,
    slab: usize,
}

impl<'b> Fields<'b> {
    /// Which samples they are of.
    pub fn contents(&self) -> &'b Contents {
        self.contents
    }

    /// Where fields are that came with the batch.
    pub fn layout(&self) -> &'b Arc<Layout> {
        &self.plan.layout
    }

    /// The names of all fields, those that were made on the GPU first.
    pub fn names(&self) -> impl Iterator<Item = &'b str> {
        let plan: &'b Plan = self.plan;
        let made = |name: &str| plan.outputs.iter().any(|(output, _)| output.name == name);
        let came = plan.layout.fields().iter().map(|field| field.name.as_str()).filter(move |name| !made(name));
        plan.outputs.iter().map(|(output, _)| output.name.as_str()).chain(came)
    }

    /// The field of this name: what was made on the GPU, else what came with the batch.
    pub fn view(&self, name: &str) -> Option<View> {
        self.made(name).or_else(|| self.came(name))
    }

    /// A field that came with the batch, also where one that was made has its name.
    pub fn came(&self, name: &str) -> Option<View> {
        let at = self.plan.layout.position(name)?;
        let field = self.plan.layout.fields().get(at)?;
        let place = self.contents.place(at)?;
        let stride = field.strides.first().copied().unwrap_or(0).max(1);
        let mut shape = field.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows = place.len() / stride;
        }
        let address = self.address + place.start as u64;
        Some(View { address, element: Element::of(&field.data_type)?, shape })
    }

    /// The bytes of a field that came with the batch, in the host's pinned memory: while the batch is sent, not later.
    pub fn host(&self, name: &str) -> Option<&'b [u8]> {
        self.host?.get(self.contents.place(self.plan.layout.position(name)?)?)
    }

    fn made(&self, name: &str) -> Option<View> {
        let (output, offset) = self.plan.outputs.iter().rev().find(|(output, _)| output.name == name)?;
        let mut shape = output.shape.clone();
        if let Some(rows) = shape.first_mut().filter(|_| output.by_row) {
            *rows = (*rows).min(self.contents.rows());
        }
        Some(View { address: self.address + (self.slab + offset) as u64, element: output.element, shape })
    }
}
