//! Slabs in host memory of batches that were read one by one, for reuse.

use crate::batch::Home;
use crate::batch_metadata::BatchMetadata;
use crate::ring::Slab;
use crate::{Device, Host, HostSlab};
use packhorse_core::Result;
use std::sync::{Mutex, PoisonError};

/// Free slabs to keep.
const KEPT: usize = 2;

/// The slabs of dropped batches. Threads share it.
#[derive(Debug, Default)]
pub(crate) struct FreeSlabs(Mutex<Vec<Slab<HostSlab>>>);

impl FreeSlabs {
    /// A slab of at least `bytes` bytes with any initialised content.
    ///
    /// Errors: not enough memory.
    pub(crate) fn slab(&self, bytes: usize) -> Result<Slab<HostSlab>> {
        // A small batch must not hold the memory of a large one.
        let fits = |slab: &Slab<HostSlab>| (bytes..=bytes.saturating_mul(2)).contains(&slab.host.as_ref().len());
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = free.iter().rposition(fits) {
            return Ok(free.swap_remove(found));
        }
        drop(free);
        Ok(Slab { host: Host::default().host(bytes)?, filled: BatchMetadata::default() })
    }
}

impl Home<HostSlab> for FreeSlabs {
    fn give_back(&self, slab: Slab<HostSlab>) {
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

    #[test]
    fn slabs_of_about_the_size_are_reused() {
        let free = FreeSlabs::default();
        let at = |slab: &Slab<HostSlab>| slab.host.as_ref().as_ptr();
        let (first, second) = (free.slab(100_000).unwrap(), free.slab(1000).unwrap());
        let (large, small) = (at(&first), at(&second));
        free.give_back(first);
        free.give_back(second);
        let again = free.slab(60_000).unwrap();
        assert_eq!((at(&again), again.host.as_ref().len()), (large, 100_000));
        let other = free.slab(100).unwrap();
        assert_ne!(at(&other), small);
        assert_eq!(at(&free.slab(900).unwrap()), small);
        (0..4).for_each(|_| free.give_back(free.slab(10).unwrap()));
        assert!(free.0.lock().unwrap().len() <= KEPT);
    }
}
