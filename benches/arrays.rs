//! NPZ files into HDF5 against the least that it can cost: reading the files and writing the bytes; and against the
//! same with the BLAKE3 of the output, which every receipt holds.
//!
//! `cargo bench --bench arrays`; `PACKHORSE_PYTHON` with NumPy makes the inputs. Arguments after `--`: a
//! number of rounds (default 9). Inputs and outputs lie in `/dev/shm` where that is, else in the build
//! folder. How each format compares with its peers is in the benches of its own crate.

#![expect(clippy::expect_used, reason = "a bench ends where it can't go on")]

use packhorse_testkit::trials::{Clock, Trials, Unit, python, run};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let mut trials = Trials::of("arrays");
    let rounds = trials.number(0, 9) as usize;
    let formats = ["hdf5", "webdataset"];
    let (Some(python), true) = (python(), formats.iter().any(|format| trials.wants(&format!("arrays-{format}"))))
    else {
        return;
    };
    let base =
        if Path::new("/dev/shm").is_dir() { Path::new("/dev/shm") } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    let home = base.join("packhorse-bench-arrays");
    let (inputs, out) = (home.join("npz"), home.join("out"));
    run(Command::new(python).args(["-c", MAKE]).arg(&inputs).arg(COUNT.to_string()));
    let files: Vec<PathBuf> = std::fs::read_dir(&inputs).expect("inputs").map(|e| e.expect("input").path()).collect();
    let bytes: u64 = files.iter().map(|file| std::fs::metadata(file).expect("input").len()).sum();
    for format in formats {
        let title = format!("{COUNT} .npz files of 3 MB into {format}, not compressed");
        let trial = trials.work(&format!("arrays-{format}"), title, Unit::Bytes, bytes as f64);
        let trial = trial.ours("packhorse", |clock| packhorse(clock, &inputs, &out, format));
        let trial = trial.limit("reading and writing the bytes", |clock| copied(clock, &files, &out, false));
        trial.limit("the same with their BLAKE3", |clock| copied(clock, &files, &out, true)).run(rounds);
    }
    std::fs::remove_dir_all(&home).expect("clean");
}

/// One command, from files to a sealed dataset with digests.
fn packhorse(clock: &mut Clock, inputs: &Path, out: &Path, format: &str) {
    let _ = std::fs::remove_dir_all(out);
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    command.arg("pack").arg(inputs).args(["--to", format, "--quiet", "--shard-count", "2", "--out"]).arg(out);
    if format == "hdf5" {
        command.args(["--filter", "none"]);
    }
    clock.time(|| run(&mut command));
}

/// Reads each file whole and writes its bytes, half of them in each of two threads, into a file each, whose BLAKE3 is
/// taken where `summed`.
fn copied(clock: &mut Clock, files: &[PathBuf], out: &Path, summed: bool) {
    let _ = std::fs::remove_dir_all(out);
    std::fs::create_dir(out).expect("out");
    clock.time(|| {
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
    });
}
