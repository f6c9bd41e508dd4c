//! A ring of slots of GPU memory: when each may be written again. Knows the order of operations, not the GPU.
//!
//! ```text
//!            free ─take→ wait(copies, consumed) · copy · record(copied, copies)
//!             ↑          wait(transforms, copied) · transform · record(ready, transforms) ─→ Lease
//!             │                                                                               │ wait(consumer, ready)
//!             └────────────────────── record(consumed, consumer) ←─drop───────────────────────┘
//! ```
//!
//! Copies and transforms have a stream each, so that the next copy does not wait for the transforms of this batch. Without
//! transforms there is one stream, and `ready` follows the copy.
//!
//! * A slot is owned by the free list, by the sender for the duration of one call, or by a lease. It moves between
//!   owners, so there are no slot numbers and never two owners.
//! * No thread waits for the GPU. The GPU's streams wait for each other, so that a slot is written again only after its
//!   consumer has read it, and read only after it is written.
//! * Host memory is released once the event after its copy has passed (after the transforms, if they read it), which is
//!   checked when the next batch is sent.
//!   Only a sender that is too far ahead of the GPU waits for that.
//! * Slots are allocated until there is one for each copy in flight and one for the consumer. From then on the slot
//!   that has been free the longest is used, so that no copy waits for the previous step. If none is free, one more is
//!   allocated: a consumer that keeps `n` batches holds `n` slots, and nothing deadlocks.
//! * A graph that is being captured would repeat each wait and each mark of a use, for memory that has another batch by then.
//!   So a stream in that state can't wait for a batch, and a lease that is dropped then leaves its slot parked until a later
//!   batch is sent.
//!
//! Loom and shuttle also compile this file as part of their models (`tests/model_loom.rs`, `tests/model_shuttle.rs`),
//! so it takes its synchronisation types from `sync`.

use super::driver::Driver;
use super::sync::{Arc, Mutex, MutexGuard, PoisonError};
use packhorse_core::{Error, Result};
use std::collections::VecDeque;

/// GPU memory, and the events that order its use.
struct Slot<D: Driver> {
    memory: D::Slot,
    /// Recorded after the copy into it, if transforms follow. Shared with the sender, which queries it.
    copied: Arc<D::Event>,
    /// Recorded when it has the batch.
    ready: Arc<D::Event>,
    /// Recorded after the last use on each stream; the first `used` of them were recorded since the last copy.
    consumed: Vec<D::Event>,
    used: usize,
}

/// The state shared by the sender and the leases.
struct Ring<D: Driver> {
    driver: Arc<D>,
    state: Mutex<State<D>>,
}

struct State<D: Driver> {
    /// In the order in which they were released.
    free: VecDeque<Slot<D>>,
    /// Those whose last uses, on these streams, are not marked yet.
    parked: Vec<(Slot<D>, Vec<D::Stream>)>,
    /// Slots allocated so far.
    made: usize,
    /// Slots to allocate before one is reused.
    least: usize,
}

/// Sends batches into slots. Dropping it waits for the copies in flight; leases stay valid.
pub(crate) struct Sender<D: Driver> {
    ring: Arc<Ring<D>>,
    /// Host batches that are being copied, in order.
    in_flight: VecDeque<(D::Host, Arc<D::Event>)>,
    /// The maximum number of copies in flight.
    ahead: usize,
}

/// A batch on the GPU. Dropping it releases its slot for reuse after the work queued by then on the streams that
/// [waited](Lease::wait) for it.
pub(crate) struct Lease<D: Driver> {
    ring: Arc<Ring<D>>,
    slot: Option<Slot<D>>,
    streams: Vec<D::Stream>,
}

impl<D: Driver> Sender<D> {
    /// A sender that holds at most `ahead` host batches, and allocates `slots` slots before it reuses one.
    pub(crate) fn new(driver: Arc<D>, ahead: usize, slots: usize) -> Self {
        let state = State { free: VecDeque::new(), parked: Vec::new(), made: 0, least: slots.max(1) };
        let state = Mutex::new(state);
        Self { ring: Arc::new(Ring { driver, state }), in_flight: VecDeque::new(), ahead: ahead.max(1) }
    }

    pub(crate) fn driver(&self) -> &Arc<D> {
        &self.ring.driver
    }

    /// Queues the copy of a batch and returns its lease. Waits only while `ahead` copies are in flight.
    ///
    /// After an error the batch is lost; the next can be sent.
    pub(crate) fn send(&mut self, host: D::Host) -> Result<Lease<D>> {
        self.settle()?;
        self.ring.unpark();
        let slot = self.ring.take(&host)?;
        let mut held = Held { ring: &*self.ring, pair: Some((host, slot)) };
        let released = held.pair.as_mut().map(|(host, slot)| self.ring.queue(host, slot)).transpose()?;
        let (host, slot) = held.pair.take().unzip();
        self.in_flight.extend(host.zip(released));
        drop(held);
        Ok(Lease { ring: Arc::clone(&self.ring), slot, streams: Vec::new() })
    }

    /// Releases batches whose copies are complete, and makes room for one more.
    fn settle(&mut self) -> Result<()> {
        let driver = Arc::clone(&self.ring.driver);
        while let Some((_, copied)) = self.in_flight.front() {
            if !driver.over(copied)? {
                if self.in_flight.len() < self.ahead {
                    break;
                }
                driver.synchronize(copied)?;
            }
            self.in_flight.pop_front();
        }
        Ok(())
    }
}

/// Both ends of a copy while it is being queued. If that fails or panics, a part of it may be in flight, so neither
/// memory is released before that is complete.
struct Held<'r, D: Driver> {
    ring: &'r Ring<D>,
    pair: Option<(D::Host, Slot<D>)>,
}

impl<D: Driver> Drop for Held<'_, D> {
    fn drop(&mut self) {
        let Some((host, mut slot)) = self.pair.take() else { return };
        if self.ring.driver.drain().is_err() {
            std::mem::forget((host, slot));
            self.ring.state().made -= 1;
            return;
        }
        // Nothing uses it any more: freed memory might be taken by others before the next batch.
        slot.consumed.clear();
        slot.used = 0;
        self.ring.state().free.push_back(slot);
    }
}

impl<D: Driver> Drop for Sender<D> {
    fn drop(&mut self) {
        while let Some((host, copied)) = self.in_flight.pop_front() {
            if self.ring.driver.synchronize(&copied).is_err() {
                // Leaked: the GPU may still read it.
                std::mem::forget(host);
            }
        }
    }
}

impl<D: Driver> Ring<D> {
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot that fits `host`: a new one while there are too few, else the one that has been free the longest.
    fn take(&self, host: &D::Host) -> Result<Slot<D>> {
        let small = {
            let mut state = self.state();
            let enough = state.made >= state.least;
            let fits = state.free.iter().position(|slot| self.driver.fits(&slot.memory, host));
            if let Some(slot) = fits.filter(|_| enough).and_then(|at| state.free.remove(at)) {
                return Ok(slot);
            }
            // Replaces a slot that is too small.
            let small = if enough { state.free.pop_front() } else { None };
            state.made = state.made + 1 - usize::from(small.is_some());
            small
        };
        let made = small.map_or(Ok(()), |small| self.free(small)).and_then(|()| self.make(host));
        if made.is_err() {
            // Fewer slots do, if there are any.
            let mut state = self.state();
            state.made -= 1;
            let fits = state.free.iter().position(|slot| self.driver.fits(&slot.memory, host));
            if let Some(slot) = fits.and_then(|at| state.free.remove(at)) {
                return Ok(slot);
            }
        }
        made
    }

    fn make(&self, host: &D::Host) -> Result<Slot<D>> {
        let ready = Arc::new(self.driver.event()?);
        let copied = if self.overlaps() { Arc::new(self.driver.event()?) } else { Arc::clone(&ready) };
        Ok(Slot { memory: self.driver.slot(host)?, copied, ready, consumed: Vec::new(), used: 0 })
    }

    /// Whether copies and transforms have a stream each.
    fn overlaps(&self) -> bool {
        self.driver.copies() != self.driver.transforms()
    }

    /// Queues the GPU work for a batch, in order. Returns the event after which nothing reads `host`.
    fn queue(&self, host: &D::Host, slot: &mut Slot<D>) -> Result<Arc<D::Event>> {
        let (copies, transforms) = (self.driver.copies(), self.driver.transforms());
        if slot.used == 0 && self.overlaps() {
            // Of a batch without a consumer. Those that have one wait for `ready` themselves.
            self.driver.wait(copies, &slot.ready)?;
        }
        for consumed in slot.consumed.iter().take(std::mem::take(&mut slot.used)) {
            self.driver.wait(copies, consumed)?;
        }
        self.driver.copy(host, &mut slot.memory)?;
        if self.overlaps() {
            self.driver.record(&slot.copied, copies)?;
            self.driver.wait(transforms, &slot.copied)?;
        }
        self.driver.transform(host, &mut slot.memory)?;
        self.driver.record(&slot.ready, transforms)?;
        let released = if self.driver.transforms_read_host() { &slot.ready } else { &slot.copied };
        Ok(Arc::clone(released))
    }

    /// Whether one of these streams is being captured.
    fn captured(&self, streams: &[D::Stream]) -> Result<bool> {
        streams.iter().try_fold(false, |found, stream| Ok(found || self.driver.is_capturing(stream)?))
    }

    /// Takes a slot back whose last uses are on `streams`. One of a captured stream is parked.
    fn release(&self, mut slot: Slot<D>, streams: Vec<D::Stream>) {
        if self.captured(&streams).unwrap_or(false) {
            return self.state().parked.push((slot, streams));
        }
        // Uses that can't be recorded end when all work has finished.
        let marked = self.consumed(&mut slot, &streams).or_else(|_| {
            slot.used = 0;
            self.driver.drain()
        });
        let mut state = self.state();
        match marked {
            Ok(()) => state.free.push_back(slot),
            // Leaked: the GPU may still use it.
            Err(_) => {
                state.made -= 1;
                std::mem::forget(slot);
            }
        }
    }

    /// Takes the parked slots back whose streams are not captured any more.
    fn unpark(&self) {
        let parked = std::mem::take(&mut self.state().parked);
        parked.into_iter().for_each(|(slot, streams)| self.release(slot, streams));
    }

    /// Frees a slot after its last use on the GPU.
    fn free(&self, slot: Slot<D>) -> Result<()> {
        let used = slot.consumed.iter().take(slot.used);
        let over = used.chain([&*slot.ready]).try_for_each(|event| self.driver.synchronize(event));
        if over.is_err() {
            std::mem::forget(slot);
        }
        over
    }

    /// Records the last uses of a slot on `streams`.
    fn consumed(&self, slot: &mut Slot<D>, streams: &[D::Stream]) -> Result<()> {
        for (at, stream) in streams.iter().enumerate() {
            if slot.consumed.len() == at {
                slot.consumed.push(self.driver.event()?);
            }
            if let Some(event) = slot.consumed.get(at) {
                self.driver.record(event, stream)?;
            }
            slot.used = at + 1;
        }
        Ok(())
    }
}

impl<D: Driver> Drop for Ring<D> {
    fn drop(&mut self) {
        // A slot of a stream that is captured even now is leaked.
        self.unpark();
        let (free, parked) = {
            let mut state = self.state();
            (std::mem::take(&mut state.free), std::mem::take(&mut state.parked))
        };
        parked.into_iter().for_each(std::mem::forget);
        for slot in free {
            // A slot whose use can't be awaited is leaked.
            let _ = self.free(slot);
        }
    }
}

impl<D: Driver> Lease<D> {
    pub(crate) fn driver(&self) -> &Arc<D> {
        &self.ring.driver
    }

    /// The memory and the metadata of the batch.
    pub(crate) fn slot(&self) -> Option<&D::Slot> {
        self.slot.as_ref().map(|slot| &slot.memory)
    }

    /// Makes work queued on `stream` after this call wait for the batch. The slot is not written again before the work
    /// that is queued on `stream` when the lease is dropped has finished.
    ///
    /// Errors: the stream is being captured into a graph (kind `Config`).
    pub(crate) fn wait(&mut self, stream: &D::Stream) -> Result<()> {
        if let Some(slot) = &self.slot {
            // Also of a stream that waited before: the graph would keep the memory of this batch.
            if self.ring.driver.is_capturing(stream)? {
                let message = "a stream that is being captured into a graph can't wait for a batch, whose memory is another each time";
                let hint = "copy the batch into the inputs of the graph, outside of the capture and before each replay";
                return Err(Error::config(message).hint(hint));
            }
            if !self.streams.contains(stream) {
                self.ring.driver.wait(stream, &slot.ready)?;
                self.streams.push(stream.clone());
            }
        }
        Ok(())
    }

    /// The event after the batch has arrived.
    pub(crate) fn ready(&self) -> Option<Arc<D::Event>> {
        self.slot.as_ref().map(|slot| Arc::clone(&slot.ready))
    }
}

impl<D: Driver> Drop for Lease<D> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.ring.release(slot, std::mem::take(&mut self.streams));
        }
    }
}
