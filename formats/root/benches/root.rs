//! Compares packhorse with uproot on the same files in the same run: 2 M events, six flat and two jagged branches, with
//! every compression, on one and two threads. Run `cargo bench -p packhorse-root` with `PACKHORSE_PYTHON` set to a
//! Python with uproot. Files go to `/dev/shm` if it exists. `alone` only decompresses the baskets of the zlib file, on
//! one thread, from memory into reused memory.
#![expect(clippy::unwrap_used, reason = "a failure ends the bench")]
#![expect(clippy::print_stdout, reason = "results")]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

use packhorse_core::{Error, Format, Input, Limits, Options, Result};
use packhorse_root::Root;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const COMPRESSIONS: [&str; 4] = ["zlib", "lz4", "zstd", "lzma"];

/// The number of measurements, of which the best counts: `REPEATS`, or three.
fn repeats() -> usize {
    std::env::var("REPEATS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// A file, read by position.
struct File(std::fs::File, u64);

impl Input for File {
    fn name(&self) -> &str {
        "bench.root"
    }
    fn len(&self) -> Option<u64> {
        Some(self.1)
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.0.read_exact_at(buf, offset).map_err(|e| Error::io("read", e))
    }
    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(&self.0))
    }
}

fn main() {
    // For profilers: only packhorse, with one file, and one thread or as many as the second argument says.
    if let Some(path) = std::env::args().nth(1).filter(|argument| argument.ends_with(".root")) {
        let threads = std::env::args().nth(2).and_then(|threads| threads.parse().ok()).unwrap_or(1);
        println!("{:.3} s", read(Path::new(&path), threads).as_secs_f64());
        return;
    }
    let Some(python) = std::env::var_os("PACKHORSE_PYTHON") else {
        println!("set PACKHORSE_PYTHON to a Python with uproot");
        return;
    };
    let base = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
    let folder = base.join(format!("packhorse-bench-root-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/uproot_bench.py");
    let uproot = |arguments: &[&str]| {
        let found = Command::new(&python).arg(&script).arg(&folder).args(arguments).output().unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        String::from_utf8(found.stdout).unwrap().trim().to_owned()
    };
    uproot(&["write"]);
    println!("{:6} {:>8} {:>10} {:>10} {:>7}", "", "threads", "uproot s", "ours s", "ratio");
    for compression in COMPRESSIONS {
        for threads in [1, 2] {
            let theirs: f64 = uproot(&["read", compression, &threads.to_string()]).parse().unwrap();
            let ours = read(&folder.join(format!("{compression}.root")), threads).as_secs_f64();
            println!("{compression:6} {threads:>8} {theirs:>10.3} {ours:>10.3} {:>6.1}×", theirs / ours);
            if (compression, threads) == ("zlib", 1) {
                let alone = inflated(&folder.join("zlib.root")).as_secs_f64();
                println!("{:>15} {theirs:>10.3} {alone:>10.3} {:>6.1}×", "alone", theirs / alone);
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The best time for reading all branches.
fn read(path: &Path, threads: usize) -> Duration {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let source = Root.source(&Options::new(), Limits::default()).unwrap();
    let file = std::fs::File::open(path).unwrap();
    let input = File(file.try_clone().unwrap(), file.metadata().unwrap().len());
    let once = || {
        let start = Instant::now();
        let rows: usize = source
            .open(Arc::new(&input))
            .unwrap()
            .rows(0..u64::MAX)
            .unwrap()
            .map(|rows| rows.unwrap().num_rows())
            .sum();
        assert_eq!(rows, 2_000_000);
        start.elapsed()
    };
    pool.install(|| (0..repeats()).map(|_| once()).min().unwrap())
}

/// The best time that libdeflate needs for all zlib blocks of a file. A block is `ZL`, 8, its compressed and
/// uncompressed lengths of three bytes each, then the data.
fn inflated(path: &Path) -> Duration {
    let bytes = std::fs::read(path).unwrap();
    let length = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], 0]) as usize;
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at + 11 < bytes.len() {
        let end = at + 9 + length(at + 3);
        if bytes[at..].starts_with(b"ZL\x08") && bytes[at + 9] == 0x78 && end <= bytes.len() {
            blocks.push((&bytes[at + 9..end], length(at + 6)));
            at = end;
        } else {
            at += 1;
        }
    }
    let mut out = vec![0; blocks.iter().map(|(_, len)| *len).max().unwrap()];
    let mut coder = libdeflater::Decompressor::new();
    let mut once = || {
        let start = Instant::now();
        for (block, len) in &blocks {
            assert_eq!(coder.zlib_decompress(block, &mut out[..*len]).unwrap(), *len);
        }
        start.elapsed()
    };
    (0..repeats()).map(|_| once()).min().unwrap()
}
