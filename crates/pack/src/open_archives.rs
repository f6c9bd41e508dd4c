//! The archives of a plan that are open: as many as its order of samples takes up again and again, within the room for them.

use crate::open_input::SharedFile;
use packhorse_core::Result;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most that are open at first: an order that takes one archive after the other needs no more, and leaves disk to others.
const FEW: usize = 16;

/// An archive. The first thread opens it while others wait.
pub(crate) type OpenedPlace = Arc<OnceLock<Result<Arc<SharedFile>>>>;

/// Open archives, of which the least recently used one is closed where there are too many.
pub(crate) struct OpenArchives(Mutex<State>);

struct State {
    open: HashMap<PathBuf, (u64, OpenedPlace)>,
    closed: HashSet<PathBuf>,
    clock: u64,
    most: usize,
}

impl OpenArchives {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { open: HashMap::new(), closed: HashSet::new(), clock: 0, most: FEW }))
    }

    /// The place of an archive. If it was closed for others before, twice as many stay open from now on, where `has_room`, given how
    /// many are open and the bytes of their content, says so; `crowded` is called where it does not.
    pub(crate) fn place(
        &self,
        path: &Path,
        has_room: impl FnOnce(usize, u64) -> bool,
        crowded: impl FnOnce(),
    ) -> OpenedPlace {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        if let Some((used, place)) = state.open.get_mut(path) {
            *used = now;
            return place.clone();
        }
        if state.closed.remove(path) && state.open.len() >= state.most {
            match has_room(state.open.len(), state.bytes()) {
                true => state.most *= 2,
                false => crowded(),
            }
        }
        if state.open.len() >= state.most {
            let oldest = state.open.iter().min_by_key(|(_, (used, _))| *used).map(|(path, _)| path.clone());
            if let Some(oldest) = oldest {
                state.open.remove(&oldest);
                state.closed.insert(oldest);
            }
        }
        let place = OpenedPlace::default();
        state.open.insert(path.to_owned(), (now, place.clone()));
        place
    }

    /// Forgets an archive that could not be opened.
    pub(crate) fn forget(&self, path: &Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open.remove(path);
    }
}

impl State {
    fn bytes(&self) -> u64 {
        let opened = self.open.values().filter_map(|(_, place)| place.get()?.as_ref().ok());
        opened.map(|file| file.input.len().unwrap_or(0)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How many archives are opened when `order` is read, and how often there was too little room.
    fn opened(order: impl Iterator<Item = usize>, room: usize) -> (usize, usize) {
        let (archives, opened, crowded) = (OpenArchives::new(), Cell::new(0), Cell::new(0));
        for number in order {
            let path = PathBuf::from(number.to_string());
            let place = archives.place(&path, |open, _| open * 2 <= room, || crowded.set(crowded.get() + 1));
            place.get_or_init(|| {
                opened.set(opened.get() + 1);
                Err(packhorse_core::Error::bug("not opened"))
            });
        }
        (opened.get(), crowded.get())
    }

    #[test]
    fn archives_that_are_needed_again_stay_open() {
        // One after the other, as a plan without shuffling reads them.
        assert_eq!(opened((0..1000).map(|i| i / 10), 1000), (100, 0));
        // Round and round: at first each is closed before it is needed again.
        let (times, crowded) = opened((0..1000).map(|i| i % 100), 1000);
        assert!(times < 300 && crowded == 0, "{times}");
        // Without room for more, it is said.
        let (times, crowded) = opened((0..1000).map(|i| i % 100), 20);
        assert_eq!((times, crowded), (1000, 900));
    }
}
