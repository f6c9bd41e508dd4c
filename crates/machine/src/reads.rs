//! Reads and opens, as loaders and the packer make them.

use crate::Quantity;
use crate::aligned::{Aligned, BLOCK};
use crate::probe::Probe;
use crate::test_files::TestFiles;
use packhorse_core::{Context, Error, Result, SplitMix64};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// Bytes of a large read of one of many threads.
const PIECE: usize = 1 << 20;
/// Of a cold read in order by one thread, which has no other reads in flight.
const LARGE_PIECE: usize = 8 << 20;
/// A tar header, and the distance of headers where samples are photographs.
const HEADER: usize = 512;
const STRIDE: u64 = 100_000;
/// Pages that were dropped are dropped again when random reads have read such a part of the file: more would find some of
/// their places in memory.
const DROPPED_PART: u64 = 8;

/// Memory of each thread.
pub(crate) type Buffers = [Mutex<Aligned>];

pub(crate) fn buffers(threads: usize) -> Vec<Mutex<Aligned>> {
    (0..threads).map(|_| Mutex::default()).collect()
}

/// From the page cache, and opening files, with one and with `threads` threads.
pub(crate) fn warm<'a>(files: &'a TestFiles, buffers: &'a Buffers, threads: usize) -> Vec<Probe<'a>> {
    let reads = Reads { file: &files.file, bytes: files.bytes, buffers, dropped: None };
    let mut probes = Vec::new();
    for threads in counts(threads) {
        probes.push(reads.in_order(Quantity::ReadWarm, threads, PIECE));
        probes.push(reads.random(Quantity::Random4kWarm, threads, 4096));
        probes.push(reads.random(Quantity::Random128kWarm, threads, 128 << 10));
        probes.push(open(files, threads));
    }
    probes.push(reads.headers(Quantity::HeadersWarm));
    probes
}

/// Past the page cache by `O_DIRECT`, which leaves the cache as it is.
pub(crate) fn direct<'a>(files: &'a TestFiles, buffers: &'a Buffers, threads: usize) -> Vec<Probe<'a>> {
    let Some(file) = &files.direct else { return Vec::new() };
    let reads = Reads { file, bytes: files.bytes, buffers, dropped: None };
    counts(threads).flat_map(|threads| reads.cold(threads)).collect()
}

/// After the page cache let the file go.
pub(crate) fn dropped<'a>(files: &'a TestFiles, buffers: &'a Buffers, threads: usize) -> Vec<Probe<'a>> {
    if !files.drops {
        return Vec::new();
    }
    let reads = Reads { file: &files.file, bytes: files.bytes, buffers, dropped: Some(files) };
    let mut probes = vec![reads.headers(Quantity::HeadersCold)];
    if files.direct.is_none() {
        probes.extend(counts(threads).flat_map(|threads| reads.cold(threads)));
    }
    probes.into_iter().map(|probe| probe.before(|| files.drop_pages())).collect()
}

/// One thread and, where there are more, all.
pub(crate) fn counts(threads: usize) -> impl Iterator<Item = usize> {
    [1, threads].into_iter().take(if threads > 1 { 2 } else { 1 })
}

/// Reads of one file.
#[derive(Clone, Copy)]
struct Reads<'a> {
    file: &'a File,
    bytes: u64,
    buffers: &'a Buffers,
    /// Whose pages are dropped again before each pass over the file.
    dropped: Option<&'a TestFiles>,
}

impl<'a> Reads<'a> {
    fn cold(self, threads: usize) -> [Probe<'a>; 3] {
        [
            self.in_order(Quantity::ReadCold, threads, if threads == 1 { LARGE_PIECE } else { PIECE }),
            self.random(Quantity::Random4kCold, threads, 4096),
            self.random(Quantity::Random128kCold, threads, 128 << 10),
        ]
    }

    fn read(self, thread: usize, at: u64, len: usize) -> Result<()> {
        let buffer = self.buffers.get(thread).ok_or_else(|| Error::bug("a thread has no buffer"))?;
        let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.read_exact_at(buffer.room(len), at).context("read the test file")
    }

    /// Called before each step; a pass over the file has so many.
    fn again(self, step: u64, pass: u64) -> Result<()> {
        match self.dropped {
            Some(files) if step.is_multiple_of(pass) => files.drop_pages(),
            _ => Ok(()),
        }
    }

    /// Pieces one after the other, from the start again at the end.
    fn in_order(self, quantity: Quantity, threads: usize, piece: usize) -> Probe<'a> {
        let piece = piece.min(self.bytes as usize);
        let pieces = self.bytes / piece as u64;
        let step = move |thread, step| {
            self.again(step, pieces)?;
            self.read(thread, step % pieces * piece as u64, piece)?;
            Ok(piece as u64)
        };
        Probe::new(quantity, threads, 1.0, Box::new(step))
    }

    fn random(self, quantity: Quantity, threads: usize, len: usize) -> Probe<'a> {
        let places = (self.bytes - len as u64) / BLOCK as u64 + 1;
        let pass = (self.bytes / DROPPED_PART / len as u64).max(1);
        let step = move |thread, step| {
            self.again(step, pass)?;
            self.read(thread, SplitMix64::at(3, step) % places * BLOCK as u64, len)?;
            Ok(1)
        };
        Probe::new(quantity, threads, len as f64, Box::new(step))
    }

    /// By one thread.
    fn headers(self, quantity: Quantity) -> Probe<'a> {
        let headers = (self.bytes - HEADER as u64) / STRIDE + 1;
        let step = move |thread, step: u64| {
            self.again(step, headers)?;
            // Headers of a tar begin at multiples of their size.
            let at = step % headers * STRIDE / HEADER as u64 * HEADER as u64;
            self.read(thread, at, HEADER)?;
            Ok(1)
        };
        Probe::new(quantity, 1, HEADER as f64, Box::new(step))
    }
}

/// Opens small files and closes them.
fn open(files: &TestFiles, threads: usize) -> Probe<'_> {
    let step = move |_, step: u64| {
        let path = files.small.get(step as usize % files.small.len().max(1));
        let path = path.ok_or_else(|| Error::bug("there are no small files"))?;
        File::open(path).context("open a test file")?;
        Ok(1)
    };
    Probe::new(Quantity::Open, threads, 0.0, Box::new(step))
}
