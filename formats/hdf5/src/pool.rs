//! A pool of objects that are costly to make and used by one thread at a time.

use std::sync::{Mutex, PoisonError};

/// Holds as many objects as were in use at once; never shrinks.
pub(crate) struct Pool<T> {
    idle: Mutex<Vec<T>>,
    make: fn() -> T,
}

impl<T> Pool<T> {
    pub(crate) fn new(make: fn() -> T) -> Self {
        Self { idle: Mutex::default(), make }
    }

    /// Lends `work` an object, made if none is idle.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut one = taken.unwrap_or_else(self.make);
        let result = work(&mut one);
        idle().push(one);
        result
    }
}
