//! Compressed text that is cut by places: where one run stops to decompress it, the next goes on.

use packhorse_core::Result;
use packhorse_dataset::Entrance;
use packhorse_storage::{Frame, Inside};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// So many files may be left in the middle. Writers go on with what they left at once, or never.
const KEPT: usize = 16;

/// Files that no run reads at the moment, those that were left last at the end.
#[derive(Default)]
pub(crate) struct Insides(Mutex<VecDeque<(PathBuf, Inside)>>);

impl Insides {
    /// The bytes inside of the file at `path`, to be read from `place` on: as a run left it where that is a shorter way
    /// than `entrance`, or opened.
    pub(crate) fn take(
        &self,
        path: &Path,
        place: u64,
        entrance: Entrance,
        open: impl FnOnce(Frame) -> Result<Inside>,
    ) -> Result<Inside> {
        let frame = Frame { offset: entrance.offset, start: entrance.start };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter_mut().rposition(|(file, inside)| file == path && inside.goes_on(place, frame));
        let found = found.and_then(|i| kept.remove(i));
        drop(kept);
        found.map_or_else(|| open(frame), |(_, inside)| Ok(inside))
    }

    /// Takes back what a run read to its end.
    pub(crate) fn leave(&self, path: PathBuf, inside: Inside) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((path, inside));
    }
}
