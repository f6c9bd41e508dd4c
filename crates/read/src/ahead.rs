//! Takes batches before they are requested.

use crate::spans::Wait;
use crate::{LoaderCounters, Next};
use packhorse_core::{Error, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A loader: batches in order, and the state to resume from.
pub trait Batches: Iterator<Item = Result<Self::Batch>> {
    /// A batch.
    type Batch;
    /// The progress.
    type State: Clone;

    /// The state after the batches taken so far, to resume from.
    fn state(&self) -> Self::State;

    /// Tells the loader that its batches are taken ahead: from now on the consumer counts batches and waits, in the returned
    /// counters.
    fn take_ahead(&mut self) -> Option<Arc<LoaderCounters>> {
        None
    }

    /// The samples of the last batch, and its bytes in use.
    fn last_size(&self) -> (u64, u64) {
        (0, 0)
    }

    /// A function that ends the wait of a thread in `next`, which then returns `None`.
    fn stopper(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(|| ())
    }
}

/// Takes the batches of a loader on a thread of its own, ahead of the caller. The device's work on a batch (such as a
/// copy to a GPU) then overlaps with the caller's work on earlier batches, even if it waits for the GPU after each.
///
/// Order, errors and end are those of the loader.
pub struct Ahead<L: Batches> {
    /// `None` once it has ended.
    taken: Option<Receiver<Taken<L>>>,
    thread: Option<JoinHandle<()>>,
    stop: Box<dyn Fn() + Send + Sync>,
    state: L::State,
    waits: u64,
    waited: Duration,
    counters: Option<Arc<LoaderCounters>>,
    /// Whether the caller has waited for the next batch already.
    late: bool,
}

/// A batch, its samples and bytes, and the state after it.
type Taken<L> = (Result<<L as Batches>::Batch>, (u64, u64), <L as Batches>::State);

impl<L> Ahead<L>
where
    L: Batches + Send + 'static,
    L::Batch: Send,
    L::State: Send,
{
    /// Takes at most `ahead` batches, at least one, beyond those returned.
    ///
    /// Errors: the system can't start a thread.
    pub fn new(mut loader: L, ahead: usize) -> Result<Self> {
        let counters = loader.take_ahead();
        let (state, stop) = (loader.state(), loader.stopper());
        // The thread itself holds one more.
        let (to, taken) = sync_channel(ahead.saturating_sub(1));
        let thread = std::thread::Builder::new().name("packhorse-ahead".to_owned());
        let thread = thread.spawn(move || take(loader, &to)).map_err(Error::thread)?;
        Ok(Self {
            taken: Some(taken),
            thread: Some(thread),
            stop,
            state,
            waits: 0,
            waited: Duration::ZERO,
            counters,
            late: false,
        })
    }
}

fn take<L: Batches>(mut loader: L, to: &SyncSender<Taken<L>>) {
    while let Some(batch) = loader.next() {
        let (size, state) = (loader.last_size(), loader.state());
        if to.send((batch, size, state)).is_err() {
            break;
        }
    }
}

impl<L: Batches> Ahead<L> {
    /// The state after the batches returned so far; those taken ahead don't count.
    pub fn state(&self) -> L::State {
        self.state.clone()
    }

    /// How often the caller had to wait for a batch, and for how long in total. The first batch always counts.
    pub fn waited(&self) -> (u64, Duration) {
        (self.waits, self.waited)
    }

    /// The next batch, if it is there within `wait`. [`waited`](Self::waited) counts a batch once, however often the
    /// caller waits for it.
    pub fn next_within(&mut self, wait: Duration) -> Next<L::Batch> {
        self.wait(Some(wait))
    }

    fn wait(&mut self, wait: Option<Duration>) -> Next<L::Batch> {
        let Some(taken) = &self.taken else { return Next::End };
        let next = match taken.try_recv() {
            Err(TryRecvError::Empty) => {
                let (start, waits) = (Instant::now(), Wait::on("batch"));
                let next = match wait {
                    None => taken.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    Some(wait) => taken.recv_timeout(wait),
                };
                self.waited += start.elapsed();
                if let Some(counters) = &self.counters {
                    waits.end(&counters.wait);
                }
                self.late = true;
                next
            }
            other => other.map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok((batch, size, state)) => {
                // Counted only here: the end of the epoch is not a late batch.
                let late = u64::from(std::mem::take(&mut self.late));
                self.waits += late;
                if let Some(counters) = &self.counters {
                    counters.late.add(late);
                    counters.taken(batch.is_ok(), size);
                }
                self.state = state;
                Next::Batch(batch)
            }
            Err(RecvTimeoutError::Timeout) => Next::NotYet,
            Err(RecvTimeoutError::Disconnected) => self.end().map_or(Next::End, Next::Batch),
        }
    }

    /// Joins the thread; an error if it panicked.
    fn end(&mut self) -> Option<Result<L::Batch>> {
        self.taken = None;
        let ended = self.thread.take()?.join();
        ended.err().map(|_| Err(Error::bug("the thread that takes batches panicked")))
    }
}

impl<L: Batches> Iterator for Ahead<L> {
    type Item = Result<L::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.wait(None).item()
    }
}

impl<L: Batches> Drop for Ahead<L> {
    fn drop(&mut self) {
        // Ends all waits of the thread, so that it can be joined.
        (self.stop)();
        self.end();
    }
}

impl<L: Batches> std::fmt::Debug for Ahead<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ahead").field("ended", &self.taken.is_none()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts to `end` once `gate` is closed, with an error at `bad` and a panic at `panics`.
    struct Counter {
        next: u64,
        end: u64,
        bad: u64,
        panics: u64,
        at: std::sync::Arc<std::sync::atomic::AtomicU64>,
        gate: Option<Receiver<()>>,
    }

    impl Counter {
        fn new(end: u64) -> Self {
            Self { next: 0, end, bad: u64::MAX, panics: u64::MAX, at: Default::default(), gate: None }
        }
    }

    impl Iterator for Counter {
        type Item = Result<u64>;

        fn next(&mut self) -> Option<Result<u64>> {
            if let Some(gate) = self.gate.take() {
                let _ = gate.recv();
            }
            let now = (self.next < self.end).then_some(self.next)?;
            self.next += 1;
            self.at.store(self.next, std::sync::atomic::Ordering::SeqCst);
            if now == self.panics {
                panic!("planted");
            }
            Some(if now == self.bad { Err(Error::content("bad")) } else { Ok(now) })
        }
    }

    impl Batches for Counter {
        type Batch = u64;
        type State = u64;

        fn state(&self) -> u64 {
            self.next
        }
    }

    #[test]
    fn order_errors_states_and_the_end_are_the_loaders() {
        let mut ahead = Ahead::new(Counter { bad: 3, ..Counter::new(6) }, 2).unwrap();
        assert_eq!(ahead.state(), 0);
        for wanted in 0..6 {
            let got = ahead.next().unwrap();
            assert_eq!(got.is_err(), wanted == 3);
            assert!(got.is_err() || got.unwrap() == wanted);
            assert_eq!(ahead.state(), wanted + 1);
        }
        assert!(ahead.next().is_none() && ahead.next().is_none());
    }

    #[test]
    fn it_goes_so_far_ahead_and_no_further() {
        for ahead in [1, 2, 5] {
            let counter = Counter::new(100);
            let at = counter.at.clone();
            let mut batches = Ahead::new(counter, ahead).unwrap();
            assert_eq!(batches.next().unwrap().unwrap(), 0);
            std::thread::sleep(Duration::from_millis(50));
            // One batch was returned, and the thread offers one more.
            assert_eq!(at.load(std::sync::atomic::Ordering::SeqCst), 1 + ahead as u64);
        }
    }

    /// Blocks in `next` until it is stopped, and then ends.
    #[derive(Default)]
    struct Stuck(std::sync::Arc<(std::sync::Mutex<bool>, std::sync::Condvar)>);

    impl Iterator for Stuck {
        type Item = Result<u64>;

        fn next(&mut self) -> Option<Result<u64>> {
            let mut stopped = self.0.0.lock().unwrap();
            while !*stopped {
                stopped = self.0.1.wait(stopped).unwrap();
            }
            None
        }
    }

    impl Batches for Stuck {
        type Batch = u64;
        type State = u64;

        fn state(&self) -> u64 {
            0
        }

        fn stopper(&self) -> Box<dyn Fn() + Send + Sync> {
            let stopped = std::sync::Arc::clone(&self.0);
            Box::new(move || {
                *stopped.0.lock().unwrap() = true;
                stopped.1.notify_all();
            })
        }
    }

    #[test]
    fn a_wait_ends_with_its_time_and_a_late_batch_counts_once() {
        let mut ahead = Ahead::new(Stuck::default(), 2).unwrap();
        assert!((0..3).all(|_| matches!(ahead.next_within(Duration::from_millis(1)), Next::NotYet)));
        assert_eq!(ahead.waited().0, 0);
        (ahead.stop)();
        assert!(ahead.next().is_none() && ahead.waited().0 == 0);
        let (to, from) = std::sync::mpsc::channel::<()>();
        let mut ahead = Ahead::new(Counter { gate: Some(from), ..Counter::new(2) }, 1).unwrap();
        assert!((0..3).all(|_| matches!(ahead.next_within(Duration::from_millis(1)), Next::NotYet)));
        drop(to);
        let hour = Duration::from_secs(3600);
        assert!(matches!(ahead.next_within(hour), Next::Batch(Ok(0))));
        assert!(matches!(ahead.next_within(hour), Next::Batch(Ok(1))) && ahead.state() == 2);
        assert!(matches!(ahead.next_within(hour), Next::End));
        assert!((1..=2).contains(&ahead.waited().0));
    }

    #[test]
    fn a_loader_that_waits_is_stopped() {
        drop(Ahead::new(Stuck::default(), 2).unwrap());
    }

    #[test]
    fn a_panic_is_an_error_and_not_an_end() {
        let mut ahead = Ahead::new(Counter { panics: 2, ..Counter::new(6) }, 1).unwrap();
        assert_eq!(ahead.by_ref().take(2).map(Result::unwrap).collect::<Vec<_>>(), [0, 1]);
        assert!(ahead.next().unwrap().unwrap_err().to_string().contains("panicked"));
        assert!(ahead.next().is_none());
    }
}
