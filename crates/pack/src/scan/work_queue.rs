//! A work queue whose tasks may add tasks. Its threads sleep while idle, so there may be many for slow file systems.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

/// The queued tasks, and the state of the threads.
pub(super) struct WorkQueue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    waiting: Vec<T>,
    /// Tasks that are queued or running.
    open: usize,
    /// Threads without a task.
    idle: usize,
    /// Threads that may still start.
    left: usize,
}

impl<T: Send> WorkQueue<T> {
    /// Runs `tasks`, and all that they add, on at most `threads` threads; returns when the queue is empty. A thread
    /// starts when all others are busy.
    pub(super) fn run(tasks: Vec<T>, threads: usize, work: &(dyn Fn(T, &WorkQueue<T>) + Sync)) {
        let state = State { open: tasks.len(), waiting: tasks, idle: 1, left: threads.saturating_sub(1) };
        let queue = WorkQueue { state: Mutex::new(state), changed: Condvar::new() };
        std::thread::scope(|scope| queue.work(scope, work));
    }

    /// Runs tasks on this thread.
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, work: &'scope (dyn Fn(T, &WorkQueue<T>) + Sync)) {
        while let Some((task, alone)) = self.take() {
            let _done = Done(self);
            if alone {
                self.join(scope, work);
            }
            work(task, self);
        }
    }

    /// Starts a thread. If that fails, those that there are do the work.
    fn join<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, work: &'scope (dyn Fn(T, &WorkQueue<T>) + Sync)) {
        if std::thread::Builder::new().spawn_scoped(scope, move || self.work(scope, work)).is_err() {
            let mut state = self.lock();
            (state.idle, state.left) = (state.idle - 1, 0);
        }
    }

    /// Adds a task. The last one added runs first, which keeps the queue short.
    pub(super) fn add(&self, task: T) {
        let mut state = self.lock();
        state.open += 1;
        state.waiting.push(task);
        drop(state);
        self.changed.notify_one();
    }

    /// The next task, and whether to start a thread because none is idle.
    fn take(&self) -> Option<(T, bool)> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.waiting.pop() {
                state.idle -= 1;
                let alone = state.idle == 0 && state.left > 0;
                if alone {
                    (state.idle, state.left) = (1, state.left - 1);
                }
                return Some((task, alone));
            }
            if state.open == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> WorkQueue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a task as done on drop, so that a panic does not block the other threads.
struct Done<'a, T>(&'a WorkQueue<T>);

impl<T> Drop for Done<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        state.idle += 1;
        if state.open == 0 {
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_task_runs_once_with_all_that_it_adds() {
        for threads in [1, 2, 32] {
            let sum = AtomicU64::new(0);
            WorkQueue::run(vec![12u64, 3], threads, &|n, queue| {
                sum.fetch_add(1, Ordering::Relaxed);
                (0..n).filter(|k| k % 2 == 0).for_each(|k| queue.add(k));
            });
            // f(n) = 1 + f(0) + f(2) + … below n: f(12) = 64, f(3) = 4.
            assert_eq!(sum.load(Ordering::Relaxed), 68);
        }
    }

    #[test]
    fn threads_start_while_all_others_block() {
        // Each of the eight tasks blocks until all have started.
        let meet = std::sync::Barrier::new(8);
        WorkQueue::run(vec![0u8; 8], 8, &|_, _| {
            meet.wait();
        });
    }

    #[test]
    fn an_empty_queue_returns_at_once() {
        WorkQueue::run(Vec::<u64>::new(), 4, &|_, _| {});
    }
}
