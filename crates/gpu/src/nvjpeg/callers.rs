//! Threads that call nvJPEG side by side.

use super::calls::Status;
use super::state::State;
use packhorse_core::{Error, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Threads for all calls but one, which the thread that takes batches makes. They are started with the first batch that has several.
pub(super) struct Callers {
    calls: usize,
    threads: Option<ThreadPool>,
}

impl Callers {
    pub(super) fn new(calls: usize) -> Self {
        Self { calls, threads: None }
    }

    /// Decodes the pictures of all states; returns the first status that is not a success.
    ///
    /// # Safety
    ///
    /// As for [`State::decode`], for each of the states.
    pub(super) unsafe fn decode(&mut self, states: &mut [State], stream: usize) -> Result<Status> {
        let Some((first, others)) = states.split_first_mut() else { return Ok(Status::SUCCESS) };
        if others.is_empty() {
            // SAFETY: this function's contract.
            return unsafe { first.decode(stream) };
        }
        let threads = match self.threads.take() {
            Some(threads) => threads,
            None => ThreadPoolBuilder::new()
                .num_threads(self.calls.saturating_sub(1).max(1))
                .thread_name(|number| format!("packhorse-nvjpeg-{number}"))
                .build()
                .map_err(|error| Error::bug(format!("can't start threads: {error}")))?,
        };
        let mut outcomes: Vec<_> = others.iter().map(|_| Ok(Status::SUCCESS)).collect();
        let outcome = threads.in_place_scope(|scope| {
            for (state, outcome) in others.iter_mut().zip(&mut outcomes) {
                // SAFETY: this function's contract, and the scope ends when all calls have.
                scope.spawn(move |_| *outcome = unsafe { state.decode(stream) });
            }
            // SAFETY: as above.
            unsafe { first.decode(stream) }
        });
        self.threads = Some(threads);
        let outcomes = std::iter::once(outcome).chain(outcomes);
        outcomes.fold(Ok(Status::SUCCESS), |worst, outcome| match worst {
            Ok(Status::SUCCESS) => outcome,
            worst => worst,
        })
    }
}
