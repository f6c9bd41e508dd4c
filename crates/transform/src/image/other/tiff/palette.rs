//! TIFF palettes. Owns a workaround for a decoder that refuses them.

use super::{Tiff, contradictory, refused};
use crate::image::other::Palette;
use packhorse_core::Result;
use tiff::tags::Tag;

/// Tag PhotometricInterpretation: 3 for palettes, 1 for gray.
const PHOTOMETRIC: u16 = 262;

/// A copy of a palette file relabelled as gray; `None` for other files. The decoder refuses palettes but reads gray.
pub(super) fn as_gray(bytes: &[u8]) -> Option<Vec<u8>> {
    let little = bytes.starts_with(b"II");
    let number = |at: usize, width: usize| -> Option<usize> {
        let bytes = bytes.get(at..at.checked_add(width)?)?;
        let shifted = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
        Some(if little { bytes.iter().rev().fold(0, shifted) } else { bytes.iter().fold(0, shifted) })
    };
    let big = number(2, 2)? == 43;
    // Sizes of an offset, of the entry count, and of an entry.
    let (offset, count, entry) = if big { (8, 8, 20) } else { (4, 2, 12) };
    let directory = number(if big { 8 } else { 4 }, offset)?;
    let first = directory.checked_add(count)?;
    let entries = (0..number(directory, count)?.min(65_535)).map_while(|i| first.checked_add(i * entry));
    let at =
        entries.take_while(|at| at + entry <= bytes.len()).find(|at| number(*at, 2) == Some(PHOTOMETRIC.into()))?;
    let value = at + entry - offset;
    if number(value, 2)? != 3 {
        return None;
    }
    let mut gray = bytes.to_vec();
    let one = if little { 1u16.to_le_bytes() } else { 1u16.to_be_bytes() };
    gray.get_mut(value..value + 2)?.copy_from_slice(&one);
    Some(gray)
}

/// Reads the ColorMap: reds, greens, blues of 16 bits each, cut to the high 8.
pub(super) fn colours(decoder: &mut Tiff<'_>) -> Result<Palette> {
    let map = decoder.get_tag_u16_vec(Tag::ColorMap).map_err(refused)?;
    let third = map.len() / 3;
    let [red, green, blue] = [0, 1, 2].map(|part| map.get(part * third..(part + 1) * third).unwrap_or_default());
    if third == 0 || third > 256 {
        return Err(contradictory());
    }
    let colours = red.iter().zip(green).zip(blue).map(|((r, g), b)| [*r, *g, *b].map(|value| (value >> 8) as u8));
    Ok(Palette { colours: colours.collect(), clear: None })
}
