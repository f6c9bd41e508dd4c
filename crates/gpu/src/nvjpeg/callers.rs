//! Threads that read headers and call nvJPEG side by side.

use super::calls::Status;
use super::cpu::MOST_THREADS;
use super::state::State;
use packhorse_core::{Error, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Threads for all calls but one, which the thread that takes batches makes. They are started with the first batch that is large
/// enough.
pub(super) struct Callers {
    calls: usize,
    threads: Option<ThreadPool>,
}

impl Callers {
    pub(super) fn new(calls: usize) -> Self {
        Self { calls: calls.min(MOST_THREADS), threads: None }
    }

    /// Works on all items side by side, on the first on this thread.
    ///
    /// Errors: the system can't start threads.
    pub(super) fn each<T: Send>(&mut self, items: &mut [T], work: impl Fn(&mut T) + Sync) -> Result<()> {
        let Some((first, others)) = items.split_first_mut() else { return Ok(()) };
        if others.is_empty() {
            work(first);
            return Ok(());
        }
        let started = || {
            let threads = ThreadPoolBuilder::new().num_threads(self.calls.saturating_sub(1).max(1));
            let threads = threads.thread_name(|number| format!("packhorse-nvjpeg-{number}")).build();
            threads.map_err(|error| Error::io("start threads", std::io::Error::other(error)))
        };
        let threads = self.threads.take().map_or_else(started, Ok)?;
        threads.in_place_scope(|scope| {
            let work = &work;
            for other in others {
                scope.spawn(move |_| work(other));
            }
            work(first);
        });
        self.threads = Some(threads);
        Ok(())
    }

    /// Decodes the pictures of all states; returns the first status that is not a success.
    ///
    /// # Safety
    ///
    /// As for [`State::decode`], for each of the states.
    pub(super) unsafe fn decode(&mut self, states: &mut [State], stream: usize) -> Result<Status> {
        let mut calls: Vec<_> = states.iter_mut().map(|state| (state, Ok(Status::SUCCESS))).collect();
        // SAFETY: this function's contract; all calls have ended when this returns.
        self.each(&mut calls, |(state, outcome)| *outcome = unsafe { state.decode(stream) })?;
        let mut outcomes = calls.into_iter().map(|(_, outcome)| outcome);
        outcomes.try_fold(Status::SUCCESS, |worst, outcome| {
            let outcome = outcome?;
            Ok(if worst == Status::SUCCESS { outcome } else { worst })
        })
    }
}
