//! Filter 32001, [Blosc 1](https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst), which PyTables writes:
//! a header of 16 bytes, the offsets of blocks, then the blocks, shuffled by bytes or bits and compressed by one of
//! five codecs.

use super::inflate::{Inflater, damaged};
use super::{bitshuffle, blosclz, lz4};
use crate::bytes::Cursor;
use crate::plugin::advice;
use crate::shuffle::unshuffle;
use packhorse_core::{Error, Result};

const HEADER: usize = 16;
/// Blocks are split into byte planes only up to this element size in bytes, and from this number of elements on.
const WIDEST: usize = 16;
const FEWEST: usize = 128;
/// The codec snappy.
const SNAPPY: u8 = 2;

/// The header of a chunk.
struct BloscHeader {
    flags: u8,
    /// Bytes per element.
    width: usize,
    /// Bytes per block.
    size: usize,
}

impl BloscHeader {
    const BYTES: u8 = 1;
    const STORED: u8 = 2;
    const BITS: u8 = 4;
    const UNSPLIT: u8 = 16;

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The number of separately compressed parts in a block of `len` bytes.
    fn parts(&self, len: usize) -> usize {
        let several = !self.has(Self::UNSPLIT) && self.width <= WIDEST && self.size / self.width >= FEWEST;
        if several && len == self.size { self.width } else { 1 }
    }
}

/// Whether `input` is compressed with snappy, the only codec that is not built in.
pub(crate) fn is_snappy(input: &[u8]) -> bool {
    input.get(2).is_some_and(|flags| flags >> 5 == SNAPPY)
}

/// Decompresses `input` into the start of `out`; returns the number of bytes.
pub(crate) fn decompress(inflater: &mut Inflater, input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = Cursor::new(input, "a chunk compressed with blosc");
    cursor.skip(2)?;
    let (flags, width) = (cursor.u8()?, usize::from(cursor.u8()?).max(1));
    let (len, size) = (cursor.u32()? as usize, cursor.u32()? as usize);
    cursor.skip(4)?;
    let out = out.get_mut(..len).ok_or_else(|| cursor.bad("is larger than its dataset says"))?;
    let header = BloscHeader { flags, width, size };
    if header.has(BloscHeader::STORED) {
        out.copy_from_slice(cursor.take(len)?);
        return Ok(len);
    }
    if size == 0 && len > 0 {
        return Err(cursor.bad("has blocks of 0 bytes"));
    }
    for block in out.chunks_mut(size.max(1)) {
        let start = cursor.u32()? as usize;
        if start < HEADER {
            return Err(cursor.bad("has a block that overlaps its header"));
        }
        let packed = Cursor::new(input.get(start..).unwrap_or_default(), "a blosc block");
        let mut scratch = std::mem::take(&mut inflater.scratch);
        scratch.resize(block.len(), 0);
        let done = unpack(inflater, &header, packed, &mut scratch);
        unshuffled(&header, &scratch, &mut inflater.planes, block);
        inflater.scratch = scratch;
        done?;
    }
    Ok(len)
}

/// Decompresses the parts of a block, each stored after its length; a part of full length is not compressed.
fn unpack(inflater: &mut Inflater, header: &BloscHeader, mut packed: Cursor<'_>, out: &mut [u8]) -> Result<()> {
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
            codec => return Err(Error::unsupported(format!("chunks compressed with blosc's codec {codec}"))),
        };
        if made != part.len() {
            return Err(damaged(format!("a blosc block has {made} bytes instead of {}", part.len())));
        }
    }
    Ok(())
}

fn unshuffled(header: &BloscHeader, bytes: &[u8], planes: &mut Vec<u8>, out: &mut [u8]) {
    let elements = out.len() / header.width;
    if header.has(BloscHeader::BYTES) && header.width > 1 {
        unshuffle(bytes, header.width, out);
    } else if header.has(BloscHeader::BITS) && elements > 0 && elements.is_multiple_of(8) {
        // Bytes after the last element stay last.
        let (elements, rest) = out.split_at_mut(elements * header.width);
        let (bits, last) = bytes.split_at(elements.len());
        bitshuffle::transpose(bits, header.width, planes, elements);
        rest.copy_from_slice(last);
    } else {
        out.copy_from_slice(bytes);
    }
}
