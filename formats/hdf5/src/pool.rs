//! Things that are costly to make and needed by one thread at a time.

use std::sync::{Mutex, PoisonError};

/// As many as were ever in use at once.
pub(crate) struct Pool<T> {
    idle: Mutex<Vec<T>>,
    make: fn() -> T,
}

impl<T> Pool<T> {
    pub(crate) fn new(make: fn() -> T) -> Self {
        Self { idle: Mutex::default(), make }
    }

    /// Calls `work` with one that nobody else has.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut one = taken.unwrap_or_else(self.make);
        let result = work(&mut one);
        idle().push(one);
        result
    }
}
