//! What reading whole inputs found, kept for the reads that follow.

use crate::{FileStat, Input, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The most inputs whose scans are kept.
const KEPT: usize = 64;

/// The scans of the last 64 inputs, so that reads of several ranges scan an input once. `S` are the settings that a scan depends
/// on. Clones share their scans.
pub struct ScanCache<S, T>(Arc<Mutex<Vec<Known<S, T>>>>);

struct Known<S, T> {
    name: String,
    stat: FileStat,
    settings: S,
    scan: Arc<T>,
}

impl<S: PartialEq + Clone, T> ScanCache<S, T> {
    /// The kept scan of `input`, if its size and time of change are the same, or what `scan` makes. Inputs that tell neither are
    /// scanned each time.
    ///
    /// Errors: those of the input and of `scan`.
    pub fn of(&self, input: &dyn Input, settings: &S, scan: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let stat = input.stat()?;
        let same = |known: &Known<S, T>| {
            known.name == input.name() && Some(&known.stat) == stat.as_ref() && known.settings == *settings
        };
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|known| same(known)) {
            return Ok(Arc::clone(&known.scan));
        }
        let scan = Arc::new(scan()?);
        if let Some(stat) = stat {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.truncate(KEPT - 1);
            let (name, settings) = (input.name().to_owned(), settings.clone());
            all.insert(0, Known { name, stat, settings, scan: Arc::clone(&scan) });
        }
        Ok(scan)
    }
}

impl<S, T> Clone for ScanCache<S, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S, T> Default for ScanCache<S, T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<S, T> fmt::Debug for ScanCache<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("ScanCache").field("kept", &kept).finish()
    }
}
