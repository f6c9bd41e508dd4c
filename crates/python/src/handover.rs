//! Batches that are handed over to Python, or come next: an exception of a signal, such as Ctrl-C or a scheduler's warning, that
//! comes while a batch is awaited loses none. One that comes when Python has it already is Python's own.

use crate::batch::Batch;
use crate::error::Result;
use packhorse::core::Error;
use packhorse::read::Next;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The batches that come next, as far as they were taken from their loader already: one, or one for each thread that waits.
/// `S` is what the loader says of its progress.
pub(crate) struct Handover<S>(Mutex<Held<S>>);

struct Held<S> {
    /// With the progress before them.
    next: VecDeque<(Result<Py<Batch>, Error>, S)>,
    /// The progress before the batch that was handed over last.
    before: Option<S>,
    /// Batches that were handed over, with those that could not be made.
    count: u64,
}

impl<S> Default for Handover<S> {
    fn default() -> Self {
        Self(Mutex::new(Held { next: VecDeque::new(), before: None, count: 0 }))
    }
}

impl<S: Clone + Send> Handover<S> {
    fn held(&self) -> MutexGuard<'_, Held<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch; `None` at the end. `wait` waits for it a moment, and says the progress before it, if there is one.
    ///
    /// Raises the exceptions of signals; the batch then comes with the next call.
    pub(crate) fn next(
        &self,
        py: Python<'_>,
        wait: impl Fn() -> Result<(Next<Batch>, Option<S>), Error> + Sync,
    ) -> Result<Option<Py<Batch>>> {
        loop {
            // Handlers of signals may look at the held ones.
            let is_held = !self.held().next.is_empty();
            if is_held {
                py.check_signals()?;
                let mut held = self.held();
                if let Some((batch, before)) = held.next.pop_front() {
                    held.count += 1;
                    held.before = Some(before);
                    return Ok(Some(batch?));
                }
            }
            match py.detach(&wait)? {
                (Next::Batch(batch), Some(before)) => {
                    let batch = match batch {
                        Ok(batch) => Ok(Py::new(py, batch)?),
                        Err(error) => Err(error),
                    };
                    self.held().next.push_back((batch, before));
                }
                (Next::NotYet, _) => py.check_signals()?,
                _ => return Ok(None),
            }
        }
    }

    /// Takes back the batch that was handed over last.
    pub(crate) fn put_back(&self, batch: Py<Batch>) {
        let mut held = self.held();
        if let Some(before) = held.before.take() {
            held.next.push_front((Ok(batch), before));
            held.count -= 1;
        }
    }

    /// Batches that were handed over so far, with those that could not be made.
    pub(crate) fn count(&self) -> u64 {
        self.held().count
    }

    /// The progress before the batch that comes next, if that was taken from its loader already.
    pub(crate) fn progress(&self) -> Option<S> {
        self.held().next.front().map(|(_, before)| before.clone())
    }

    /// Drops the batches that come next.
    pub(crate) fn clear(&self) {
        self.held().next.clear();
    }
}
