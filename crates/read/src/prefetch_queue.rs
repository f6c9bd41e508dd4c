//! A queue of steps that were read ahead: in order, bounded in steps and bytes.

use crate::LoaderCounters;
use crate::spans::{TARGET, Wait};
use packhorse_core::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The queue between reading and filling threads.
#[derive(Debug)]
pub(crate) struct PrefetchQueue<F> {
    state: Mutex<State<F>>,
    /// Signals that a step may be read.
    room: Condvar,
    /// Signals that a step was read.
    ready: Condvar,
    counters: Arc<LoaderCounters>,
}

#[derive(Debug)]
struct State<F> {
    /// The results of the claimed steps from `first` on.
    places: VecDeque<Place<F>>,
    first: u64,
    steps: u64,
    /// Steps that may be ahead of the first one not taken.
    ahead: usize,
    held: usize,
    /// Bytes that may be held; the next step that is waited for is always read.
    budget: usize,
    /// The mean size of a step, the estimate for those being read.
    mean: usize,
    reading: usize,
    stop: bool,
}

#[derive(Debug)]
enum Place<F> {
    Reading,
    Read(Result<F>, usize),
    Taken,
}

impl<F> PrefetchQueue<F> {
    pub(crate) fn new(ahead: usize, steps: u64, budget: usize, mean: usize, counters: Arc<LoaderCounters>) -> Self {
        let (places, first) = (VecDeque::new(), 0);
        let ahead = ahead.max(1);
        let state = State { places, first, steps, ahead, held: 0, budget, mean, reading: 0, stop: false };
        Self { state: Mutex::new(state), room: Condvar::new(), ready: Condvar::new(), counters }
    }

    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next step to read, once there is room for it; `None` after the last.
    pub(crate) fn claim(&self) -> Option<PendingRead<'_, F>> {
        let (mut state, mut waits) = (self.lock(), None);
        let claimed = loop {
            let step = state.first + state.places.len() as u64;
            if state.stop || step >= state.steps {
                break None;
            }
            if state.has_room() {
                state.places.push_back(Place::Reading);
                state.reading += 1;
                break Some(PendingRead { queue: self, step, done: false });
            }
            waits.get_or_insert_with(|| Wait::on("room"));
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        if let Some(waits) = waits {
            waits.end(&self.counters.read_blocked);
        }
        claimed
    }

    /// The data of `step`, once it is read.
    pub(crate) fn take(&self, step: u64) -> Result<F> {
        let (mut state, mut waits) = (self.lock(), None);
        let taken = loop {
            let at = step.checked_sub(state.first).and_then(|at| usize::try_from(at).ok());
            if let Some(place) = at.and_then(|at| state.places.get_mut(at))
                && !matches!(place, Place::Reading)
            {
                let Place::Read(read, weight) = std::mem::replace(place, Place::Taken) else {
                    break Err(Error::bug(format!("what was read for step {step} was taken twice")));
                };
                state.held -= weight;
                self.counters.prefetched.take_off(1);
                self.counters.prefetched_bytes.take_off(weight as u64);
                while matches!(state.places.front(), Some(Place::Taken)) {
                    state.places.pop_front();
                    state.first += 1;
                }
                self.room.notify_all();
                break read;
            }
            if state.stop || step >= state.steps {
                break Err(Error::bug("a thread that reads ahead ended too early"));
            }
            waits.get_or_insert_with(|| Wait::on("read"));
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        // Only now: what writes a trace has no lock.
        drop(state);
        if let Some(waits) = waits {
            waits.end(&self.counters.decode_starved);
        }
        self.tell();
        taken
    }

    /// The steps that are read and not taken, as a counter of traces.
    fn tell(&self) {
        let LoaderCounters { prefetched, prefetched_bytes, .. } = &*self.counters;
        tracing::debug!(name: "prefetched", target: TARGET, batches = prefetched.get(), bytes = prefetched_bytes.get());
    }

    /// Ends all reading and waiting.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.room.notify_all();
        self.ready.notify_all();
    }
}

/// Subtracts the steps that were never taken from the counters.
impl<F> Drop for PrefetchQueue<F> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let left = state.places.iter().filter(|place| matches!(place, Place::Read(..))).count();
        self.counters.prefetched.take_off(left as u64);
        self.counters.prefetched_bytes.take_off(state.held as u64);
    }
}

impl<F> State<F> {
    fn has_room(&self) -> bool {
        let waiting = self.places.iter().any(|place| !matches!(place, Place::Taken));
        let coming = (self.reading + 1).saturating_mul(self.mean);
        self.places.len() < self.ahead && (!waiting || self.held.saturating_add(coming) <= self.budget)
    }
}

/// A claimed step that is being read. If it is dropped unfinished, by a panic, the step is an error.
pub(crate) struct PendingRead<'s, F> {
    queue: &'s PrefetchQueue<F>,
    pub(crate) step: u64,
    done: bool,
}

impl<F> PendingRead<'_, F> {
    /// Completes the step with its data, and their size in bytes.
    pub(crate) fn complete(mut self, read: Result<F>, weight: usize) {
        self.put(read, weight);
    }

    fn put(&mut self, read: Result<F>, weight: usize) {
        self.done = true;
        let mut state = self.queue.lock();
        state.reading -= 1;
        state.held += weight;
        if read.is_ok() {
            state.mean = if state.mean == 0 { weight } else { state.mean - state.mean / 8 + weight / 8 };
        }
        let at = usize::try_from(self.step - state.first).unwrap_or(usize::MAX);
        if let Some(place) = state.places.get_mut(at) {
            *place = Place::Read(read, weight);
            self.queue.counters.prefetched.add(1);
            self.queue.counters.prefetched_bytes.add(weight as u64);
        }
        drop(state);
        self.queue.ready.notify_all();
        self.queue.room.notify_all();
        self.queue.tell();
    }
}

impl<F> Drop for PendingRead<'_, F> {
    fn drop(&mut self) {
        if !self.done {
            // The thread has ended: end the wait for its step.
            let mut state = self.queue.lock();
            state.steps = state.steps.min(self.step + 1);
            drop(state);
            self.put(Err(Error::bug("a thread that reads ahead panicked")), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_bounded_but_the_next_step_is_always_read() {
        let queue: PrefetchQueue<u64> = PrefetchQueue::new(8, 20, 100, 60, Arc::default());
        // 60 of 100 bytes expected: one at a time.
        let first = queue.claim().unwrap();
        assert!(!queue.lock().has_room());
        first.complete(Ok(0), 10);
        assert!(queue.lock().has_room());
        let second = queue.claim().unwrap();
        assert_eq!(second.step, 1);
        second.complete(Ok(1), 500);
        assert!(!queue.lock().has_room());
        assert_eq!((queue.take(1).unwrap(), queue.take(0).unwrap()), (1, 0));
        assert!(queue.lock().has_room());
        let lost = queue.claim().unwrap();
        drop(lost);
        assert!(queue.take(2).is_err());
        assert!(queue.claim().is_none() && queue.take(3).is_err());
        queue.stop();
        let counters = Arc::clone(&queue.counters);
        assert_eq!(counters.stats().prefetched, 0);
    }

    #[test]
    fn steps_come_in_any_order_and_once() {
        let queue: PrefetchQueue<u64> = PrefetchQueue::new(4, 200, 1 << 20, 1, Arc::default());
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    while let Some(reading) = queue.claim() {
                        let step = reading.step;
                        reading.complete(Ok(step), 1);
                    }
                });
            }
            (0..200).for_each(|step| assert_eq!(queue.take(step).unwrap(), step));
        });
    }
}
