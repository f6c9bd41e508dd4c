//! Maps a list on several threads, in order: for calls that wait for a server or a file system.

use packhorse_core::Result;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls `each` for all `items` on up to `threads` threads. The results are in the order of the items; after an error no
/// more calls begin.
pub(crate) fn parallel_map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    each: &(dyn Fn(&T) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = each(item);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        // If a thread can't be started, the others do the work; this one always does.
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).is_ok();
        (1..threads.min(items.len())).all(start);
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Error;

    #[test]
    fn results_are_in_order_and_errors_end_the_work() {
        let items: Vec<u32> = (0..1000).collect();
        let doubled = parallel_map(&items, 7, &|item| Ok(item * 2)).unwrap();
        assert!(doubled.iter().zip(&items).all(|(double, item)| *double == item * 2) && doubled.len() == 1000);
        let calls = AtomicUsize::new(0);
        let failed = parallel_map(&items, 2, &|item| {
            calls.fetch_add(1, Ordering::Relaxed);
            if *item == 3 { Err(Error::content("three")) } else { Ok(()) }
        });
        assert_eq!(failed.unwrap_err().message(), "three");
        assert!(calls.into_inner() < 1000);
        assert!(parallel_map(&[] as &[u8], 4, &|_| Ok(())).unwrap().is_empty());
    }
}
