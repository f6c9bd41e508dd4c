//! Work that makes more work, shared by threads that wait for the file system. Threads without a task
//! sleep, so that there may be many of them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

/// The tasks of one job.
pub(super) struct WorkQueue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    waiting: Vec<T>,
    /// Tasks that are waiting or being done.
    open: usize,
    /// Threads without a task.
    idle: usize,
    /// How many more threads may start.
    left: usize,
}

impl<T: Send> WorkQueue<T> {
    /// Does `tasks`, and all that they add, on at most so many threads; returns when none is left. A thread
    /// starts when all others have a task.
    pub(super) fn run(tasks: Vec<T>, threads: usize, work: &(dyn Fn(T, &WorkQueue<T>) + Sync)) {
        let state = State { open: tasks.len(), waiting: tasks, idle: 1, left: threads.saturating_sub(1) };
        let queue = WorkQueue { state: Mutex::new(state), changed: Condvar::new() };
        std::thread::scope(|scope| queue.join(scope, work));
    }

    /// Starts a thread.
    fn join<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, work: &'scope (dyn Fn(T, &WorkQueue<T>) + Sync)) {
        scope.spawn(move || {
            while let Some((task, alone)) = self.take() {
                let _done = Done(self);
                if alone {
                    self.join(scope, work);
                }
                work(task, self);
            }
        });
    }

    /// Adds a task. The last one added is done first, which keeps few waiting.
    pub(super) fn add(&self, task: T) {
        let mut state = self.lock();
        state.open += 1;
        state.waiting.push(task);
        drop(state);
        self.changed.notify_one();
    }

    /// The next task, and whether a thread is to be started because nobody is left who waits for one.
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

/// Counts a task as done, also if it panics: the others must not wait for it.
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
    fn all_tasks_are_done_once_whatever_they_add() {
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
    fn there_are_as_many_threads_as_wait_for_each_other() {
        // None of the eight tasks goes on before all have begun.
        let meet = std::sync::Barrier::new(8);
        WorkQueue::run(vec![0u8; 8], 8, &|_, _| {
            meet.wait();
        });
    }

    #[test]
    fn no_task_no_wait() {
        WorkQueue::run(Vec::<u64>::new(), 4, &|_, _| {});
    }
}
