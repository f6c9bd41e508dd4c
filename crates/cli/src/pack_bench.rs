//! Measures packing against its floor: a plain read of the same files, and a plain write of the same bytes.

use crate::timed_store::{StoreTimes, TimedStore};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use packhorse_core::{Cancel, Context, Error, Event, Kind, Observer, Result, Store};
use packhorse_machine::TestFolder;
use packhorse_pack::{PackReport, Recipe, Session};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a plain read or write.
const PIECE: usize = 1 << 20;

/// Seconds of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PackRound {
    /// From the start of scanning to the sealed dataset.
    pub(crate) pack: f64,
    /// Scanning and planning.
    pub(crate) plan: f64,
    /// From the plan to the last shard.
    pub(crate) fill: f64,
    /// From the last shard to the manifest.
    pub(crate) seal: f64,
    /// Reads of all threads together.
    pub(crate) reading: f64,
    /// Writes, syncs and renames of all threads together.
    pub(crate) writing: f64,
    /// The time of processors, in the program and in the system.
    pub(crate) cpu: f64,
    /// The plain read.
    pub(crate) floor_read: f64,
    /// The plain write.
    pub(crate) floor_write: f64,
}

/// What was packed, and how long it took.
pub(crate) struct PackMeasured {
    pub(crate) report: PackReport,
    /// Input files, and their bytes.
    pub(crate) files: u64,
    pub(crate) file_bytes: u64,
    /// Bytes of the plain write: all files of the dataset.
    pub(crate) written: u64,
    pub(crate) rounds: Vec<PackRound>,
}

/// Packing into folders that are removed again.
pub(crate) struct PackBench<'a> {
    /// Without an observer.
    pub(crate) session: Session,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) cancel: &'a Cancel,
    /// Where it packs to.
    pub(crate) folder: &'a TestFolder,
}

impl PackBench<'_> {
    /// The last dataset.
    pub(crate) fn dataset(&self) -> PathBuf {
        self.folder.path().join("dataset")
    }

    /// Packs once without counting it, which finds the inputs and brings them into memory, then `rounds` times, each beside a
    /// floor. Rounds alternate which of both comes first. The last dataset stays.
    pub(crate) fn measure(&self, recipe: &Recipe, rounds: u32) -> Result<PackMeasured> {
        let times = Arc::new(StoreTimes::default());
        let timed = TimedStore { inner: Arc::clone(&self.store), times: Arc::clone(&times) };
        let recipe = Recipe { out: Some(self.dataset()), ..recipe.clone() };
        let bench = Running { bench: self, recipe, session: self.session.clone().store(Arc::new(timed)), times };
        bench.times.note();
        let report = bench.pack(Some(&self.observer))?.0;
        // The plan and the shards do not count as inputs.
        let out = real(self.dataset());
        // A file may have been opened by a relative path and by an absolute one.
        let opened = bench.times.noted().into_iter().map(real);
        let files: BTreeSet<PathBuf> = opened.filter(|path| !path.starts_with(&out)).collect();
        let sizes = sizes(&out)?;
        let (found, written) = (files.len() as u64, sizes.iter().sum());
        let mut measured = PackMeasured { report, files: found, file_bytes: 0, written, rounds: Vec::new() };
        for number in 0..rounds {
            let packed = if number % 2 == 0 { Some(bench.pack(None)?.1) } else { None };
            let (bytes, floor_read) = self.read(&files)?;
            let floor_write = self.write(&sizes)?;
            let packed = packed.map_or_else(|| bench.pack(None).map(|(_, round)| round), Ok)?;
            measured.file_bytes = bytes;
            measured.rounds.push(PackRound { floor_read, floor_write, ..packed });
        }
        Ok(measured)
    }

    /// Reads all files, one after the other; returns bytes and seconds.
    fn read(&self, files: &BTreeSet<PathBuf>) -> Result<(u64, f64)> {
        let (start, mut bytes, mut buffer) = (Instant::now(), 0, vec![0; PIECE]);
        for path in files {
            let input = self.store.open(path)?;
            let mut stream = input.stream()?;
            loop {
                self.cancel.check()?;
                match stream.read(&mut buffer).context("read").map_err(|e| e.in_input(path.display()))? {
                    0 => break,
                    len => bytes += len as u64,
                }
            }
        }
        Ok((bytes, start.elapsed().as_secs_f64()))
    }

    /// Writes files of these sizes, one after the other, each synced; returns seconds.
    fn write(&self, sizes: &[u64]) -> Result<f64> {
        let dir = self.folder.path().join("floor");
        let named = |error: Error| error.in_input(dir.display());
        std::fs::create_dir(&dir).context("create").map_err(named)?;
        // Zeros might take no room.
        let piece: Vec<u8> = (0..PIECE as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let start = Instant::now();
        for (number, size) in sizes.iter().enumerate() {
            let mut file = File::create_new(dir.join(number.to_string())).context("create").map_err(named)?;
            let mut left = *size;
            while left > 0 {
                self.cancel.check()?;
                let len = left.min(PIECE as u64);
                file.write_all(piece.get(..len as usize).unwrap_or_default()).context("write").map_err(named)?;
                left -= len;
            }
            file.sync_all().context("sync").map_err(named)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        std::fs::remove_dir_all(&dir).context("remove").map_err(named)?;
        Ok(seconds)
    }
}

/// A bench with the session that it times.
struct Running<'a> {
    bench: &'a PackBench<'a>,
    recipe: Recipe,
    session: Session,
    times: Arc<StoreTimes>,
}

impl Running<'_> {
    /// Packs into a new folder.
    fn pack(&self, also: Option<&Arc<dyn Observer>>) -> Result<(PackReport, PackRound)> {
        let out = self.bench.dataset();
        match std::fs::remove_dir_all(&out) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", error).in_input(out.display()));
            }
            _ => {}
        }
        self.times.take();
        let phases = Arc::new(Phases { start: Instant::now(), found: Mutex::default(), also: also.cloned() });
        let (before, start) = (cpu(), Instant::now());
        let packed = self.session.clone().observe(Arc::clone(&phases)).pack(&self.recipe)?;
        let (pack, cpu) = (start.elapsed().as_secs_f64(), cpu() - before);
        let (planned, filled) = *phases.found.lock().unwrap_or_else(PoisonError::into_inner);
        let (reading, writing) = self.times.take();
        let (planned, filled) = (planned.as_secs_f64(), filled.as_secs_f64().max(planned.as_secs_f64()));
        if packed.report.samples == 0 {
            return Err(Error::new(Kind::Content, "nothing was packed, so there is nothing to measure"));
        }
        let round = PackRound {
            pack,
            plan: planned,
            fill: filled - planned,
            seal: (pack - filled).max(0.0),
            reading: reading.as_secs_f64(),
            writing: writing.as_secs_f64(),
            cpu,
            ..PackRound::default()
        };
        Ok((packed.report, round))
    }
}

/// When the plan was known, and when the last shard was done.
struct Phases {
    start: Instant,
    found: Mutex<(Duration, Duration)>,
    also: Option<Arc<dyn Observer>>,
}

impl Observer for Phases {
    fn event(&self, event: &Event<'_>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Planned { .. } => found.0 = self.start.elapsed(),
            Event::Shard { .. } => found.1 = self.start.elapsed(),
            _ => {}
        }
        drop(found);
        if let Some(also) = &self.also {
            also.event(event);
        }
    }
}

/// A local path without links and `..`; a URL as it is.
fn real(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

/// Seconds of processors that this process took.
fn cpu() -> f64 {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    usage.map_or(0.0, |usage| seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// The sizes of all files below `dir`.
fn sizes(dir: &Path) -> Result<Vec<u64>> {
    let named = |error: Error| error.in_input(dir.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).context("list").map_err(named)? {
        let path = entry.context("list").map_err(named)?.path();
        let stat = std::fs::metadata(&path).context("look at").map_err(named)?;
        match stat.is_dir() {
            true => found.extend(sizes(&path)?),
            false => found.push(stat.len()),
        }
    }
    Ok(found)
}
