//! The memory layout of a lane. Only arithmetic; uses no GPU.

use packhorse_core::{Error, Kind, Result};
use packhorse_read::ALIGN;
use packhorse_transform::image::JpegFacts;
use std::ops::Range;

/// A picture of a batch, and its decoder.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// Its bytes in the batch's field.
    pub(super) bytes: Range<usize>,
    pub(super) way: Way,
    pub(super) height: u32,
    pub(super) width: u32,
}

/// The decoder of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// The engine of this index.
    Engine(usize, JpegFacts),
    /// The CPU.
    Cpu,
    /// No decoder: the sample has no picture.
    None,
}

impl Picture {
    /// Size of its pixels in bytes.
    pub(super) fn pixels(&self) -> usize {
        3usize.saturating_mul(self.height as usize).saturating_mul(self.width as usize)
    }
}

/// The layout of the tables and pictures of consecutive rows of a batch:
///
/// ```text
/// offsets [n + 1] i64 │ shapes [n, 3] i32 │ pictures, each where a multiple of 256 is
/// └─────── copied from the host ──────────┘
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) shapes: usize,
    /// The end of the bytes that are copied from the host.
    pub(super) tables: usize,
    pub(super) pictures: usize,
    /// The start of each picture relative to `pictures`, and the end of the last.
    pub(super) places: Vec<usize>,
    /// The total size in bytes.
    pub(super) bytes: usize,
}

impl Chunk {
    pub(super) fn new(pictures: &[Picture]) -> Result<Self> {
        Self::laid_out(pictures).ok_or_else(|| Error::new(Kind::Limit, "pictures are larger than memory"))
    }

    fn laid_out(pictures: &[Picture]) -> Option<Self> {
        let rows = pictures.len();
        let after = |start: usize, bytes: usize| start.checked_add(bytes)?.checked_next_multiple_of(ALIGN);
        let shapes = after(0, 8 * (rows + 1))?;
        let tables = shapes + 12 * rows;
        let start = after(tables, 0)?;
        let mut places = Vec::with_capacity(rows + 1);
        let mut end = 0;
        for picture in pictures {
            places.push(end);
            end = after(end, picture.pixels())?;
        }
        places.push(end);
        let bytes = start.checked_add(end)?;
        Some(Self { shapes, tables, pictures: start, places, bytes })
    }

    /// Writes the bytes to copy.
    pub(super) fn write(&self, pictures: &[Picture], out: &mut [u8]) {
        let (offsets, shapes) = out.split_at_mut(self.shapes.min(out.len()));
        for (out, place) in offsets.as_chunks_mut().0.iter_mut().zip(&self.places) {
            *out = (*place as u64).to_le_bytes();
        }
        let sizes = pictures.iter().flat_map(|picture| [picture.height, picture.width, 3]);
        for (out, size) in shapes.as_chunks_mut().0.iter_mut().zip(sizes) {
            *out = size.to_le_bytes();
        }
    }
}

/// How many of `pictures` fit into `memory` bytes; at least one.
pub(super) fn fitting(pictures: &[Picture], memory: usize) -> usize {
    let mut bytes = 0usize;
    let fits = |picture: &&Picture| {
        bytes = bytes.saturating_add(picture.pixels()).checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
        bytes <= memory
    };
    pictures.iter().take_while(fits).count().clamp(1, pictures.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(height: u32, width: u32) -> Picture {
        Picture { bytes: 0..0, way: Way::Cpu, height, width }
    }

    #[test]
    fn nothing_overlaps_and_all_is_aligned() {
        let pictures = [picture(3, 5), picture(0, 0), picture(100, 7), picture(1, 1)];
        let chunk = Chunk::new(&pictures).unwrap();
        assert_eq!((chunk.shapes, chunk.tables, chunk.pictures), (256, 304, 512));
        assert_eq!(chunk.places, [0, 256, 256, 256 + 2304, 256 + 2304 + 256]);
        assert_eq!(chunk.bytes, 512 + 2816);
        let mut out = vec![0xee; chunk.tables];
        chunk.write(&pictures, &mut out);
        let words: Vec<u64> = out.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(words[..5], [0, 256, 256, 2560, 2816]);
        let shapes: Vec<u32> = out[256..].as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        assert_eq!(shapes, [3, 5, 3, 0, 0, 3, 100, 7, 3, 1, 1, 3]);
    }

    #[test]
    fn chunks_fit_or_hold_one_picture() {
        let pictures = [picture(16, 16), picture(16, 16), picture(1000, 1000), picture(1, 1)];
        assert_eq!(fitting(&pictures, 1 << 30), 4);
        assert_eq!(fitting(&pictures, 2 * 768), 2);
        assert_eq!(fitting(&pictures, 2 * 768 - 1), 1);
        assert_eq!(fitting(&pictures[2..], 10), 1);
        let largest = [picture(u32::MAX, u32::MAX), picture(u32::MAX, u32::MAX)];
        assert_eq!(fitting(&largest, usize::MAX / 4), 1);
    }
}
