//! What processors and memory do: copies, digests, checksums, decompression.

use crate::Quantity;
use crate::probe::Probe;
use crate::reads::counts;
use crate::test_folder::TestFolder;
use packhorse_core::{Context, Error, Result, crc32c};
use packhorse_synth::{Run, TextSpec, text};
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

/// Bytes of a copy; less with very many threads.
const COPIED: usize = 8 << 20;
/// One thread goes over as many pairs of buffers, 256 MiB, which no cache holds.
const PAIRS: usize = 16;
/// Bytes of all pairs together, at most.
const BUFFERS: usize = 1 << 30;
/// Bytes of a piece that is hashed, summed or compressed.
const PIECE: usize = 1 << 20;

/// Bytes to work on.
pub(crate) struct Material {
    pairs: Vec<Mutex<(Vec<u8>, Vec<u8>)>>,
    text: Vec<u8>,
    /// Frames of Zstandard, of a piece each.
    frames: Vec<Vec<u8>>,
    unpacked: Vec<Mutex<Unpacked>>,
}

/// What a thread decompresses with, and into.
type Unpacked = (zstd::bulk::Decompressor<'static>, Vec<u8>);

impl Material {
    /// For `threads` threads. The text is made in `folder`.
    pub(crate) fn new(folder: &TestFolder, threads: usize, run: &Run<'_>) -> Result<Self> {
        let documents = TextSpec { count: 4000, per_file: 4000, ..TextSpec::default() };
        let texts = folder.path().join("text");
        text(&texts, &documents, run)?;
        let text = crate::pictures::contents(&texts)?.concat();
        let frames = text.chunks_exact(PIECE).map(|piece| zstd::bulk::compress(piece, 3).context("compress"));
        let frames = frames.collect::<Result<Vec<_>>>()?;
        let unpacked = (0..threads).map(|_| {
            let decompressor = zstd::bulk::Decompressor::new().context("start zstd")?;
            Ok(Mutex::new((decompressor, Vec::with_capacity(PIECE))))
        });
        let (pairs, bytes) = pairs(threads);
        let pairs = (0..pairs).map(|_| Mutex::new((vec![1; bytes], vec![2; bytes]))).collect();
        Ok(Self { pairs, text, frames, unpacked: unpacked.collect::<Result<_>>()? })
    }

    /// All of it, with one and with `threads` threads.
    pub(crate) fn probes(&self, threads: usize) -> Vec<Probe<'_>> {
        let with = |threads| {
            [
                Probe::new(Quantity::Copy, threads, 1.0, Box::new(move |_, step| self.copy(threads, step))),
                self.of_pieces(Quantity::Blake3, threads, |piece| {
                    black_box(blake3::hash(piece));
                }),
                self.of_pieces(Quantity::Crc32c, threads, |piece| {
                    black_box(crc32c(piece));
                }),
                Probe::new(Quantity::Zstd, threads, 1.0, Box::new(|thread, step| self.decompress(thread, step))),
            ]
        };
        counts(threads).flat_map(with).collect()
    }

    /// Thread `step % threads` goes over the pairs that have its number, so that no two threads have one pair.
    fn copy(&self, threads: usize, step: u64) -> Result<u64> {
        let (thread, turn) = (step as usize % threads, step as usize / threads);
        let own = (self.pairs.len() - thread).div_ceil(threads);
        let pair = self.pairs.get(thread + turn % own * threads).ok_or_else(|| Error::bug("no buffers to copy"))?;
        let mut pair = pair.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, to) = &mut *pair;
        to.copy_from_slice(from);
        black_box(to);
        Ok(from.len() as u64)
    }

    fn of_pieces<'a>(&'a self, quantity: Quantity, threads: usize, work: fn(&[u8])) -> Probe<'a> {
        let step = move |_, step: u64| {
            let pieces = self.text.len() / PIECE;
            let from = step as usize % pieces.max(1) * PIECE;
            let piece = self.text.get(from..from + PIECE).ok_or_else(|| Error::bug("too little text"))?;
            work(piece);
            Ok(PIECE as u64)
        };
        Probe::new(quantity, threads, 1.0, Box::new(step))
    }

    fn decompress(&self, thread: usize, step: u64) -> Result<u64> {
        let frame = self.frames.get(step as usize % self.frames.len().max(1));
        let (frame, own) = frame.zip(self.unpacked.get(thread)).ok_or_else(|| Error::bug("nothing to decompress"))?;
        let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
        let (decompressor, out) = &mut *own;
        Ok(decompressor.decompress_to_buffer(frame, out).context("decompress")? as u64)
    }
}

/// How many pairs of buffers `threads` threads copy between, and the bytes of each buffer.
fn pairs(threads: usize) -> (usize, usize) {
    let pairs = threads.max(PAIRS);
    (pairs, COPIED.min(BUFFERS / 2 / pairs).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_larger_than_caches_and_not_than_memory() {
        for threads in [1, 2, 16, 64, 100, 256, 5000] {
            let (pairs, bytes) = pairs(threads);
            assert!(pairs >= threads && (256 << 20..=1 << 30).contains(&(2 * pairs * bytes)), "{threads}: {bytes}");
        }
        assert_eq!((pairs(1).1, pairs(64).1, pairs(256).1), (8 << 20, 8 << 20, 2 << 20));
    }
}
