//! Writing and reading in memory, as ratios to `memcpy` and the checksum of the same bytes, and to the Python package
//! `tfrecord` if `PACKHORSE_PYTHON` names a Python that has it.
//!
//! `cargo bench -p packhorse-tfrecord`
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark reports and stops")]

use arrow_array::{ArrayRef, BinaryViewArray, FixedSizeListArray, RecordBatch, StringViewArray};
use arrow_buffer::Buffer;
use packhorse_core::{
    DataType, Field, FieldType, Format, KEY, Limits, MemoryInput, Options, Outlet, PatchableWriter, Result, Rows,
    Schema, array_of, crc32c,
};
use packhorse_tfrecord::TfRecord;
use std::hint::black_box;
use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const REPEATS: usize = 5;

/// The best time of several runs.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn best(mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..REPEATS).map(time).min().unwrap()
}

fn column(name: &str, element: &DataType, size: usize, n: usize, bytes: Vec<u8>) -> (Field, ArrayRef) {
    let field = FieldType::Tensor { element: element.clone(), shape: vec![size] }.field(name, false);
    let item = Arc::new(Field::new("item", element.clone(), false));
    let values = array_of(element, Buffer::from_vec(bytes), n * size).unwrap();
    (field, Arc::new(FixedSizeListArray::try_new(item, i32::try_from(size).unwrap(), values, None).unwrap()))
}

fn noise(n: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..n).map(|_| next()).collect()
}

fn rows(n: usize, (field, array): (Field, ArrayRef)) -> Rows {
    let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..n).map(|i| format!("{i:08}"))));
    let schema = Schema::new(vec![Field::new(KEY, DataType::Utf8View, false), field]);
    RecordBatch::try_new(Arc::new(schema), vec![keys, array]).unwrap()
}

/// Four kinds of samples, 64 MB each.
fn corpora() -> Vec<(&'static str, Rows)> {
    let blobs: Vec<Vec<u8>> = (0..4000).map(|_| noise(16_000)).collect();
    let blobs: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(&blobs));
    let floats = (0..16_000_000).flat_map(|i| (i as f32 * 0.37).to_le_bytes()).collect();
    let tokens = (0..8_000_000u64).flat_map(|i| (i * 7919 % 50_257).to_le_bytes()).collect();
    vec![
        ("blobs of 16 kB", rows(4000, (FieldType::Blob.field("jpg", false), blobs))),
        ("f32[1000]", rows(16_000, column("x", &DataType::Float32, 1000, 16_000, floats))),
        ("i64[2000]", rows(4000, column("x", &DataType::Int64, 2000, 4000, tokens))),
        ("u8[16000]", rows(4000, column("x", &DataType::UInt8, 16_000, 4000, noise(64_000_000)))),
    ]
}

/// Keeps the data file in memory and drops its companions.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Outlet for Kept {
    fn stream(&mut self, suffix: &str) -> Result<Box<dyn Write + Send>> {
        Ok(if suffix == ".tfrecord" { Box::new(self.clone()) } else { Box::new(std::io::sink()) })
    }
    fn patchable(&mut self, _: &str) -> Result<Box<dyn PatchableWriter>> {
        Err(packhorse_core::Error::bug("nothing to patch here"))
    }
}

fn write(rows: &Rows, out: &Kept) {
    out.0.lock().unwrap().clear();
    let sink = TfRecord.sink(&Options::new()).unwrap();
    let mut writer = sink.create(&rows.schema(), &mut out.clone()).unwrap();
    // Blocks of the size that a source gives.
    let each = 500;
    for from in (0..rows.num_rows()).step_by(each) {
        writer.push(&rows.slice(from, each.min(rows.num_rows() - from))).unwrap();
    }
    writer.finish().unwrap();
}

fn read(input: &MemoryInput) {
    let source = TfRecord.source(&Options::new(), Limits::default()).unwrap();
    source.open(Arc::new(input)).unwrap().rows(0..u64::MAX).unwrap().for_each(|rows| drop(black_box(rows.unwrap())));
}

const THEIRS: &str = "
import sys, time
from tfrecord import reader, writer
path = sys.argv[1]
start = time.perf_counter()
records = list(reader.tfrecord_loader(path, None, None))
took = time.perf_counter() - start
kinds = {'bytes': 'byte', 'float32': 'float', 'int64': 'int'}
kind = lambda v: kinds['bytes' if isinstance(v, bytes) else v.dtype.name]
records = [{k: (v, kind(v)) for k, v in r.items()} for r in records]
out = writer.TFRecordWriter(path + '.theirs')
start = time.perf_counter()
for r in records:
    out.write(r)
out.close()
print(took, time.perf_counter() - start)
";

/// Seconds that the package takes to read the file, and to write it from Python values.
fn theirs(bytes: &[u8]) -> Option<(f64, f64)> {
    let python = std::env::var_os("PACKHORSE_PYTHON")?;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tfrecord");
    tempfile::NamedTempFile::new_in(dir.path())
        .and_then(|mut file| {
            file.write_all(bytes)?;
            Ok(file.persist(&path)?)
        })
        .unwrap();
    let output = Command::new(python).args(["-c", THEIRS]).arg(&path).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut numbers = said.split_whitespace().map(|n| n.parse().unwrap());
    Some((numbers.next()?, numbers.next()?))
}

fn main() {
    for (name, rows) in corpora() {
        let out = Kept::default();
        write(&rows, &out);
        let writing = best(|| write(&rows, &out));
        let bytes = out.0.lock().unwrap().clone();
        let mut copy = vec![0; bytes.len()];
        let copying = best(|| black_box(&mut copy).copy_from_slice(black_box(&bytes)));
        let summing = best(|| {
            black_box(crc32c(black_box(&bytes)));
        });
        let input = MemoryInput::new("a.tfrecord", bytes.clone());
        let reading = best(|| read(&input));
        let speed = |time: Duration| bytes.len() as f64 / 1e6 / time.as_secs_f64();
        println!(
            "{name}: {} MB, memcpy {:.0} MB/s, crc {:.0} MB/s",
            bytes.len() / 1_000_000,
            speed(copying),
            speed(summing)
        );
        let floor = (copying + summing).as_secs_f64();
        for (what, time, theirs) in
            [("write", writing, theirs(&bytes).map(|t| t.1)), ("read", reading, theirs(&bytes).map(|t| t.0))]
        {
            let ratio =
                theirs.map_or(String::new(), |t| format!(", {:.1} x the package tfrecord", t / time.as_secs_f64()));
            println!("  {what:5} {:6.0} MB/s, {:.1} x memcpy + crc{ratio}", speed(time), time.as_secs_f64() / floor);
        }
    }
}
