//! Slabs of batches that were read one by one, for reuse.

use crate::batch::Home;
use crate::batch_metadata::BatchMetadata;
use crate::ring::Slab;
use packhorse_core::Result;
use std::sync::{Mutex, PoisonError};

/// Free slabs to keep.
const KEPT: usize = 2;

/// The slabs of dropped batches. Threads share it.
#[derive(Debug)]
pub(crate) struct FreeSlabs<H>(Mutex<Vec<Slab<H>>>);

impl<H> Default for FreeSlabs<H> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<H: AsRef<[u8]>> FreeSlabs<H> {
    /// A slab of at least `bytes` bytes with any initialised content: a free one, else a new one of `make`.
    ///
    /// Errors: those of `make`.
    pub(crate) fn slab(&self, bytes: usize, make: impl FnOnce(usize) -> Result<H>) -> Result<Slab<H>> {
        // A small batch must not hold the memory of a large one.
        let fits = |slab: &Slab<H>| (bytes..=bytes.saturating_mul(2)).contains(&slab.host.as_ref().len());
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = free.iter().rposition(fits) {
            return Ok(free.swap_remove(found));
        }
        drop(free);
        Ok(Slab { host: make(bytes)?, filled: BatchMetadata::default() })
    }
}

impl<H: Send> Home<H> for FreeSlabs<H> {
    fn give_back(&self, slab: Slab<H>) {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() >= KEPT {
            // The oldest: its size may be out of use.
            free.remove(0);
        }
        free.push(slab);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device as _, Host, HostSlab};

    #[test]
    fn slabs_of_about_the_size_are_reused() {
        let free = FreeSlabs::default();
        let slab = |bytes| free.slab(bytes, |bytes| Host::default().host(bytes)).unwrap();
        let at = |slab: &Slab<HostSlab>| slab.host.as_ref().as_ptr();
        let (first, second) = (slab(100_000), slab(1000));
        let (large, small) = (at(&first), at(&second));
        free.give_back(first);
        free.give_back(second);
        let again = slab(60_000);
        assert_eq!((at(&again), again.host.as_ref().len()), (large, 100_000));
        let other = slab(100);
        assert_ne!(at(&other), small);
        assert_eq!(at(&slab(900)), small);
        (0..4).for_each(|_| free.give_back(slab(10)));
        assert!(free.0.lock().unwrap().len() <= KEPT);
    }
}
