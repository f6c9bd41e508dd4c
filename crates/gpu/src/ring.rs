//! Slots of the GPU's memory in turn, and when each may be written again: the order of things, without a GPU.
//!
//! ```text
//!            free ─take→ wait(copies, consumed) · send · record(ready, copies) ─→ Lease
//!             ↑                                                                    │ wait(consumer, ready)
//!             └──────────────── record(consumed, consumer) ←─drop──────────────────┘
//! ```
//!
//! * A slot belongs to one of three: the free list, the sender for as long as one call takes, or a lease. The holder
//!   owns it, so there are no slot numbers, and no slot has two owners.
//! * No thread waits for the GPU. That a slot is written again only after its consumer read it, and read only after it was
//!   written, are waits that the GPU's streams do among themselves.
//! * Memory of the host goes back once the event after its copy is over, which is asked for when the next batch is sent.
//!   Only a sender that is further ahead of the GPU than it may be waits for that.
//! * Slots are made until there is one for each copy that may be under way and one for the consumer; from then on the one that was
//!   free for longest is used, so that no copy waits for the step before it. Where none is free one more is made: a consumer
//!   that keeps `n` batches has them in `n` slots, and nothing hangs.
//!
//! This file is also part of the models that loom and shuttle run (`tests/model_loom.rs`, `tests/model_shuttle.rs`), and so takes what it shares between
//! threads from `sync`.

use super::driver::Driver;
use super::sync::{Arc, Mutex, MutexGuard, PoisonError};
use packhorse_core::Result;
use std::collections::VecDeque;

/// Memory of the GPU, with the events that order its use.
struct Slot<D: Driver> {
    memory: D::Slot,
    /// After the copy into it. Shared with the sender, which asks for it.
    ready: Arc<D::Event>,
    /// After the last use on each stream that used it; the first `used` of them were recorded since the last copy.
    consumed: Vec<D::Event>,
    used: usize,
}

/// What senders and leases share.
struct Ring<D: Driver> {
    driver: Arc<D>,
    state: Mutex<State<D>>,
}

struct State<D: Driver> {
    /// The one that was given back first is first.
    free: VecDeque<Slot<D>>,
    /// Slots that were made.
    made: usize,
    /// So many are made before one is used again.
    least: usize,
}

/// Sends batches into slots. Dropping it waits for the copies that are under way; leases live on.
pub(crate) struct Sender<D: Driver> {
    ring: Arc<Ring<D>>,
    /// Batches of the host that are being copied, in order.
    in_flight: VecDeque<(D::Host, Arc<D::Event>)>,
    /// How many there may be.
    ahead: usize,
}

/// A batch on the GPU. Its slot goes back when this is dropped, for use after whatever was queued by then on the streams
/// that [waited](Lease::wait) for it.
pub(crate) struct Lease<D: Driver> {
    ring: Arc<Ring<D>>,
    slot: Option<Slot<D>>,
    streams: Vec<D::Stream>,
}

impl<D: Driver> Sender<D> {
    /// A sender that has at most `ahead` batches of the host's in its hands, and makes `slots` slots before it uses one again.
    pub(crate) fn new(driver: Arc<D>, ahead: usize, slots: usize) -> Self {
        let state = Mutex::new(State { free: VecDeque::new(), made: 0, least: slots.max(1) });
        Self { ring: Arc::new(Ring { driver, state }), in_flight: VecDeque::new(), ahead: ahead.max(1) }
    }

    pub(crate) fn driver(&self) -> &Arc<D> {
        &self.ring.driver
    }

    /// Queues the copy of a batch and gives what it will be. Waits only while `ahead` copies are under way.
    ///
    /// After an error the batch is lost; the next may be sent.
    pub(crate) fn send(&mut self, host: D::Host) -> Result<Lease<D>> {
        self.settle()?;
        let slot = self.ring.take(&host)?;
        let mut held = Held { driver: &*self.ring.driver, pair: Some((host, slot)) };
        if let Some((host, slot)) = &mut held.pair {
            self.ring.queue(host, slot)?;
        }
        let (host, slot) = held.pair.take().unzip();
        self.in_flight.extend(host.zip(slot.as_ref().map(|slot| Arc::clone(&slot.ready))));
        drop(held);
        Ok(Lease { ring: Arc::clone(&self.ring), slot, streams: Vec::new() })
    }

    /// Gives batches back whose copies are over, and makes room for one more.
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

/// Both ends of a copy while it is being queued. Where that fails, or panics, a part of it may be under way: neither end's
/// memory goes before that is over.
struct Held<'d, D: Driver> {
    driver: &'d D,
    pair: Option<(D::Host, Slot<D>)>,
}

impl<D: Driver> Drop for Held<'_, D> {
    fn drop(&mut self) {
        if self.pair.is_some() && self.driver.drain().is_err() {
            std::mem::forget(self.pair.take());
        }
    }
}

impl<D: Driver> Drop for Sender<D> {
    fn drop(&mut self) {
        while let Some((host, copied)) = self.in_flight.pop_front() {
            if self.ring.driver.synchronize(&copied).is_err() {
                // The GPU may still read it.
                std::mem::forget(host);
            }
        }
    }
}

impl<D: Driver> Ring<D> {
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot with room for `host`: a new one while there are few, else the one that was free for longest.
    fn take(&self, host: &D::Host) -> Result<Slot<D>> {
        let small = {
            let mut state = self.state();
            let enough = state.made >= state.least;
            let fits = state.free.iter().position(|slot| self.driver.fits(&slot.memory, host));
            if let Some(slot) = fits.filter(|_| enough).and_then(|at| state.free.remove(at)) {
                return Ok(slot);
            }
            // One that is too small goes for one that is not.
            let small = if enough { state.free.pop_front() } else { None };
            state.made = state.made + 1 - usize::from(small.is_some());
            small
        };
        let made = small.map_or(Ok(()), |small| self.free(small)).and_then(|()| self.make(host));
        if made.is_err() {
            self.state().made -= 1;
        }
        made
    }

    fn make(&self, host: &D::Host) -> Result<Slot<D>> {
        let ready = Arc::new(self.driver.event()?);
        Ok(Slot { memory: self.driver.slot(host)?, ready, consumed: Vec::new(), used: 0 })
    }

    /// Queues the work for a batch on the GPU, in order.
    fn queue(&self, host: &D::Host, slot: &mut Slot<D>) -> Result<()> {
        let copies = self.driver.copies();
        for consumed in slot.consumed.iter().take(std::mem::take(&mut slot.used)) {
            self.driver.wait(copies, consumed)?;
        }
        self.driver.send(host, &mut slot.memory)?;
        self.driver.record(&slot.ready, copies)
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

    /// Marks the last uses of a slot on `streams`.
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
        let free = match self.state.get_mut() {
            Ok(state) => std::mem::take(&mut state.free),
            Err(poisoned) => std::mem::take(&mut poisoned.into_inner().free),
        };
        for slot in free {
            // What can't be waited for is left to the end of the process.
            let _ = self.free(slot);
        }
    }
}

impl<D: Driver> Lease<D> {
    pub(crate) fn driver(&self) -> &Arc<D> {
        &self.ring.driver
    }

    /// The memory, and what was noted of the batch.
    pub(crate) fn slot(&self) -> Option<&D::Slot> {
        self.slot.as_ref().map(|slot| &slot.memory)
    }

    /// Lets what is queued on `stream` from now on begin after the batch is there; the slot is not written again before
    /// what is queued on `stream` until the lease is dropped is over.
    pub(crate) fn wait(&mut self, stream: &D::Stream) -> Result<()> {
        if let Some(slot) = self.slot.as_ref().filter(|_| !self.streams.contains(stream)) {
            self.ring.driver.wait(stream, &slot.ready)?;
            self.streams.push(stream.clone());
        }
        Ok(())
    }

    /// The event that says whether the batch is there.
    pub(crate) fn ready(&self) -> Option<Arc<D::Event>> {
        self.slot.as_ref().map(|slot| Arc::clone(&slot.ready))
    }
}

impl<D: Driver> Drop for Lease<D> {
    fn drop(&mut self) {
        let Some(mut slot) = self.slot.take() else { return };
        // Uses that can't be marked are over when everything is.
        let marked = self.ring.consumed(&mut slot, &self.streams).or_else(|_| {
            slot.used = 0;
            self.ring.driver.drain()
        });
        let mut state = self.ring.state();
        match marked {
            Ok(()) => state.free.push_back(slot),
            // The GPU may still use it.
            Err(_) => {
                state.made -= 1;
                std::mem::forget(slot);
            }
        }
    }
}
