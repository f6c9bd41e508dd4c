//! Writes a corpus to a folder. Owns threads and the file system; generates no content.

use crate::file_generator::FileGenerator;
use crate::{Run, Written};
use packhorse_core::{Cancel, Context, Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most files a thread takes at once: a whole folder, because threads writing to one folder block each other.
const MOST: u64 = 1000;

/// Writes `corpus` below `dir`; existing files must belong to it.
pub(crate) fn write(dir: &Path, corpus: &dyn FileGenerator, run: &Run<'_>) -> Result<Written> {
    let fresh = refuse_strangers(dir, corpus)?;
    fs::create_dir_all(dir).context("create folder").map_err(|e| e.in_input(dir.display()))?;
    let take = (corpus.files() / (run.jobs.get() as u64 * 8)).clamp(1, MOST);
    let job = Job { dir, corpus, run, fresh, take, next: AtomicU64::new(0), stop: Cancel::default() };
    let results: Vec<Result<Written>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..run.jobs.get()).map(|_| scope.spawn(|| job.work())).collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err(Error::bug("a thread of synth panicked"))))
            .collect()
    });
    let mut all = Written::default();
    for result in results {
        let one = result?;
        all = Written { files: all.files + one.files, bytes: all.bytes + one.bytes, reused: all.reused + one.reused };
    }
    run.cancel.check()?;
    Ok(all)
}

/// The state shared by the threads.
struct Job<'a> {
    dir: &'a Path,
    corpus: &'a dyn FileGenerator,
    run: &'a Run<'a>,
    fresh: bool,
    take: u64,
    next: AtomicU64,
    stop: Cancel,
}

impl Job<'_> {
    fn work(&self) -> Result<Written> {
        let result = self.take_turns();
        if result.is_err() {
            self.stop.cancel();
        }
        result
    }

    fn take_turns(&self) -> Result<Written> {
        let mut done = Written::default();
        let mut folders = BTreeSet::new();
        let mut bytes = Vec::new();
        loop {
            let first = self.next.fetch_add(self.take, Ordering::Relaxed);
            if first >= self.corpus.files() {
                return Ok(done);
            }
            for index in first..(first + self.take).min(self.corpus.files()) {
                if self.stop.is_cancelled() || self.run.cancel.is_cancelled() {
                    return Ok(done);
                }
                bytes.clear();
                self.corpus.fill(index, &mut bytes)?;
                let path = self.dir.join(self.corpus.name(index));
                done.reused += u64::from(!self.put(&path, &bytes, &mut folders)?);
                done.files += 1;
                done.bytes += bytes.len() as u64;
                (self.run.progress)(bytes.len() as u64);
            }
        }
    }

    /// Writes the file unless it already exists; returns whether it did.
    fn put(&self, path: &Path, bytes: &[u8], folders: &mut BTreeSet<PathBuf>) -> Result<bool> {
        let named = |error: Error| error.in_input(path.display());
        if let Some(folder) = path.parent().filter(|folder| !folders.contains(*folder)) {
            fs::create_dir_all(folder).context("create folder").map_err(named)?;
            folders.insert(folder.to_owned());
        }
        if !self.fresh && is_there(path, bytes).map_err(named)? {
            return Ok(false);
        }
        fs::write(path, bytes).context("write").map_err(named)?;
        Ok(true)
    }
}

/// Whether `path` holds exactly `bytes`. A missing file or a prefix is to be rewritten; other content is an error.
fn is_there(path: &Path, bytes: &[u8]) -> Result<bool> {
    let found = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        found => found.context("read")?,
    };
    if !bytes.starts_with(&found) {
        let text =
            "differs from this corpus: it is of another seed or specification; give an empty folder or remove this one";
        return Err(Error::config(text));
    }
    Ok(found.len() == bytes.len())
}

/// Whether the folder is empty or missing. An error if it contains other files than those of `corpus`.
fn refuse_strangers(dir: &Path, corpus: &dyn FileGenerator) -> Result<bool> {
    let mut folders = vec![dir.to_owned()];
    let mut fresh = true;
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.context("list").map_err(|e| e.in_input(folder.display()))?,
        };
        for entry in entries {
            let entry = entry.context("list").map_err(|e| e.in_input(folder.display()))?;
            fresh = false;
            let path = entry.path();
            if entry.file_type().context("look at").map_err(|e| e.in_input(path.display()))?.is_dir() {
                folders.push(path);
            } else if !is_named(dir, &path, corpus) {
                let text = "is not of this corpus; give an empty folder, or one that holds the same corpus";
                return Err(Error::config(text).in_input(path.display()));
            }
        }
    }
    Ok(fresh)
}

fn is_named(dir: &Path, path: &Path, corpus: &dyn FileGenerator) -> bool {
    path.strip_prefix(dir).ok().and_then(Path::to_str).is_some_and(|name| corpus.owns(name))
}
