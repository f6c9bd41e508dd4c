//! Stores the results of parallel work in order.

use packhorse_core::Result;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Passes results numbered 0, 1, 2, … to `store` in order. Threads do not wait for a store in progress: results that
/// are finished meanwhile are stored with a later one.
pub(super) struct OrderedStore<T, S> {
    ready: Mutex<BTreeMap<usize, T>>,
    store: Mutex<(usize, S)>,
}

impl<T, S: FnMut(T) -> Result<()>> OrderedStore<T, S> {
    pub(super) fn new(store: S) -> Self {
        Self { ready: Mutex::default(), store: Mutex::new((0, store)) }
    }

    /// Adds the result `number`, and stores all ready results unless another thread is storing.
    pub(super) fn add(&self, number: usize, result: T) -> Result<()> {
        self.ready().insert(number, result);
        match self.store.try_lock() {
            Ok(mut store) => self.drain(&mut store),
            Err(_) => Ok(()),
        }
    }

    /// Stores the rest; call it after all results were added.
    pub(super) fn finish(self) -> Result<()> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        self.drain(&mut store)
    }

    fn drain(&self, (next, store): &mut (usize, S)) -> Result<()> {
        loop {
            let Some(result) = self.ready().remove(next) else { return Ok(()) };
            *next += 1;
            store(result)?;
        }
    }

    fn ready(&self) -> MutexGuard<'_, BTreeMap<usize, T>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Error;
    use rayon::prelude::*;

    #[test]
    fn all_are_stored_in_order() {
        for count in [0, 1, 7, 1000] {
            let mut stored = Vec::new();
            let store = OrderedStore::new(|number: usize| {
                stored.push(number);
                Ok(())
            });
            (0..count).into_par_iter().with_max_len(1).try_for_each(|number| store.add(number, number)).unwrap();
            store.finish().unwrap();
            assert!(stored.into_iter().eq(0..count));
        }
    }

    #[test]
    fn an_error_ends_it() {
        let store = OrderedStore::new(|number: usize| match number {
            5 => Err(Error::content("five")),
            _ => Ok(()),
        });
        let added = (0..100).into_par_iter().try_for_each(|number| store.add(number, number));
        assert!(added.is_err() || store.finish().is_err());
    }
}
