//! [Filter 32008](https://github.com/kiyo-masui/bitshuffle): the bits of elements grouped by significance, block by
//! block, and each block compressed by LZ4, by Zstandard or not at all. Detectors at light sources write it.

use super::inflate::{Inflater, damaged};
use super::lz4;
use crate::bytes::Cursor;
use crate::shuffle::unshuffle;
use packhorse_core::{Error, Result};

/// Elements per transposed group.
const EIGHT: usize = 8;
/// The default size of a block in bytes, and its least number of elements.
const BLOCK: usize = 8192;
const LEAST: usize = 128;

/// Decompresses `input` into the start of `out`; returns the number of bytes. The parameters are the version (two),
/// bytes per element, elements per block, and the compressor.
pub(crate) fn decompress(inflater: &mut Inflater, parameters: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let parameter = |at: usize| parameters.get(at).copied().unwrap_or_default() as usize;
    let (width, coder) = (parameter(2), parameter(4));
    if width == 0 || !matches!(coder, 0 | 2 | 3) {
        return Err(Error::unsupported(format!(
            "bitshuffle chunks with elements of {width} bytes and compressor {coder}"
        )));
    }
    let mut cursor = Cursor::new(input, "a bitshuffle chunk");
    let (len, size) = match coder {
        0 => (input.len(), parameter(3)),
        _ => (usize::try_from(cursor.big(8)?).unwrap_or(usize::MAX), cursor.big(4)? as usize / width),
    };
    let out = out.get_mut(..len).ok_or_else(|| cursor.bad("is larger than its dataset says"))?;
    let size = if size == 0 { (BLOCK / width / EIGHT * EIGHT).max(LEAST) } else { size };
    if size % EIGHT != 0 {
        return Err(cursor.bad("has blocks whose size is not a multiple of 8 elements"));
    }
    // Up to seven remaining elements are stored after the blocks, unchanged.
    let (blocks, rest) = out.split_at_mut(len / width / EIGHT * EIGHT * width);
    for block in blocks.chunks_mut(size.saturating_mul(width)) {
        if coder == 0 {
            transpose(cursor.take(block.len())?, width, &mut inflater.planes, block);
            continue;
        }
        let packed = cursor.big(4)? as usize;
        let packed = cursor.take(packed)?;
        let mut scratch = std::mem::take(&mut inflater.scratch);
        scratch.resize(block.len(), 0);
        let done = match coder {
            2 => lz4::block(packed, &mut scratch),
            _ => inflater.zstd(packed, &mut scratch).and_then(|len| match len == block.len() {
                true => Ok(()),
                false => Err(damaged("a bitshuffle block is cut short")),
            }),
        };
        transpose(&scratch, width, &mut inflater.planes, block);
        inflater.scratch = scratch;
        done?;
    }
    rest.copy_from_slice(cursor.take(rest.len())?);
    Ok(len)
}

/// Inverts the bit transposition of `out.len() / width` elements, a multiple of 8. `bits` holds the lowest bit of the
/// first byte of all elements, then the next bit, and so on through all bytes. `planes` is scratch memory for the byte
/// planes.
pub(crate) fn transpose(bits: &[u8], width: usize, planes: &mut Vec<u8>, out: &mut [u8]) {
    let plane = (out.len() / width.max(1)).max(1);
    planes.resize(out.len(), 0);
    for (bits, plane) in bits.chunks_exact(plane).zip(planes.chunks_exact_mut(plane)) {
        // Eight adjacent rows of bits form 8 × 8 squares, one per eight elements.
        unshuffle(bits, EIGHT, plane);
        for square in plane.as_chunks_mut().0 {
            *square = turned(u64::from_le_bytes(*square)).to_le_bytes();
        }
    }
    unshuffle(planes, width, out);
}

/// Transposes 8 × 8 bits (Hacker's Delight, 7-3).
fn turned(square: u64) -> u64 {
    let swapped = |square: u64, shift: u32, mask: u64| {
        let differ = (square ^ (square >> shift)) & mask;
        square ^ differ ^ (differ << shift)
    };
    let square = swapped(square, 7, 0x00aa_00aa_00aa_00aa);
    swapped(swapped(square, 14, 0x0000_cccc_0000_cccc), 28, 0x0000_0000_f0f0_f0f0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposition_is_inverted() {
        for (width, elements) in [(1, 8), (2, 16), (3, 24), (4, 8), (8, 64)] {
            let wanted: Vec<u8> = (0..width * elements).map(|i| (i * i * 7 + i / 3) as u8).collect();
            let mut bits = vec![0u8; wanted.len()];
            for (i, byte) in wanted.iter().enumerate() {
                for bit in 0..8 {
                    let at = ((i % width) * 8 + bit) * elements + i / width;
                    bits[at / 8] |= (byte >> bit & 1) << (at % 8);
                }
            }
            let mut out = vec![0; wanted.len()];
            transpose(&bits, width, &mut Vec::new(), &mut out);
            assert_eq!(out, wanted, "{width}");
        }
    }
}
