//! Record batches of which parts were read, kept for the other parts.
//!
//! A record batch can only be decoded whole. Shuffled runs, and shards that end inside of a batch, want parts of it, one after another.

use arrow_array::RecordBatch;
use packhorse_core::held_bytes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last record batches of the inputs of a source, up to a number of bytes, at least one.
pub(super) struct Parts {
    most: usize,
    opened: AtomicU64,
    kept: Mutex<VecDeque<Part>>,
}

struct Part {
    place: BatchKey,
    bytes: usize,
    batch: RecordBatch,
}

/// The number of an opened input, and the offset of a message.
pub(super) type BatchKey = (u64, u64);

impl Parts {
    pub(super) fn new(most: usize) -> Self {
        Self { most, opened: AtomicU64::new(0), kept: Mutex::default() }
    }

    /// A number for an input that is opened.
    pub(super) fn number(&self) -> u64 {
        self.opened.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn get(&self, place: BatchKey) -> Option<RecordBatch> {
        let mut kept = self.kept();
        let at = kept.iter().position(|part| part.place == place)?;
        let part = kept.remove(at)?;
        let batch = part.batch.clone();
        kept.push_back(part);
        Some(batch)
    }

    pub(super) fn keep(&self, place: BatchKey, batch: &RecordBatch) {
        let bytes = held_bytes([batch]);
        let mut kept = self.kept();
        kept.retain(|part| part.place != place);
        while !kept.is_empty() && kept.iter().fold(bytes, |all, part| all.saturating_add(part.bytes)) > self.most {
            kept.pop_front();
        }
        kept.push_back(Part { place, bytes, batch: batch.clone() });
    }

    /// Forgets the batches of a closed input.
    pub(super) fn close(&self, input: u64) {
        self.kept().retain(|part| part.place.0 != input);
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Part>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
