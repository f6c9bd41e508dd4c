//! Keeps decompressors of compressed text, so that a run goes on where the previous one stopped, and which files were found whole.

use packhorse_core::Result;
use packhorse_dataset::SeekPoint;
use packhorse_storage::{Frame, Inside};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most decompressors kept. A writer resumes its own at once, or never.
const KEPT: usize = 16;

/// Idle decompressors, and which files are known to be whole.
#[derive(Default)]
pub(crate) struct DecompressorCache {
    /// Idle decompressors, the most recent last.
    idle: Mutex<VecDeque<(PathBuf, Arc<Inside>)>>,
    /// Whether a file is whole. The first thread finds out while others wait.
    checked: Mutex<BTreeMap<PathBuf, Arc<OnceLock<Result<()>>>>>,
}

impl DecompressorCache {
    /// A decompressor of the file `path` for the bytes `range` of its text: a cached one if it is closer to the start
    /// than `seek_point`, else one that `open` makes.
    pub(crate) fn take(
        &self,
        path: &Path,
        range: Range<u64>,
        seek_point: SeekPoint,
        open: impl FnOnce(Frame) -> Result<Inside>,
    ) -> Result<Arc<Inside>> {
        let frame = Frame { offset: seek_point.offset, start: seek_point.start };
        let mut kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on =
            |inside: &mut Arc<Inside>| Arc::get_mut(inside).is_some_and(|inside| inside.goes_on(range.start, frame));
        let found = kept.iter_mut().rposition(|(file, inside)| file == path && goes_on(inside));
        let found = found.and_then(|i| kept.remove(i));
        drop(kept);
        let inside = found.map_or_else(|| open(frame).map(Arc::new), |(_, inside)| Ok(inside))?;
        inside.ends_at(range.end);
        Ok(inside)
    }

    /// What `check` finds of the file `path`, which is called once.
    pub(crate) fn check(&self, path: &Path, check: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Arc::clone(checked.entry(path.to_owned()).or_default());
        drop(checked);
        found.get_or_init(check).clone()
    }

    /// Returns a decompressor after a run.
    pub(crate) fn put(&self, path: PathBuf, inside: Arc<Inside>) {
        let mut kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((path, inside));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Input, MemoryInput};
    use packhorse_storage::Compression;
    use std::cell::Cell;

    #[test]
    fn a_run_goes_on_where_another_stopped_and_nowhere_else() {
        let plain: Vec<u8> = (0..10_000_000u32).map(|i| (i.wrapping_mul(i) / 7) as u8).collect();
        let opened = Cell::new(0);
        let open = |_: Frame| {
            opened.set(opened.get() + 1);
            let packed = zstd_of(&plain);
            Ok(Inside::new(Box::new(MemoryInput::new("a", packed)), Compression::Zstd, 10_000_000, Frame::default()))
        };
        let seek_point = SeekPoint { len: 10_000_000, offset: 0, start: 0 };
        let (cache, a, b) = (DecompressorCache::default(), Path::new("a"), Path::new("b"));
        let read = |inside: &Inside, at: usize| {
            let mut found = vec![0; 100_000];
            inside.read_at(at as u64, &mut found).unwrap();
            assert!(found == plain[at..at + 100_000]);
        };
        let first = cache.take(a, 0..5_060_000, seek_point, open).unwrap();
        read(&first, 0);
        read(&first, 5_000_000);
        // The first is in use, so a second is opened.
        let second = cache.take(a, 0..5_060_000, seek_point, open).unwrap();
        read(&second, 0);
        assert_eq!(opened.get(), 2);
        cache.put(a.to_owned(), first);
        cache.put(a.to_owned(), second);
        let on = cache.take(a, 5_050_000..6_000_000, seek_point, open).unwrap();
        read(&on, 5_050_000);
        assert_eq!(opened.get(), 2);
        cache.put(a.to_owned(), on);
        let other = cache.take(b, 5_050_000..6_000_000, seek_point, open).unwrap();
        cache.put(b.to_owned(), other);
        assert_eq!(opened.get(), 3);
        for _ in 0..2 * KEPT {
            cache.put(b.to_owned(), Arc::new(open(Frame::default()).unwrap()));
        }
        assert_eq!(cache.idle.lock().unwrap().len(), KEPT);
    }

    /// A frame of blocks as they are (RFC 8878, 3.1.1).
    fn zstd_of(bytes: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];
        for block in bytes.chunks(1 << 17) {
            frame.extend(&((block.len() as u32) << 3).to_le_bytes()[..3]);
            frame.extend(block);
        }
        frame.extend([1, 0, 0]);
        frame
    }
}
