//! A number of bytes that threads share: each waits until its part is free.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A number of bytes to share, served in the order of the requests. A caller that holds a share must not wait for another.
pub struct ByteBudget {
    total: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    used: u64,
    /// The next ticket.
    last: u64,
    /// The ticket that is served next.
    turn: u64,
}

/// A part of a budget, returned on drop.
pub struct ByteShare<'a> {
    budget: &'a ByteBudget,
    bytes: u64,
}

impl ByteBudget {
    /// A budget of `total` bytes.
    pub fn new(total: u64) -> Self {
        Self { total, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Waits for `bytes`, at most the whole budget, in the order of the calls. The caller must hold no share.
    pub fn wait(&self, bytes: u64) -> ByteShare<'_> {
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
        ByteShare { budget: self, bytes }
    }

    /// Takes `bytes` if they are free and no caller waits.
    pub fn take(&self, bytes: u64) -> Option<ByteShare<'_>> {
        let mut state = self.state();
        if state.turn != state.last || bytes > self.total - state.used {
            return None;
        }
        state.used += bytes;
        Some(ByteShare { budget: self, bytes })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ByteShare<'_> {
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
    fn only_free_bytes_are_given() {
        let budget = ByteBudget::new(10);
        let held = budget.take(6).unwrap();
        assert!(budget.take(5).is_none());
        let rest = budget.take(4).unwrap();
        drop(held);
        assert!(budget.take(7).is_none());
        drop(rest);
        // A larger request gets the whole budget.
        let all = budget.wait(1000);
        assert!(budget.take(1).is_none());
        drop(all);
        assert_eq!(budget.state().used, 0);
    }

    #[test]
    fn concurrent_shares_never_exceed_the_budget() {
        let budget = ByteBudget::new(100);
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
