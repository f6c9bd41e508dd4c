//! A request to stop, shared between threads.

use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A flag that any thread may set. Long work checks it between steps and stops with an error of kind `Cancelled`.
///
/// ```
/// use packhorse_core::{Cancel, Kind};
///
/// let cancel = Cancel::default();
/// let work = cancel.clone();
/// assert!(work.check().is_ok());
/// cancel.cancel();
/// assert_eq!(work.check().map_err(|error| error.kind()), Err(Kind::Cancelled));
/// ```
///
/// A request to stop *soon* lets the large steps that are in progress end, such as a shard that is being written:
///
/// ```
/// use packhorse_core::Cancel;
///
/// let cancel = Cancel::default();
/// let shard = cancel.large_step()?;
/// cancel.cancel_soon();
/// assert!(cancel.check().is_ok() && cancel.large_step().is_err());
/// drop(shard);
/// assert!(cancel.check().is_err());
/// # Ok::<(), packhorse_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    now: Arc<AtomicBool>,
    soon: Arc<AtomicBool>,
    /// Large steps in progress.
    steps: Arc<AtomicUsize>,
    /// Those of the parts of the work that it is in, the innermost last.
    parts: Vec<Arc<AtomicBool>>,
}

impl Cancel {
    /// A flag around an existing boolean, such as one that a signal handler sets.
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Self { now: flag, ..Self::default() }
    }

    /// A flag for a part of the work: it is raised with this one, and [`cancel`](Self::cancel) of it leaves this one alone.
    pub fn part(&self) -> Self {
        let mut part = self.clone();
        part.parts.push(Arc::default());
        part
    }

    /// Asks all work that holds this flag to stop; of a [`part`](Self::part), that part.
    pub fn cancel(&self) {
        self.parts.last().unwrap_or(&self.now).store(true, Ordering::SeqCst);
    }

    /// Asks all work to stop, but large steps in progress only when they are done.
    pub fn cancel_soon(&self) {
        self.soon.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was requested, also one that lets steps end.
    pub fn is_requested(&self) -> bool {
        self.now.load(Ordering::SeqCst) || self.soon.load(Ordering::SeqCst) || self.is_part_cancelled()
    }

    /// Whether work has to stop now.
    pub fn is_cancelled(&self) -> bool {
        self.now.load(Ordering::Relaxed)
            || self.soon.load(Ordering::Relaxed) && self.steps.load(Ordering::SeqCst) == 0
            || self.is_part_cancelled()
    }

    fn is_part_cancelled(&self) -> bool {
        self.parts.iter().any(|part| part.load(Ordering::Relaxed))
    }

    /// A `Cancelled` error once work has to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Begins a large step; it ends when the value is dropped. A `Cancelled` error once a stop was requested.
    pub fn large_step(&self) -> Result<LargeStep> {
        let step = LargeStep(Arc::clone(&self.steps));
        step.0.fetch_add(1, Ordering::SeqCst);
        if self.is_requested() { Err(Error::cancelled()) } else { Ok(step) }
    }
}

/// A large step of some work, which a request to stop soon lets end.
#[derive(Debug)]
pub struct LargeStep(Arc<AtomicUsize>);

impl Drop for LargeStep {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cancelled_alone_or_with_the_whole() {
        let whole = Cancel::default();
        let (one, other) = (whole.part(), whole.part());
        one.cancel();
        assert!(one.check().is_err() && one.is_requested() && one.large_step().is_err());
        assert!(whole.check().is_ok() && other.check().is_ok() && one.part().check().is_err());
        whole.cancel();
        assert!(whole.check().is_err() && other.check().is_err());
    }

    #[test]
    fn a_request_to_stop_now_does_not_wait_for_steps() {
        let cancel = Cancel::default();
        let step = cancel.large_step().unwrap();
        cancel.cancel_soon();
        assert!(cancel.is_requested() && !cancel.is_cancelled());
        cancel.cancel();
        assert!(cancel.is_cancelled());
        drop(step);
        assert_eq!(cancel.steps.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn without_steps_soon_is_now() {
        let cancel = Cancel::default();
        cancel.clone().cancel_soon();
        assert!(cancel.is_cancelled() && cancel.large_step().is_err());
        assert!(cancel.is_cancelled(), "a step that was refused is not in progress");
    }
}
