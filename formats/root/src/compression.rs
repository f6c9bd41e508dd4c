//! ROOT's compressed blocks: a nine-byte header, then zlib, old zlib, xz, LZ4 with a checksum, or
//! Zstandard. An object larger than 16 MiB has several blocks.

use crate::bytes::Bytes;
use arrow_buffer::Buffer;
use libdeflater::Decompressor;
use packhorse_core::{Context, Error, Pool, Result};
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// A compressed block and its header.
struct CompressedBlock<'a> {
    method: [u8; 2],
    compressed: &'a [u8],
    len: usize,
}

const HEADER: usize = 9;

/// A pool of decompressors, one per active thread: making one takes longer than decompressing a small basket.
#[derive(Default)]
pub(crate) struct Coders(Mutex<Vec<Coder>>);

impl Coders {
    /// Decompresses to exactly `len` bytes, which the block headers must add up to before anything is allocated.
    pub(crate) fn unpack(&self, compressed: &[u8], len: usize) -> Result<Vec<u8>> {
        let blocks = blocks(compressed, len)?;
        let mut out = vec![0; len];
        self.blocks(&blocks, &mut out)?;
        Ok(out)
    }

    /// Like [`Coders::unpack`], into memory from `buffers`.
    pub(crate) fn unpack_into(&self, buffers: &Pool, compressed: &[u8], len: usize) -> Result<Buffer> {
        let blocks = blocks(compressed, len)?;
        buffers.filled(len, |out| self.blocks(&blocks, out))
    }

    fn blocks(&self, blocks: &[CompressedBlock<'_>], out: &mut [u8]) -> Result<()> {
        let idle = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut coder = taken.unwrap_or_else(|| Coder { deflate: Decompressor::new(), zstd: None });
        let done = coder.blocks(blocks, out);
        idle().push(coder);
        done
    }
}

/// Decompresses one block at a time.
struct Coder {
    deflate: Decompressor,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Coder {
    fn blocks(&mut self, blocks: &[CompressedBlock<'_>], out: &mut [u8]) -> Result<()> {
        let len = out.len();
        let mut rest = out;
        for block in blocks {
            let (part, after) = rest.split_at_mut_checked(block.len).ok_or_else(|| differs(len))?;
            self.block(block, part)?;
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(differs(len)) }
    }

    fn block(&mut self, block: &CompressedBlock<'_>, out: &mut [u8]) -> Result<()> {
        match &block.method {
            b"ZL" => self.zlib(block.compressed, out),
            b"CS" => self.old_zlib(block.compressed, out),
            b"XZ" => xz(block.compressed, out),
            b"L4" => lz4(block.compressed, out),
            b"ZS" => self.zstd(block.compressed, out),
            [a, b] => Err(Error::unsupported(format!(
                "compression \"{}{}\"; supported are ZL, CS, XZ, L4 and ZS",
                char::from(*a),
                char::from(*b)
            ))),
        }
    }

    fn zlib(&mut self, compressed: &[u8], out: &mut [u8]) -> Result<()> {
        let wanted = out.len();
        let found = self.deflate.zlib_decompress(compressed, out);
        exactly(found.map_err(|e| damaged("zlib", e))?, wanted)
    }

    /// ROOT's early format: raw deflate without zlib's frame.
    fn old_zlib(&mut self, compressed: &[u8], out: &mut [u8]) -> Result<()> {
        let wanted = out.len();
        let found = self.deflate.deflate_decompress(compressed, out);
        exactly(found.map_err(|e| damaged("old zlib", e))?, wanted)
    }

    fn zstd(&mut self, compressed: &[u8], out: &mut [u8]) -> Result<()> {
        let made = match self.zstd.take() {
            Some(made) => made,
            None => zstd::bulk::Decompressor::new().context("start zstd")?,
        };
        let found = self.zstd.insert(made).decompress_to_buffer(compressed, out);
        exactly(found.map_err(|e| damaged("Zstandard", e))?, out.len())
    }
}

/// Splits into blocks, whose uncompressed sizes must add up to `len`.
fn blocks(compressed: &[u8], len: usize) -> Result<Vec<CompressedBlock<'_>>> {
    let mut bytes = Bytes::new(compressed);
    let (mut found, mut sum) = (Vec::new(), 0usize);
    while sum < len && bytes.left() >= HEADER {
        let block = block(&mut bytes)?;
        if block.len == 0 {
            return Err(Error::content("a compressed block of 0 bytes"));
        }
        sum = sum.saturating_add(block.len);
        found.push(block);
    }
    if sum == len { Ok(found) } else { Err(differs(len)) }
}

fn differs(len: usize) -> Error {
    Error::content(format!("its compressed blocks do not add up to {len} bytes: the file is damaged"))
}

fn block<'a>(bytes: &mut Bytes<'a>) -> Result<CompressedBlock<'a>> {
    let &[a, b, _, c0, c1, c2, u0, u1, u2] = bytes.take(HEADER)? else {
        return Err(Error::bug("a header of another length than was taken"));
    };
    let size = |low: u8, middle: u8, high: u8| u32::from_le_bytes([low, middle, high, 0]) as usize;
    Ok(CompressedBlock { method: [a, b], compressed: bytes.take(size(c0, c1, c2))?, len: size(u0, u1, u2) })
}

fn damaged(what: &str, error: impl std::fmt::Display) -> Error {
    Error::content(format!("{what} data is damaged: {error}"))
}

/// An 8-byte checksum, then one LZ4 block.
fn lz4(compressed: &[u8], out: &mut [u8]) -> Result<()> {
    let mut bytes = Bytes::new(compressed);
    let announced = bytes.u64()?;
    let data = bytes.take(bytes.left())?;
    if twox_hash::XxHash64::oneshot(0, data) != announced {
        return Err(damaged("LZ4", "its checksum differs"));
    }
    let found = lz4_flex::block::decompress_into(data, out).map_err(|e| damaged("LZ4", e))?;
    exactly(found, out.len())
}

/// Enough for the dictionary and tables of the largest preset; blocks of 16 MiB never need more.
const XZ_MEMORY_KIB: u32 = 128 << 10;

fn xz(compressed: &[u8], out: &mut [u8]) -> Result<()> {
    let mut reader = lzma_rust2::XzReader::new_mem_limit(compressed, false, XZ_MEMORY_KIB);
    reader.read_exact(out).map_err(|e| damaged("xz", e))
}

fn exactly(found: usize, wanted: usize) -> Result<()> {
    if found == wanted { Ok(()) } else { Err(damaged("compressed", format!("{found} bytes instead of {wanted}"))) }
}
