//! The test files: one large one, whose name is gone at once, and many small ones.

use crate::aligned::{Aligned, BLOCK};
use crate::test_folder::TestFolder;
use crate::{ColdReads, LimitsOptions};
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use nix::sys::resource::{UsageWho, getrusage};
use packhorse_core::{Cancel, Context, Error, Result, SplitMix64};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file is written in so many parts, each synced and timed.
const PARTS: u64 = 8;
/// As many parts at least, however slow they are.
const LEAST_PARTS: usize = 4;
/// Bytes of a write.
const PIECE: usize = 1 << 20;
/// Small files.
const SMALL: usize = 512;
const SMALL_BYTES: usize = 4096;
/// Reads that tell whether a file is in memory.
const TRIED: u64 = 64;

/// The smallest large file.
pub(crate) const LEAST: u64 = PARTS * PIECE as u64;

/// Room for all test files beside the large one.
pub(crate) const BESIDE: u64 = 16 << 20;

/// The large file, opened, and the small ones by name.
pub(crate) struct TestFiles {
    pub(crate) file: File,
    /// The large file, read past the page cache.
    pub(crate) direct: Option<File>,
    pub(crate) bytes: u64,
    /// Whether the page cache lets the file go when it is asked to.
    pub(crate) drops: bool,
    pub(crate) small: Vec<PathBuf>,
    /// Bytes a second of each part that was written.
    pub(crate) written: Vec<f64>,
}

impl TestFiles {
    /// Writes them into `folder`.
    pub(crate) fn write(folder: &TestFolder, options: &LimitsOptions, cancel: &Cancel) -> Result<Self> {
        let named = |error: Error| error.in_input(folder.path().display());
        let path = folder.path().join("large");
        let mut options_of = OpenOptions::new();
        let file = options_of.read(true).write(true).create_new(true).open(&path).context("create").map_err(named)?;
        let written = write_parts(&file, options, cancel).map_err(named)?;
        let bytes = written.len() as u64 * part(options.size);
        let direct = OpenOptions::new().read(true).custom_flags(OFlag::O_DIRECT.bits()).open(&path).ok();
        // Even a process that is killed leaves no large file.
        std::fs::remove_file(&path).context("remove").map_err(named)?;
        let direct = direct.filter(|file| waits(file, bytes));
        let mut files = Self { file, direct, bytes, drops: false, small: Vec::new(), written };
        files.drops = files.drop_pages().is_ok() && waits(&files.file, bytes);
        files.small = write_small(folder.path(), cancel).map_err(named)?;
        Ok(files)
    }

    pub(crate) fn cold(&self) -> ColdReads {
        match (&self.direct, self.drops) {
            (Some(_), _) => ColdReads::Direct,
            (None, true) => ColdReads::Dropped,
            (None, false) => ColdReads::None,
        }
    }

    /// Asks the page cache to let the large file go.
    pub(crate) fn drop_pages(&self) -> Result<()> {
        posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .map_err(|e| Error::io("drop cached pages", e.into()))
    }

    /// Reads the large file into the page cache.
    pub(crate) fn warm(&self, cancel: &Cancel) -> Result<()> {
        let mut buffer = vec![0; PIECE];
        for at in (0..self.bytes).step_by(PIECE) {
            cancel.check()?;
            self.file.read_exact_at(&mut buffer, at).context("read the test file")?;
        }
        Ok(())
    }
}

/// Bytes of a part: a multiple of a piece.
fn part(size: u64) -> u64 {
    size / PARTS / PIECE as u64 * PIECE as u64
}

/// Writes parts that can't be compressed, for a fifth of the time if the storage is slow; returns the rate of each.
fn write_parts(mut file: &File, options: &LimitsOptions, cancel: &Cancel) -> Result<Vec<f64>> {
    let mut numbers = SplitMix64::new(7);
    let mut piece: Vec<u8> = (0..PIECE / 8).flat_map(|_| numbers.next().to_le_bytes()).collect();
    let (began, patience) = (Instant::now(), Duration::from_secs_f64(options.seconds / 5.0));
    let mut rates = Vec::new();
    while rates.len() < PARTS as usize && (rates.len() < LEAST_PARTS || began.elapsed() < patience) {
        let start = Instant::now();
        for _ in 0..part(options.size) / PIECE as u64 {
            cancel.check()?;
            // Equal blocks might be stored once.
            let stamp = numbers.next().to_le_bytes();
            piece.chunks_mut(BLOCK).filter_map(|block| block.first_chunk_mut()).for_each(|first| *first = stamp);
            file.write_all(&piece).context("write")?;
        }
        file.sync_data().context("sync")?;
        rates.push(part(options.size) as f64 / start.elapsed().as_secs_f64().max(1e-9));
    }
    Ok(rates)
}

fn write_small(dir: &Path, cancel: &Cancel) -> Result<Vec<PathBuf>> {
    let dir = dir.join("small");
    std::fs::create_dir(&dir).context("create a folder for test files")?;
    let one = |number: usize| {
        cancel.check()?;
        let path = dir.join(format!("{number:06}.bin"));
        std::fs::write(&path, [number as u8; SMALL_BYTES]).context("write")?;
        Ok(path)
    };
    (0..SMALL).map(one).collect()
}

/// Whether reads of `file` wait for a device or a server: a quarter of some random ones had to, at least. A read from memory
/// never does. A file that can't be read this way is none that waits.
fn waits(file: &File, bytes: u64) -> bool {
    let mut buffer = Aligned::default();
    let so_far = || getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches());
    let before = so_far();
    let all = (0..TRIED).all(|number| {
        let at = SplitMix64::at(11, number) % (bytes / BLOCK as u64) * BLOCK as u64;
        file.read_exact_at(buffer.room(BLOCK), at).is_ok()
    });
    all && so_far() - before >= TRIED as i64 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_large_file_has_no_name_and_the_bytes_that_were_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let folder = TestFolder::new(dir.path(), "test", LEAST).unwrap();
        let options = LimitsOptions { size: LEAST + 5000, ..LimitsOptions::new(dir.path()) };
        let files = TestFiles::write(&folder, &options, &Cancel::default()).unwrap();
        assert_eq!((files.bytes, files.file.metadata().unwrap().len()), (LEAST, LEAST));
        assert_eq!((files.written.len(), files.small.len()), (PARTS as usize, SMALL));
        assert!(!folder.path().join("large").exists());
        files.warm(&Cancel::default()).unwrap();
    }

    #[test]
    fn memory_is_not_cold() {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
        let folder = TestFolder::new(dir.path(), "test", LEAST).unwrap();
        let options = LimitsOptions { size: LEAST, ..LimitsOptions::new(dir.path()) };
        let files = TestFiles::write(&folder, &options, &Cancel::default()).unwrap();
        assert_eq!(files.cold(), ColdReads::None);
    }
}
