//! Keeps parallel work away from rayon's global pool, whose threads a forked process lacks.

use packhorse_core::{Error, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Mutex, PoisonError};

/// Runs `work` on a thread of its own, which is a rayon pool of one thread: parallel work inside of it stays there and does
/// not wait for the global pool. For what a process calls that was forked after rayon was used, such as opening a
/// dataset with one thread ([`OpenOptions::threads`](crate::OpenOptions::threads)). Readers, decoders and loaders do the same
/// by themselves if [`ReadOptions::isolated`](crate::ReadOptions::isolated) is set.
///
/// ```
/// let threads = packhorse_read::isolated(rayon::current_num_threads)?;
/// assert_eq!(threads, 1);
/// # Ok::<(), packhorse_core::Error>(())
/// ```
///
/// Errors: the system can't start a thread.
pub fn isolated<R: Send>(work: impl FnOnce() -> R + Send) -> Result<R> {
    Ok(pool()?.install(work))
}

fn pool() -> Result<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "packhorse-isolated".to_owned()).build();
    pool.map_err(|error| Error::io("start a thread", std::io::Error::other(error)))
}

/// Runs work in pools of one thread each, as many as run work at once; or where it is called.
#[derive(Debug)]
pub(crate) struct Isolation {
    on: bool,
    free: Mutex<Vec<ThreadPool>>,
}

impl Isolation {
    /// Pools if `on`, else none.
    pub(crate) fn new(on: bool) -> Self {
        Self { on, free: Mutex::default() }
    }

    /// The result of `work`.
    ///
    /// Errors: those of `work`; the system can't start a thread.
    pub(crate) fn run<R: Send>(&self, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        if !self.on {
            return work();
        }
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free().pop();
        let pool = found.map_or_else(pool, Ok)?;
        let result = pool.install(work);
        free().push(pool);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_reused_and_of_one_thread() {
        let isolation = Isolation::new(true);
        let outer = isolation.run(|| {
            let inner = isolation.run(|| Ok((rayon::current_num_threads(), std::thread::current().id())))?;
            Ok((inner, rayon::current_num_threads(), std::thread::current().id()))
        });
        let ((inner_threads, inner), threads, outer) = outer.unwrap();
        assert_eq!((inner_threads, threads), (1, 1));
        assert!(inner != outer && outer != std::thread::current().id());
        let again = isolation.run(|| Ok(std::thread::current().id())).unwrap();
        assert!(again == inner || again == outer);
        assert_eq!(isolation.free.lock().unwrap().len(), 2);
        let here = Isolation::new(false).run(|| Ok(std::thread::current().id())).unwrap();
        assert_eq!(here, std::thread::current().id());
    }
}
