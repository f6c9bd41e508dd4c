//! The queue between those who fill batches and the one who takes them: bounded, and in order.

use crate::fill::Filled;
use packhorse_core::{Error, Result};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Slabs beyond those ahead that are kept, for callers who hold a batch or two while they take the next.
const SPARE: usize = 2;

/// Slots for the batches ahead, and the slabs that none is in.
#[derive(Debug)]
pub(crate) struct Ring<H> {
    state: Mutex<State<H>>,
    /// A step may be claimed.
    room: Condvar,
    /// A slot was filled.
    ready: Condvar,
}

#[derive(Debug)]
struct State<H> {
    free: Vec<H>,
    /// Step `s` goes to slot `s % slots`.
    slots: Vec<Option<Result<(H, Filled)>>>,
    /// The first step that nobody claimed.
    next: u64,
    /// The first step that was not taken.
    taken: u64,
    steps: u64,
    /// Slabs in `free`, in slots, and being filled.
    slabs: usize,
    stop: bool,
}

impl<H> Ring<H> {
    pub(crate) fn new(ahead: usize, steps: u64) -> Self {
        let slots = (0..ahead.max(1)).map(|_| None).collect();
        let state = State { free: Vec::new(), slots, next: 0, taken: 0, steps, slabs: 0, stop: false };
        Self { state: Mutex::new(state), room: Condvar::new(), ready: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next step that nobody works on, with a slab for it. Waits for room, if it shall, and else gives none;
    /// none as well when all is done.
    pub(crate) fn claim(&self, wait: bool) -> Option<Claim<'_, H>> {
        let mut state = self.lock();
        loop {
            if state.stop || state.next >= state.steps {
                return None;
            }
            if state.next < state.taken.saturating_add(state.slots.len() as u64)
                && let Some(slab) = state.free.pop()
            {
                state.next += 1;
                return Some(Claim { ring: self, step: state.next - 1, slab: Some(slab) });
            }
            if !wait {
                return None;
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The outcome of the next step in order, once it is there; `None` after the last.
    pub(crate) fn take(&self) -> Option<Result<(H, Filled)>> {
        let mut state = self.lock();
        loop {
            if state.taken >= state.steps {
                return None;
            }
            let slot = state.slot(state.taken);
            if let Some(found) = state.slots.get_mut(slot).and_then(Option::take) {
                state.taken += 1;
                state.slabs -= usize::from(found.is_ok());
                self.room.notify_all();
                return Some(found);
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How many slabs are missing for all the batches ahead.
    pub(crate) fn missing(&self) -> usize {
        let state = self.lock();
        state.slots.len().saturating_sub(state.slabs)
    }

    /// A slab that nobody uses: kept, unless there are enough.
    pub(crate) fn give_back(&self, slab: H) {
        let mut state = self.lock();
        if !state.stop && state.slabs < state.slots.len() + SPARE {
            state.slabs += 1;
            state.free.push(slab);
            self.room.notify_one();
        }
    }

    /// No step is claimed any more.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.room.notify_all();
    }
}

impl<H> State<H> {
    fn slot(&self, step: u64) -> usize {
        (step % self.slots.len().max(1) as u64) as usize
    }
}

/// A step that is worked on. Dropped without an outcome, by a panic, it ends the run with an error.
#[derive(Debug)]
pub(crate) struct Claim<'r, H> {
    ring: &'r Ring<H>,
    pub(crate) step: u64,
    pub(crate) slab: Option<H>,
}

impl<H> Claim<'_, H> {
    /// Hands over what came of it.
    pub(crate) fn complete(mut self, outcome: Result<Filled>) {
        let Some(slab) = self.slab.take() else { return };
        let mut state = self.ring.lock();
        let outcome = match outcome {
            Ok(filled) => Ok((slab, filled)),
            Err(error) => {
                state.free.push(slab);
                Err(error)
            }
        };
        self.put(&mut state, outcome);
    }

    fn put(&self, state: &mut State<H>, outcome: Result<(H, Filled)>) {
        let slot = state.slot(self.step);
        if let Some(place) = state.slots.get_mut(slot) {
            *place = Some(outcome);
        }
        self.ring.ready.notify_one();
    }
}

impl<H> Drop for Claim<'_, H> {
    fn drop(&mut self) {
        if self.slab.is_some() {
            let mut state = self.ring.lock();
            state.steps = state.steps.min(self.step + 1);
            state.slabs = state.slabs.saturating_sub(1);
            self.put(&mut state, Err(Error::bug("a thread that fills batches panicked")));
        }
    }
}
