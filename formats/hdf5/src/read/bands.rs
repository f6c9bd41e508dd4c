//! Chunks that are far larger than what is read of them, decoded once for all who read from them.
//!
//! A shuffled plan reads runs of a few MiB in any order; where a chunk holds hundreds, each run would decode all of it.

use super::dataset::AHEAD;
use packhorse_core::{FileStat, Limits, Memory};
use std::sync::{Arc, Mutex, PoisonError};

/// Smaller bands are decoded again: that costs little.
pub(crate) const TALL: u64 = 16 << 20;

/// A row of chunks of a dataset of a file, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) file: Arc<Identity>,
    pub(crate) dataset: String,
    /// Its first row.
    pub(crate) start: u64,
}

/// A file that did not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) len: u64,
    pub(crate) stat: Option<FileStat>,
}

/// The bands that were read last, those of [`AHEAD`] bytes.
#[derive(Default)]
pub(crate) struct Bands(Mutex<Vec<(Key, Arc<Memory>)>>);

impl Bands {
    /// The band of this key, if it is kept.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Memory>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(of, _)| of == key)?;
        let found = kept.remove(at);
        let bytes = found.1.clone();
        kept.push(found);
        Some(bytes)
    }

    /// Keeps `bytes`; returns those that another thread kept meanwhile, if one did.
    pub(crate) fn keep(&self, key: Key, bytes: Memory, limits: &Limits) -> Arc<Memory> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = kept.iter().find(|(of, _)| *of == key) {
            return found.clone();
        }
        let bytes = Arc::new(bytes);
        kept.push((key, bytes.clone()));
        let mut room = AHEAD.min(limits.ahead);
        let fits = kept.iter().rev().take_while(|(_, bytes)| {
            let left = room.checked_sub(bytes.len() as u64);
            room = left.unwrap_or(0);
            left.is_some()
        });
        let gone = kept.len() - fits.count();
        kept.drain(..gone);
        bytes
    }
}
