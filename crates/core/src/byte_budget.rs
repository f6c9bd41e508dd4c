//! A number of bytes that threads share: each waits until its part is free.

use crate::Result;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// Callers of [`ByteBudget::hold`] that wait.
    polling: u32,
}

/// A part of a budget, returned on drop.
pub struct ByteShare<'a> {
    budget: &'a ByteBudget,
    bytes: u64,
}

/// A part of a budget that moves between threads, returned on drop.
pub struct HeldBytes {
    budget: Arc<ByteBudget>,
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

    /// Waits for `bytes`, at most the whole budget, after all callers of [`wait`](Self::wait). Meanwhile calls `check` at
    /// least every `every`.
    ///
    /// Errors: those of `check`.
    pub fn hold(budget: &Arc<Self>, bytes: u64, every: Duration, check: impl Fn() -> Result<()>) -> Result<HeldBytes> {
        let bytes = bytes.min(budget.total);
        loop {
            check()?;
            let mut state = budget.state();
            if state.turn == state.last && bytes <= budget.total - state.used {
                state.used += bytes;
                return Ok(HeldBytes { budget: budget.clone(), bytes });
            }
            state.polling += 1;
            let waited = budget.freed.wait_timeout(state, every);
            waited.unwrap_or_else(PoisonError::into_inner).0.polling -= 1;
        }
    }

    fn free(&self, bytes: u64) {
        let mut state = self.state();
        state.used -= bytes;
        let waited_for = state.turn != state.last || state.polling > 0;
        drop(state);
        if waited_for {
            self.freed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ByteShare<'_> {
    fn drop(&mut self) {
        self.budget.free(self.bytes);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budget.free(self.bytes);
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
    fn who_holds_waits_for_others_and_can_be_stopped() {
        let budget = Arc::new(ByteBudget::new(10));
        let hold =
            |bytes, check: &dyn Fn() -> Result<()>| ByteBudget::hold(&budget, bytes, Duration::from_millis(1), check);
        let first = hold(1000, &|| Ok(())).unwrap();
        let looks = AtomicU64::new(0);
        let stopped = hold(1, &|| match looks.fetch_add(1, Ordering::SeqCst) {
            0..3 => Ok(()),
            _ => Err(crate::Error::cancelled()),
        });
        assert!(stopped.is_err() && looks.into_inner() == 4);
        std::thread::scope(|threads| {
            let second = threads.spawn(|| ByteBudget::hold(&budget, 4, Duration::from_secs(3600), || Ok(())));
            drop(first);
            drop(second.join().unwrap().unwrap());
        });
        let state = budget.state();
        assert_eq!((state.used, state.polling), (0, 0));
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
