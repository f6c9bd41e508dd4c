//! Runs steps on several threads.

use packhorse_core::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs steps `0..steps`, `jobs` at a time, started in order. After the first error, started steps finish and no others
/// start.
pub(crate) fn in_parallel(steps: usize, jobs: usize, step: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<Error>> = Mutex::default();
    let failure = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        while failure().is_none() {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= steps {
                return;
            }
            if let Err(e) = step(i) {
                failure().get_or_insert(e);
            }
        }
    };
    match jobs.min(steps) {
        0 | 1 => work(),
        threads => std::thread::scope(|scope| {
            // If a thread can't be started, the others do the work.
            (1..threads).all(|_| std::thread::Builder::new().spawn_scoped(scope, work).is_ok());
            work();
        }),
    }
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
