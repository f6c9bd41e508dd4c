//! Full verification against reading the same files one after the other: `cargo bench --bench verify`.
//!
//! Arguments after `--`: megabytes of photos (default 1000). The dataset lies in the build folder, and the kernel drops its
//! files before every run, so that both read from the disk. Prints the ratio of the medians of five pairs of runs.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

#[expect(dead_code, reason = "every bench takes a part of what they share")]
mod common;

use common::{run, timed};
use packhorse::pack::Depth;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let megabytes: u64 = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(1000);
    let dataset = dataset(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("packhorse-bench-verify"), megabytes);
    let files: Vec<PathBuf> = std::fs::read_dir(&dataset)
        .expect("the dataset")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    let bytes: u64 = files.iter().map(|file| file.metadata().expect("a file").len()).sum();
    let (mut reads, mut verifications) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        forget(&files);
        reads.push(timed(|| files.iter().for_each(|file| read(file))).as_secs_f64());
        forget(&files);
        verifications.push(timed(|| verify(&dataset)).as_secs_f64());
    }
    let [read, verified] = [reads, verifications].map(|mut times| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    });
    let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
    println!("{} MB in {} files", bytes / 1_000_000, files.len());
    println!("  read one after the other {:>8.0} MB/s", rate(read));
    println!("  verify --full            {:>8.0} MB/s, {:.2} of that", rate(verified), read / verified);
}

/// Packs photos of about this size, once.
fn dataset(home: &Path, megabytes: u64) -> PathBuf {
    // A photo that `synth` makes has about 16.6 KB.
    let (count, out) = ((megabytes * 60).to_string(), home.join(format!("shards-{megabytes}")));
    if !out.join("dataset.json").exists() {
        let (photos, packhorse) = (home.join("photos"), env!("CARGO_BIN_EXE_packhorse"));
        run(Command::new(packhorse).args(["synth", "images", "--count", &count, "--out"]).arg(&photos));
        let pack = ["--to", "webdataset", "--shard-size", "100MB", "--out"];
        run(Command::new(packhorse).arg("pack").arg(&photos).args(pack).arg(&out));
        std::fs::remove_dir_all(photos).expect("the photos go away");
    }
    out
}

/// Asks the kernel to drop what it has of these files.
fn forget(files: &[PathBuf]) {
    for file in files {
        let file = File::open(file).expect("a file");
        file.sync_all().expect("sync");
        nix::fcntl::posix_fadvise(&file, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED).expect("fadvise");
    }
}

fn read(file: &Path) {
    let (mut file, mut buffer) = (File::open(file).expect("a file"), vec![0; 1 << 20]);
    while file.read(&mut buffer).expect("bytes") > 0 {}
}

fn verify(dataset: &Path) {
    let verification = packhorse::session().verify(dataset, Depth::Full).expect("verification");
    assert!(verification.damages.is_empty(), "{:?}", verification.damages);
}
