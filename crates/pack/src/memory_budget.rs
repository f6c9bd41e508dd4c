//! The bytes of input that may be in memory at once, shared by all writers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So many bytes for all. Who holds a share gives it back without waiting for another one.
pub(crate) struct MemoryBudget {
    total: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    used: u64,
    /// The number that the next who waits gets.
    last: u64,
    /// The number of the one whose turn it is.
    turn: u64,
}

/// A part of a budget. It goes back when it is dropped.
pub(crate) struct BudgetShare<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    /// A budget of `total` bytes.
    pub(crate) fn new(total: u64) -> Self {
        Self { total, state: Mutex::default(), freed: Condvar::new() }
    }

    /// `bytes` of it, or all of it where they are more: when others have given back enough, in the order of the calls. The
    /// caller must hold no share.
    pub(crate) fn wait(&self, bytes: u64) -> BudgetShare<'_> {
        let bytes = bytes.min(self.total);
        let mut state = self.state();
        let number = state.last;
        state.last += 1;
        while state.turn != number || state.used + bytes > self.total {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.turn += 1;
        state.used += bytes;
        drop(state);
        self.freed.notify_all();
        BudgetShare { budget: self, bytes }
    }

    /// `bytes` of it, if they are there and none waits for some.
    pub(crate) fn take(&self, bytes: u64) -> Option<BudgetShare<'_>> {
        let mut state = self.state();
        if state.turn != state.last || bytes > self.total - state.used {
            return None;
        }
        state.used += bytes;
        Some(BudgetShare { budget: self, bytes })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BudgetShare<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.used -= self.bytes;
        let waited_for = state.turn != state.last;
        drop(state);
        if waited_for {
            self.budget.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn what_is_not_there_is_not_given() {
        let budget = MemoryBudget::new(10);
        let held = budget.take(6).unwrap();
        assert!(budget.take(5).is_none());
        let rest = budget.take(4).unwrap();
        drop(held);
        assert!(budget.take(7).is_none());
        drop(rest);
        // More than all of it is all of it.
        let all = budget.wait(1000);
        assert!(budget.take(1).is_none());
        drop(all);
        assert_eq!(budget.state().used, 0);
    }

    #[test]
    fn many_who_want_more_than_half_have_it_one_after_the_other() {
        let budget = MemoryBudget::new(100);
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|threads| {
            for thread in 0..8 {
                let (budget, held, most) = (&budget, &held, &most);
                threads.spawn(move || {
                    for i in 0..200 {
                        let bytes = 1 + (i * 37 + thread * 11) % 150;
                        let share = budget.wait(bytes);
                        let more = budget.take(bytes % 20);
                        let now = share.bytes + more.as_ref().map_or(0, |more| more.bytes);
                        most.fetch_max(held.fetch_add(now, Ordering::SeqCst) + now, Ordering::SeqCst);
                        std::thread::yield_now();
                        held.fetch_sub(now, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 100 && budget.state().used == 0);
    }
}
