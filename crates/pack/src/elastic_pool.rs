//! A thread pool for tasks from a channel that grows while all of its threads are busy.

use crossbeam_channel::Receiver;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;

/// Keeps one thread idle until the limit is reached.
#[derive(Default)]
struct ElasticPool {
    waiting: AtomicUsize,
    /// Threads that may still start.
    left: AtomicUsize,
}

/// Runs `job` on everything from the channel, on 1 to `most` threads of this name. They end when all senders are dropped.
pub(crate) fn run<'scope, T: Send + 'scope>(
    threads: &'scope Scope<'scope, '_>,
    name: &'static str,
    coming: Receiver<T>,
    most: usize,
    job: impl Fn(T) + Clone + Send + 'scope,
) {
    let pool = ElasticPool { left: AtomicUsize::new(most.max(1)), ..ElasticPool::default() };
    join(threads, name, coming, &Arc::new(pool), job);
}

/// Starts another thread, within the limit.
fn join<'scope, T: Send + 'scope>(
    threads: &'scope Scope<'scope, '_>,
    name: &'static str,
    coming: Receiver<T>,
    pool: &Arc<ElasticPool>,
    job: impl Fn(T) + Clone + Send + 'scope,
) {
    let fewer = |left: usize| left.checked_sub(1);
    if pool.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_err() {
        return;
    }
    pool.waiting.fetch_add(1, Ordering::Relaxed);
    let (pool, started) = (pool.clone(), pool.clone());
    let thread = std::thread::Builder::new().name(name.to_owned());
    let thread = thread.spawn_scoped(threads, move || {
        for next in &coming {
            if pool.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                join(threads, name, coming.clone(), &pool, job.clone());
            }
            job(next);
            pool.waiting.fetch_add(1, Ordering::Relaxed);
        }
    });
    if thread.is_err() {
        // The other threads do the work. Without any, the channel has no receiver left, and sending to it fails.
        started.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};

    /// The tasks done, and the number of threads that took part.
    fn done(tasks: u32, most: usize, job: impl Fn() + Clone + Send) -> (BTreeSet<u32>, usize) {
        let (found, names) = (Mutex::new(BTreeSet::new()), Mutex::new(Vec::new()));
        std::thread::scope(|threads| {
            let (send, coming) = crossbeam_channel::unbounded();
            let (found, names) = (&found, &names);
            run(threads, "test", coming, most, move |task: u32| {
                job();
                found.lock().unwrap().insert(task);
                names.lock().unwrap().push(std::thread::current().id());
            });
            (0..tasks).for_each(|task| send.send(task).unwrap());
        });
        let mut names = names.into_inner().unwrap();
        names.sort_by_key(|name| format!("{name:?}"));
        names.dedup();
        (found.into_inner().unwrap(), names.len())
    }

    #[test]
    fn every_task_is_done_within_the_thread_limit() {
        for (tasks, most) in [(0, 4), (1, 4), (1000, 1), (1000, 4), (3, 0)] {
            let (found, threads) = done(tasks, most, || {});
            assert!(found.len() == tasks as usize && threads <= most.max(1), "{tasks} {most}");
        }
    }

    #[test]
    fn the_pool_grows_while_all_threads_block() {
        // Each of the eight tasks blocks until all have started.
        let meet = Arc::new(Barrier::new(8));
        let (found, threads) = done(8, 8, move || {
            meet.wait();
        });
        assert_eq!((found.len(), threads), (8, 8));
    }
}
