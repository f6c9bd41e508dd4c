//! Compares batches with numpy in one run: `cargo bench -p packhorse-read`.
//!
//! `PACKHORSE_PYTHON` names a Python with numpy, which reads the same samples (`tests/gpt_dataset.py`). The pair, 1 GiB
//! of u16 in documents of 1 to 2000 tokens, is made in `PACKHORSE_BENCH_DIR`, or `/dev/shm`, and removed again. With
//! `PACKHORSE_BENCH_COLD` it only reads batches that are not in the page cache, from a folder on a disk. Prints tokens
//! a second by wall clock and by CPU time, the best of three, and ratios.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

use packhorse_core::{DataType, Store};
use packhorse_order::{GptIndex, GptOptions, GptOrder, Order, RandomState, Segment};
use packhorse_read::*;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const REPEATS: usize = 3;
const BATCH: u32 = 64;
const LENGTH: u32 = 4096;
const TOKENS: u64 = 512 << 20;

fn main() {
    let place = std::env::var_os("PACKHORSE_BENCH_DIR").map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let dir = tempfile::tempdir_in(place).expect("a folder");
    let (lengths, options) = made(dir.path());
    let lengths = IntArray::from(lengths);
    let index = |name: &str| {
        let input = packhorse_storage::Local.open(&dir.path().join(name).with_extension("npy")).expect("an index");
        IntArray::npy(&*input, Access::Map).expect("numbers").0
    };
    let indices = ["document", "sample", "shuffle"].map(index);
    let order: Arc<dyn Order> = Arc::new(GptOrder::new(indices, lengths.clone(), &options).expect("an order"));
    if std::env::var_os("PACKHORSE_BENCH_COLD").is_some() {
        return cold(dir.path(), &lengths, &order);
    }
    let steps = order.len() / u64::from(BATCH);
    println!("{} samples, {steps} batches of [{BATCH}, {}], u16", order.len(), LENGTH + 1);
    let few = steps.min(300);
    let peers: Vec<_> = ["int64", "uint16"].into_iter().filter_map(|kind| peer(dir.path(), few, kind)).collect();
    for (name, access) in [("mapped", Access::Map), ("ranges", Access::Ranges { gap: 4096 })] {
        let bin = Arc::from(packhorse_storage::Local.open(&dir.path().join("a.bin")).expect("a file"));
        let file = TokenFile::new(bin, &DataType::UInt16, lengths.clone(), None, access).expect("tokens");
        let tokens = Arc::new(Tokens::new(vec![file]).expect("a file"));
        for (threads, all) in [(0, false), (1, false), (2, false), (1, true)] {
            let companions = if all { every() } else { Companions::default() };
            let asked = TokenOptions { threads, companions, ..TokenOptions::new(BATCH, LENGTH) };
            let ours = best(|| loaded(&tokens, &order, &asked));
            let rate = |seconds: f64| (steps * u64::from(BATCH * (LENGTH + 1))) as f64 / seconds / 1e6;
            let with = if all { ", with all companions" } else { "" };
            println!("{name}, {threads} threads{with}: {:.0} M tokens/s, CPU {:.0}", rate(ours.0), rate(ours.1));
            for (kind, wall, cpu, _) in &peers {
                let share = steps as f64 / few as f64;
                println!("  {:.1} × numpy {kind}, CPU {:.1} ×", wall * share / ours.0, cpu * share / ours.1);
            }
        }
        // The first batches hold the tokens that the peers read.
        let asked = TokenOptions::new(BATCH, LENGTH);
        let loader =
            TokenLoader::tokens(Arc::clone(&tokens), Arc::clone(&order), &asked, Host::default()).expect("a loader");
        let sum: i64 = loader.take(few as usize).map(|batch| ends(&batch.expect("a batch"))).sum();
        assert!(peers.iter().all(|(_, _, _, theirs)| *theirs == sum), "the peers read other tokens");
        look_up(name, &tokens, &*order);
    }
}

/// The first batches, from a disk.
fn cold(dir: &Path, lengths: &IntArray, order: &Arc<dyn Order>) {
    let python = std::env::var_os("PACKHORSE_PYTHON").expect("a Python, to evict the file");
    for (name, access) in [("mapped", Access::Map), ("ranges", Access::Ranges { gap: 4096 })] {
        for threads in [1, 2, 8] {
            let mut command = Command::new(&python);
            command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gpt_dataset.py")).arg("evict").arg(dir.join("a"));
            assert!(command.status().expect("python starts").success());
            let bin = Arc::from(packhorse_storage::Local.open(&dir.join("a.bin")).expect("a file"));
            let file = TokenFile::new(bin, &DataType::UInt16, lengths.clone(), None, access).expect("tokens");
            let tokens = Arc::new(Tokens::new(vec![file]).expect("a file"));
            let asked = TokenOptions { threads, ahead: 8, ..TokenOptions::new(BATCH, LENGTH) };
            let loader = TokenLoader::tokens(tokens, Arc::clone(order), &asked, Host::default()).expect("a loader");
            let start = Instant::now();
            let batches = loader.take(100).filter(Result::is_ok).count();
            let rate = (batches as u64 * u64::from(BATCH * (LENGTH + 1))) as f64 / start.elapsed().as_secs_f64() / 1e6;
            println!("not in memory, {name}, {threads} threads: {rate:.1} M tokens/s");
        }
    }
}

/// Writes pair and indices.
fn made(dir: &Path) -> (Vec<i32>, GptOptions) {
    let mut random = RandomState::new(1);
    let (mut lengths, mut tokens) = (Vec::new(), 0u64);
    while tokens < TOKENS {
        let length = 1 + random.at_most(1999);
        lengths.push(length as i32);
        tokens += length;
    }
    let file = |name: &str| std::io::BufWriter::new(std::fs::File::create(dir.join(name)).expect("a file"));
    let block: Vec<u8> = (0..1 << 20).map(|_| random.at_most(255) as u8).collect();
    // Slices of the block of varying length, so that nothing repeats at a fixed distance.
    let mut bin = file("a.bin");
    let mut left = tokens as usize * 2;
    while left > 0 {
        let part = left.min(block.len() - left / block.len() % 4096 * 2);
        bin.write_all(&block[block.len() - part..]).expect("written");
        left -= part;
    }
    bin.flush().expect("written");
    let mut idx = file("a.idx");
    let mut at = 0u64;
    idx.write_all(b"MMIDIDX\0\0\x01\0\0\0\0\0\0\0\x08").expect("written");
    idx.write_all(&(lengths.len() as u64).to_le_bytes()).expect("written");
    idx.write_all(&(lengths.len() as u64 + 1).to_le_bytes()).expect("written");
    lengths.iter().for_each(|length| idx.write_all(&length.to_le_bytes()).expect("written"));
    for length in &lengths {
        idx.write_all(&at.to_le_bytes()).expect("written");
        at += *length as u64 * 2;
    }
    (0..=lengths.len() as u64).for_each(|document| idx.write_all(&document.to_le_bytes()).expect("written"));
    idx.flush().expect("written");
    let options = GptOptions::new(1234, LENGTH, None);
    let index = GptIndex::build(&lengths, 0..lengths.len() as u32, &options).expect("an index");
    for (name, array, columns) in
        [("document.npy", &index.document, 1), ("sample.npy", &index.sample, 2), ("shuffle.npy", &index.shuffle, 1)]
    {
        array.write_npy(columns, &mut file(name)).expect("written");
    }
    (lengths, options)
}

fn every() -> Companions {
    Companions { position_ids: true, segment_ids: true, loss_mask: LossMask::Documents, cu_seqlens: true }
}

fn loaded(tokens: &Arc<Tokens>, order: &Arc<dyn Order>, options: &TokenOptions) -> u64 {
    let loader =
        TokenLoader::tokens(Arc::clone(tokens), Arc::clone(order), options, Host::default()).expect("a loader");
    loader.map(|batch| black_box(batch.expect("a batch")).rows() as u64).sum()
}

/// The sum over the first and the last tokens of all rows.
fn ends(batch: &Batch<HostSlab>) -> i64 {
    let tokens = batch.field("tokens").expect("tokens").as_chunks().0;
    let rows = tokens.chunks_exact(LENGTH as usize + 1);
    let ends = rows.flat_map(|row: &[[u8; 2]]| row.first().into_iter().chain(row.last()));
    ends.map(|token| i64::from(u16::from_le_bytes(*token))).sum()
}

/// Wall and CPU seconds, the best of each.
fn best<T>(mut work: impl FnMut() -> T) -> (f64, f64) {
    let (mut wall, mut cpu) = (f64::MAX, f64::MAX);
    for _ in 0..REPEATS {
        let (start, used) = (Instant::now(), cpu_seconds());
        black_box(work());
        wall = wall.min(start.elapsed().as_secs_f64());
        cpu = cpu.min(cpu_seconds() - used);
    }
    (wall, cpu)
}

/// User and system time of this process, threads that have ended included: clock ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Wall and CPU seconds of numpy, the best of each, and the sum of what it read.
fn peer(dir: &Path, batches: u64, kind: &'static str) -> Option<(&'static str, f64, f64, i64)> {
    let python = std::env::var_os("PACKHORSE_PYTHON")?;
    let (mut wall, mut cpu, mut sum) = (f64::MAX, f64::MAX, 0);
    for _ in 0..REPEATS {
        let mut command = Command::new(&python);
        command
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gpt_dataset.py"))
            .arg("time")
            .arg(dir.join("a"))
            .arg(dir);
        let numbers = [LENGTH.into(), BATCH.into(), 0, batches].map(|number: u64| number.to_string());
        let output = command.args(numbers).arg(kind).output().expect("python starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [seconds, used, total] = words[..] else { return None };
        (wall, cpu, sum) = (wall.min(seconds), cpu.min(used), total as i64);
    }
    let rate = (batches * u64::from(BATCH * (LENGTH + 1))) as f64 / 1e6;
    println!("numpy {kind}: {:.0} M tokens/s, CPU {:.0}", rate / wall, rate / cpu);
    Some((kind, wall, cpu, sum))
}

fn look_up(name: &str, tokens: &Tokens, order: &dyn Order) {
    let mut random = RandomState::new(2);
    let places: Vec<u64> = (0..100_000).map(|_| random.at_most(order.len() - 1)).collect();
    let (mut segments, mut out) = (Vec::<Segment>::new(), vec![0; 2 * (LENGTH as usize + 1)]);
    let (wall, cpu) = best(|| {
        for &place in &places {
            segments.clear();
            order.sample(place, &mut segments).expect("a sample");
            tokens.read(&segments, &mut out).expect("tokens");
        }
    });
    let each = 1e6 / places.len() as f64;
    let (order_wall, order_cpu) = best(|| {
        for &place in &places {
            segments.clear();
            order.sample(place, &mut segments).expect("a sample");
            black_box(&segments);
        }
    });
    println!("{name}, one sample at random: {:.2} µs, CPU {:.2}", wall * each, cpu * each);
    println!("  of that which tokens it is made of: {:.2} µs, CPU {:.2}", order_wall * each, order_cpu * each);
}
