//! Compares the orders with numpy and a C++ helper in one run: `cargo bench -p packhorse-order`.
//!
//! `PACKHORSE_PYTHON` names a Python with numpy; the helper is Megatron's own where `MEGATRON_CORE` names an unpacked
//! wheel, else `peer.cpp`. `PACKHORSE_TEST_DATA` names the folder with `text.jsonl.zst`, whose documents give the
//! lengths to pack; without it the lengths are generated. Prints seconds of wall clock and of CPU, best of three, and
//! ratios.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

use md5::{Digest, Md5};
use packhorse_order::*;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

const REPEATS: usize = 3;

fn main() {
    let mut random = RandomState::new(1);
    shards(&mut random);
    if std::env::args().any(|argument| argument == "--shards") {
        return;
    }
    if std::env::args().all(|argument| argument != "--blend") {
        gpt(&mut random, 5_000_000);
    }
    for (datasets, equal) in
        [(500, false), (500, true), (2, false), (16, false), (16, true), (32, false), (3000, false)]
    {
        blend(&mut random, datasets, equal, if datasets > 1000 { 200_000 } else { 2_000_000 });
    }
    pack(&mut random);
    look_up(&mut random);
}

/// The best wall and CPU seconds, and the last result.
fn best<T>(mut work: impl FnMut() -> T) -> (f64, f64, T) {
    let (mut wall, mut cpu) = (f64::MAX, f64::MAX);
    for at in 0..REPEATS {
        let (start, used) = (Instant::now(), cpu_seconds());
        let made = black_box(work());
        wall = wall.min(start.elapsed().as_secs_f64());
        cpu = cpu.min(cpu_seconds() - used);
        if at + 1 == REPEATS {
            return (wall, cpu, made);
        }
    }
    unreachable!("there are repeats")
}

/// The CPU time of all threads of this process, from the kernel.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    stats.filter_map(|stat| stat.split(' ').next()?.parse::<f64>().ok()).sum::<f64>() / 1e9
}

fn report(what: &str, ours: (f64, f64), digest: &str, peer: Option<String>) {
    println!("{what}: {:.3} s, CPU {:.3} s", ours.0, ours.1);
    let Some(peer) = peer else { return };
    let words: Vec<&str> = peer.split_whitespace().collect();
    let [name, wall, cpu, theirs] = words[..] else { return };
    assert_eq!(digest, theirs, "the peer has other numbers");
    let (wall, cpu): (f64, f64) = (wall.parse().expect("seconds"), cpu.parse().expect("seconds"));
    println!(
        "  numpy + {name}: {wall:.3} s, CPU {cpu:.3} s; ours / theirs {:.2}, CPU {:.2}",
        ours.0 / wall,
        ours.1 / cpu
    );
}

fn peer(what: &str, input: &[u8], arguments: &[u64]) -> Option<String> {
    let python = std::env::var_os("PACKHORSE_PYTHON")?;
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), input).expect("a temporary file is written");
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peer.py")).arg(what).arg(file.path());
    let output = command.args(arguments.iter().map(u64::to_string)).arg(REPEATS.to_string()).output();
    let output = output.expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The integers without the header, as the peer digests them.
fn digest(arrays: &[&Array]) -> String {
    let mut md5 = Md5::new();
    for array in arrays {
        let mut bytes = Vec::new();
        array.write_npy(1, &mut bytes).expect("memory takes bytes");
        md5.update(&bytes[128..]);
    }
    md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn gpt(random: &mut RandomState, documents: u32) {
    let lengths: Vec<i32> = (0..documents).map(|_| random.at_most(2000) as i32).collect();
    let total: i64 = lengths.iter().map(|&length| i64::from(length)).sum();
    for (name, share) in [("the last whole", 3.0), ("the last separate", 2.5)] {
        let options = GptOptions::new(1234, 2048, Some((share * total as f64 / 2048.0) as u64 - 1));
        let (wall, cpu, index) = best(|| GptIndex::build(&lengths, 0..documents, &options).expect("an index"));
        let plan = &index.plan;
        let input: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
        let theirs = peer("gpt", &input, &[1234, 2048, plan.samples, plan.epochs, plan.first]);
        let digest = digest(&[&index.document, &index.sample, &index.shuffle]);
        report(&format!("GPT, {documents} documents, {} epochs, {name}", plan.epochs), (wall, cpu), &digest, theirs);
    }
}

fn blend(random: &mut RandomState, datasets: u64, equal: bool, size: u64) {
    let weights: Vec<f64> =
        (0..datasets).map(|_| if equal { 1.0 } else { random.at_most(1 << 20) as f64 + 1.0 }).collect();
    let (wall, cpu, index) = best(|| BlendIndex::weighted(&weights, size).expect("a blend"));
    let input: Vec<u8> = normalized(&weights).iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let theirs = peer("blend", &input, &[size]);
    let kind = if equal { "equal" } else { "random" };
    let what = format!("blend of {datasets} sets, {kind} weights, {size} samples");
    report(&what, (wall, cpu), &digest(&[&index.dataset, &index.sample]), theirs);
}

/// Tokens of the documents of the corpus, estimated as a quarter of their bytes, repeated with ±20 % variation.
fn corpus(random: &mut RandomState, count: usize) -> Vec<i32> {
    let path = std::env::var_os("PACKHORSE_TEST_DATA").map(|dir| std::path::Path::new(&dir).join("text.jsonl.zst"));
    let text = path.and_then(|path| std::fs::File::open(path).ok()).and_then(|file| zstd::decode_all(file).ok());
    let made_up = || (0..50_000).map(|i| 40 + (i * 7919 % 1613) * (i % 7)).collect();
    let bytes: Vec<usize> = text.map_or_else(made_up, |text| text.split(|&b| b == b'\n').map(<[u8]>::len).collect());
    let bytes: Vec<usize> = bytes.into_iter().filter(|&len| len > 0).collect();
    (0..count).map(|at| (bytes[at % bytes.len()] as u64 * (800 + random.at_most(400)) / 4000 + 1) as i32).collect()
}

fn pack(random: &mut RandomState) {
    let lengths = corpus(random, 5_000_000);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    let (wall, cpu, index) = pool.install(|| best(|| PackIndex::build(&lengths, 8192).expect("a packing")));
    let pieces = index.piece.len() / 3;
    let (padding, bins) = (index.padding() as f64, index.bins() as f64);
    println!("packing of {pieces} pieces into {bins} bins: {wall:.3} s, CPU {cpu:.3} s");
    println!("  {:.1} M pieces/s, padding {:.4} %", pieces as f64 / wall / 1e6, 100.0 * padding / (bins * 8192.0));
}

fn look_up(random: &mut RandomState) {
    let lengths: Vec<i32> = (0..5_000_000).map(|_| random.at_most(2000) as i32).collect();
    let options = GptOptions::new(1, 2048, None);
    let index = GptIndex::build(&lengths, 0..5_000_000, &options).expect("an index");
    let order = GptOrder::over(&index, &lengths, &options).expect("an order");
    let places: Vec<u64> = (0..200_000).map(|_| random.at_most(order.len() - 1)).collect();
    let mut segments = Vec::new();
    let (wall, _, ()) = best(|| {
        for &k in &places {
            segments.clear();
            order.sample(k, &mut segments).expect("a sample");
        }
    });
    println!("look-up of a sample at random: {:.0} ns", wall * 1e9 / places.len() as f64);
}

/// Samples of shards, sequentially and at random.
fn shards(random: &mut RandomState) {
    for (shards, samples, shuffle) in [
        (1_000, 10_000, Shuffle::Sequential),
        (1_000, 10_000, Shuffle::Blocks { shards: 16 }),
        (1_000, 10_000, Shuffle::Full),
        (100_000, 1_000, Shuffle::Blocks { shards: 64 }),
        (100_000, 1_000, Shuffle::Full),
        (1_000_000, 131, Shuffle::Full),
    ] {
        let counts: Vec<u64> = (0..shards).map(|_| samples + random.at_most(20)).collect();
        let make = best(|| ShardOrder::new(&counts, shuffle, 1, 0).expect("an order"));
        let order = make.2;
        let count = 1_000_000;
        let places: Vec<u64> = (0..count).map(|_| random.at_most(order.len() - 1)).collect();
        let in_turn = best(|| (0..count).fold(0, |sum, k| sum ^ order.get(order.len() / 2 + k).unwrap_or_default().1));
        let at_random = best(|| places.iter().fold(0, |sum, &k| sum ^ order.get(k).unwrap_or_default().1));
        println!(
            "{shards} shards of {samples}, {shuffle}: made in {:.4} s; a look-up {:.0} ns in turn, {:.0} ns at random (CPU {:.0}, {:.0})",
            make.0,
            in_turn.0 * 1e9 / count as f64,
            at_random.0 * 1e9 / count as f64,
            in_turn.1 * 1e9 / count as f64,
            at_random.1 * 1e9 / count as f64,
        );
    }
}
