//! Writes a file as one GZIP member (RFC 1952), compressed by many threads.
//!
//! Pieces of [`PIECE`] bytes are deflated independently and end on a byte boundary (a sync flush), so that together
//! they are one stream for every reader, including those that stop after the first member.

use flate2::{Compress, Compression, Crc, FlushCompress};
use packhorse_core::{Context, Error, Result};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::io::Write;

/// Bytes deflated as one piece.
const PIECE: usize = 256 << 10;
/// Bytes buffered before pieces are deflated in parallel.
const BATCH: usize = 16 * PIECE;
/// Magic, deflate, no flags, no time, no extra flags, unknown system: the same in every run.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

pub(crate) struct Gzip {
    out: Box<dyn Write + Send>,
    waiting: Vec<u8>,
    crc: Crc,
    written: u64,
}

impl Gzip {
    pub(crate) fn new(mut out: Box<dyn Write + Send>) -> Result<Self> {
        out.write_all(&HEADER).context("write")?;
        Ok(Self { out, waiting: Vec::new(), crc: Crc::new(), written: HEADER.len() as u64 })
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.crc.update(bytes);
        while !bytes.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(BATCH - self.waiting.len()));
            self.waiting.extend_from_slice(head);
            bytes = tail;
            if self.waiting.len() == BATCH {
                self.flush(FlushCompress::Sync)?;
            }
        }
        Ok(())
    }

    /// Ends the member; returns the bytes written.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.flush(FlushCompress::Sync)?;
        let mut end = deflate(&[], FlushCompress::Finish)?;
        end.extend_from_slice(&self.crc.sum().to_le_bytes());
        end.extend_from_slice(&self.crc.amount().to_le_bytes());
        self.out.write_all(&end).context("write")?;
        self.out.flush().context("write")?;
        Ok(self.written + end.len() as u64)
    }

    fn flush(&mut self, how: FlushCompress) -> Result<()> {
        let pieces: Vec<&[u8]> = self.waiting.chunks(PIECE).collect();
        let done: Vec<Vec<u8>> = pieces.into_par_iter().map(|piece| deflate(piece, how)).collect::<Result<_>>()?;
        for piece in &done {
            self.out.write_all(piece).context("write")?;
            self.written += piece.len() as u64;
        }
        self.waiting.clear();
        Ok(())
    }
}

fn deflate(bytes: &[u8], how: FlushCompress) -> Result<Vec<u8>> {
    let mut deflater = Compress::new(Compression::default(), false);
    let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
    loop {
        let rest = usize::try_from(deflater.total_in()).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        deflater.compress_vec(rest, &mut out, how).map_err(|e| Error::bug(format!("deflate: {e}")))?;
        // Room left in the output means that the deflater is drained.
        if deflater.total_in() == bytes.len() as u64 && out.len() < out.capacity() {
            return Ok(out);
        }
        out.reserve(out.capacity().max(64));
    }
}
