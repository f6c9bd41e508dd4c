//! NPZ files into HDF5 against the least that it can cost: reading the files and writing the bytes.
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
        let (mut ours, mut least) = (Costs::default(), Costs::default());
        for _ in 0..=rounds {
            ours.push(packhorse(&inputs, &home.join("out"), format));
            least.push(copied(&files, &home.join("out")));
        }
        let (ours, least) = (ours.medians(), least.medians());
        println!(
            "{COUNT} .npz files of {} MB into {format}, not compressed: packhorse {:.3} s, {:.3} of processors, {:.0} MB/s; \
             reading and writing the bytes {:.3} s, {:.3} of processors; {:.2}x, {:.2}x of processors",
            bytes / COUNT as u64 / 1_000_000,
            ours.0,
            ours.1,
            bytes as f64 / ours.0 / 1e6,
            least.0,
            least.1,
            ours.0 / least.0,
            ours.1 / least.1
        );
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

/// Reads each file whole and writes its bytes, half of them in each of two threads, into a file each.
fn copied(files: &[PathBuf], out: &Path) -> (Duration, Duration) {
    let _ = std::fs::remove_dir_all(out);
    std::fs::create_dir(out).expect("out");
    cost(|| {
        std::thread::scope(|threads| {
            for (i, half) in files.chunks(files.len().div_ceil(2)).enumerate() {
                let path = out.join(i.to_string());
                threads.spawn(move || {
                    let mut to = File::create(path).expect("out");
                    for file in half {
                        to.write_all(&std::fs::read(file).expect("input")).expect("written");
                    }
                });
            }
        });
    })
}
