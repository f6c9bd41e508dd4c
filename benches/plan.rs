//! Planning at scale: `cargo bench --bench plan -- 10000000`. The file system is made up, so that what
//! is measured is scan and plan alone, with classes and a shuffle. Prints seconds, peak memory, and bytes of memory an input.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

use packhorse::core::{Error, FileKind, FileStat, Input, Result, Store, StoreFile};
use packhorse::{Labels, Recipe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let count = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(1_000_000);
    let session = packhorse::session().store(Arc::new(Dream { count })).io_threads(2);
    let recipe = Recipe::new("/photos", "webdataset", "/shards").labels(Labels::Folders).shuffle(7);
    let before = peak_memory();
    let start = Instant::now();
    let plan = session.plan(&recipe).expect("plan");
    let planned = start.elapsed();
    let mut written = Counter(0);
    plan.write(&mut written).expect("write");
    let memory = peak_memory() - before;
    println!(
        "{count} inputs: plan {:.1} s, written {:.1} s, {} shards, plan file {:.0} MB, peak memory {:.0} MiB, {:.0} bytes an input",
        planned.as_secs_f64(),
        (start.elapsed() - planned).as_secs_f64(),
        plan.shards().len(),
        written.0 as f64 / 1e6,
        memory as f64 / 1048576.0,
        memory as f64 / count as f64
    );
}

/// Bytes, from the kernel's account of this process.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

struct Counter(u64);

impl std::io::Write for Counter {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0 += buf.len() as u64;
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// `/photos/n00000012/n00000012_00000345.JPEG`, a thousand a folder.
struct Dream {
    count: u64,
}

impl Store for Dream {
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(match name.strip_prefix('n').and_then(|n| n.parse::<u64>().ok()) {
            None => (0..self.count.div_ceil(1000)).map(|i| PathBuf::from(format!("n{i:08}"))).collect(),
            Some(folder) => {
                let files = (self.count - folder * 1000).min(1000);
                (0..files).map(|i| PathBuf::from(format!("{name}_{i:08}.JPEG"))).collect()
            }
        })
    }

    fn stat(&self, path: &Path, _: bool) -> Result<FileStat> {
        let file = path.extension().is_some_and(|extension| extension == "JPEG");
        if !file && path.extension().is_some() {
            return nothing(path);
        }
        let kind = if file { FileKind::File } else { FileKind::Directory };
        let id = path.as_os_str().len() as u64;
        let (size, time) = (if file { 110_000 + id } else { 0 }, 1_700_000_000_000_000_000);
        Ok(FileStat { kind, size, mtime: time, ctime: time, id: (1, id) })
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        nothing(path)
    }
    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        nothing(path)
    }
    fn sync_file(&self, path: &Path) -> Result<()> {
        nothing(path)
    }
    fn rename(&self, from: &Path, _: &Path) -> Result<()> {
        nothing(from)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        nothing(dir)
    }
    fn create_dir(&self, dir: &Path) -> Result<()> {
        nothing(dir)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        nothing(path)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        nothing(dir)
    }
}

/// There are names alone.
fn nothing<T>(path: &Path) -> Result<T> {
    Err(Error::io("open", std::io::ErrorKind::NotFound.into()).in_input(path.display()))
}
