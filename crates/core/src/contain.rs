//! Panics of other crates on damaged bytes, caught and kept silent.
//!
//! A decoder of another crate may panic where it should return an error. [`contain`] catches that. The process's panic
//! hook still runs, and by default it prints: the hook belongs to the program, so a library must not replace it. A
//! program that wants silence calls [`silence_contained`] once, or asks [`is_contained`] in a hook of its own.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// How many [`contain`]s this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work` on this thread; `None` where it panics, which needs a build in which panics unwind. What `work` had
/// changed by then is for the caller to drop.
pub fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get().saturating_sub(1));
        }
    }
    DEPTH.set(DEPTH.get().saturating_add(1));
    let inside = Inside;
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    drop(inside);
    result
}

/// Whether this thread is in a [`contain`], so that a panic now is caught and becomes an error.
pub fn is_contained() -> bool {
    DEPTH.get() > 0
}

/// Makes the process's panic hook ignore contained panics. For programs, once, at their start.
pub fn silence_contained() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !is_contained() {
            hook(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn contained_panics_are_values_and_pass_by_the_hook() {
        let seen = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&seen);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        silence_contained();
        assert_eq!(contain(|| contain(|| panic!("inner")).map_or(1, |()| 2)), Some(1));
        assert_eq!(contain(|| panic!("outer")), None::<()>);
        assert_eq!(seen.load(Ordering::Relaxed), 0);
        assert!(!is_contained());
        // Another panic is told as ever.
        assert!(catch_unwind(|| panic!("told")).is_err());
        assert_eq!(seen.load(Ordering::Relaxed), 1);
        std::panic::set_hook(hook);
    }
}
