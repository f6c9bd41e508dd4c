//! Packing against GNU tar and Python webdataset, in the same run: `cargo bench --bench pack`.
//!
//! Arguments after `--`: words that choose works (`warm`, `cold`, `writer`); a number of files or samples (default 32000), a number of
//! rounds (default 9). The corpus lies in `PACKHORSE_BENCH_DIR` (default: the build folder), and for `warm` in `/dev/shm` where that
//! is. `PACKHORSE_PYTHON` with webdataset installed adds that peer.

#![expect(clippy::expect_used, reason = "a bench ends where it can't go on")]

use arrow_array::{BinaryViewArray, RecordBatch, StringViewArray};
use packhorse::Recipe;
use packhorse::core::{FieldType, KEY, Schema};
use packhorse_testkit::trials::{Clock, Trials, Unit, package, python, run, thousands, version};
use std::fs::File;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn main() {
    let mut trials = Trials::of("pack");
    let (count, rounds) = (trials.number(0, 32_000) as usize, trials.number(1, 9) as usize);
    let shm = Path::new("/dev/shm").is_dir();
    let home = if shm { PathBuf::from("/dev/shm") } else { bench_dir() };
    if ["pack-warm", "pack-warm-planned", "pack-warm-webdataset"].iter().any(|name| trials.wants(name)) {
        warm(&mut trials, &Corpus::new(&home.join("packhorse-bench"), count, 6), rounds);
    }
    for shards in [6, 33] {
        let [beside, memory] = ["beside", "memory"].map(|to| format!("pack-cold-{shards}-{to}"));
        if !trials.wants(&beside) && !trials.wants(&memory) {
            continue;
        }
        let mut corpus = Corpus::new(&bench_dir().join("packhorse-bench"), count, shards);
        cold(&mut trials, &beside, &corpus, rounds);
        if shm {
            corpus.out = PathBuf::from("/dev/shm/packhorse-bench-out");
            cold(&mut trials, &memory, &corpus, rounds);
        }
    }
    writer(&mut trials, &home.join("packhorse-bench-writer"), count, rounds);
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
    fn tar(&self, clock: &mut Clock, at_once: usize) {
        self.fresh_out();
        std::fs::create_dir(&self.out).expect("out");
        clock.time(|| {
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
        });
    }

    /// Reads every file and does nothing with it.
    fn read(&self, clock: &mut Clock, threads: usize) {
        clock.time(|| {
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
        });
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
        command.arg(name).arg(&self.photos).args(["--to", "webdataset", "--labels", "folders", "--quiet"]);
        command
            .arg("--out")
            .arg(&self.out)
            .args(["--index", "wids,dali,energon"])
            .args(["--shard-count", &self.lists.len().to_string()]);
        command
    }

    /// One command: find the files, plan, pack, seal.
    fn packhorse(&self, clock: &mut Clock) {
        self.fresh_out();
        clock.time(|| run(&mut self.command("pack")));
    }

    /// The plan is there, as the lists are for tar: fill it, and seal.
    fn packhorse_planned(&self, clock: &mut Clock) {
        self.fresh_out();
        run(&mut self.command("plan"));
        let command = || Command::new(env!("CARGO_BIN_EXE_packhorse"));
        clock.time(|| {
            run(command().args(["pack", "--quiet", "--plan"]).arg(&self.out));
            run(command().args(["seal", "--quiet"]).arg(&self.out));
        });
    }

    /// Python webdataset's ShardWriter, jpg and cls.
    fn webdataset(&self, clock: &mut Clock, python: &Path) {
        self.fresh_out();
        std::fs::create_dir(&self.out).expect("out");
        let script = self.home.join("writer.py");
        let mut file = File::create(&script).expect("script");
        file.write_all(WRITER.as_bytes()).expect("script");
        clock.time(|| run(Command::new(python).arg(&script).arg(&self.photos).args(&self.lists).arg(&self.out)));
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

/// Samples of 15 KB, made in memory, against webdataset's ShardWriter.
fn writer(trials: &mut Trials, home: &Path, count: usize, rounds: usize) {
    if ![1, 64].iter().any(|batch| trials.wants(&format!("pack-writer-{batch}"))) {
        return;
    }
    let out = home.join("out");
    std::fs::create_dir_all(home).expect("bench folder");
    let fresh = || {
        let _ = std::fs::remove_dir_all(&out);
    };
    let pushed = |clock: &mut Clock, batch: usize| {
        fresh();
        clock.time(|| push_samples(&out, count, batch));
    };
    for batch in [1, 64] {
        let title = format!("samples of 15 KB that a program pushes, {batch} at a time");
        let trial = trials.work(&format!("pack-writer-{batch}"), title, Unit::Samples, count as f64);
        let mut trial = trial.ours("packhorse", |clock| pushed(clock, batch));
        if let Some((python, name)) = webdataset() {
            let script = home.join("shard_writer.py");
            std::fs::write(&script, SHARD_WRITER).expect("script");
            let fresh = &fresh;
            let out = &out;
            trial = trial.peer(format!("{name}, ShardWriter"), move |clock: &mut Clock| {
                fresh();
                std::fs::create_dir(out).expect("out");
                clock.told(Command::new(&python).arg(&script).arg(out).arg(count.to_string()));
            });
        }
        trial.run(rounds.min(5));
    }
    let _ = std::fs::remove_dir_all(home);
}

/// A Python that has webdataset, and its version.
fn webdataset() -> Option<(PathBuf, String)> {
    let python = python()?;
    let name = package(&python, "webdataset")?;
    Some((python, name))
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
start, processors = time.perf_counter(), time.process_time()
with wds.ShardWriter(f"{out}/shard-%06d.tar", maxsize=256 << 20, maxcount=10**9, verbose=0) as writer:
    for i in range(count):
        writer.write({"__key__": f"{i:09}", "jpg": value})
print(time.perf_counter() - start, time.process_time() - processors)
"#;

fn warm(trials: &mut Trials, corpus: &Corpus, rounds: usize) {
    let (files, shards, bytes) = (thousands(corpus.files.len() as u64), corpus.lists.len(), corpus.bytes() as f64);
    let title =
        format!("{files} JPEGs in memory into {shards} shards, with labels, digests, checksums and all indexes");
    let tar = format!("{} of the listed files, two at a time, nothing else", version("tar"));
    let trial = trials.work("pack-warm", format!("{title}, finding the files too"), Unit::Bytes, bytes);
    let trial = trial.ours("packhorse", |clock| corpus.packhorse(clock));
    trial
        .peer(&tar, |clock| corpus.tar(clock, 2))
        .limit("reading the files, with 2 threads", |clock| corpus.read(clock, 2))
        .run(rounds);
    let planned = format!("{title}, from a plan");
    let trial = trials.work("pack-warm-planned", &planned, Unit::Bytes, bytes);
    let trial = trial.ours("packhorse", |clock| corpus.packhorse_planned(clock));
    trial
        .peer(&tar, |clock| corpus.tar(clock, 2))
        .limit("reading the files, with 2 threads", |clock| corpus.read(clock, 2))
        .run(rounds);
    if let Some((python, name)) = webdataset() {
        // It gets its lists too.
        let trial = trials.work("pack-warm-webdataset", planned, Unit::Bytes, bytes);
        let trial = trial.ours("packhorse", |clock| corpus.packhorse_planned(clock));
        trial.peer(format!("{name}, jpg and cls"), |clock| corpus.webdataset(clock, &python)).run(rounds.min(3));
    }
    let _ = std::fs::remove_dir_all(&corpus.home);
}

fn cold(trials: &mut Trials, name: &str, corpus: &Corpus, rounds: usize) {
    let to = if corpus.out.starts_with(&corpus.home) { "beside them, synced" } else { "in memory" };
    let (files, shards) = (thousands(corpus.files.len() as u64), corpus.lists.len());
    let title = format!("{files} JPEGs that the page cache does not hold, into {shards} shards {to}");
    let trial = trials.work(name, title, Unit::Bytes, corpus.bytes() as f64).ours("packhorse", |clock| {
        corpus.evict();
        corpus.packhorse(clock);
    });
    let trial = trial.peer(format!("{}, not synced", version("tar")), |clock| {
        corpus.evict();
        corpus.tar(clock, 1);
    });
    let trial = trial.limit("only reading the files, with 32 threads", |clock| {
        corpus.evict();
        corpus.read(clock, 32);
    });
    trial.run(rounds);
    corpus.fresh_out();
}
