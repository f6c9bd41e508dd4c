//! Full verification against reading the same files one after the other: `cargo bench --bench verify`.
//!
//! Arguments after `--`: megabytes of photos (default 1000), a number of rounds (default 9). The dataset lies in the build folder, and
//! the kernel drops its files before every run, so that both read from the disk.

#![expect(clippy::expect_used, reason = "a bench ends where it can't go on")]

use packhorse::pack::Depth;
use packhorse_testkit::trials::{Trials, Unit, run};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let mut trials = Trials::of("verify");
    if !trials.wants("verify-full") {
        return;
    }
    let (megabytes, rounds) = (trials.number(0, 1000), trials.number(1, 9) as usize);
    let dataset = dataset(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("packhorse-bench-verify"), megabytes);
    let files: Vec<PathBuf> = std::fs::read_dir(&dataset)
        .expect("the dataset")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    let bytes: u64 = files.iter().map(|file| file.metadata().expect("a file").len()).sum();
    let title = format!("verify --full, {} files that the page cache does not hold", files.len());
    let trial = trials.work("verify-full", title, Unit::Bytes, bytes as f64).ours("packhorse", |clock| {
        forget(&files);
        clock.time(|| verify(&dataset));
    });
    let trial = trial.limit("reading them one after the other", |clock| {
        forget(&files);
        clock.time(|| files.iter().for_each(|file| read(file)));
    });
    trial.run(rounds);
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
