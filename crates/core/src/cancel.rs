//! A request to stop, shared between threads.

use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag around an existing boolean, such as one that a signal handler sets.
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Asks all work that holds this flag to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A `Cancelled` error once a stop was requested.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled()) } else { Ok(()) }
    }
}
