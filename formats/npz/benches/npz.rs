//! Compares reading arrays with `numpy.load`, in one run: `cargo bench -p packhorse-npz`.
//!
//! `PACKHORSE_PYTHON` is a Python with NumPy; without it the bench is skipped. Each figure is the best of a few rounds;
//! the files are in the page cache for both. NumPy uses one thread, packhorse one per processor.
//! `bytes alone` only reads the files, with as many threads, into reused memory: the lower bound for any reader.
//! `bytes, summed` also computes the CRC-32 of each piece, as any reader that checks files must.
//! `bytes, new memory` reads into fresh memory of the file's size, as any reader of whole files must.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench prints what it timed"
)]

use arrow_array::{ArrayRef, BinaryViewArray, RecordBatch};
use packhorse_core::{DataType, Field, Format, Input, Kind, Limits, MemoryInput, Options, Result, Schema, Source};
use packhorse_npz::Npz;
use rayon::prelude::*;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const ROUNDS: usize = 5;

/// Samples per block.
const BLOCK: usize = 64;

/// Makes the files, or times `numpy.load` on the files that match a pattern.
const SCRIPT: &str = r#"
import glob, io, sys, time
import numpy as np
what, folder = sys.argv[1:3]
if what == "make":
    r = np.random.default_rng(1)
    big = {"x": r.random((4096, 64, 64), "f4"), "y": r.random((4096, 64, 64), "f4"), "z": r.integers(0, 9, (4096, 5078))}
    np.savez(folder + "/stored.npz", **big)
    deflated = {n: np.round(a[:800], 2) for n, a in big.items()}
    np.savez_compressed(folder + "/deflated.npz", **deflated)
    np.savez(folder + "/fortran.npz", x=np.asfortranarray(big["x"].reshape(8192, 2048)))
    np.savez(folder + "/swapped.npz", x=big["x"].astype(">f4"))
    for i in range(2000):
        np.savez(f"{folder}/small{i:04}.npz", x=r.random((32, 32), "f4"), y=np.int64(i), v=r.random(10))
        np.save(f"{folder}/single{i:04}.npy", r.random((32, 32), "f4"))
else:
    best = 1e9
    names = sorted(glob.glob(folder + "/" + sys.argv[3]))
    memory = [open(name, "rb").read() for name in names] if sys.argv[5] == "memory" else None
    for _ in range(int(sys.argv[4])):
        start = time.perf_counter()
        for i, name in enumerate(names):
            found = np.load(io.BytesIO(memory[i]) if memory else name)
            if name.endswith("npz"):
                for key in found.files:
                    np.ascontiguousarray(found[key], found[key].dtype.newbyteorder("=") if "swapped" in name else None)
        best = min(best, time.perf_counter() - start)
    print(best)
"#;

struct File {
    name: String,
    file: std::fs::File,
    len: u64,
}

impl File {
    fn open(path: &Path) -> Self {
        let file = std::fs::File::open(path).expect("a file that was just made");
        let len = file.metadata().expect("an open file").len();
        Self { name: path.to_string_lossy().into_owned(), file, len }
    }
}

impl Input for File {
    fn name(&self) -> &str {
        &self.name
    }
    fn len(&self) -> Option<u64> {
        Some(self.len)
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buf, offset).map_err(|e| packhorse_core::Error::io("read", e).with_kind(Kind::Content))
    }
    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(&self.file))
    }
}

fn python(python: &Path, args: &[&str]) -> String {
    let output = Command::new(python).args(["-c", SCRIPT]).args(args).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn best(mut run: impl FnMut()) -> f64 {
    let once = |_| {
        let start = std::time::Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(once).fold(f64::MAX, f64::min)
}

/// A source, as a job uses it for file after file.
fn source(rows: &str) -> Box<dyn Source> {
    Npz.source(&[("rows", rows)].into_iter().collect(), Limits::default()).expect("sound options")
}

fn by_source(paths: &[PathBuf], source: &dyn Source) {
    let read = |path: &PathBuf| {
        let input = File::open(path);
        let table = source.open(Arc::new(&input)).expect("a sound file");
        for rows in table.rows(0..u64::MAX).expect("a sound file") {
            std::hint::black_box(rows.expect("a sound file"));
        }
    };
    match paths {
        [one] => read(one),
        many => many.par_iter().with_min_len(BLOCK).for_each(read),
    }
}

/// Reads and decodes files in blocks, as `packhorse pack` does.
fn by_blocks(paths: &[PathBuf], field: &str) {
    paths.par_chunks(BLOCK).for_each(|paths| {
        by_codec(&paths.iter().map(|path| read(path)).collect::<Vec<_>>(), field);
    });
}

/// Reads files in pieces and discards them.
fn bytes_alone(paths: &[PathBuf]) {
    in_pieces(paths, |_| {});
}

/// The same, with the CRC-32 of each piece.
fn bytes_summed(paths: &[PathBuf]) {
    in_pieces(paths, |piece| {
        std::hint::black_box(libdeflater::crc32(piece));
    });
}

/// Reads files into fresh memory, without a checksum.
fn bytes_in_new_memory(paths: &[PathBuf]) {
    for path in paths {
        let input = File::open(path);
        let mut memory = packhorse_core::Pool::default().take(input.len as usize).expect("memory");
        let pieces = memory.par_chunks_mut(PIECE).enumerate();
        pieces.for_each(|(i, piece)| input.read_at((i * PIECE) as u64, piece).expect("a file that was just made"));
        std::hint::black_box(&memory);
    }
}

/// Bytes per read.
const PIECE: usize = 256 << 10;

fn in_pieces(paths: &[PathBuf], look: impl Fn(&[u8]) + Sync) {
    for path in paths.iter().filter(|_| paths.len() == 1) {
        let input = File::open(path);
        let pieces = (0..input.len as usize).into_par_iter().step_by(PIECE);
        pieces.for_each_init(
            || packhorse_core::aligned(PIECE),
            |piece, at| {
                let len = PIECE.min(input.len as usize - at);
                input.read_at(at as u64, &mut piece[..len]).expect("a file that was just made");
                look(&piece[..len]);
            },
        );
    }
    paths.par_iter().filter(|_| paths.len() > 1).for_each_init(
        || packhorse_core::aligned(PIECE),
        |piece, path| {
            let file = std::fs::File::open(path).expect("a file that was just made");
            let len = file.read_at(piece, 0).expect("a file that was just made");
            look(&piece[..len]);
        },
    );
}

/// Reads a file with a single read call.
fn read(path: &Path) -> Vec<u8> {
    let input = File::open(path);
    let mut bytes = vec![0; input.len as usize];
    input.read_at(0, &mut bytes).expect("a file that was just made");
    bytes
}

/// Decodes files in memory as one block of samples.
fn by_codec(files: &[Vec<u8>], field: &str) {
    let codec = Npz.codec(&Options::new(), Limits::default()).expect("no options");
    let first = MemoryInput::new("first", files[0].clone());
    let fields = codec.probe(field, &first).expect("a sound file");
    let blobs: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(files));
    let schema = Schema::new(vec![Field::new(field, DataType::BinaryView, false)]);
    let rows = RecordBatch::try_new(Arc::new(schema), vec![blobs]).expect("a column");
    std::hint::black_box(codec.decode(field, &rows, &fields).expect("sound files"));
}

/// Arguments after `--` select the lines whose names contain one of them.
fn wanted(what: &str) -> bool {
    let mut chosen = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).peekable();
    chosen.peek().is_none() || chosen.any(|arg| what.contains(&arg))
}

fn main() {
    let Some(interpreter) = std::env::var_os("PACKHORSE_PYTHON").map(PathBuf::from) else {
        println!("skipped: PACKHORSE_PYTHON is not set");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().to_str().expect("a name in UTF-8");
    python(&interpreter, &["make", at]);
    let all = |pattern: &str| {
        let start = pattern.split('*').next().unwrap_or_default();
        let names = std::fs::read_dir(folder.path()).expect("a folder").map(|e| e.expect("an entry").path());
        let mut found: Vec<PathBuf> =
            names.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(start))).collect();
        found.sort();
        found
    };
    println!("{:<28} {:>10} {:>10} {:>8}", "seconds", "numpy.load", "packhorse", "ratio");
    let (whole, by_rows) = (source("false"), source("true"));
    type Read<'a> = &'a dyn Fn(&[PathBuf]);
    let files = |paths: &[PathBuf]| paths.iter().map(|path| std::fs::read(path).expect("a file")).collect::<Vec<_>>();
    let runs: [(&str, &str, Read<'_>); 14] = [
        ("stored, one sample", "stored.npz", &|paths| by_source(paths, &*whole)),
        ("stored, row by row", "stored.npz", &|paths| by_source(paths, &*by_rows)),
        ("stored, bytes alone", "stored.npz", &bytes_alone),
        ("stored, bytes, summed", "stored.npz", &bytes_summed),
        ("stored, bytes, new memory", "stored.npz", &bytes_in_new_memory),
        ("Fortran, row by row", "fortran.npz", &|paths| by_source(paths, &*by_rows)),
        ("deflated, one sample", "deflated.npz", &|paths| by_source(paths, &*whole)),
        ("Fortran order", "fortran.npz", &|paths| by_source(paths, &*whole)),
        ("big-endian", "swapped.npz", &|paths| by_source(paths, &*whole)),
        ("2,000 npz, source", "small*", &|paths| by_source(paths, &*whole)),
        ("2,000 npz, codec", "small*", &|paths| by_blocks(paths, "npz")),
        ("2,000 npz, bytes alone", "small*", &bytes_alone),
        ("2,000 npz, bytes, summed", "small*", &bytes_summed),
        ("2,000 npy, codec", "single*", &|paths| by_blocks(paths, "npy")),
    ];
    let print = |what: &str, theirs: String, ours: f64| {
        let theirs: f64 = theirs.parse().expect("seconds");
        println!("{what:<28} {theirs:>10.4} {ours:>10.4} {:>7.1}x", theirs / ours);
    };
    let rounds = ROUNDS.to_string();
    for (what, pattern, read) in runs {
        if !wanted(what) {
            continue;
        }
        let paths = all(pattern);
        let ours = best(|| read(&paths));
        print(what, python(&interpreter, &["time", at, pattern, &rounds, "files"]), ours);
    }
    for (what, pattern, field) in
        [("npz in memory, codec", "small*", "npz"), ("npy in memory, codec", "single*", "npy")]
    {
        if !wanted(what) {
            continue;
        }
        let files = files(&all(pattern));
        let ours = best(|| by_codec(&files, field));
        print(what, python(&interpreter, &["time", at, pattern, &rounds, "memory"]), ours);
    }
}
