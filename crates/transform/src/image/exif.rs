//! EXIF of a rewritten image (CIPA DC-008). Owns which tags must change; adds none.

use super::orientation::Orientation;
use std::ops::Range;

const ORIENTATION: u16 = 0x0112;
const EXIF_IFD: u16 = 0x8769;
const WIDTH: u16 = 0xa002;
const HEIGHT: u16 = 0xa003;

/// The bytes of an entry of a directory.
const ENTRY: usize = 12;

/// Updates a TIFF block for upright pixels of (width, height): sets the orientation to 1 and the size, and unlinks
/// the thumbnail, which shows the old image. Other tags stay. `None` if the block is too damaged to know its
/// orientation.
pub(super) fn upright(tiff: &[u8], (width, height): (u32, u32)) -> Option<Vec<u8>> {
    let mut block = Block { little: tiff.starts_with(b"II"), bytes: tiff.to_vec() };
    let first = block.long(4)? as usize;
    let mut inner = None;
    for at in block.entries(first)?.step_by(ENTRY) {
        match block.short(at)? {
            ORIENTATION => block.put(at, 1)?,
            EXIF_IFD => inner = Some(block.long(at + 8)? as usize),
            _ => {}
        }
    }
    let next = block.entries(first)?.end;
    block.bytes.get_mut(next..next + 4)?.fill(0);
    for at in inner.map_or(Some(0..0), |inner| block.entries(inner))?.step_by(ENTRY) {
        match block.short(at)? {
            WIDTH => block.put(at, width)?,
            HEIGHT => block.put(at, height)?,
            _ => {}
        }
    }
    Orientation::of(Some(&block.bytes), None).is_upright().then_some(block.bytes)
}

struct Block {
    little: bool,
    bytes: Vec<u8>,
}

impl Block {
    fn short(&self, at: usize) -> Option<u16> {
        let two = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) })
    }

    fn long(&self, at: usize) -> Option<u32> {
        let four = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) })
    }

    /// Where the entries of a directory lie, [`ENTRY`] bytes each.
    fn entries(&self, directory: usize) -> Option<Range<usize>> {
        let many = usize::from(self.short(directory)?);
        let (at, end) = (directory + 2, directory + 2 + ENTRY * many);
        (end + 4 <= self.bytes.len()).then_some(at..end)
    }

    /// Writes the single value of the entry at `at`, a whole number of any type; `None` for other types.
    fn put(&mut self, at: usize, value: u32) -> Option<()> {
        let bytes = match (self.short(at + 2)?, self.long(at + 4)?) {
            (1 | 6, 1) => [u8::try_from(value).ok()?, 0, 0, 0],
            (3 | 8, 1) => {
                let value = u16::try_from(value).ok()?;
                let two = if self.little { value.to_le_bytes() } else { value.to_be_bytes() };
                [two[0], two[1], 0, 0]
            }
            (4 | 9, 1) if self.little => value.to_le_bytes(),
            (4 | 9, 1) => value.to_be_bytes(),
            _ => return None,
        };
        self.bytes.get_mut(at + 8..at + 12)?.copy_from_slice(&bytes);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::exif::{In, Reader, Tag};

    /// Orientation 6, a camera, the size 640 × 480, and a thumbnail.
    fn block(little: bool) -> Vec<u8> {
        let short = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let long = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let entry = |tag: u16, kind: u16, value: u32| {
            let value = match kind {
                3 => [&short(value as u16)[..], &[0, 0]].concat(),
                _ => long(value).to_vec(),
            };
            [&short(tag)[..], &short(kind), &long(1), &value].concat()
        };
        let mut out = if little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
        out.extend(long(8));
        out.extend(short(3));
        out.extend(entry(ORIENTATION, 3, 6));
        out.extend(entry(0x0128, 3, 2));
        out.extend(entry(EXIF_IFD, 4, 50));
        out.extend(long(80));
        out.extend(short(2));
        out.extend(entry(WIDTH, 4, 640));
        out.extend(entry(HEIGHT, 3, 480));
        out.extend(long(0));
        out.extend(short(1));
        out.extend(entry(ORIENTATION, 3, 6));
        out.extend(long(0));
        out
    }

    #[test]
    fn a_block_is_updated_for_the_new_image() {
        for little in [false, true] {
            let before = Reader::new().read_raw(block(little)).unwrap();
            assert!(before.get_field(Tag::Orientation, In::THUMBNAIL).is_some());
            let after = Reader::new().read_raw(upright(&block(little), (30, 20)).unwrap()).unwrap();
            let value = |tag| after.get_field(tag, In::PRIMARY).and_then(|field| field.value.get_uint(0));
            assert_eq!(value(Tag::Orientation), Some(1));
            assert_eq!(value(Tag::ResolutionUnit), Some(2));
            assert_eq!((value(Tag::PixelXDimension), value(Tag::PixelYDimension)), (Some(30), Some(20)));
            assert!(after.get_field(Tag::Orientation, In::THUMBNAIL).is_none());
        }
    }

    #[test]
    fn a_damaged_block_is_dropped_or_upright() {
        assert!(upright(&super::super::samples::exif(6), (1, 1)).is_some());
        let whole = block(true);
        for end in 0..whole.len() {
            if let Some(kept) = upright(&whole[..end], (1, 1)) {
                assert!(Orientation::of(Some(&kept), None).is_upright());
            }
        }
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Some(kept) = upright(&bytes, (1, 1)) {
                assert!(Orientation::of(Some(&kept), None).is_upright());
            }
        }
    }
}
