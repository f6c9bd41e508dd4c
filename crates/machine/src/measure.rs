//! All measurements, in rounds in which all take their turn, so that a slow moment of the machine does not fall on one alone.

use crate::compute::Material;
use crate::pictures::Pictures;
use crate::probe::Probe;
use crate::test_files::{BESIDE, LEAST, TestFiles};
use crate::test_folder::TestFolder;
use crate::{Interval, MachineLimit, MachineLimits, Quantity, reads};
use packhorse_core::{Cancel, Error, Result};
use packhorse_synth::Run;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Rounds of each measurement.
pub const ROUNDS: usize = 5;

/// What to measure, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitsOptions {
    /// A folder of the file system to measure, where test files may be written.
    pub dir: PathBuf,
    /// Bytes of the large test file, at least 8 MiB; some less are written where the storage is slow. With the other files it
    /// takes up to 16 MiB more.
    pub size: u64,
    /// Seconds for all measurements, about.
    pub seconds: f64,
    /// Threads that compute, and that read from memory.
    pub threads: usize,
    /// Threads that wait for cold reads.
    pub io_threads: usize,
}

impl LimitsOptions {
    /// In `dir`: 256 MiB, 10 s, the CPUs that this process may use, 32 threads for cold reads as packing has.
    pub fn new(dir: impl AsRef<Path>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let dir = dir.as_ref().to_owned();
        Self { dir, size: 256 << 20, seconds: 10.0, threads, io_threads: 32.max(threads) }
    }

    fn check(&self) -> Result<()> {
        if self.size < LEAST {
            return Err(Error::config(format!("`size` takes {LEAST} bytes or more, not {}", self.size)));
        }
        // The upper bound keeps each round a number of seconds that a clock can hold.
        match (0.01..=86_400.0).contains(&self.seconds) {
            true => Ok(()),
            false => Err(Error::config(format!("`seconds` takes 0.01 to 86400, not {}", self.seconds))),
        }
    }
}

/// Measures the limits of this machine and of the file system of `options.dir`. Files are written there into a folder of their
/// own, and removed when this returns, also with an error.
///
/// Errors: `Config` for options that make no sense; `Environment` for a folder that is missing, without permission or room;
/// `Cancelled`.
pub fn measure(options: &LimitsOptions, cancel: &Cancel) -> Result<MachineLimits> {
    options.check()?;
    let start = Instant::now();
    let (threads, io_threads) = (options.threads.max(1), options.io_threads.max(1));
    let folder = TestFolder::new(&options.dir, "packhorse-limits", options.size.saturating_add(BESIDE))?;
    let run = Run { jobs: NonZeroUsize::MIN, cancel, progress: &|_| () };
    let material = Material::new(&folder, threads, &run)?;
    let pictures = [Quantity::Jpeg224, Quantity::Jpeg500].map(|size| Pictures::new(size, &folder, threads, &run));
    let pictures = pictures.into_iter().collect::<Result<Vec<_>>>()?;
    let files = TestFiles::write(&folder, options, cancel)?;
    let buffers = reads::buffers(threads.max(io_threads));
    let mut steady = reads::warm(&files, &buffers, threads);
    steady.extend(reads::direct(&files, &buffers, io_threads));
    steady.extend(pictures.iter().flat_map(|pictures| pictures.probes(threads)));
    steady.extend(material.probes(threads));
    // Last, since it takes the file out of the page cache.
    let dropping = reads::dropped(&files, &buffers, io_threads);
    let each = (options.seconds - start.elapsed().as_secs_f64()).max(options.seconds / 2.0);
    let each = Duration::from_secs_f64(each / (ROUNDS * (steady.len() + dropping.len())) as f64);
    files.warm(cancel)?;
    let written = Interval::of(files.written.clone());
    let mut measured = vec![MachineLimit { quantity: Quantity::Write, threads: 1, rate: written, unit_bytes: 1.0 }];
    measured.extend(rounds(&steady, each, cancel)?);
    measured.extend(rounds(&dropping, each, cancel)?);
    measured.sort_by_key(|limit| (limit.quantity, limit.threads));
    let (cold, size, dir) = (files.cold(), files.bytes, options.dir.clone());
    Ok(MachineLimits { dir, size, threads, cold, gpu: None, measured, seconds: start.elapsed().as_secs_f64() })
}

/// Each probe in each round, for `each`.
fn rounds(probes: &[Probe<'_>], each: Duration, cancel: &Cancel) -> Result<Vec<MachineLimit>> {
    let mut rates = vec![Vec::new(); probes.len()];
    for _ in 0..ROUNDS {
        for (probe, rates) in probes.iter().zip(&mut rates) {
            rates.push(probe.round(each, cancel)?);
        }
    }
    let limits = probes.iter().zip(rates).map(|(probe, rates)| {
        let Probe { quantity, threads, unit_bytes, .. } = *probe;
        MachineLimit { quantity, threads, rate: Interval::of(rates), unit_bytes }
    });
    Ok(limits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColdReads, Unit};
    use std::collections::BTreeSet;

    fn small(dir: &Path) -> LimitsOptions {
        LimitsOptions { size: LEAST, seconds: 0.2, threads: 2, io_threads: 3, ..LimitsOptions::new(dir) }
    }

    #[test]
    fn every_limit_of_this_machine_is_found_and_no_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let limits = measure(&small(dir.path()), &Cancel::default()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        for quantity in Quantity::all() {
            let is_cold = quantity.name().ends_with("cold");
            let may_lack = is_cold && limits.cold == ColdReads::None || quantity == Quantity::HeadersCold;
            match limits.one(quantity) {
                Some(limit) => {
                    let Interval { median, min, max, .. } = limit.rate;
                    assert!(0.0 < min && min <= median && median <= max, "{limit:?}");
                    assert_eq!(limit.bytes_per_s() > 0.0, quantity.unit() != Unit::Files, "{limit:?}");
                }
                None => assert!(may_lack || [Quantity::ToGpu, Quantity::FromGpu].contains(&quantity), "{quantity:?}"),
            }
        }
        let best = limits.best(Quantity::Jpeg500).unwrap();
        assert!(best.rate.median >= limits.one(Quantity::Jpeg500).unwrap().rate.median);
        assert_eq!(best.pixels_per_s(), Some(best.rate.median * 250_000.0));
        assert!(limits.measured.is_sorted_by_key(|limit| (limit.quantity, limit.threads)));
    }

    #[test]
    fn a_stopped_measurement_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let cancel = Cancel::default();
        cancel.cancel();
        assert_eq!(measure(&small(dir.path()), &cancel).unwrap_err().kind(), packhorse_core::Kind::Cancelled);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tiny = LimitsOptions { size: 1000, ..small(dir.path()) };
        let never = LimitsOptions { seconds: f64::NAN, ..small(dir.path()) };
        for options in [tiny, never] {
            assert_eq!(measure(&options, &Cancel::default()).unwrap_err().kind(), packhorse_core::Kind::Config);
        }
    }

    #[test]
    fn names_differ() {
        let names: BTreeSet<&str> = Quantity::all().map(|quantity| quantity.name()).collect();
        assert_eq!(names.len(), Quantity::all().count());
    }
}
