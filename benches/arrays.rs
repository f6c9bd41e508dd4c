//! NPZ files into HDF5 against the least that it can cost: reading the files and writing the bytes; and against the
//! same with the BLAKE3 of the output, which every receipt holds.
//!
//! `cargo bench --bench arrays`; `PACKHORSE_PYTHON` with NumPy makes the inputs. Arguments after `--`: a
//! number of rounds (default 5). Inputs and outputs lie in `/dev/shm` where that is, else in the build
//! folder. Rounds alternate, and the medians are compared, by the clock and by what the processors did: on a
//! machine that is used otherwise too, the latter says more. How each format compares with its peers is in the
//! benches of its own crate.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

mod common;

use common::{median, run, timed};
use nix::sys::resource::{UsageWho, getrusage};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// `COUNT` files with the arrays `x`, float32 `[5, 224, 224, 3]` (3 MB), and `y`, a label.
const MAKE: &str = r#"
import os, sys
import numpy as np
folder, count = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
rng = np.random.default_rng(1)
for i in range(count):
    np.savez(f"{folder}/{i:04d}.npz", x=rng.random((5, 224, 224, 3), np.float32), y=np.int64(i % 10))
"#;

const COUNT: usize = 100;

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(5);
    let Some(python) = std::env::var_os("PACKHORSE_PYTHON").filter(|path| !path.is_empty()) else {
        return println!("set PACKHORSE_PYTHON to a Python with NumPy, which makes the inputs");
    };
    let base =
        if Path::new("/dev/shm").is_dir() { Path::new("/dev/shm") } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    let home = base.join("packhorse-bench-arrays");
    let inputs = home.join("npz");
    run(Command::new(python).args(["-c", MAKE]).arg(&inputs).arg(COUNT.to_string()));
    let files: Vec<PathBuf> = std::fs::read_dir(&inputs).expect("inputs").map(|e| e.expect("input").path()).collect();
    let bytes: u64 = files.iter().map(|file| std::fs::metadata(file).expect("input").len()).sum();
    for format in ["hdf5", "webdataset"] {
        let mut costs = [Costs::default(), Costs::default(), Costs::default()];
        for _ in 0..=rounds {
            let out = home.join("out");
            let round = [packhorse(&inputs, &out, format), copied(&files, &out, false), copied(&files, &out, true)];
            costs.iter_mut().zip(round).for_each(|(costs, cost)| costs.push(cost));
        }
        let [ours, least, summed] = costs.map(Costs::medians);
        println!(
            "{COUNT} .npz files of {} MB into {format}, not compressed: packhorse {:.3} s, {:.3} of processors, {:.0} MB/s",
            bytes / COUNT as u64 / 1_000_000,
            ours.0,
            ours.1,
            bytes as f64 / ours.0 / 1e6
        );
        for (what, other) in [("reading and writing the bytes", least), ("with their BLAKE3", summed)] {
            println!(
                "  {what:<30} {:.3} s, {:.3} of processors: packhorse {:.2}x, {:.2}x of processors",
                other.0,
                other.1,
                ours.0 / other.0,
                ours.1 / other.1
            );
        }
    }
    std::fs::remove_dir_all(&home).expect("clean");
}

/// By the clock, and of all processors.
#[derive(Default)]
struct Costs(Vec<Duration>, Vec<Duration>);

impl Costs {
    fn push(&mut self, (clock, processors): (Duration, Duration)) {
        self.0.push(clock);
        self.1.push(processors);
    }

    fn medians(self) -> (f64, f64) {
        (median(self.0), median(self.1))
    }
}

fn cost(work: impl FnOnce()) -> (Duration, Duration) {
    let before = processors();
    let clock = timed(work);
    (clock, processors() - before)
}

/// What this process and those that it started have used.
fn processors() -> Duration {
    let usages = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).expect("usage"));
    let times = usages.iter().flat_map(|usage| [usage.user_time(), usage.system_time()]);
    times.map(|time| Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()) as u64)).sum()
}

/// One command, from files to a sealed dataset with digests.
fn packhorse(inputs: &Path, out: &Path, format: &str) -> (Duration, Duration) {
    let _ = std::fs::remove_dir_all(out);
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    command.arg("pack").arg(inputs).args(["--to", format, "--quiet", "--shard-count", "2", "--out"]).arg(out);
    if format == "hdf5" {
        command.args(["--filter", "none"]);
    }
    cost(|| run(&mut command))
}

/// Reads each file whole and writes its bytes, half of them in each of two threads, into a file each, whose BLAKE3 is
/// taken where `summed`.
fn copied(files: &[PathBuf], out: &Path, summed: bool) -> (Duration, Duration) {
    let _ = std::fs::remove_dir_all(out);
    std::fs::create_dir(out).expect("out");
    cost(|| {
        std::thread::scope(|threads| {
            for (i, half) in files.chunks(files.len().div_ceil(2)).enumerate() {
                let path = out.join(i.to_string());
                threads.spawn(move || {
                    let mut to = File::create(path).expect("out");
                    let mut sum = blake3::Hasher::new();
                    for file in half {
                        let bytes = std::fs::read(file).expect("input");
                        to.write_all(&bytes).expect("written");
                        if summed {
                            sum.update(&bytes);
                        }
                    }
                    std::hint::black_box(sum.finalize());
                });
            }
        });
    })
}
