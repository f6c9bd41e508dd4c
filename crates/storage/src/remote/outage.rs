//! Servers that do not answer, as far as the requests of a process know.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A wait is told after this long, and then as often.
const TOLD: Duration = Duration::from_secs(10);

/// Whether servers answer, and when the user was last told that they do not.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    lost: AtomicBool,
    told: Mutex<Option<Instant>>,
}

impl Outage {
    /// A server answered.
    pub(crate) fn answered(&self) {
        self.lost.store(false, Ordering::Relaxed);
    }

    /// A request was given up.
    pub(crate) fn given_up(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Whether a request was given up, and no server has answered since.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether the user is to be told of a request that has waited since `started`.
    pub(crate) fn may_tell(&self, started: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let since = told.map_or(started, |told| told.max(started));
        let tell = now.duration_since(since) >= TOLD;
        if tell {
            *told = Some(now);
        }
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_waits_is_told_and_not_too_early() {
        let outage = Outage::default();
        let long_ago = Instant::now() - TOLD;
        assert!(!outage.may_tell(Instant::now()));
        assert!(outage.may_tell(long_ago));
        assert!(!outage.may_tell(long_ago));
    }
}
