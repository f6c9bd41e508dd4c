//! Writing and reading pairs, as ratios to plain copies of the same bytes in the same run, and ten million short
//! documents: time and peak memory.
//!
//! `cargo bench -p packhorse-tokens`
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark reports and stops")]

use arrow_array::{ArrayRef, ListArray, RecordBatch, StringViewArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use packhorse_core::{
    Context, DataType, Field, FieldType, FileStat, Format, Input, KEY, Limits, Options, Outlet, Result, Rows, Schema,
    array_of,
};
use packhorse_testkit::memory::FolderOutlet;
use packhorse_tokens::{MergePlan, Tokens, VerifyOptions, verify};
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const REPEATS: usize = 5;

/// The wall time of a run, and its CPU time on all cores (user and system), which counts on a shared machine.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    cpu: Duration,
}

/// The best of several runs, separately for each measure.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn best(repeats: usize, mut run: impl FnMut()) -> Took {
    let mut best = Took { wall: Duration::MAX, cpu: Duration::MAX };
    for _ in 0..repeats {
        let (start, before) = (Instant::now(), cpu());
        run();
        best = Took { wall: best.wall.min(start.elapsed()), cpu: best.cpu.min(cpu().saturating_sub(before)) };
    }
    best
}

/// The CPU time of this process so far (proc_pid_stat(5), fields 14 and 15, in hundredths of a second).
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    Duration::from_millis(10 * fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>())
}

impl std::fmt::Display for Took {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} s ({:.2} s CPU)", self.wall.as_secs_f64(), self.cpu.as_secs_f64())
    }
}

struct Local(File, PathBuf, u64);

impl Local {
    fn open(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let len = file.metadata().unwrap().len();
        Self(file, path.to_owned(), len)
    }
}

impl Input for Local {
    fn name(&self) -> &str {
        self.1.to_str().unwrap()
    }
    fn len(&self) -> Option<u64> {
        Some(self.2)
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.0.read_exact_at(buf, offset).context("read")
    }
    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(&self.0))
    }
    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        Ok(Some(Box::new(Self::open(&self.1.with_file_name(name)))))
    }
    fn stat(&self) -> Result<Option<FileStat>> {
        Ok(None)
    }
}

/// `n` documents of about `len` tokens.
fn rows(n: usize, len: usize, keys: bool) -> Rows {
    let lens: Vec<usize> = (0..n).map(|i| 1 + (i * 7919) % (2 * len - 1)).collect();
    let tokens: usize = lens.iter().sum();
    let bytes: Vec<u8> = (0..tokens as u64).flat_map(|i| ((i * 48_271 % 50_257) as u16).to_le_bytes()).collect();
    let values = array_of(&DataType::UInt16, Buffer::from_vec(bytes), tokens).unwrap();
    let item = Arc::new(Field::new("item", DataType::UInt16, false));
    let lists: ArrayRef = Arc::new(ListArray::try_new(item, OffsetBuffer::from_lengths(lens), values, None).unwrap());
    let field = FieldType::List { element: DataType::UInt16, depth: 1 }.field("tokens", false);
    let (mut fields, mut columns) = (vec![field], vec![lists]);
    if keys {
        fields.insert(0, Field::new(KEY, DataType::Utf8View, false));
        columns.insert(0, Arc::new(StringViewArray::from_iter_values((0..n).map(|i| format!("books/{i:09}")))));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Writes `rows` several times, in blocks as a tokenizer gives them.
fn write(dir: &Path, rows: &Rows, times: usize, options: &[(&str, &str)]) {
    let sink = Tokens::default().sink(&options.iter().copied().collect()).unwrap();
    let mut writer = sink.create(&rows.schema(), &mut FolderOutlet(dir.join("part"))).unwrap();
    for _ in 0..times {
        for from in (0..rows.num_rows()).step_by(1000) {
            writer.push(&rows.slice(from, 1000.min(rows.num_rows() - from))).unwrap();
        }
    }
    writer.finish().unwrap();
}

fn read(path: &Path) -> u64 {
    let input = Local::open(path);
    let source = Tokens::default().source(&Options::new(), Limits::default()).unwrap();
    source
        .open(Arc::new(&input))
        .unwrap()
        .rows(0..u64::MAX)
        .unwrap()
        .map(|rows| black_box(rows.unwrap()).num_rows() as u64)
        .sum()
}

/// Reads the file once through a buffer of this size.
fn pass(path: &Path, buffer: usize) {
    let (file, mut buf) = (File::open(path).unwrap(), vec![0; buffer]);
    while (&file).read(&mut buf).unwrap() > 0 {
        black_box(&buf);
    }
}

/// The peak memory of this process, in MB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1000
}

fn many_documents(dir: &Path) {
    let few = rows(100_000, 8, true);
    println!("10,000,000 documents of 8 tokens; {} MB before", peak());
    for (options, what) in [(&[("documents", "off")][..], "pair"), (&[], "pair and table of documents")] {
        let time = best(1, || write(dir, &few, 100, options));
        println!("  write {what}: {time}, at most {} MB", peak());
    }
    let (idx, bin) = (dir.join("part.idx"), dir.join("part.bin"));
    let floor = best(2, || {
        pass(&idx, 1 << 20);
        pass(&bin, 1 << 20);
    });
    let time = best(2, || assert_eq!(read(&idx), 10_000_000));
    println!("  read: {time}, {:.1} x a pass over both files, at most {} MB", ratio(time, floor), peak());
    let input = Local::open(&idx);
    let time = best(2, || assert!(verify(&input, &VerifyOptions::default()).unwrap().problems.is_empty()));
    println!("  verify: {time}, {:.1} x that pass", ratio(time, floor));
    let inputs: [&dyn Input; 3] = [&input; 3];
    let time = best(1, || {
        let plan = MergePlan::new(&inputs).unwrap();
        plan.write_idx(&inputs, &mut FolderOutlet(dir.join("merged")).stream(".idx").unwrap()).unwrap();
    });
    println!("  .idx of three of them merged: {time}, at most {} MB", peak());
}

fn ratio(a: Took, b: Took) -> f64 {
    a.wall.as_secs_f64() / b.wall.as_secs_f64()
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    many_documents(dir.path());
    let rows = rows(100_000, 700, true);
    let bytes = {
        write(dir.path(), &rows, 1, &[("documents", "off")]);
        std::fs::read(dir.path().join("part.bin")).unwrap()
    };
    let speed = |time: Took| bytes.len() as f64 / 1e6 / time.wall.as_secs_f64();
    let mut copy = vec![0; bytes.len()];
    let memcpy = best(REPEATS, || black_box(&mut copy).copy_from_slice(black_box(&bytes)));
    let plain = best(REPEATS, || FolderOutlet(dir.path().join("plain")).stream("").unwrap().write_all(&bytes).unwrap());
    println!("{} MB in documents of 700 tokens; memcpy {:.0} MB/s", bytes.len() / 1_000_000, speed(memcpy));
    println!("  write a file plainly       {:6.0} MB/s; {plain}", speed(plain));
    for (options, what) in [
        (&[("documents", "off")][..], "write the pair"),
        (&[("documents", "off"), ("vocabulary", "50257")], "  and check the vocabulary"),
        (&[], "  and the table"),
    ] {
        let time = best(REPEATS, || write(dir.path(), &rows, 1, options));
        println!("  {what:26} {:6.0} MB/s, {:.2} x the plain file; {time}", speed(time), ratio(time, plain));
    }
    let bin = dir.path().join("part.bin");
    let plain = best(REPEATS, || pass(&bin, 1 << 20));
    let time = best(REPEATS, || assert_eq!(read(&dir.path().join("part.idx")), 100_000));
    println!("  read a file plainly        {:6.0} MB/s; {plain}", speed(plain));
    println!(
        "  read the pair              {:6.0} MB/s, {:.2} x the plain file; {time}",
        speed(time),
        ratio(time, plain)
    );
}
