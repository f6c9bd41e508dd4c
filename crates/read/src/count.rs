//! Numbers and times that threads add to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A number that threads add to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn take_off(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Time that threads add to, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Time(Count);

impl Time {
    pub(crate) fn add(&self, more: Duration) {
        self.0.add(u64::try_from(more.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the time that `work` takes.
    pub(crate) fn of<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.add(start.elapsed());
        done
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.get())
    }
}
