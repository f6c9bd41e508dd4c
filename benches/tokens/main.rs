//! A corpus of JSON lines into tokens: against the tokenizer alone, and against what users run today.
//!
//! `cargo bench --bench tokens`; `PACKHORSE_TEST_DATA` has the texts and the tokenizers. `PACKHORSE_PYTHON` with
//! `tokenizers` runs the structure of Megatron's `preprocess_data` (over the first copy only, since it takes
//! minutes), `PACKHORSE_GIGATOKEN`, a Python with `gigatoken`, that of its `preprocess_data_fast`. Arguments after
//! `--`: the number of copies (default 14: 535 MB), of rounds (default 9), and the name of the tokenizer (default gpt2). Copies have other
//! words (`corpus.rs`). Files lie in `/dev/shm` where that is, else in the build folder.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and ends where it can't go on"
)]

mod corpus;

use arrow_array::{RecordBatch, StringViewArray};
use packhorse::core::{FieldType, Rows, Schema};
use packhorse::transform::Transform;
use packhorse::transform::tokenize::{Tokenize, TokenizeOptions};
use packhorse_testkit::trials::{Clock, Trials, Unit, package, python};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Where everything lies.
struct Bench {
    home: PathBuf,
    tokenizer: PathBuf,
    eod: u32,
}

fn main() {
    let mut trials = Trials::of("tokens");
    let (copies, rounds) = (trials.number(0, 14), trials.number(1, 9) as usize);
    let Some(data) = std::env::var_os("PACKHORSE_TEST_DATA").map(PathBuf::from) else {
        return println!("set PACKHORSE_TEST_DATA to the folder of texts and tokenizers");
    };
    let names = std::env::args().skip(1).filter(|arg| data.join(format!("tokenizers/{arg}.json.zst")).exists());
    let name = names.into_iter().next_back().unwrap_or_else(|| "gpt2".to_owned());
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
    let texts = texts(&large);
    let gigatoken = variable("PACKHORSE_GIGATOKEN");
    let title = |path: &Path| format!("{:.0} MB of JSON lines to tokens of {name}, 2 threads", bytes(path) / 1e6);

    let mut peak = 0;
    let trial = trials.work(&format!("tokens-{name}"), title(&large), Unit::Bytes, bytes(&large));
    let trial = trial.ours("packhorse", |clock| peak = bench.packhorse(clock, &large, 2).max(peak));
    let trial = trial.limit("the tokenizer alone, texts in memory", |clock| bench.alone(clock, &texts));
    let trial = match &gigatoken {
        Some(python) => {
            let name = package(python, "gigatoken").unwrap_or_else(|| "gigatoken".to_owned());
            trial.peer(format!("{name} as in preprocess_data_fast"), |clock| bench.peer(clock, python, "whole", &large))
        }
        None => trial,
    };
    if trial.run(rounds).is_some() {
        println!(
            "  packhorse took at most {peak} MiB, {} MiB over the first copy",
            bench.packhorse(&mut Clock::default(), &small, 2)
        );
        if gigatoken.is_some() {
            bench.same(&large);
        }
    }
    drop(texts);

    let trial = trials.work(&format!("tokens-{name}-threads"), title(&large), Unit::Bytes, bytes(&large));
    let trial = trial.ours("packhorse", |clock| bench.packhorse(clock, &large, 2));
    trial.peer("packhorse, 1 thread", |clock| bench.packhorse(clock, &large, 1)).measure(rounds.min(5));

    if let Some(python) = python()
        && let Some(peer) = package(&python, "tokenizers")
    {
        let trial = trials.work(&format!("tokens-{name}-megatron"), title(&small), Unit::Bytes, bytes(&small));
        let trial = trial.ours("packhorse", |clock| bench.packhorse(clock, &small, 2));
        let trial = trial.peer(format!("{peer} as in Megatron's preprocess_data"), |clock| {
            bench.peer(clock, &python, "pool", &small)
        });
        // A round takes long.
        if trial.run(rounds.min(3)).is_some() {
            bench.same(&small);
        }
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
    /// From the file to a sealed dataset with digests, in a process of its own; returns the peak of its memory in MiB.
    fn packhorse(&self, clock: &mut Clock, input: &Path, jobs: usize) -> u64 {
        let out = self.home.join("out");
        let _ = std::fs::remove_dir_all(&out);
        let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
        command.arg("pack").arg(input).args(["--to", "tokens", "--append-eod", "--quiet", "--shard-count", "8"]);
        command.arg("--jobs").arg(jobs.to_string()).arg("--eod").arg(self.eod.to_string());
        command.arg("--tokenizer").arg(&self.tokenizer).arg("--out").arg(&out);
        clock.time(|| {
            let ended = AtomicBool::new(false);
            let mut child = command.spawn().expect("packhorse starts");
            let status = PathBuf::from(format!("/proc/{}/status", child.id()));
            std::thread::scope(|threads| {
                let peak = threads.spawn(|| {
                    let mut peak = 0;
                    while !ended.load(Ordering::Relaxed) {
                        peak = peak.max(high_water(&status));
                        // Seldom, as the cores are the child's.
                        std::thread::park_timeout(Duration::from_millis(20));
                    }
                    peak
                });
                assert!(child.wait().expect("packhorse runs").success());
                ended.store(true, Ordering::Relaxed);
                peak.thread().unpark();
                peak.join().expect("memory is read")
            })
        })
    }

    /// Loads the tokenizer and encodes texts in memory on two threads; the tokens are dropped.
    fn alone(&self, clock: &mut Clock, texts: &[Rows]) {
        let file = std::fs::read(&self.tokenizer).expect("a tokenizer");
        clock.time(|| {
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
        });
    }

    /// A peer by the script beside this bench: its time without starting Python, and of processors with it.
    fn peer(&self, clock: &mut Clock, python: &Path, how: &str, input: &Path) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/preprocess.py");
        let mut command = Command::new(python);
        command.arg(script).arg(how).arg(&self.tokenizer).arg(self.eod.to_string()).arg("2").arg(input);
        let mut whole = Clock::default();
        let output = whole.time(|| command.arg(self.home.join("peer")).output().expect("Python starts"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let seconds = printed.split_whitespace().next().and_then(|word| word.parse().ok()).expect("seconds");
        clock.add(Duration::from_secs_f64(seconds), whole.processors());
    }

    /// Peer and packhorse wrote the same tokens: speed counts only then.
    fn same(&self, input: &Path) {
        self.packhorse(&mut Clock::default(), input, 2);
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

/// The most memory that a process had, in MiB.
fn high_water(status: &Path) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() / 1024
}
