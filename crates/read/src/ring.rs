//! The queue between the threads that fill batches and the one that takes them: bounded and in order.

use crate::LoaderCounters;
use crate::batch::Home;
use crate::batch_metadata::BatchMetadata;
use crate::spans::{TARGET, Wait};
use packhorse_core::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Extra slabs, for callers that hold a batch or two while they take the next.
const SPARE: usize = 2;

/// More batches ahead than any memory holds.
const MOST_AHEAD: usize = 1 << 16;

/// Slots for the batches ahead, and the free slabs.
#[derive(Debug)]
pub(crate) struct Ring<H, F> {
    state: Mutex<State<H, F>>,
    /// Signals that a step may be claimed.
    room: Condvar,
    /// Signals that a slot was filled.
    ready: Condvar,
    counters: Arc<LoaderCounters>,
}

/// Memory for a batch and its metadata; both are reused.
#[derive(Debug)]
pub(crate) struct Slab<H> {
    pub(crate) host: H,
    pub(crate) filled: BatchMetadata,
}

/// The result of a step.
#[derive(Debug)]
pub(crate) enum Outcome<H, F> {
    Filled(Slab<H>),
    Failed(Error),
    /// The slab was too small: the bytes needed, and the fetched data.
    Room(usize, F),
}

/// What a wait for the next step came to.
pub(crate) enum Taken<H, F> {
    /// The step and its result.
    Step(u64, Outcome<H, F>),
    /// Time is up.
    NotYet,
    /// There are no more steps.
    Over,
}

#[derive(Debug)]
struct State<H, F> {
    free: Vec<Slab<H>>,
    /// Step `s` goes to slot `s % slots`.
    slots: Vec<Option<Outcome<H, F>>>,
    /// The first unclaimed step.
    next: u64,
    /// The first step not taken.
    taken: u64,
    steps: u64,
    /// Slabs in `free`, in slots and being filled.
    slabs: usize,
    /// The size of a slab in bytes: smaller ones are not reused.
    bytes: usize,
    stop: bool,
    /// Whether the next step was waited for already.
    late: bool,
    /// Whether the thread that takes batches works ahead for another one.
    is_ahead: bool,
}

impl<H: AsRef<[u8]>, F> Ring<H, F> {
    pub(crate) fn new(ahead: usize, steps: u64, bytes: usize, counters: Arc<LoaderCounters>) -> Self {
        let slots: Vec<_> = (0..ahead.clamp(1, MOST_AHEAD)).map(|_| None).collect();
        counters.ahead.add(slots.len() as u64);
        let (free, late, is_ahead) = (Vec::new(), false, false);
        let state = State { free, slots, next: 0, taken: 0, steps, slabs: 0, bytes, stop: false, late, is_ahead };
        Self { state: Mutex::new(state), room: Condvar::new(), ready: Condvar::new(), counters }
    }

    fn lock(&self) -> MutexGuard<'_, State<H, F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the next step, with a slab for it. Without room, waits if `wait` is set, else returns `None`; also `None`
    /// after the last step.
    pub(crate) fn claim(&self, wait: bool) -> Option<Claim<'_, H, F>> {
        let (mut state, mut waits) = (self.lock(), None);
        let claimed = loop {
            if state.stop || state.next >= state.steps {
                break None;
            }
            if state.next < state.taken.saturating_add(state.slots.len() as u64)
                && let Some(slab) = state.free.pop()
            {
                state.next += 1;
                break Some(Claim { ring: self, step: state.next - 1, slab: Some(slab) });
            }
            if !wait {
                return None;
            }
            waits.get_or_insert_with(|| Wait::on("room"));
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        if let Some(waits) = waits {
            waits.end(&self.counters.decode_blocked);
        }
        claimed
    }

    /// The next step in order and its result, once complete; waits at most for `wait`, if given.
    pub(crate) fn take(&self, wait: Option<Duration>) -> Taken<H, F> {
        let taken = self.wait_for_next(wait);
        // Only now: what writes a trace has no lock.
        if matches!(taken, Taken::Step(..)) {
            self.tell();
        }
        taken
    }

    fn wait_for_next(&self, wait: Option<Duration>) -> Taken<H, F> {
        let mut state = self.lock();
        if let Some(taken) = self.taken(&mut state) {
            return taken;
        }
        // Only now: a batch that is ready costs no look at the clock.
        let waits = Wait::on("batch");
        let end = wait.and_then(|wait| Instant::now().checked_add(wait));
        state.late = true;
        let taken = loop {
            state = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => self.ready.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break Taken::NotYet,
                Some(left) => self.ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
            if let Some(taken) = self.taken(&mut state) {
                break taken;
            }
        };
        let is_ahead = state.is_ahead;
        drop(state);
        waits.end(if is_ahead { &self.counters.upload_starved } else { &self.counters.wait });
        taken
    }

    /// The next step, if it is complete, or the end.
    fn taken(&self, state: &mut State<H, F>) -> Option<Taken<H, F>> {
        if state.stop || state.taken >= state.steps {
            return Some(Taken::Over);
        }
        let slot = state.slot(state.taken);
        let found = state.slots.get_mut(slot).and_then(Option::take)?;
        state.taken += 1;
        state.slabs -= usize::from(matches!(found, Outcome::Filled(_)));
        self.counters.ready.take_off(1);
        // The thread of an `Ahead` counts no late batch: its caller does.
        self.counters.late.add(u64::from(std::mem::take(&mut state.late) && !state.is_ahead));
        self.room.notify_all();
        Some(Taken::Step(state.taken - 1, found))
    }

    /// How many batches are ready, as a counter of traces.
    fn tell(&self) {
        tracing::debug!(name: "ready", target: TARGET, batches = self.counters.ready.get());
    }

    /// From now on a thread takes batches ahead for another one, which counts the waits.
    pub(crate) fn take_ahead(&self) {
        self.lock().is_ahead = true;
    }

    /// The number of slabs to allocate for all batches ahead, and their size in bytes.
    pub(crate) fn missing(&self) -> (usize, usize) {
        let state = self.lock();
        (state.slots.len().saturating_sub(state.slabs), state.bytes)
    }

    /// From now on slabs have at least `bytes` bytes.
    pub(crate) fn grow(&self, bytes: usize) {
        let mut state = self.lock();
        if bytes > state.bytes {
            state.bytes = bytes;
            let before = state.free.len();
            state.free.retain(|slab| slab.host.as_ref().len() >= bytes);
            state.slabs -= before - state.free.len();
        }
    }

    /// Frees all unused slabs, after all threads have ended.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.free.clear();
        state.empty(&self.counters);
    }

    /// Ends claiming and taking of steps.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.room.notify_all();
        self.ready.notify_all();
    }
}

impl<H: AsRef<[u8]> + Send, F: Send> Home<H> for Ring<H, F> {
    /// Takes back a free slab, unless there are enough or it is too small.
    fn give_back(&self, slab: Slab<H>) {
        let mut state = self.lock();
        let fits = slab.host.as_ref().len() >= state.bytes;
        if fits && !state.stop && state.slabs < state.slots.len() + SPARE {
            state.slabs += 1;
            state.free.push(slab);
            self.room.notify_one();
        }
    }
}

/// Subtracts what was never taken from the counters, also if the pipeline failed to start.
impl<H, F> Drop for Ring<H, F> {
    fn drop(&mut self) {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).empty(&self.counters);
    }
}

impl<H, F> State<H, F> {
    /// Drops all results and their slots, and counts them no longer.
    fn empty(&mut self, counters: &LoaderCounters) {
        counters.ahead.take_off(self.slots.len() as u64);
        counters.ready.take_off(self.slots.drain(..).flatten().count() as u64);
    }

    fn slot(&self, step: u64) -> usize {
        (step % self.slots.len().max(1) as u64) as usize
    }
}

/// A claimed step. If it is dropped without a result, by a panic, the run ends with an error.
#[derive(Debug)]
pub(crate) struct Claim<'r, H: AsRef<[u8]>, F> {
    ring: &'r Ring<H, F>,
    pub(crate) step: u64,
    pub(crate) slab: Option<Slab<H>>,
}

/// How a thread ends a step.
pub(crate) enum Done<F> {
    Filled,
    Failed(Error),
    Room(usize, F),
    /// The step does not exist, nor any after it.
    Over,
}

impl<F> From<Result<Option<(usize, F)>>> for Done<F> {
    fn from(result: Result<Option<(usize, F)>>) -> Self {
        match result {
            Ok(None) => Done::Filled,
            Ok(Some((bytes, fetched))) => Done::Room(bytes, fetched),
            Err(error) => Done::Failed(error),
        }
    }
}

impl<H: AsRef<[u8]>, F> Claim<'_, H, F> {
    /// Completes the step with its result.
    pub(crate) fn complete(mut self, done: Done<F>) {
        let Some(slab) = self.slab.take() else { return };
        let mut state = self.ring.lock();
        let outcome = match done {
            Done::Filled => Outcome::Filled(slab),
            Done::Failed(error) => {
                state.free.push(slab);
                Outcome::Failed(error)
            }
            Done::Room(bytes, fetched) => {
                state.slabs -= 1;
                Outcome::Room(bytes, fetched)
            }
            Done::Over => {
                state.free.push(slab);
                state.steps = state.steps.min(self.step);
                self.ring.room.notify_all();
                self.ring.ready.notify_all();
                return;
            }
        };
        self.put(state, outcome);
    }

    fn put(&self, mut state: MutexGuard<'_, State<H, F>>, outcome: Outcome<H, F>) {
        let slot = state.slot(self.step);
        if let Some(place) = state.slots.get_mut(slot) {
            *place = Some(outcome);
            self.ring.counters.ready.add(1);
        }
        drop(state);
        self.ring.ready.notify_one();
        self.ring.tell();
    }
}

impl<H: AsRef<[u8]>, F> Drop for Claim<'_, H, F> {
    fn drop(&mut self) {
        if self.slab.is_some() {
            let mut state = self.ring.lock();
            state.steps = state.steps.min(self.step + 1);
            state.slabs = state.slabs.saturating_sub(1);
            self.put(state, Outcome::Failed(Error::bug("a thread that fills batches panicked")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_time_a_batch_or_the_end() {
        let ring: Ring<Vec<u8>, ()> = Ring::new(2, 2, 1, Arc::default());
        let (short, long) = (Some(Duration::from_millis(1)), Some(Duration::MAX));
        (0..2).for_each(|_| ring.give_back(Slab { host: vec![0], filled: BatchMetadata::default() }));
        assert!(matches!(ring.take(Some(Duration::ZERO)), Taken::NotYet));
        let (first, second) = (ring.claim(false).unwrap(), ring.claim(false).unwrap());
        // The second is ready, but it is not its turn.
        second.complete(Done::Filled);
        assert!(matches!(ring.take(short), Taken::NotYet));
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| matches!(ring.take(long), Taken::Step(0, Outcome::Filled(_))));
            first.complete(Done::Filled);
            assert!(waiting.join().unwrap());
        });
        assert!(matches!(ring.take(Some(Duration::ZERO)), Taken::Step(1, Outcome::Filled(_))));
        assert!(matches!(ring.take(short), Taken::Over));
        ring.stop();
        assert!(matches!(ring.take(long), Taken::Over));
        let stats = ring.counters.stats();
        // The first was waited for three times, the second was ready.
        assert_eq!((stats.late, stats.ready, stats.ahead), (1, 0, 2));
        assert!(stats.wait > Duration::ZERO);
        ring.clear();
        let counters = Arc::clone(&ring.counters);
        assert_eq!(counters.stats().ahead, 0);
        drop(ring);
        assert_eq!(counters.stats().ahead, 0);
    }

    #[test]
    fn a_ring_that_goes_unused_is_counted_no_longer() {
        let counters: Arc<LoaderCounters> = Arc::default();
        let ring: Ring<Vec<u8>, ()> = Ring::new(3, 9, 1, Arc::clone(&counters));
        assert_eq!(counters.stats().ahead, 3);
        drop(ring);
        assert_eq!(counters.stats().ahead, 0);
    }
}
