//! Reading shards against a bare reader in C, a bare header walk, a bare decode loop, and the loaders of others:
//! `cargo bench --bench read`.
//!
//! Arguments after `--`: words that choose works (`raw`, `blocks`, `slabs`, `mapped`, `found`, `decode`, `cold`), a number of photos (default 32000), and of rounds
//! (default 9). The corpus lies in `/dev/shm` where that is, else in the build folder. `PACKHORSE_PYTHON` with webdataset and DALI
//! installed adds `benches/peers/read_wds.py`. Works are those of one thread, and compared by processors' time.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a bench ends where it can't go on")]

use packhorse::core::Limits;
use packhorse::read::order::Shuffle;
use packhorse::read::{
    Access, Column, Dataset, FieldKind, FieldOptions, Host, Loader, LoaderOptions, ReadOptions, Reader, SampleBlock,
    Wants, open,
};
use packhorse::transform::image::{Draws, Size, View, ViewDecoder};
use packhorse_testkit::trials::{Clock, Trials, Unit, package, python, run};
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What the loaders of others are called, as `read_wds.py` knows them, and their packages.
const LOADERS: [(&str, &str); 2] = [("wds", "webdataset"), ("dali", "nvidia-dali-cuda120")];

fn main() {
    let mut trials = Trials::of("read");
    let (count, rounds) = (trials.number(0, 32_000), trials.number(1, 9) as usize);
    let home =
        if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { env!("CARGO_TARGET_TMPDIR").into() };
    let home = home.join("packhorse-bench-read");
    let shards = corpus(&home, count);
    let dataset = open(shards.to_str().expect("UTF-8")).expect("dataset");
    let files = files(&shards);
    let samples = dataset.len() as f64;
    let readtar = readtar(&home);
    let bare = |clock: &mut Clock| clock.told(Command::new(&readtar).args(&files));
    let c = "a bare reader in C: long reads, headers, copies";
    let gap = Access::Ranges { gap: 64 << 10 };

    let trial = trials.work("read-raw", "raw samples in stored order", Unit::Samples, samples).by_processors();
    let trial = trial.ours("packhorse", |clock| assert_eq!(clock.time(|| read(&dataset, gap)), dataset.len()));
    trial.limit(c, bare).run(rounds);

    let order = order(&dataset);
    let places = order.iter().map(|number| *number as usize).collect::<Vec<_>>();
    let members = if trials.wants("read-blocks") { members(&files) } else { Vec::new() };
    let trial = trials.work("read-blocks", "raw samples, all shuffled", Unit::Samples, samples).by_processors();
    let trial = trial.ours("packhorse", |clock| clock.time(|| shuffled(&dataset, gap, &order)));
    let trial = trial.limit("only reads of the same bytes in this order", |clock| {
        clock.time(|| bare_reads(&files, &members, &places));
    });
    trial.limit(format!("{c}, in stored order"), bare).run(rounds);

    let raw = raw_fields();
    let trial = trials.work("read-slabs", "raw samples into batches of 64", Unit::Samples, samples).by_processors();
    let trial = trial.ours("packhorse", |clock| clock.time(|| load(&dataset, gap, Shuffle::Sequential, &raw)));
    let trial =
        trial.limit("only reads of the files into memory of four batches", |clock| clock.time(|| bare_files(&files)));
    let trial = trial.limit(c, bare);
    let peers = peers(&files);
    // Their start takes long.
    peers.into_iter().fold(trial, |trial, (name, run)| trial.peer(name, run)).run(rounds.min(5));

    let trial = trials
        .work("read-mapped", "raw samples from mapped files into batches of 64", Unit::Samples, samples)
        .by_processors();
    let trial = trial.ours("packhorse", |clock| clock.time(|| load(&dataset, Access::Map, Shuffle::Sequential, &raw)));
    trial.limit(c, bare).run(rounds);

    let trial = trials.work("read-found", "samples found in mapped files, payload untouched", Unit::Samples, samples);
    let trial = trial.by_processors().ours("packhorse", |clock| clock.time(|| read(&dataset, Access::Map)));
    let trial = trial.peer("a bare header walk", |clock| clock.time(|| bare_walk(&files)));
    trial.peer("a bare header walk in memory", |clock| clock.time(|| mapped_walk(&files))).run(rounds);

    cold(&mut trials, &shards, samples, rounds);

    if !trials.wants("read-decode") {
        return;
    }
    let photos = photos(&dataset);
    let few = dataset.take(photos.len() as u64).expect("dataset");
    let title = "JPEGs of about 240 × 240 pixels decoded into batches of 64";
    let trial = trials.work("read-decode", title, Unit::Samples, photos.len() as f64).by_processors();
    let fields = decoded_fields();
    let trial = trial.ours("packhorse", |clock| clock.time(|| load(&few, gap, Shuffle::Sequential, &fields)));
    let trial = trial.limit("a bare loop of the same decoder", |clock| clock.time(|| bare_decode(&photos, 1)));
    let trial = trial.limit("the same into the memory of three batches", |clock| {
        clock.time(|| bare_decode(&photos, 3 * 64));
    });
    trial.run(rounds.min(5));
}

/// Shards that the page cache does not hold, on the disk of the build folder.
fn cold(trials: &mut Trials, shards: &Path, samples: f64, rounds: usize) {
    if !trials.wants("read-cold") {
        return;
    }
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packhorse-bench-read-cold");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir(&copy).expect("a folder");
    for entry in std::fs::read_dir(shards).expect("shards") {
        let from = entry.expect("entry").path();
        std::fs::copy(&from, copy.join(from.file_name().expect("a name"))).expect("a copy");
    }
    let files = files(&copy);
    let dataset = open(copy.to_str().expect("UTF-8")).expect("dataset");
    let raw = raw_fields();
    let load = |readahead: bool| {
        let options = LoaderOptions { threads: 2, readahead, ..LoaderOptions::new(256) };
        let loader = Loader::new(dataset.clone(), &raw, &options, Host::default()).expect("loader");
        loader.for_each(|batch| drop(black_box(batch.expect("batch"))));
    };
    let title = "raw samples that the page cache does not hold, shuffled in blocks of 16 shards";
    let trial = trials.work("read-cold", title, Unit::Samples, samples);
    let trial = trial.ours("packhorse", |clock| {
        evict(&files);
        clock.time(|| load(true));
    });
    let trial = trial.peer("packhorse without readahead", |clock| {
        evict(&files);
        clock.time(|| load(false));
    });
    let trial = trial.limit("only reading the files, one after the other", |clock| {
        evict(&files);
        clock.time(|| bare_files(&files));
    });
    trial.run(rounds);
    std::fs::remove_dir_all(&copy).expect("removed");
}

/// Drops files from the page cache.
fn evict(files: &[PathBuf]) {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    for path in files {
        let file = File::open(path).expect("shard");
        file.sync_all().expect("synced");
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).expect("dropped");
    }
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

/// The bare reader in C.
fn readtar(home: &Path) -> PathBuf {
    let program = home.join("readtar");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/readtar.c");
    run(Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source));
    program
}

/// The bytes of each sample, its headers with it: file, offset, length; two members each.
fn members(files: &[PathBuf]) -> Vec<(usize, u64, usize)> {
    let mut found = Vec::new();
    for (file, path) in files.iter().enumerate() {
        let bytes = std::fs::read(path).expect("shard");
        let (mut at, mut start, mut count) = (0, 0, 0);
        while let Some((size, _)) = bytes.get(at..at + 512).and_then(header) {
            at += 512 + size.next_multiple_of(512);
            count += 1;
            if count % 2 == 0 {
                found.push((file, start as u64, at - start));
                start = at;
            }
        }
    }
    found
}

/// The reads alone, into memory that is used again.
fn bare_reads(files: &[PathBuf], members: &[(usize, u64, usize)], order: &[usize]) {
    let files: Vec<File> = files.iter().map(|path| File::open(path).expect("shard")).collect();
    let mut block = vec![0; 8 << 20];
    for places in order.chunks(256) {
        let mut at = 0;
        for place in places {
            let (file, offset, length) = members[*place];
            if at + length > block.len() {
                at = 0;
            }
            files[file].read_exact_at(&mut block[at..at + length], offset).expect("read");
            at += length;
        }
        black_box(&block);
    }
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

/// The order of a full shuffle.
fn order(dataset: &Dataset) -> Vec<u64> {
    let counts = vec![dataset.len()];
    let order = packhorse::read::order::ShardOrder::new(&counts, Shuffle::Full, 1, 0).expect("order");
    (0..dataset.len()).filter_map(|at| Some(order.get(at)?.1)).collect()
}

/// All samples in this order, 256 together.
fn shuffled(dataset: &Dataset, access: Access, order: &[u64]) {
    let reader = Reader::new(dataset.clone(), columns(), options(access));
    let (mut wants, mut fetched) = (Wants::default(), SampleBlock::default());
    for numbers in order.chunks(256) {
        reader.read(numbers.iter().copied(), &mut wants, &mut fetched).expect("samples");
        black_box(&fetched);
    }
}

/// Reads of a batch's size into four buffers in turn.
fn bare_files(files: &[PathBuf]) {
    let mut buffers = vec![vec![0; 1_100_000]; 4];
    let mut turn = 0;
    for path in files {
        let mut file = File::open(path).expect("shard");
        loop {
            turn = (turn + 1) % buffers.len();
            if file.read(&mut buffers[turn]).expect("read") == 0 {
                break;
            }
        }
    }
    black_box(&buffers);
}

fn raw_fields() -> Vec<FieldOptions> {
    vec![FieldOptions::new("jpg", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)]
}

const VIEW: View = View {
    size: Size::Keep,
    flip: 0.0,
    filter: packhorse::transform::image::Filter::Bilinear,
    reduced: false,
    lane: 0,
};

fn decoded_fields() -> Vec<FieldOptions> {
    vec![FieldOptions::new("jpg", FieldKind::Picture(VIEW)), FieldOptions::new("cls", FieldKind::Auto)]
}

fn load(dataset: &Dataset, access: Access, shuffle: Shuffle, fields: &[FieldOptions]) -> u64 {
    let options = LoaderOptions {
        threads: 1,
        readers: 0,
        ahead: 3,
        shuffle: Some(shuffle),
        read: options(access),
        ..LoaderOptions::new(64)
    };
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

/// A loader of others, and how it runs.
type Peer<'a> = (String, Box<dyn FnMut(&mut Clock) + 'a>);

/// What loaders of others make of the same shards, raw.
fn peers(files: &[PathBuf]) -> Vec<Peer<'_>> {
    let Some(python) = python() else { return Vec::new() };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/read_wds.py");
    let peer = |(short, name): &(&str, &str)| {
        let (mode, package) = (format!("{short}-raw"), package(&python, name)?);
        let (python, script) = (python.clone(), script.clone());
        let load = move |clock: &mut Clock| {
            let text = run(Command::new(&python).arg(&script).arg(&mode).args(files));
            let value: serde_json::Value =
                serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a line of JSON");
            let [wall, processors] = ["seconds", "cpu_seconds"].map(|key| value[key].as_f64().expect("seconds"));
            clock.add(Duration::from_secs_f64(wall), Duration::from_secs_f64(processors));
        };
        Some((package, Box::new(load) as Box<dyn FnMut(&mut Clock)>))
    };
    LOADERS.iter().filter_map(peer).collect()
}
