//! Writes 300 MB of blobs, reads them in full and at random, and compares with pyarrow in the same run.
//!
//! `PACKHORSE_PYTHON` names a Python with pyarrow; without it only our own times are printed. The file is in the build
//! folder, and in `/dev/shm` if that exists. Both are in memory, but the kernel backs the first with large pages and
//! the second with small ones, which dominates a full read. `bytes alone` only reads the bytes, with as many threads,
//! into reused memory. `PACKHORSE_BENCH_MB` sets another size.
#![expect(clippy::disallowed_methods, reason = "a bench measures time and writes its input")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its figures")]

use arrow_array::{BinaryViewArray, Int64Array, RecordBatch, StringViewArray};
use packhorse_core::{
    Context, DataType, Error, FieldType, FileStat, Format, Input, KEY, Limits, Options, Result, Rows, Schema,
};
use packhorse_parquet::Parquet;
use packhorse_testkit::memory::FolderOutlet;
use rayon::prelude::*;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const BLOB: usize = 100_000;
const RANDOM: usize = 300;
const REPEATS: usize = 7;

const PYTHON: &str = r#"
import random, sys, time
import pyarrow as pa, pyarrow.parquet as pq
path, out, repeats, picks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def best(work):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
table = pq.read_table(path)
def write():
    pq.write_table(table, out, compression={"jpg.bytes": "NONE"}, use_dictionary=False, row_group_size=100)
def full():
    assert pq.read_table(path).num_rows == table.num_rows
def at_random():
    file = pq.ParquetFile(path)
    n, size = file.metadata.num_rows, file.metadata.row_group(0).num_rows
    rng = random.Random(1)
    for _ in range(picks):
        i = rng.randrange(n)
        group = file.read_row_group(i // size, columns=["jpg"])
        assert len(group.column(0)[i % size]["bytes"].as_py()) == 100000
print(best(write), best(full), best(at_random))
"#;

struct FileInput(File, String, u64);

impl Input for FileInput {
    fn name(&self) -> &str {
        &self.1
    }

    fn len(&self) -> Option<u64> {
        Some(self.2)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.0.read_exact_at(buf, offset).context("read")
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Err(Error::unsupported("a bench reads ranges"))
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        Ok(None)
    }
}

fn samples(n: usize) -> Result<Rows> {
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let blobs: Vec<Vec<u8>> = (0..n).map(|_| (0..BLOB / 8).flat_map(|_| noise().to_le_bytes()).collect()).collect();
    let fields = [
        FieldType::Text.field(KEY, false),
        FieldType::Scalar(DataType::Int64).field("cls", false),
        FieldType::Blob.field("jpg", false),
    ];
    let keys = StringViewArray::from_iter_values((0..n).map(|i| format!("a/{i:06}")));
    let classes = Int64Array::from_iter_values((0..n as i64).map(|i| i % 10));
    let columns: Vec<arrow_array::ArrayRef> =
        vec![Arc::new(keys), Arc::new(classes), Arc::new(BinaryViewArray::from_iter_values(blobs))];
    RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns).map_err(|e| Error::bug(e.to_string()))
}

fn best(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(times.into_iter().fold(f64::INFINITY, f64::min))
}

fn write(rows: &Rows, path: &Path) -> Result<()> {
    let sink = Parquet.sink(&Options::new())?;
    let mut writer = sink.create(&rows.schema(), &mut FolderOutlet(path.with_extension("")))?;
    for at in (0..rows.num_rows()).step_by(50) {
        writer.push(&rows.slice(at, 50.min(rows.num_rows() - at)))?;
    }
    writer.finish().map(drop)
}

fn open(path: &Path) -> Result<FileInput> {
    let file = File::open(path).context("open")?;
    let len = file.metadata().context("stat")?.len();
    Ok(FileInput(file, path.display().to_string(), len))
}

/// The time to read all `n` rows.
fn full(path: &Path, n: u64) -> Result<f64> {
    let source = Parquet.source(&Options::new(), Limits::default())?;
    best(|| {
        let input = open(path)?;
        let read = source
            .open(Arc::new(&input))?
            .rows(0..n)?
            .try_fold(0, |n, rows| Ok::<_, Error>(n + rows?.num_rows() as u64))?;
        assert_eq!(read, n);
        Ok(())
    })
}

/// Reads a file in pieces and discards them.
fn bytes_alone(path: &Path) -> Result<()> {
    const PIECE: u64 = 256 << 10;
    let input = open(path)?;
    let read = |piece: &mut Vec<u8>, at: u64| {
        let len = PIECE.min(input.2 - at * PIECE) as usize;
        piece.get_mut(..len).map_or(Ok(()), |piece| input.read_at(at * PIECE, piece))
    };
    (0..input.2.div_ceil(PIECE)).into_par_iter().map_init(|| vec![0; PIECE as usize], read).collect()
}

fn ours(rows: &Rows, path: &Path) -> Result<[f64; 3]> {
    let n = rows.num_rows() as u64;
    let written = best(|| write(rows, path))?;
    let full = full(path, n)?;
    let random = best(|| {
        let (input, source) =
            (open(path)?, Parquet.source(&Options::from_iter([("columns", "jpg")]), Limits::default())?);
        let mut state = 1u64;
        for _ in 0..RANDOM {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let i = (state >> 33) % n;
            let rows = source.open(Arc::new(&input))?.rows(i..i + 1)?.collect::<Result<Vec<_>>>()?;
            assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
        }
        Ok(())
    })?;
    Ok([written, full, random])
}

fn theirs(path: &Path) -> Option<Vec<f64>> {
    let out = path.with_extension("theirs");
    let mut command = std::process::Command::new(std::env::var_os("PACKHORSE_PYTHON")?);
    command.args(["-c", PYTHON]).args([path, &out]).args([REPEATS.to_string(), RANDOM.to_string()]);
    let output = command.output().ok()?;
    let _ = std::fs::remove_file(out);
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).ok()?.split_whitespace().map(|n| n.parse().ok()).collect()
}

fn main() -> Result<()> {
    // For a profiler: with a path and a number of rows, writes that file or only reads it.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    if let (Some(path), Some(rows)) = (arguments.next(), arguments.next()) {
        let rows = rows.parse().unwrap_or(0);
        if !Path::new(&path).exists() {
            return write(&samples(rows as usize)?, Path::new(&path));
        }
        println!("{:.3} s", full(Path::new(&path), rows)?);
        return Ok(());
    }
    let megabytes = std::env::var("PACKHORSE_BENCH_MB").ok().and_then(|mb| mb.parse().ok()).unwrap_or(300usize);
    let rows = samples(megabytes * 1_000_000 / BLOB)?;
    for folder in [env!("CARGO_TARGET_TMPDIR"), "/dev/shm"].map(Path::new).into_iter().filter(|path| path.is_dir()) {
        let path = folder.join(format!("packhorse-bench-{}.parquet", std::process::id()));
        let ours = ours(&rows, &path)?;
        let alone = best(|| bytes_alone(&path))?;
        let theirs = theirs(&path);
        let _ = std::fs::remove_file(&path);
        println!(
            "{megabytes} MB of blobs of {BLOB} bytes in {}, {} threads; seconds, best of {REPEATS}",
            folder.display(),
            rayon::current_num_threads()
        );
        let figures = ["write", "full read", "300 random images"].into_iter().zip(ours).enumerate();
        for (i, (what, ours)) in figures.chain([(1, ("bytes alone", alone))]) {
            match theirs.as_ref().and_then(|times| times.get(i)) {
                Some(theirs) => {
                    println!("{what:18} {ours:8.3}   pyarrow {theirs:8.3}   {:5.1} times as fast", theirs / ours)
                }
                None => println!("{what:18} {ours:8.3}"),
            }
        }
    }
    Ok(())
}
