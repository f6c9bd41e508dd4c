//! Batches that are handed over to Python, or come next: an exception of a signal, such as Ctrl-C or a scheduler's warning, that
//! comes while a batch is awaited loses none. One that comes when Python has it already is Python's own.

use crate::batch::Batch;
use crate::error::Result;
use crate::fork::Owned;
use packhorse::core::Error;
use packhorse::read::Next;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Signals, such as Ctrl-C, are looked at this often while a batch is awaited.
const SIGNALS: Duration = Duration::from_millis(100);

/// How long the end of threads is awaited.
const ENDING: Duration = Duration::from_secs(1);

/// A loader with threads that run.
pub(crate) trait RunningLoader: Send + 'static {
    /// What it says of its progress.
    type Progress: Clone + Send;

    /// The progress before its next batch.
    fn progress(&self) -> Self::Progress;

    /// Waits for the next batch.
    fn next_within(&mut self, wait: Duration) -> Next<Batch>;
}

/// A running loader, and the batches that come next, as far as they were taken from it already: one, or one for each thread
/// that waits.
pub(crate) struct Handover<L: RunningLoader> {
    /// The process that made it. In a forked child another thread may hold the lock of `running` for good.
    process: u32,
    running: Mutex<Option<Owned<L>>>,
    /// The progress when the last wait for a batch began.
    waiting: Mutex<Option<L::Progress>>,
    held: Mutex<Held<L::Progress>>,
}

struct Held<S> {
    /// With the progress before them.
    next: VecDeque<(Result<Py<Batch>, Error>, S)>,
    /// The progress before the batch that was handed over last.
    before: Option<S>,
    /// Batches that were handed over, with those that could not be made.
    count: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<L: RunningLoader> Handover<L> {
    pub(crate) fn new(loader: L) -> Self {
        let held = Mutex::new(Held { next: VecDeque::new(), before: None, count: 0 });
        let running = Mutex::new(Some(Owned::new(loader)));
        Self { process: std::process::id(), running, waiting: Mutex::new(None), held }
    }

    /// The next batch; `None` at the end.
    ///
    /// Raises the exceptions of signals; the batch then comes with the next call.
    pub(crate) fn next(&self, py: Python<'_>) -> Result<Option<Py<Batch>>> {
        loop {
            // Handlers of signals may look at the held ones.
            let is_held = !locked(&self.held).next.is_empty();
            if is_held {
                py.check_signals()?;
                let mut held = locked(&self.held);
                if let Some((batch, before)) = held.next.pop_front() {
                    held.count += 1;
                    held.before = Some(before);
                    return Ok(Some(batch?));
                }
            }
            match py.detach(|| self.wait()) {
                (Next::Batch(batch), Some(before)) => {
                    let batch = match batch {
                        Ok(batch) => Ok(Py::new(py, batch)?),
                        Err(error) => Err(error),
                    };
                    locked(&self.held).next.push_back((batch, before));
                }
                (Next::NotYet, _) => py.check_signals()?,
                _ => return Ok(None),
            }
        }
    }

    /// Waits a moment for the next batch; with the progress before it, if the loader was not stopped.
    fn wait(&self) -> (Next<Batch>, Option<L::Progress>) {
        let mut running = locked(&self.running);
        let Some(loader) = running.as_deref_mut() else { return (Next::End, None) };
        let before = loader.progress();
        *locked(&self.waiting) = Some(before.clone());
        (loader.next_within(SIGNALS), Some(before))
    }

    /// Takes back the batch that was handed over last.
    pub(crate) fn put_back(&self, batch: Py<Batch>) {
        let mut held = locked(&self.held);
        if let Some(before) = held.before.take() {
            held.next.push_front((Ok(batch), before));
            held.count -= 1;
        }
    }

    /// Batches that were handed over so far, with those that could not be made.
    pub(crate) fn count(&self) -> u64 {
        locked(&self.held).count
    }

    /// The progress before the batch that comes next.
    pub(crate) fn progress(&self, py: Python<'_>) -> Result<L::Progress, Error> {
        let held = locked(&self.held).next.front().map(|(_, before)| before.clone());
        match held.or_else(|| self.waited_at_fork()) {
            Some(progress) => Ok(progress),
            None => self.with(py, |loader| loader.progress()),
        }
    }

    /// In a forked child whose parent waited for a batch: the progress before that batch.
    fn waited_at_fork(&self) -> Option<L::Progress> {
        let is_held =
            self.process != std::process::id() && matches!(self.running.try_lock(), Err(TryLockError::WouldBlock));
        self.waiting.try_lock().ok().filter(|_| is_held)?.clone()
    }

    /// Other threads may use the interpreter meanwhile: one that reads a batch may hold the loader for long.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, look: impl FnOnce(&mut L) -> R + Send) -> Result<R, Error> {
        py.detach(|| {
            let mut running = locked(&self.running);
            running.as_deref_mut().map(look).ok_or_else(|| Error::config("the loader was closed"))
        })
    }

    /// Ends the threads, and drops the batches that come next.
    pub(crate) fn stop(&self, py: Python<'_>) {
        locked(&self.held).next.clear();
        end(py.detach(|| locked(&self.running).take()));
    }
}

/// Ends the threads, while other threads may use the interpreter: what a thread waits for may need it.
impl<L: RunningLoader> Drop for Handover<L> {
    fn drop(&mut self) {
        end(self.running.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Drops a loader on another thread, and waits for that a second without holding the interpreter: its threads may wait for a
/// server that never answers.
fn end<T: Send + 'static>(loader: T) {
    let (done, ended) = std::sync::mpsc::channel();
    let drops = move || {
        drop(loader);
        // Nothing waits for what took longer.
        let _ = done.send(());
    };
    // Where no thread can be started, the loader is dropped here.
    let _ = std::thread::Builder::new().name("packhorse-end".to_owned()).spawn(drops);
    let mut ended = Some(ended);
    let mut wait = || ended.take().map(|ended| ended.recv_timeout(ENDING));
    if Python::try_attach(|py| py.detach(&mut wait)).is_none() {
        wait();
    }
}
