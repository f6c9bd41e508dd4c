//! Packing against GNU tar and Python webdataset, in the same run: `cargo bench --bench pack`.
//!
//! Arguments after `--`: `warm`, `cold` (default both), or `writer` (samples that a program pushes); a number of files or
//! samples (default 32000), a number of rounds (default 5). The corpus lies in `PACKHORSE_BENCH_DIR` (default: the build folder), and
//! for `warm` in `/dev/shm` where that is. `PACKHORSE_PYTHON` with webdataset installed adds that
//! peer. Rounds alternate between the rivals, and the medians are compared.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

mod common;

use arrow_array::{BinaryViewArray, RecordBatch, StringViewArray};
use common::{median, run, timed};
use packhorse::Recipe;
use packhorse::core::{FieldType, KEY, Schema};
use std::fs::File;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let numbers: Vec<usize> = args.iter().filter_map(|a| a.parse().ok()).collect();
    let count = numbers.first().copied().unwrap_or(32_000);
    let rounds = numbers.get(1).copied().unwrap_or(5);
    if args.iter().any(|a| a == "writer") {
        return writer(count, rounds);
    }
    let both = !args.iter().any(|a| a == "warm" || a == "cold");
    if both || args.iter().any(|a| a == "warm") {
        let home = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { bench_dir() };
        warm(&Corpus::new(&home.join("packhorse-bench"), count, 6), rounds);
    }
    if both || args.iter().any(|a| a == "cold") {
        for shards in [6, 33] {
            let mut corpus = Corpus::new(&bench_dir().join("packhorse-bench"), count, shards);
            cold(&corpus, rounds);
            if Path::new("/dev/shm").is_dir() {
                corpus.out = PathBuf::from("/dev/shm/packhorse-bench-out");
                cold(&corpus, rounds);
            }
        }
    }
}

fn bench_dir() -> PathBuf {
    std::env::var_os("PACKHORSE_BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from)
}

/// Photo-like JPEGs, and for GNU tar the same files as one list a shard.
struct Corpus {
    home: PathBuf,
    photos: PathBuf,
    files: Vec<PathBuf>,
    lists: Vec<PathBuf>,
    out: PathBuf,
}

impl Corpus {
    fn new(home: &Path, count: usize, shards: usize) -> Self {
        let photos = home.join("photos");
        std::fs::create_dir_all(&photos).expect("bench folder");
        let spec = packhorse::synth::ImagesSpec { count: count as u64, ..Default::default() };
        let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let run = packhorse::synth::Run { jobs, cancel: &Default::default(), progress: &|_| {} };
        packhorse::synth::images(&photos, &spec, &run).expect("corpus");
        let mut files: Vec<PathBuf> = std::fs::read_dir(&photos)
            .expect("classes")
            .flat_map(|class| std::fs::read_dir(class.expect("class").path()).expect("class"))
            .map(|file| file.expect("file").path().strip_prefix(&photos).expect("below").to_owned())
            .collect();
        files.sort();
        let lists = files
            .chunks(files.len().div_ceil(shards))
            .enumerate()
            .map(|(i, chunk)| {
                let path = home.join(format!("list-{i:06}.txt"));
                let names: String = chunk.iter().map(|f| format!("{}\n", f.display())).collect();
                std::fs::write(&path, names).expect("list");
                path
            })
            .collect();
        Self { home: home.to_owned(), photos, files, lists, out: home.join("out") }
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|f| std::fs::metadata(self.photos.join(f)).expect("photo").len()).sum()
    }

    fn fresh_out(&self) {
        let _ = std::fs::remove_dir_all(&self.out);
    }

    /// Drops every input from the page cache.
    fn evict(&self) {
        for file in &self.files {
            let file = File::open(self.photos.join(file)).expect("photo");
            nix::fcntl::posix_fadvise(&file, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED)
                .expect("fadvise");
        }
    }

    /// GNU tar over the lists, `at_once` processes at a time.
    fn tar(&self, at_once: usize) -> Duration {
        self.fresh_out();
        std::fs::create_dir(&self.out).expect("out");
        timed(|| {
            let next = std::sync::atomic::AtomicUsize::new(0);
            std::thread::scope(|threads| {
                for _ in 0..at_once {
                    threads.spawn(|| {
                        while let Some(list) = self.lists.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                            let shard = self.out.join(list.file_stem().expect("stem")).with_extension("tar");
                            run(Command::new("tar")
                                .arg("cf")
                                .arg(shard)
                                .arg("-C")
                                .arg(&self.photos)
                                .arg("-T")
                                .arg(list));
                        }
                    });
                }
            });
        })
    }

    /// Reads every file and does nothing with it.
    fn read(&self, threads: usize) -> Duration {
        timed(|| {
            let next = std::sync::atomic::AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        while let Some(file) = self.files.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                            std::hint::black_box(std::fs::read(self.photos.join(file)).expect("photo"));
                        }
                    });
                }
            });
        })
    }

    fn command(&self, name: &str, index: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
        command.arg(name).arg(&self.photos).args(["--to", "webdataset", "--labels", "folders", "--quiet"]);
        command.arg("--out").arg(&self.out).args(["--index", index, "--shard-count", &self.lists.len().to_string()]);
        command
    }

    /// One command: find the files, plan, pack, seal.
    fn packhorse(&self, index: &str) -> Duration {
        self.fresh_out();
        timed(|| run(&mut self.command("pack", index)))
    }

    /// The plan is there, as the lists are for tar: fill it, and seal.
    fn packhorse_planned(&self, index: &str) -> Duration {
        self.fresh_out();
        run(&mut self.command("plan", index));
        let command = || Command::new(env!("CARGO_BIN_EXE_packhorse"));
        timed(|| {
            run(command().args(["pack", "--quiet", "--plan"]).arg(&self.out));
            run(command().args(["seal", "--quiet"]).arg(&self.out));
        })
    }

    /// Python webdataset's ShardWriter, jpg and cls.
    fn webdataset(&self, python: &Path) -> Duration {
        self.fresh_out();
        std::fs::create_dir(&self.out).expect("out");
        let script = self.home.join("writer.py");
        let mut file = File::create(&script).expect("script");
        file.write_all(WRITER.as_bytes()).expect("script");
        timed(|| run(Command::new(python).arg(&script).arg(&self.photos).args(&self.lists).arg(&self.out)))
    }
}

/// A sample a file, with its class from its folder; a shard a list.
const WRITER: &str = r#"
import os, sys
import webdataset as wds
root, *lists, out = sys.argv[1:]
classes = {name: str(i).encode() for i, name in enumerate(sorted(os.listdir(root)))}
for i, path in enumerate(lists):
    with wds.TarWriter(f"{out}/shard-{i:06d}.tar") as writer, open(path) as names:
        for name in names.read().splitlines():
            with open(os.path.join(root, name), "rb") as file:
                writer.write({"__key__": name[:-4], "jpg": file.read(), "cls": classes[name.split("/")[0]]})
"#;

/// Runs the rivals in turn and prints each median and its ratio to ours.
fn compare(
    title: &str,
    bytes: u64,
    rounds: usize,
    ours: &dyn Fn() -> Duration,
    peers: &[(&str, &dyn Fn() -> Duration)],
) {
    ours();
    let (mut mine, mut theirs) = (Vec::new(), vec![Vec::new(); peers.len()]);
    for _ in 0..rounds {
        mine.push(ours());
        peers.iter().zip(&mut theirs).for_each(|((_, peer), times)| times.push(peer()));
    }
    let mine = median(mine);
    println!("{title}\n  packhorse {mine:.3} s, {:.0} MB/s", bytes as f64 / mine / 1e6);
    for ((name, _), times) in peers.iter().zip(theirs) {
        let time = median(times);
        println!("  {name} {time:.3} s; packhorse takes {:.2}x of that, is {:.2}x as fast", mine / time, time / mine);
    }
}

/// Samples of 15 KB, made in memory, against webdataset's ShardWriter.
fn writer(count: usize, rounds: usize) {
    let home = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { bench_dir() };
    let home = home.join("packhorse-bench-writer");
    let out = home.join("out");
    std::fs::create_dir_all(&home).expect("bench folder");
    let fresh = || {
        let _ = std::fs::remove_dir_all(&out);
    };
    let rate = |times: Vec<Duration>| count as f64 / median(times);
    for batch in [1, 64] {
        let times: Vec<Duration> = (0..rounds)
            .map(|_| {
                fresh();
                timed(|| push_samples(&out, count, batch))
            })
            .collect();
        println!("writer, {count} samples of 15 KB, {batch} at a time: {:.0} samples/s", rate(times));
    }
    if let Some(python) = std::env::var_os("PACKHORSE_PYTHON").filter(|path| !path.is_empty()) {
        let script = home.join("shard_writer.py");
        std::fs::write(&script, SHARD_WRITER).expect("script");
        let round = || {
            fresh();
            std::fs::create_dir(&out).expect("out");
            let printed = Command::new(&python).arg(&script).arg(&out).arg(count.to_string()).output().expect("python");
            assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
            let seconds = String::from_utf8_lossy(&printed.stdout).trim().parse().expect("seconds");
            Duration::from_secs_f64(seconds)
        };
        println!("  webdataset's ShardWriter: {:.0} samples/s", rate((0..rounds.min(3)).map(|_| round()).collect()));
    }
    let _ = std::fs::remove_dir_all(&home);
}

fn push_samples(out: &Path, count: usize, batch: usize) {
    let value: Vec<u8> = (0..15_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let fields = vec![FieldType::Text.field(KEY, false), FieldType::Blob.field("jpg", false)];
    let schema = Arc::new(Schema::new(fields));
    let recipe = Recipe::for_writer("webdataset", out).shard_size(256 << 20);
    let mut writer = packhorse::session().writer(&recipe, &schema).expect("writer");
    for from in (0..count).step_by(batch) {
        let samples = from..count.min(from + batch);
        let keys = StringViewArray::from_iter_values(samples.clone().map(|i| format!("{i:09}")));
        // As a program does that gets its values from elsewhere, each batch has memory of its own.
        let values = BinaryViewArray::from_iter_values(samples.map(|_| &value));
        let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(keys), Arc::new(values)]).expect("rows");
        writer.push(&rows).expect("push");
    }
    writer.finish().expect("finish");
}

/// Prints the seconds that the samples took, without the start of Python.
const SHARD_WRITER: &str = r#"
import sys, time
import webdataset as wds
out, count = sys.argv[1], int(sys.argv[2])
value = bytes((i * 2654435761 % 2**32) >> 24 for i in range(15000))
start = time.perf_counter()
with wds.ShardWriter(f"{out}/shard-%06d.tar", maxsize=256 << 20, maxcount=10**9, verbose=0) as writer:
    for i in range(count):
        writer.write({"__key__": f"{i:09}", "jpg": value})
print(time.perf_counter() - start)
"#;

fn warm(corpus: &Corpus, rounds: usize) {
    let title =
        format!("warm: {} files into {} shards, labels, digests, checksums", corpus.files.len(), corpus.lists.len());
    let two = || corpus.tar(2);
    let all = || corpus.packhorse("wids,dali,energon");
    compare(&format!("{title}, all indexes"), corpus.bytes(), rounds, &all, &[("GNU tar, two at a time", &two)]);
    let planned = || corpus.packhorse_planned("wids,dali,energon");
    let from = format!("{title}, all indexes, from a plan as tar from its lists");
    compare(&from, corpus.bytes(), rounds, &planned, &[("GNU tar, two at a time", &two)]);
    match std::env::var_os("PACKHORSE_PYTHON").filter(|path| !path.is_empty()) {
        None => println!("  (set PACKHORSE_PYTHON to compare with webdataset)"),
        Some(python) => {
            let python = PathBuf::from(python);
            let peer = || corpus.webdataset(&python);
            // It gets its lists too.
            compare(&from, corpus.bytes(), rounds.min(3), &planned, &[("webdataset, jpg + cls", &peer)]);
        }
    }
    let _ = std::fs::remove_dir_all(&corpus.home);
}

fn cold(corpus: &Corpus, rounds: usize) {
    let evicted = |work: &dyn Fn() -> Duration| {
        corpus.evict();
        work()
    };
    let ours = || evicted(&|| corpus.packhorse("wids,dali,energon"));
    let tar = || evicted(&|| corpus.tar(1));
    let read = || evicted(&|| corpus.read(32));
    let to = if corpus.out.starts_with(&corpus.home) { "beside them (we sync, tar does not)" } else { "in memory" };
    let title = format!("cold: {} files into {} shards {to}, all indexes", corpus.files.len(), corpus.lists.len());
    let rivals: [(&str, &dyn Fn() -> Duration); 2] =
        [("GNU tar", &tar), ("the limit: only reading the files, with 32 threads,", &read)];
    compare(&title, corpus.bytes(), rounds, &ours, &rivals);
    corpus.fresh_out();
}
