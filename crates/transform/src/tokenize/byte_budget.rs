//! Limits the memory that engines use for long pieces of text, over all threads.

use std::sync::{Condvar, Mutex, PoisonError};

/// A semaphore of bytes: limits the text in long pieces that are encoded at the same time.
pub(crate) struct ByteBudget {
    most: usize,
    used: Mutex<usize>,
    freed: Condvar,
}

/// A share of the budget, returned on drop.
pub(crate) struct BudgetShare<'a> {
    budget: &'a ByteBudget,
    bytes: usize,
}

impl ByteBudget {
    /// A budget of `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, used: Mutex::new(0), freed: Condvar::new() }
    }

    /// Waits until `bytes` bytes are free (at most the whole budget), and takes them. The caller must not hold a share.
    pub(crate) fn enter(&self, bytes: usize) -> BudgetShare<'_> {
        let bytes = bytes.min(self.most);
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |used: &mut usize| *used > self.most - bytes;
        let mut used = self.freed.wait_while(used, full).unwrap_or_else(PoisonError::into_inner);
        *used += bytes;
        BudgetShare { budget: self, bytes }
    }
}

impl Drop for BudgetShare<'_> {
    fn drop(&mut self) {
        *self.budget.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn concurrent_pieces_fit_into_the_budget() {
        let (budget, held, most) = (ByteBudget::new(100), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            for thread in 0..8 {
                let (budget, held, most) = (&budget, &held, &most);
                threads.spawn(move || {
                    for i in 0..200 {
                        let share = budget.enter(1 + (i * 37 + thread * 11) % 150);
                        most.fetch_max(held.fetch_add(share.bytes, Ordering::SeqCst) + share.bytes, Ordering::SeqCst);
                        std::thread::yield_now();
                        held.fetch_sub(share.bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 100 && *budget.used.lock().unwrap() == 0);
    }
}
