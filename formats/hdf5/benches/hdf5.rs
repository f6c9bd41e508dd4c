//! Compares writing and reading 181 MB of float images, one per chunk, with h5py in the same run.
//!
//! `PACKHORSE_PYTHON=python cargo bench -p packhorse-hdf5` prints seconds and the speedup over h5py, and the share of
//! the speed of the compression library alone, over the same chunks in memory with as many threads. `IMAGES` is the
//! number of images (300), `REPEATS` the number of measurements (3; the best counts), and the argument `read` skips
//! timing writes.

#![expect(clippy::print_stdout, reason = "a bench prints its measurements")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a bench is not part of the format")]

use arrow_array::{Array, FixedSizeListArray, Float32Array, RecordBatch};
use packhorse_core::{DataType, FieldType, Format, Input, Limits, Options, Result, Rows, Schema};
use packhorse_hdf5::Hdf5;
use packhorse_testkit::memory::FolderOutlet;
use rayon::prelude::*;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const SHAPE: [usize; 3] = [224, 224, 3];
const PIXELS: usize = SHAPE[0] * SHAPE[1] * SHAPE[2];

/// Smooth shapes with a little noise, 256 levels, normalized as for training.
fn image(number: usize) -> Vec<f32> {
    let mut state = number as u32 * 2_654_435_761 + 1;
    let (a, b) = (0.01 + (number % 7) as f32 * 0.006, 0.02 + (number % 5) as f32 * 0.004);
    let one = |i: usize| {
        let (y, x, channel) = (i / 672, i / 3 % 224, i % 3);
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (state >> 29) as f32 - 3.5;
        let level = 128.0 + 60.0 * (x as f32 * a + channel as f32).sin() + 50.0 * (y as f32 * b).cos() + noise;
        (level.round().clamp(0.0, 255.0) / 255.0 - 0.45) / 0.225
    };
    (0..PIXELS).map(one).collect()
}

fn batch(from: usize, to: usize) -> Rows {
    let kind = FieldType::Tensor { element: DataType::Float32, shape: SHAPE.to_vec() };
    let field = kind.field("x", false);
    let DataType::FixedSizeList(item, size) = field.data_type() else { unreachable!() };
    let flat = Float32Array::from((from..to).flat_map(image).collect::<Vec<f32>>());
    let column = FixedSizeListArray::try_new(item.clone(), *size, Arc::new(flat), None).unwrap();
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(column)]).unwrap()
}

struct Opened(File, u64);

impl Input for Opened {
    fn name(&self) -> &str {
        "file"
    }

    fn len(&self) -> Option<u64> {
        Some(self.1)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.0.read_exact_at(buf, offset).unwrap();
        Ok(())
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        unreachable!("HDF5 is read by position")
    }
}

fn write(path: &Path, rows: &[Rows], pairs: &[(&str, &str)]) {
    let sink = Hdf5.sink(&pairs.iter().copied().collect::<Options>()).unwrap();
    let mut writer = sink.create(&rows[0].schema(), &mut FolderOutlet(path.with_extension(""))).unwrap();
    rows.iter().for_each(|rows| writer.push(rows).unwrap());
    writer.finish().unwrap();
}

fn read(path: &Path, images: usize) {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let input = Opened(file, len);
    let source = Hdf5.source(&Options::new(), Limits::default()).unwrap();
    let rows: usize = source
        .open(Arc::new(&input))
        .unwrap()
        .rows(0..u64::MAX)
        .unwrap()
        .map(|rows| rows.unwrap().column(0).len())
        .sum();
    assert_eq!(rows, images);
}

/// Wall-clock seconds, and processor seconds of all threads.
type Seconds = (f64, f64);

/// Processor time of all threads of this process in nanoseconds (proc_pid_schedstat(5)).
fn processors() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let one = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("schedstat")).ok();
    tasks.filter_map(one).filter_map(|text| text.split(' ').next()?.parse::<f64>().ok()).sum()
}

fn timed(work: impl FnOnce()) -> Seconds {
    let (start, before) = (Instant::now(), processors());
    work();
    (start.elapsed().as_secs_f64(), (processors() - before) / 1e9)
}

/// Times writing a new file, without freeing the pages of an old one.
fn written(path: &Path, rows: &[Rows], options: &[(&str, &str)]) -> Option<Seconds> {
    let _ = std::fs::remove_file(path);
    Some(timed(|| write(path, rows, options)))
}

/// Times h5py: `write-gzip`, `write-zstd` or `read`.
fn h5py(what: &str, raw: &Path, file: &Path) -> Option<Seconds> {
    let python = std::env::var("PACKHORSE_PYTHON").ok()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/h5py_times.py");
    if what != "read" {
        let _ = std::fs::remove_file(file);
    }
    let out = Command::new(python).arg(script).arg(what).args([raw, file]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let mut numbers = text.split_whitespace().filter_map(|number| number.parse().ok());
    numbers.next().zip(numbers.next())
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The best of each figure.
fn best(repeats: usize, mut measure: impl FnMut() -> Option<Seconds>) -> Option<Seconds> {
    (0..repeats).filter_map(|_| measure()).reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
}

/// Times compressing and decompressing alone, chunk by chunk in memory.
fn alone(filter: &str, shuffle: bool, rows: &[Rows], repeats: usize) -> (Option<Seconds>, Option<Seconds>) {
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    for rows in rows {
        let list = rows.column(0).as_any().downcast_ref::<FixedSizeListArray>().unwrap();
        let bytes = packhorse_core::bytes_of(list.values()).unwrap();
        chunks.extend(bytes.chunks(4 * PIXELS).map(|chunk| match shuffle {
            true => (0..4).flat_map(|byte| chunk.iter().skip(byte).step_by(4).copied()).collect(),
            false => chunk.to_vec(),
        }));
    }
    let packed: Vec<Vec<u8>> =
        chunks.par_iter().map_init(|| Coder::new(filter), |coder, chunk| coder.pack(chunk)).collect();
    let pack = || {
        chunks
            .par_iter()
            .map_init(|| Coder::new(filter), |coder, chunk| coder.pack(chunk))
            .map(|packed| packed.len())
            .sum()
    };
    let unpack = || packed.par_iter().map_init(|| Coder::new(filter), |coder, chunk| coder.unpack(chunk)).sum();
    let measure = |work: &(dyn Fn() -> usize + Sync)| {
        best(repeats, || {
            Some(timed(|| {
                std::hint::black_box(work());
            }))
        })
    };
    (measure(&pack), measure(&unpack))
}

/// A compression library as packhorse uses it.
enum Coder {
    Gzip(libdeflater::Compressor, libdeflater::Decompressor, Vec<u8>),
    Zstd(zstd::bulk::Compressor<'static>, zstd::bulk::Decompressor<'static>, Vec<u8>),
}

impl Coder {
    fn new(filter: &str) -> Self {
        let out = vec![0; 4 * PIXELS];
        match filter {
            "gzip" => {
                let level = libdeflater::CompressionLvl::new(4).unwrap();
                Coder::Gzip(libdeflater::Compressor::new(level), libdeflater::Decompressor::new(), out)
            }
            _ => Coder::Zstd(zstd::bulk::Compressor::new(3).unwrap(), zstd::bulk::Decompressor::new().unwrap(), out),
        }
    }

    fn pack(&mut self, chunk: &[u8]) -> Vec<u8> {
        match self {
            Coder::Gzip(coder, _, out) => {
                let len = coder.zlib_compress(chunk, out).unwrap();
                out[..len].to_vec()
            }
            Coder::Zstd(coder, _, out) => {
                let len = coder.compress_to_buffer(chunk, &mut out[..]).unwrap();
                out[..len].to_vec()
            }
        }
    }

    fn unpack(&mut self, chunk: &[u8]) -> usize {
        match self {
            Coder::Gzip(_, coder, out) => coder.zlib_decompress(chunk, out).unwrap(),
            Coder::Zstd(_, coder, out) => coder.decompress_to_buffer(chunk, &mut out[..]).unwrap(),
        }
    }
}

fn beside(what: &str, alone: Option<Seconds>, ours: Option<Seconds>) {
    let (Some((alone, busy)), Some((ours, ours_busy))) = (alone, ours) else { return };
    println!(
        "{:<34} {alone:.3} s, {busy:.3} of processors: packhorse has {:.2} of its speed, {:.2} a processor",
        format!("  {what} alone"),
        alone / ours,
        busy / ours_busy
    );
}

fn say(what: &str, bytes: f64, ours: Option<Seconds>, theirs: Option<Seconds>) {
    let Some((ours, busy)) = ours else { return };
    let theirs = theirs.map_or(String::new(), |(theirs, their_busy)| {
        format!(
            "  h5py {theirs:.3} s, {their_busy:.3}  {:.1} times, {:.1} a processor",
            theirs / ours,
            their_busy / busy
        )
    });
    println!("{what:<34} {ours:.3} s, {busy:.3} of processors  {:.0} MB/s{theirs}", bytes / ours / 1e6);
}

fn main() {
    let (images, repeats) = (number("IMAGES", 300), number("REPEATS", 3));
    let rows = || (0..images).step_by(16).map(|from| batch(from, (from + 16).min(images))).collect::<Vec<Rows>>();
    // For profilers: only packhorse, with one file; written with zstd and shuffle if it does not exist.
    if let Some(path) = std::env::args().nth(1).filter(|argument| argument.ends_with(".h5")) {
        let (path, bytes) = (Path::new(&path), (images * PIXELS * 4) as f64);
        if path.exists() {
            return say("read", bytes, best(repeats, || Some(timed(|| read(path, images)))), None);
        }
        let (rows, options) = (rows(), [("filter", "zstd"), ("shuffle", "on"), ("chunk", "1")]);
        return say("write", bytes, best(repeats, || written(path, &rows, &options)), None);
    }
    let dir = tempfile::tempdir().unwrap();
    let rows = rows();
    let raw = dir.path().join("raw");
    let mut file = File::create(&raw).unwrap();
    for rows in &rows {
        let list = rows.column(0).as_any().downcast_ref::<FixedSizeListArray>().unwrap();
        file.write_all(&packhorse_core::bytes_of(list.values()).unwrap()).unwrap();
    }
    let bytes = (images * PIXELS * 4) as f64;
    let path = |name: &str| dir.path().join(name);
    let writes = !std::env::args().any(|arg| arg == "read");
    let gzip = best(if writes { repeats } else { 1 }, || h5py("write-gzip", &raw, &path("h5py-gzip.h5")));
    let _ = h5py("write-zstd", &raw, &path("h5py-zstd.h5"));
    let mut unpacking = Vec::new();
    for (filter, shuffle) in [("gzip", "off"), ("gzip", "on"), ("zstd", "off"), ("zstd", "on"), ("none", "off")] {
        let name = path(&format!("{filter}-{shuffle}.h5"));
        let ours = best(if writes { repeats } else { 1 }, || {
            written(&name, &rows, &[("filter", filter), ("shuffle", shuffle), ("chunk", "1")])
        });
        if filter != "none" {
            let (packing, alone) = alone(filter, shuffle == "on", &rows, repeats);
            unpacking.push((format!("{filter}-{shuffle}.h5"), alone));
            if writes {
                let size = std::fs::metadata(&name).unwrap().len() as f64 / bytes;
                say(&format!("write {filter}, shuffle {shuffle} (to {size:.2})"), bytes, ours, gzip);
                beside("compressing", packing, ours);
            }
        }
    }
    for (name, as_ours) in [
        ("h5py-gzip.h5", "gzip-on.h5"),
        ("h5py-zstd.h5", "zstd-on.h5"),
        ("gzip-off.h5", "gzip-off.h5"),
        ("gzip-on.h5", "gzip-on.h5"),
        ("zstd-off.h5", "zstd-off.h5"),
        ("zstd-on.h5", "zstd-on.h5"),
        ("none-off.h5", ""),
    ] {
        let file = path(name);
        if !file.exists() {
            continue;
        }
        let theirs = best(repeats, || h5py("read", &raw, &file));
        let ours = best(repeats, || Some(timed(|| read(&file, images))));
        say(&format!("read {name}"), bytes, ours, theirs);
        let alone = unpacking.iter().find(|(of, _)| of == as_ours).and_then(|(_, alone)| *alone);
        beside("decompressing", alone, ours);
    }
}
