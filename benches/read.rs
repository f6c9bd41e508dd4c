//! Reading shards against a bare reader, a bare header walk, a bare decode loop, and the loaders of others:
//! `cargo bench --bench read`.
//!
//! Arguments after `--`: a number of photos (default 32000). The corpus lies in `/dev/shm` where that is, else in the
//! build folder. `PACKHORSE_PYTHON` with webdataset installed adds `benches/peers/read_wds.py`;
//! `PACKHORSE_PEER_READTAR` names the source of another bare reader in C, which is compiled with `cc` and given the
//! shards; it prints `CPULOOP seconds`.
//!
//! Figures are samples per second of CPU time of this process, on one thread, best of five: other load disturbs them
//! less than wall time.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and ends where it can't go on"
)]

use packhorse::core::Limits;
use packhorse::read::order::Shuffle;
use packhorse::read::{
    Access, Column, Dataset, FieldKind, FieldOptions, Host, Loader, LoaderOptions, ReadOptions, Reader, SampleBlock,
    Wants, open,
};
use packhorse::transform::image::{Draws, Size, View, ViewDecoder};
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let count: u64 = args.iter().find_map(|a| a.parse().ok()).unwrap_or(32_000);
    let home =
        if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { env!("CARGO_TARGET_TMPDIR").into() };
    let shards = corpus(&home.join("packhorse-bench-read"), count);
    let dataset = open(shards.to_str().expect("UTF-8")).expect("dataset");
    println!("{} photos, {} MB, on {}", dataset.len(), dataset.bytes() / 1_000_000, shards.display());
    let files = files(&shards);

    println!("\nraw samples, payload delivered");
    let floor = best(|| bare_read(&files));
    row("bare reader (1 MB reads, headers, copies)", floor, floor);
    peer_readtar(&shards, &files, dataset.len(), floor);
    let gap = Access::Ranges { gap: 64 << 10 };
    row("reader, by pread", best(|| read(&dataset, gap)), floor);
    row("reader, by pread, in blocks of 16 shards", best(|| shuffled(&dataset, gap)), floor);
    row("loader into slabs, by pread", best(|| load(&dataset, gap, Shuffle::Sequential, &raw_fields())), floor);
    row("loader into slabs, mapped", best(|| load(&dataset, Access::Map, Shuffle::Sequential, &raw_fields())), floor);

    println!("\nsamples found, payload untouched");
    let walk = best(|| bare_walk(&files));
    row("bare header walk (pread)", walk, walk);
    let mapped = best(|| mapped_walk(&files));
    row("bare header walk (whole files in memory)", mapped, walk);
    row("reader, mapped", best(|| read(&dataset, Access::Map)), walk);

    println!("\nphotos decoded, in batches of 64");
    let photos = photos(&dataset);
    let loop_ = best(|| bare_decode(&photos, 1));
    row("bare decode loop of the same decoder", loop_, loop_);
    row("the same into the memory of three batches", best(|| bare_decode(&photos, 3 * 64)), loop_);
    let few = dataset.take(photos.len() as u64).expect("dataset");
    row("loader", best(|| load(&few, gap, Shuffle::Sequential, &decoded_fields())), loop_);
    peers(&files, floor, loop_);
}

/// Samples per second of CPU time.
fn best(mut work: impl FnMut() -> u64) -> f64 {
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let before = cpu_seconds();
            let samples = work();
            samples as f64 / (cpu_seconds() - before).max(1e-9)
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.pop().unwrap_or(0.0)
}

fn row(name: &str, rate: f64, against: f64) {
    println!("  {name:<44} {rate:>12.0} samples/CPU s  {:>7.3}", rate / against);
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("command starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// CPU time of this process, user and system.
fn cpu_seconds() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).expect("getrusage");
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn corpus(home: &Path, count: u64) -> PathBuf {
    let shards = home.join(format!("shards-{count}"));
    if !shards.join("dataset.json").exists() {
        let photos = home.join("photos");
        let packhorse = env!("CARGO_BIN_EXE_packhorse");
        let count = count.to_string();
        run(Command::new(packhorse).args(["synth", "images", "--count", &count, "--out"]).arg(&photos));
        let pack = ["--to", "webdataset", "--labels", "folders", "--shuffle", "1", "--shard-size", "100MB", "--out"];
        run(Command::new(packhorse).arg("pack").arg(&photos).args(pack).arg(&shards));
        std::fs::remove_dir_all(photos).expect("photos removed");
    }
    shards
}

fn files(shards: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(shards).expect("shards").map(|entry| entry.expect("entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "tar")).collect();
    files.sort();
    files
}

/// The fields of a tar header: the size, and whether it is of a file. `None` at the end.
fn header(block: &[u8]) -> Option<(usize, bool)> {
    let digits = block.get(124..136)?.iter().take_while(|b| b.is_ascii_digit());
    let size = digits.fold(0, |size, b| size * 8 + usize::from(b - b'0'));
    (*block.first()? != 0).then(|| (size, matches!(block.get(156), Some(b'0' | 0))))
}

/// A reader with no more than it takes: reads of 1 MB, headers, a copy of every payload; two members a sample.
fn bare_read(files: &[PathBuf]) -> u64 {
    let (mut members, mut window) = (0, Vec::new());
    for path in files {
        let mut file = File::open(path).expect("shard");
        window.clear();
        let mut at = 0;
        loop {
            let found = window.get(at..at + 512).and_then(header);
            let need = found.map_or(512, |(size, _)| 512 + size.next_multiple_of(512));
            if window.len() - at < need {
                window.drain(..at);
                at = 0;
                if (&mut file).take(1 << 20).read_to_end(&mut window).expect("read") == 0 {
                    break;
                }
                continue;
            }
            let Some((size, is_file)) = found else { break };
            if is_file {
                black_box(window.get(at + 512..at + 512 + size).expect("payload").to_vec());
                members += 1;
            }
            at += need;
        }
    }
    members / 2
}

/// Headers, one after another, with their checksums.
fn bare_walk(files: &[PathBuf]) -> u64 {
    let mut members = 0;
    for path in files {
        let file = File::open(path).expect("shard");
        let len = file.metadata().expect("stat").len();
        let mut block = [0u8; 512];
        let mut at = 0;
        while at + 512 <= len {
            file.read_exact_at(&mut block, at).expect("read");
            let Some((size, _)) = header(&block) else { break };
            black_box(block.iter().map(|byte| u32::from(*byte)).sum::<u32>());
            members += 1;
            at += 512 + (size as u64).next_multiple_of(512);
        }
    }
    members / 2
}

/// The same in files that are in memory already, for want of a map: reading them does not count.
fn mapped_walk(files: &[PathBuf]) -> u64 {
    use std::sync::OnceLock;
    static HELD: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let held = HELD.get_or_init(|| files.iter().map(|path| std::fs::read(path).expect("shard")).collect());
    let mut members = 0;
    for bytes in held {
        let mut at = 0;
        while let Some(block) = bytes.get(at..at + 512)
            && let Some((size, _)) = header(block)
        {
            black_box(block.iter().map(|byte| u32::from(*byte)).sum::<u32>());
            members += 1;
            at += 512 + size.next_multiple_of(512);
        }
    }
    members / 2
}

fn peer_readtar(shards: &Path, files: &[PathBuf], samples: u64, floor: f64) {
    let Some(source) = std::env::var_os("PACKHORSE_PEER_READTAR") else { return };
    let program = shards.with_file_name("readtar");
    run(Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source));
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let output = Command::new(&program).args(files).output().expect("readtar runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let seconds = text.split_whitespace().skip_while(|word| *word != "CPULOOP").nth(1);
            samples as f64 / seconds.and_then(|s| s.parse::<f64>().ok()).expect("CPULOOP")
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    row("bare reader in C", rates.pop().unwrap_or(0.0), floor);
}

fn options(access: Access) -> ReadOptions {
    ReadOptions { access, ..ReadOptions::default() }
}

fn columns() -> Vec<Column> {
    vec![Column::from("jpg"), Column::from("cls")]
}

/// All samples, 256 together, in their order.
fn read(dataset: &Dataset, access: Access) -> u64 {
    let reader = Reader::new(dataset.clone(), columns(), options(access));
    let (mut wants, mut fetched, mut bytes) = (Wants::default(), SampleBlock::default(), 0u64);
    for start in (0..dataset.len()).step_by(256) {
        reader.read(start..(start + 256).min(dataset.len()), &mut wants, &mut fetched).expect("samples");
        for row in 0..fetched.len() {
            if let Some(packhorse::read::Value::Bytes(payload)) = fetched.value(row, 0) {
                bytes += payload.len() as u64;
            }
        }
    }
    black_box(bytes);
    dataset.len()
}

/// All samples in the loader's default order, 256 together.
fn shuffled(dataset: &Dataset, access: Access) -> u64 {
    let counts = vec![dataset.len()];
    let order = packhorse::read::order::ShardOrder::new(&counts, Shuffle::Full, 1, 0).expect("order");
    let reader = Reader::new(dataset.clone(), columns(), options(access));
    let (mut wants, mut fetched) = (Wants::default(), SampleBlock::default());
    for start in (0..dataset.len()).step_by(256) {
        let numbers = (start..(start + 256).min(dataset.len())).filter_map(|at| Some(order.get(at)?.1));
        reader.read(numbers, &mut wants, &mut fetched).expect("samples");
        black_box(&fetched);
    }
    dataset.len()
}

fn raw_fields() -> Vec<FieldOptions> {
    vec![FieldOptions::new("jpg", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)]
}

const VIEW: View =
    View { size: Size::Keep, flip: 0.0, filter: packhorse::transform::image::Filter::Bilinear, reduced: false };

fn decoded_fields() -> Vec<FieldOptions> {
    vec![FieldOptions::new("jpg", FieldKind::Picture(VIEW)), FieldOptions::new("cls", FieldKind::Auto)]
}

fn load(dataset: &Dataset, access: Access, shuffle: Shuffle, fields: &[FieldOptions]) -> u64 {
    let options =
        LoaderOptions { threads: 1, readers: 0, ahead: 3, shuffle, read: options(access), ..LoaderOptions::new(64) };
    let loader = Loader::new(dataset.clone(), fields, &options, Host::default()).expect("loader");
    loader.map(|batch| batch.expect("batch").rows() as u64).sum()
}

/// So many that what a loader does once, when it starts, does not count for much.
const PHOTOS: u64 = 12_800;

/// The bytes of some photos.
fn photos(dataset: &Dataset) -> Vec<Vec<u8>> {
    let reader = Reader::new(dataset.clone(), columns(), ReadOptions::default());
    let (mut wants, mut fetched) = (Wants::default(), SampleBlock::default());
    reader.read(0..dataset.len().min(PHOTOS), &mut wants, &mut fetched).expect("samples");
    let photo = |row| match fetched.value(row, 0) {
        Some(packhorse::read::Value::Bytes(bytes)) => bytes.to_vec(),
        _ => Vec::new(),
    };
    (0..fetched.len()).map(photo).collect()
}

/// A loop into one buffer after another, of `buffers`: one stays in the core's cache, as many as a batch has are what a
/// batch costs in any case.
fn bare_decode(photos: &[Vec<u8>], buffers: usize) -> u64 {
    let mut decoder = ViewDecoder::new(VIEW, Limits::default()).expect("decoder");
    let mut out = vec![Vec::new(); buffers];
    for (photo, buffer) in photos.iter().zip((0..buffers).cycle()) {
        let out = &mut out[buffer];
        let (height, width) = decoder.size(photo).expect("size");
        out.resize(height as usize * width as usize * 3, 0);
        decoder.decode_into(photo, Draws::default(), out).expect("photo");
        black_box(&out);
    }
    photos.len() as u64
}

/// What loaders of others make of the same shards.
fn peers(files: &[PathBuf], floor: f64, decode: f64) {
    let Some(python) = std::env::var_os("PACKHORSE_PYTHON") else { return };
    println!("\nloaders of others, on the same shards");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/read_wds.py");
    let few = files.get(..1).unwrap_or_default();
    for (mode, files, against) in [
        ("wds-raw", files, floor),
        ("dali-raw", files, floor),
        ("wds-pil", few, decode),
        ("wds-simplejpeg", few, decode),
        ("dali-decode", few, decode),
    ] {
        let output = Command::new(&python).arg(&script).arg(mode).args(files).output().expect("python runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let rate = text.lines().last().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        match rate.and_then(|value| value["samples_per_cpu_second"].as_f64()) {
            Some(rate) => row(mode, rate, against),
            None => println!("  {mode:<44} is not there"),
        }
    }
}
