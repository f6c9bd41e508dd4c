//! What threads finish in any order is stored in the order of its numbers.

use packhorse_core::Result;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hands things numbered 0, 1, 2, … to `store`, each once all before it were. Nobody waits for a store that is at work:
/// what is finished meanwhile lies ready, and goes with the next ones.
pub(super) struct Turns<T, S> {
    ready: Mutex<BTreeMap<usize, T>>,
    store: Mutex<(usize, S)>,
}

impl<T, S: FnMut(T) -> Result<()>> Turns<T, S> {
    pub(super) fn new(store: S) -> Self {
        Self { ready: Mutex::default(), store: Mutex::new((0, store)) }
    }

    /// Takes what has this number, and stores what is ready unless another thread is at it.
    pub(super) fn add(&self, number: usize, thing: T) -> Result<()> {
        self.ready().insert(number, thing);
        match self.store.try_lock() {
            Ok(mut store) => self.drain(&mut store),
            Err(_) => Ok(()),
        }
    }

    /// Stores what is left; all numbers have been added.
    pub(super) fn finish(self) -> Result<()> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        self.drain(&mut store)
    }

    fn drain(&self, (next, store): &mut (usize, S)) -> Result<()> {
        loop {
            let Some(thing) = self.ready().remove(next) else { return Ok(()) };
            *next += 1;
            store(thing)?;
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
            let turns = Turns::new(|number: usize| {
                stored.push(number);
                Ok(())
            });
            (0..count).into_par_iter().with_max_len(1).try_for_each(|number| turns.add(number, number)).unwrap();
            turns.finish().unwrap();
            assert!(stored.into_iter().eq(0..count));
        }
    }

    #[test]
    fn an_error_ends_it() {
        let turns = Turns::new(|number: usize| match number {
            5 => Err(Error::content("five")),
            _ => Ok(()),
        });
        let added = (0..100).into_par_iter().try_for_each(|number| turns.add(number, number));
        assert!(added.is_err() || turns.finish().is_err());
    }
}
