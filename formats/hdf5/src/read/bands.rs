//! A cache of decoded chunks that are much larger than one read.
//!
//! A shuffled plan reads runs of a few MiB in any order. If a chunk has hundreds of MiB, each run would decode all of
//! it.

use super::dataset::AHEAD;
use packhorse_core::{FileStat, Limits, Memory};
use std::sync::{Arc, Mutex, PoisonError};

/// Smaller bands, in bytes, are not cached: decoding them again costs little.
pub(crate) const TALL: u64 = 16 << 20;

/// Identifies a band: the chunks of a dataset that share their rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BandKey {
    pub(crate) file: Arc<Identity>,
    pub(crate) dataset: String,
    /// The first row.
    pub(crate) start: u64,
}

/// Identifies one state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) len: u64,
    pub(crate) stat: Option<FileStat>,
}

/// The bands used last, up to [`AHEAD`] bytes.
#[derive(Default)]
pub(crate) struct Bands(Mutex<Vec<(BandKey, Arc<Memory>)>>);

impl Bands {
    /// The band of this key, if it is cached.
    pub(crate) fn get(&self, key: &BandKey) -> Option<Arc<Memory>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(of, _)| of == key)?;
        let found = kept.remove(at);
        let bytes = found.1.clone();
        kept.push(found);
        Some(bytes)
    }

    /// Caches `bytes` and returns them, or the band that another thread has cached meanwhile.
    pub(crate) fn keep(&self, key: BandKey, bytes: Memory, limits: &Limits) -> Arc<Memory> {
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
