//! A corpus of JSON lines into tokens: against the tokenizer alone, and against what users run today.
//!
//! `cargo bench --bench tokens`; `PACKHORSE_TEST_DATA` has the texts and the tokenizers. `PACKHORSE_PYTHON` with
//! `tokenizers` runs the structure of Megatron's `preprocess_data` (over the first copy only, since it takes
//! minutes), `PACKHORSE_GIGATOKEN`, a Python with `gigatoken`, that of its `preprocess_data_fast`. Arguments after
//! `--`: the number of copies (default 14: 535 MB), and the name of the tokenizer (default gpt2). Copies have other
//! words (`corpus.rs`). Files lie in `/dev/shm` where that is, else in the build folder.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and ends where it can't go on"
)]

#[expect(dead_code, reason = "every bench takes a part of what they share")]
#[path = "../common/mod.rs"]
mod common;
mod corpus;

use arrow_array::{RecordBatch, StringViewArray};
use common::{median, timed};
use nix::sys::resource::{UsageWho, getrusage};
use packhorse::core::{FieldType, Rows, Schema};
use packhorse::transform::Transform;
use packhorse::transform::tokenize::{Tokenize, TokenizeOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;

/// What the rounds of one side took.
#[derive(Default)]
struct Runs {
    times: Vec<Duration>,
    cpu: Vec<Duration>,
    /// The most memory, in MiB.
    peak: u64,
}

impl Runs {
    /// Adds a round, which says its time and its peak of memory; `who` works for it.
    fn add(&mut self, who: UsageWho, run: impl FnOnce() -> (Duration, u64)) {
        let before = spent(who);
        let (time, peak) = run();
        self.cpu.push(spent(who) - before);
        self.times.push(time);
        self.peak = self.peak.max(peak);
    }

    fn time(&self) -> f64 {
        median(self.times.clone())
    }

    fn cpu(&self) -> f64 {
        median(self.cpu.clone())
    }

    /// How many times as fast this is as `other`: the median of what each round says.
    fn speed_of(&self, other: &Runs) -> f64 {
        ratio(&self.times, &other.times)
    }

    /// The same by what the processors did.
    fn thrift_of(&self, other: &Runs) -> f64 {
        ratio(&self.cpu, &other.cpu)
    }
}

fn ratio(ours: &[Duration], theirs: &[Duration]) -> f64 {
    let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| theirs.div_duration_f64(*ours));
    median(ratios.map(Duration::from_secs_f64).collect())
}

/// Where everything lies.
struct Bench {
    home: PathBuf,
    tokenizer: PathBuf,
    eod: u32,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let copies = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(14);
    let name = args.iter().find(|arg| arg.parse::<u64>().is_err()).map_or("gpt2", String::as_str);
    let Some(data) = std::env::var_os("PACKHORSE_TEST_DATA").map(PathBuf::from) else {
        return println!("set PACKHORSE_TEST_DATA to the folder of texts and tokenizers");
    };
    let base = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { env!("CARGO_TARGET_TMPDIR") };
    let home = Path::new(base).join("packhorse-bench-tokens");
    std::fs::create_dir_all(&home).expect("a folder");
    let tokenizer = home.join("tokenizer.json");
    std::fs::write(&tokenizer, unpacked(&data.join(format!("tokenizers/{name}.json.zst")))).expect("a tokenizer");
    let eod = if name == "cl100k" { 100_257 } else { 50_256 };
    let bench = Bench { home, tokenizer, eod };
    let text = String::from_utf8(unpacked(&data.join("text.jsonl.zst"))).expect("text");
    let (small, large) = (bench.home.join("small.jsonl"), bench.home.join("large.jsonl"));
    corpus::write(&text, 1, &small);
    corpus::write(&text, copies, &large);
    drop(text);
    let bytes = |path: &Path| std::fs::metadata(path).expect("a file").len() as f64;
    println!(
        "{name}, {:.0} MB of JSON lines; medians of {ROUNDS} rounds, {name} is loaded in every run",
        bytes(&large) / 1e6
    );

    let texts = texts(&large);
    let volume: usize = texts.iter().map(|rows| rows.column(0).get_array_memory_size()).sum();
    let gigatoken = variable("PACKHORSE_GIGATOKEN");
    let (mut one, mut two, mut alone, mut peer) = (Runs::default(), Runs::default(), Runs::default(), Runs::default());
    // One after the other in each round, and compared in each: a machine that others use is not the same for long.
    for _ in 0..ROUNDS {
        one.add(UsageWho::RUSAGE_CHILDREN, || bench.packhorse(&large, 1));
        two.add(UsageWho::RUSAGE_CHILDREN, || bench.packhorse(&large, 2));
        alone.add(UsageWho::RUSAGE_SELF, || (bench.alone(&texts), 0));
        if let Some(python) = &gigatoken {
            peer.add(UsageWho::RUSAGE_CHILDREN, || bench.peer(python, "whole", &large));
        }
    }
    drop(texts);
    let rate = |path: &Path, seconds: f64| bytes(path) / 1e6 / seconds;
    println!(
        "packhorse, 2 threads: {:.2} s, {:.0} MB/s, {:.2} s of processors, at most {} MiB",
        two.time(),
        rate(&large, two.time()),
        two.cpu(),
        two.peak
    );
    println!("packhorse, 1 thread:  {:.2} s; two threads are {:.2}x one", one.time(), two.speed_of(&one));
    println!(
        "the tokenizer alone, 2 threads, {:.0} MB of text in memory: {:.2} s, {:.2} of processors; packhorse has {:.2} of its speed, {:.2} by processors",
        volume as f64 / 1e6,
        alone.time(),
        alone.cpu(),
        two.speed_of(&alone),
        two.thrift_of(&alone)
    );
    let (_, peak) = bench.packhorse(&small, 2);
    println!("memory over {:.0} MB: {peak} MiB", bytes(&small) / 1e6);
    if gigatoken.is_some() {
        println!(
            "gigatoken in the structure of preprocess_data_fast: {:.2} s, {:.2} of processors with Python's start, {} MiB; packhorse is {:.2}x as fast, {:.2}x by processors",
            peer.time(),
            peer.cpu(),
            peer.peak,
            two.speed_of(&peer),
            two.thrift_of(&peer)
        );
        bench.same(&large);
    }
    if let Some(python) = variable("PACKHORSE_PYTHON") {
        let (seconds, peak) = bench.peer(&python, "pool", &small);
        let ratio = rate(&large, two.time()) / rate(&small, seconds.as_secs_f64());
        println!(
            "the structure of preprocess_data over {:.0} MB: {:.1} s, {peak} MiB; packhorse is {ratio:.0}x as fast",
            bytes(&small) / 1e6,
            seconds.as_secs_f64()
        );
        bench.same(&small);
    }
    std::fs::remove_dir_all(&bench.home).expect("clean");
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn unpacked(path: &Path) -> Vec<u8> {
    zstd::decode_all(std::fs::File::open(path).expect("test data")).expect("test data")
}

/// The texts of the corpus, in blocks as the source has them.
fn texts(path: &Path) -> Vec<Rows> {
    let lines = std::fs::read_to_string(path).expect("the corpus");
    let all: Vec<String> = lines
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["text"].as_str().expect("text").to_owned()
        })
        .collect();
    let schema = Arc::new(Schema::new(vec![FieldType::Text.field("text", false)]));
    all.chunks(64)
        .map(|texts| {
            let column = StringViewArray::from_iter_values(texts);
            RecordBatch::try_new(schema.clone(), vec![Arc::new(column)]).expect("rows")
        })
        .collect()
}

impl Bench {
    /// From the file to a sealed dataset with digests, in a process of its own: its time and the peak of its memory.
    fn packhorse(&self, input: &Path, jobs: usize) -> (Duration, u64) {
        let out = self.home.join("out");
        let _ = std::fs::remove_dir_all(&out);
        let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
        command.arg("pack").arg(input).args(["--to", "tokens", "--append-eod", "--quiet", "--shard-count", "8"]);
        command.arg("--jobs").arg(jobs.to_string()).arg("--eod").arg(self.eod.to_string());
        command.arg("--tokenizer").arg(&self.tokenizer).arg("--out").arg(&out);
        let (start, ended) = (Instant::now(), AtomicBool::new(false));
        let mut child = command.spawn().expect("packhorse starts");
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        std::thread::scope(|threads| {
            let peak = threads.spawn(|| {
                let mut peak = 0;
                while !ended.load(Ordering::Relaxed) {
                    peak = peak.max(high_water(&status));
                    // Seldom, as the cores are the child's.
                    std::thread::sleep(Duration::from_millis(20));
                }
                peak
            });
            assert!(child.wait().expect("packhorse runs").success());
            let time = start.elapsed();
            ended.store(true, Ordering::Relaxed);
            (time, peak.join().expect("memory is read"))
        })
    }

    /// Loads the tokenizer and encodes texts in memory on two threads; the tokens are dropped.
    fn alone(&self, texts: &[Rows]) -> Duration {
        let file = std::fs::read(&self.tokenizer).expect("a tokenizer");
        timed(|| {
            let options = TokenizeOptions { eod: Some(self.eod.to_string()), append_eod: true, ..Default::default() };
            let tokenize = Tokenize::new(&file, "tokenizer.json", options).expect("a tokenizer");
            let next = AtomicUsize::new(0);
            std::thread::scope(|threads| {
                for _ in 0..2 {
                    threads.spawn(|| {
                        while let Some(rows) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
                            std::hint::black_box(tokenize.apply(rows.clone()).expect("tokens"));
                        }
                    });
                }
            });
        })
    }

    /// A peer by the script beside this bench: its time without starting Python, and the peak of memory in MiB.
    fn peer(&self, python: &Path, how: &str, input: &Path) -> (Duration, u64) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/preprocess.py");
        let mut command = Command::new(python);
        command.arg(script).arg(how).arg(&self.tokenizer).arg(self.eod.to_string()).arg("2").arg(input);
        let output = command.arg(self.home.join("peer")).output().expect("Python starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = printed.split_whitespace();
        let seconds = words.next().and_then(|word| word.parse().ok()).expect("seconds");
        (Duration::from_secs_f64(seconds), words.next().and_then(|word| word.parse().ok()).expect("MiB"))
    }

    /// Peer and packhorse wrote the same tokens: speed counts only then.
    fn same(&self, input: &Path) {
        self.packhorse(input, 2);
        let out = self.home.join("out");
        let mut names: Vec<PathBuf> =
            std::fs::read_dir(&out).expect("shards").map(|e| e.expect("a shard").path()).collect();
        names.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
        names.sort();
        let ours: Vec<u8> = names.iter().flat_map(|path| std::fs::read(path).expect("a shard")).collect();
        let theirs = std::fs::read(self.home.join("peer.bin")).expect("the peer's tokens");
        assert!(ours == theirs, "the peer wrote other tokens: {} bytes, packhorse {}", theirs.len(), ours.len());
    }
}

/// The time that processors spent on this process, or on those that it started.
fn spent(who: UsageWho) -> Duration {
    let usage = getrusage(who).expect("the system says it");
    let time = usage.user_time() + usage.system_time();
    Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()).unsigned_abs())
}

/// The most memory that a process had, in MiB.
fn high_water(status: &Path) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() / 1024
}
