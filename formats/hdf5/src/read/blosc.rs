//! Filter 32001, [Blosc 1](https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst), which PyTables writes: a
//! header of 16 bytes, the places of blocks, then the blocks, shuffled by bytes or bits and compressed by one of five.

use super::inflate::{Inflater, damaged};
use super::{bitshuffle, blosclz, lz4};
use crate::bytes::Cursor;
use crate::plugin::advice;
use crate::shuffle::unshuffle;
use packhorse_core::{Error, Result};

const HEADER: usize = 16;
/// Elements of more bytes, or blocks of fewer elements, are not compressed byte by byte.
const WIDEST: usize = 16;
const FEWEST: usize = 128;
/// The coder snappy.
const SNAPPY: u8 = 2;

/// What the header says.
struct Header {
    flags: u8,
    /// Bytes of an element.
    width: usize,
    /// Bytes of a block.
    size: usize,
}

impl Header {
    const BYTES: u8 = 1;
    const STORED: u8 = 2;
    const BITS: u8 = 4;
    const IN_ONE: u8 = 16;

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// In how many parts a block of `len` bytes was compressed.
    fn parts(&self, len: usize) -> usize {
        let several = !self.has(Self::IN_ONE) && self.width <= WIDEST && self.size / self.width >= FEWEST;
        if several && len == self.size { self.width } else { 1 }
    }
}

/// Whether `input` was compressed by the one coder that is not built in.
pub(crate) fn is_snappy(input: &[u8]) -> bool {
    input.get(2).is_some_and(|flags| flags >> 5 == SNAPPY)
}

/// Decompresses `input` into the start of `out`; returns how many bytes that were.
pub(crate) fn decompress(inflater: &mut Inflater, input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = Cursor::new(input, "a chunk compressed with blosc");
    cursor.skip(2)?;
    let (flags, width) = (cursor.u8()?, usize::from(cursor.u8()?).max(1));
    let (len, size) = (cursor.u32()? as usize, cursor.u32()? as usize);
    cursor.skip(4)?;
    let out = out.get_mut(..len).ok_or_else(|| cursor.bad("is larger than it says"))?;
    let header = Header { flags, width, size };
    if header.has(Header::STORED) {
        out.copy_from_slice(cursor.take(len)?);
        return Ok(len);
    }
    if size == 0 && len > 0 {
        return Err(cursor.bad("has blocks of no bytes"));
    }
    for block in out.chunks_mut(size.max(1)) {
        let start = cursor.u32()? as usize;
        if start < HEADER {
            return Err(cursor.bad("has a block in its header"));
        }
        let packed = Cursor::new(input.get(start..).unwrap_or_default(), "a block of blosc");
        let mut scratch = std::mem::take(&mut inflater.scratch);
        scratch.resize(block.len(), 0);
        let done = unpack(inflater, &header, packed, &mut scratch);
        unshuffled(&header, &scratch, &mut inflater.planes, block);
        inflater.scratch = scratch;
        done?;
    }
    Ok(len)
}

/// The parts of a block, each after its length; what was made no smaller lies there as it was.
fn unpack(inflater: &mut Inflater, header: &Header, mut packed: Cursor<'_>, out: &mut [u8]) -> Result<()> {
    let size = out.len() / header.parts(out.len());
    for part in out.chunks_mut(size.max(1)) {
        let len = packed.u32()? as usize;
        let bytes = packed.take(len)?;
        if len == part.len() {
            part.copy_from_slice(bytes);
            continue;
        }
        let made = match header.flags >> 5 {
            0 => blosclz::decompress(bytes, part)?,
            1 => lz4::block(bytes, part).map(|()| part.len())?,
            3 => inflater.zlib(bytes, part)?,
            4 => inflater.zstd(bytes, part)?,
            SNAPPY => {
                return Err(Error::unsupported(format!("chunks compressed with blosc's snappy; {}", advice(32001))));
            }
            coder => return Err(Error::unsupported(format!("chunks compressed with blosc's coder {coder}"))),
        };
        if made != part.len() {
            return Err(damaged(format!("a part of blosc holds {made} bytes of {}", part.len())));
        }
    }
    Ok(())
}

fn unshuffled(header: &Header, bytes: &[u8], planes: &mut Vec<u8>, out: &mut [u8]) {
    let elements = out.len() / header.width;
    if header.has(Header::BYTES) && header.width > 1 {
        unshuffle(bytes, header.width, out);
    } else if header.has(Header::BITS) && elements > 0 && elements.is_multiple_of(8) {
        // Bytes after the last element stay last.
        let (elements, rest) = out.split_at_mut(elements * header.width);
        let (bits, last) = bytes.split_at(elements.len());
        bitshuffle::transpose(bits, header.width, planes, elements);
        rest.copy_from_slice(last);
    } else {
        out.copy_from_slice(bytes);
    }
}
