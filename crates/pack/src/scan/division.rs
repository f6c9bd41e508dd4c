//! Divides a walk among processes that do not talk to each other.
//!
//! Every part lists the upper folders, level by level, and looks at its share of the names in them. Once a level has many
//! folders, each goes with all below it to one part. A share follows from hashes of paths, so that files that come and go
//! meanwhile move no others.

use crate::Part;
use packhorse_dataset::Digest;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// With this many folders for each part, their shares differ by about an eighth.
const FOLDERS: usize = 64;

/// The share of one part, and the folders `F` that it found below those that all parts list.
pub(super) struct Division<F> {
    part: Part,
    below: Mutex<Vec<F>>,
    /// The folders that all parts list: root, path, and whether this part could list it.
    shared: Mutex<BTreeSet<(u32, PathBuf, bool)>>,
    /// Whether whole folders were given to the parts.
    divided: AtomicBool,
}

impl<F> Division<F> {
    pub(super) fn new(part: Part) -> Self {
        Self { part, below: Mutex::default(), shared: Mutex::default(), divided: AtomicBool::new(false) }
    }

    /// Whether this part looks at `path` below a root.
    pub(super) fn owns(&self, root: u32, path: &Path) -> bool {
        if self.part == Part::ALL {
            return true;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&root.to_le_bytes()).update(path.as_os_str().as_bytes());
        let head = hasher.finalize().as_bytes().first_chunk().map_or(0, |head| u32::from_le_bytes(*head));
        self.part.holds(head as usize)
    }

    /// Notes a folder that all parts list, and whether this part could.
    pub(super) fn share(&self, root: u32, path: &Path, listed: bool) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).insert((root, path.to_owned(), listed));
    }

    /// Adds a folder below one that all parts list.
    pub(super) fn add(&self, folder: F) {
        self.below.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
    }

    /// Takes the folders of the next level that this part lists, and whether all parts list them. `place`: the root and the
    /// path of a folder.
    pub(super) fn next_level(&self, place: impl Fn(&F) -> (u32, PathBuf)) -> (Vec<F>, bool) {
        let mut below = std::mem::take(&mut *self.below.lock().unwrap_or_else(PoisonError::into_inner));
        let shared = below.len() < FOLDERS.saturating_mul(self.part.count() as usize);
        if !shared {
            self.divided.store(true, Ordering::Relaxed);
            below.retain(|folder| {
                let (root, path) = place(folder);
                self.owns(root, &path)
            });
        }
        (below, shared)
    }

    /// A digest of the folders that all parts list. Parts that saw others, or could not list one that others could, do not
    /// share the rest between them.
    pub(super) fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for (root, path, listed) in &*self.shared.lock().unwrap_or_else(PoisonError::into_inner) {
            hasher.update(&root.to_le_bytes()).update(path.as_os_str().as_bytes()).update(&[0, u8::from(*listed)]);
        }
        hasher.update(&[u8::from(self.divided.load(Ordering::Relaxed))]);
        hasher.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_one_owner_and_shares_are_about_equal() {
        let parts: Vec<Division<()>> = (1..=7).map(|i| Division::new(Part::new(i, 7).unwrap())).collect();
        let mut counts = [0u32; 7];
        for n in 0..7000 {
            let path = PathBuf::from(format!("a/{n}.jpg"));
            let owners: Vec<usize> = (0..7).filter(|i| parts[*i].owns(0, &path)).collect();
            assert_eq!(owners.len(), 1);
            counts[owners[0]] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn folders_are_given_away_once_there_are_many() {
        let place = |n: &u32| (0, PathBuf::from(n.to_string()));
        let division = |i| Division::<u32>::new(Part::new(i, 2).unwrap());
        let level = |division: &Division<u32>, folders: u32| {
            (0..folders).for_each(|n| division.add(n));
            division.next_level(place)
        };
        let few = division(1);
        assert_eq!(level(&few, 127), ((0..127).collect(), true));
        let both: Vec<(Vec<u32>, bool)> = [1, 2].map(|i| level(&division(i), 500)).into();
        assert!(both.iter().all(|(folders, shared)| !shared && folders.len() > 200), "{both:?}");
        let mut all: Vec<u32> = both.into_iter().flat_map(|(folders, _)| folders).collect();
        all.sort_unstable();
        assert_eq!(all, (0..500).collect::<Vec<_>>());
        few.share(0, Path::new("a"), true);
        assert_ne!(few.digest(), division(1).digest());
        let failed = division(1);
        level(&failed, 127);
        failed.share(0, Path::new("a"), false);
        assert_ne!(few.digest(), failed.digest());
        let divided = division(1);
        level(&divided, 500);
        assert_ne!(divided.digest(), division(1).digest());
    }
}
