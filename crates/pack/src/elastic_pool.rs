//! Threads that share one kind of work, as many as the work needs.

use crossbeam_channel::Receiver;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;

/// One of the threads waits for work, until there are as many as there may be.
#[derive(Default)]
struct ElasticPool {
    waiting: AtomicUsize,
    /// How many more may start.
    left: AtomicUsize,
}

/// Does `job` with all that comes, on at most `most` threads and at least one. They end when nothing can come any more.
pub(crate) fn work<'scope, T: Send + 'scope>(
    threads: &'scope Scope<'scope, '_>,
    coming: Receiver<T>,
    most: usize,
    job: impl Fn(T) + Clone + Send + 'scope,
) {
    let elastic_pool = ElasticPool { left: AtomicUsize::new(most.max(1)), ..ElasticPool::default() };
    join(threads, coming, &Arc::new(elastic_pool), job);
}

/// Starts one more thread, if there may be more.
fn join<'scope, T: Send + 'scope>(
    threads: &'scope Scope<'scope, '_>,
    coming: Receiver<T>,
    elastic_pool: &Arc<ElasticPool>,
    job: impl Fn(T) + Clone + Send + 'scope,
) {
    let fewer = |left: usize| left.checked_sub(1);
    if elastic_pool.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_err() {
        return;
    }
    elastic_pool.waiting.fetch_add(1, Ordering::Relaxed);
    let elastic_pool = elastic_pool.clone();
    threads.spawn(move || {
        for next in &coming {
            if elastic_pool.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                join(threads, coming.clone(), &elastic_pool, job.clone());
            }
            job(next);
            elastic_pool.waiting.fetch_add(1, Ordering::Relaxed);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};

    /// The numbers that were worked on, and how many threads did.
    fn done(tasks: u32, most: usize, job: impl Fn() + Clone + Send) -> (BTreeSet<u32>, usize) {
        let (found, names) = (Mutex::new(BTreeSet::new()), Mutex::new(Vec::new()));
        std::thread::scope(|threads| {
            let (send, coming) = crossbeam_channel::unbounded();
            let (found, names) = (&found, &names);
            work(threads, coming, most, move |task: u32| {
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
    fn all_is_done_by_no_more_threads_than_may_be() {
        for (tasks, most) in [(0, 4), (1, 4), (1000, 1), (1000, 4), (3, 0)] {
            let (found, threads) = done(tasks, most, || {});
            assert!(found.len() == tasks as usize && threads <= most.max(1), "{tasks} {most}");
        }
    }

    #[test]
    fn there_are_as_many_as_wait_for_each_other() {
        // None of the eight goes on before all have come.
        let meet = Arc::new(Barrier::new(8));
        let (found, threads) = done(8, 8, move || {
            meet.wait();
        });
        assert_eq!((found.len(), threads), (8, 8));
    }
}
