//! Planning at scale: `cargo bench --bench plan -- 10000000`, and from the listings of 64 parts `cargo bench --bench plan -- 10000000 64`.
//! The file system of the inputs is made up, so this measures scan and plan alone, with classes and a shuffle; listings and plan
//! are written to the build folder or to `PACKHORSE_BENCH_DIR`, temporary files to `TMPDIR`. Prints seconds, sizes and peak memory.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

use packhorse::core::{Error, FileKind, FileStat, Input, Result, Store, StoreFile};
use packhorse::pack::Part;
use packhorse::storage::Local;
use packhorse::{Labels, Recipe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse().ok());
    let (count, parts) = (numbers.next().unwrap_or(1_000_000), numbers.next().unwrap_or(0) as u32);
    let above = std::env::var_os("PACKHORSE_BENCH_DIR").map_or(env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    let out = above.join("packhorse-bench-plan");
    // What an interrupted run left.
    let _ = std::fs::remove_dir_all(&out);
    let session = packhorse::session().store(Arc::new(Dream { count })).io_threads(2);
    let recipe = Recipe::new("/photos", "webdataset", &out).labels(Labels::Folders).shuffle(7);
    let before = peak_memory();
    let start = Instant::now();
    for part in 1..=parts {
        session.scan_part(&recipe, Part::new(part, parts).expect("a part")).expect("scan");
    }
    let (scanned, listed) = (start.elapsed(), size_of(&out.join(".listings")));
    let in_scan = peak_memory() - before;
    let session = session.from_listings(parts > 0);
    let plan = session.plan(&recipe).expect("plan");
    let planned = start.elapsed() - scanned;
    session.store_plan(&recipe, &plan).expect("store");
    let stored = start.elapsed() - planned - scanned;
    if parts > 0 {
        println!(
            "{parts} parts of a scan: {:.1} s, {:.0} MB of listings, peak memory {:.0} MiB",
            scanned.as_secs_f64(),
            listed as f64 / 1e6,
            in_scan as f64 / 1048576.0
        );
    }
    let memory = peak_memory() - before;
    println!(
        "{count} inputs: plan {:.1} s, stored {:.1} s, {} shards, plan file {:.0} MB, peak memory {:.0} MiB, {:.0} bytes an input",
        planned.as_secs_f64(),
        stored.as_secs_f64(),
        plan.shards().len(),
        size_of(&out) as f64 / 1e6,
        memory as f64 / 1048576.0,
        memory as f64 / count as f64
    );
    let _ = std::fs::remove_dir_all(&out);
}

/// Bytes of the files in a folder.
fn size_of(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
}

/// Bytes, from the kernel's account of this process.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The folder that is made up.
const PHOTOS: &str = "/photos";

/// `/photos/n00000012/n00000012_00000345.JPEG`, a thousand a folder; all else is the local file system.
struct Dream {
    count: u64,
}

impl Store for Dream {
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        if !dir.starts_with(PHOTOS) {
            return Local.list(dir);
        }
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(match name.strip_prefix('n').and_then(|n| n.parse::<u64>().ok()) {
            None => (0..self.count.div_ceil(1000)).map(|i| PathBuf::from(format!("n{i:08}"))).collect(),
            Some(folder) => {
                let files = (self.count - folder * 1000).min(1000);
                (0..files).map(|i| PathBuf::from(format!("{name}_{i:08}.JPEG"))).collect()
            }
        })
    }

    fn stat(&self, path: &Path, follow: bool) -> Result<FileStat> {
        if !path.starts_with(PHOTOS) {
            return Local.stat(path, follow);
        }
        let file = path.extension().is_some_and(|extension| extension == "JPEG");
        if !file && path.extension().is_some() {
            return Err(Error::io("open", std::io::ErrorKind::NotFound.into()).in_input(path.display()));
        }
        let kind = if file { FileKind::File } else { FileKind::Directory };
        let id = path.as_os_str().len() as u64;
        let (size, time) = (if file { 110_000 + id } else { 0 }, 1_700_000_000_000_000_000);
        Ok(FileStat { kind, size, mtime: time, ctime: time, id: (1, id) })
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        Local.open(path)
    }
    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        Local.create(path)
    }
    fn sync_file(&self, path: &Path) -> Result<()> {
        Local.sync_file(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        Local.rename(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        Local.sync_dir(dir)
    }
    fn create_dir(&self, dir: &Path) -> Result<()> {
        Local.create_dir(dir)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        Local.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        Local.remove_dir(dir)
    }
}
