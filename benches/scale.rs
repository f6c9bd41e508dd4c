//! Datasets of very many shards, filled by very many tasks: `cargo bench --bench scale -- 1000000 10000`.
//!
//! Arguments after `--`: the number of shards (default 100000), and that of tasks (default 1000). Shards have one sample. The first
//! shard is packed; the others are simulated: member index and receipt are those that packing would write, and the tar is a
//! file of zeros of the right length, since none of the steps reads it. The plan, `status`, `seal` and `append` run as
//! processes of their own on the dataset, in the build folder or in `PACKHORSE_BENCH_DIR`. Prints seconds, those of
//! processors, peak memory and bytes read of each.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use packhorse::core::{Limits, Members, Store};
use packhorse::dataset::{Digest, INDEX_SUFFIX, PLAN, PlanReader, RECEIPT_SUFFIX, Receipt, ShardFrame};
use packhorse::dataset::{decode_index, encode_index};
use packhorse::storage::Local;
use packhorse_testkit::hostile::tar::TarMember;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A process that this program was started again for.
const MEASURE: &str = "--measure";

/// Tasks that are looked at, and that end at the same moment.
const TASKS: u64 = 20;
const LAST: usize = 8;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == MEASURE) {
        return measure(&args[1..]);
    }
    let numbers: Vec<u64> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let shards = numbers.first().copied().unwrap_or(100_000);
    let tasks = numbers.get(1).copied().unwrap_or(1000).min(shards);
    let above = std::env::var_os("PACKHORSE_BENCH_DIR").map_or(env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    let home = above.join("packhorse-bench-scale");
    // What an interrupted run left.
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home).expect("a folder");
    let (first, more, out) = (home.join("first.tar"), home.join("more.tar"), home.join("dataset"));
    corpus(&first, 0..shards);
    corpus(&more, shards..shards + 10);
    println!("{shards} shards, {tasks} tasks");
    println!("{:<34} {:>9} {:>9} {:>9} {:>9}", "", "seconds", "CPU s", "peak MB", "read MB");
    let out = out.to_str().expect("a path");
    let [first, more] = [&first, &more].map(|path| path.to_str().expect("a path"));
    let plan = ["plan", first, "--to", "webdataset", "--samples-per-shard", "1", "--out", out];
    show("plan", &[run(&plan)]);
    run(&["pack", "--plan", out, "--part", &format!("1/{shards}")]);
    let start = Instant::now();
    simulate(Path::new(out));
    let simulated = start.elapsed();
    println!("{:<34} {:>9.1}", "(simulation)", simulated.as_secs_f64());
    show("status", &[run(&["status", out])]);
    let task = |n: u64| run(&["pack", "--plan", out, "--part", &format!("{}/{tasks}", n * 7919 % tasks + 1)]);
    show(&format!("a task that is done, of {TASKS}"), &(0..TASKS.min(tasks)).map(task).collect::<Vec<_>>());
    show("seal", &[run(&["seal", out])]);
    show("seal again", &[run(&["seal", out])]);
    std::fs::remove_file(Path::new(out).join("dataset.json")).expect("a manifest");
    show(&format!("a task that seals, {LAST} at once"), &last(out, tasks));
    show("status, sealed", &[run(&["status", out])]);
    show("append of 10 shards", &[run(&["append", out, more])]);
    show("status, appended", &[run(&["status", out])]);
    std::fs::remove_dir_all(home).expect("the folder goes away");
}

/// A tar of samples without bytes.
fn corpus(path: &Path, samples: std::ops::Range<u64>) {
    let mut tar = BufWriter::new(File::create(path).expect("a tar"));
    for n in samples {
        tar.write_all(&TarMember::file(format!("{n:09}.txt"), "").encode()).expect("a member");
    }
    tar.write_all(&[0; 1024]).and_then(|()| tar.flush()).expect("the end");
}

/// The last tasks, at once, when all shards are there: each finds that it may seal.
fn last(out: &str, tasks: u64) -> Vec<Usage> {
    std::thread::scope(|scope| {
        let task = |n: usize| run(&["pack", "--plan", out, "--part", &format!("{}/{tasks}", n + 1), "--seal"]);
        let running: Vec<_> = (0..LAST.min(tasks as usize)).map(|n| scope.spawn(move || task(n))).collect();
        running.into_iter().map(|running| running.join().expect("a task")).collect()
    })
}

/// What a process took.
#[derive(Clone, Copy)]
struct Usage {
    seconds: f64,
    cpu: f64,
    peak: f64,
    read: f64,
}

/// Runs packhorse to its end, by a process that sums up what its children took.
fn run(args: &[&str]) -> Usage {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(MEASURE).arg(env!("CARGO_BIN_EXE_packhorse")).args(args).arg("--quiet");
    let output = command.stdin(Stdio::null()).output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    let mut next = || numbers.next().expect("a number");
    Usage { seconds: next(), cpu: next(), peak: next(), read: next() }
}

/// Runs the program of these arguments; prints seconds, those of processors, its peak memory and the bytes that it read.
fn measure(args: &[String]) {
    let start = Instant::now();
    let status = Command::new(&args[0]).args(&args[1..]).stdout(Stdio::null()).status().expect("packhorse starts");
    let seconds = start.elapsed().as_secs_f64();
    assert!(status.success(), "{args:?}: {status}");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage");
    let cpu = (usage.user_time() + usage.system_time()).num_milliseconds() as f64 / 1e3;
    let peak = usage.max_rss() * 1024;
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let read: u64 = io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0);
    println!("{seconds} {cpu} {peak} {read}");
}

/// A line for processes that did the same: the most memory, and means of all else.
fn show(what: &str, all: &[Usage]) {
    let mean = |of: fn(&Usage) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    let peak = all.iter().map(|usage| usage.peak).fold(0.0, f64::max);
    let (seconds, cpu, read) = (mean(|usage| usage.seconds), mean(|usage| usage.cpu), mean(|usage| usage.read));
    println!("{what:<34} {seconds:>9.2} {cpu:>9.2} {:>9.0} {:>9.1}", peak / 1e6, read / 1e6);
}

/// Writes the files of all shards but the first, which shows how they look.
fn simulate(out: &Path) {
    let plan = PlanReader::open(Local.open(&out.join(PLAN)).expect("a plan")).expect("a plan");
    let pattern = Pattern::of(out, &plan.shards()[0]);
    let next = AtomicUsize::new(1);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(shard) = plan.shards().get(next.fetch_add(1, Ordering::Relaxed)) {
                    pattern.write(out, &plan, shard);
                }
            });
        }
    });
}

/// A packed shard, which the others resemble.
struct Pattern {
    receipt: Receipt,
    members: Members,
    /// Of as many zeros as its data file has bytes.
    zeros: Digest,
}

impl Pattern {
    fn of(out: &Path, shard: &ShardFrame) -> Self {
        let read = |suffix: &str| std::fs::read(out.join(format!("{}{suffix}", shard.name))).expect("a file");
        let receipt = Receipt::decode(&read(RECEIPT_SUFFIX)).expect("a receipt");
        let members = decode_index(&read(INDEX_SUFFIX), &Limits::default()).expect("an index");
        let zeros = Digest::of(&vec![0; receipt.files[0].bytes as usize]);
        Self { receipt, members, zeros }
    }

    /// Writes the files of `shard`, whose key is as long as that of the pattern.
    fn write(&self, out: &Path, plan: &PlanReader, shard: &ShardFrame) {
        let key = plan.entries(shard).expect("entries").next().expect("an entry").expect("an entry").key;
        let mut members = Members::new(self.members.fields().to_vec());
        members.push_sample(&key);
        let member = self.members.member(0).expect("a member");
        members.push_member(0, member.offset, member.len, member.crc32c);
        let index = encode_index(&members);
        let mut receipt = self.receipt.clone();
        receipt.shard.clone_from(&shard.name);
        for file in &mut receipt.files {
            file.name = file.name.replacen(&self.receipt.shard, &shard.name, 1);
            match file.name.ends_with(INDEX_SUFFIX) {
                true => file.blake3 = Digest::of(&index),
                false => file.blake3 = self.zeros,
            }
            let path = File::create(out.join(&file.name)).expect("a file");
            match file.name.ends_with(INDEX_SUFFIX) {
                true => (&path).write_all(&index).expect("an index"),
                false => path.set_len(file.bytes).expect("a file of zeros"),
            }
        }
        let receipt = receipt.encode().expect("a receipt");
        std::fs::write(out.join(format!("{}{RECEIPT_SUFFIX}", shard.name)), receipt).expect("a receipt");
    }
}
