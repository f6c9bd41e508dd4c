//! TIFF palettes and channels of no known meaning. Owns workarounds for a decoder that does not read them.

use super::directory::Directory;
use super::{Tiff, contradictory, refused};
use crate::image::other::Palette;
use packhorse_core::Result;
use tiff::tags::Tag;

/// Tag PhotometricInterpretation: 3 for palettes, 1 for gray.
const PHOTOMETRIC: u16 = 262;

/// Tag SamplesPerPixel.
const SAMPLES: u16 = 277;
const TILE_WIDTH: u16 = 322;
/// Tag ExtraSamples: 0 unspecified, 2 alpha.
const EXTRA_SAMPLES: u16 = 338;

/// A copy of a palette file relabelled as gray; `None` for other files. The decoder refuses palettes but reads gray.
pub(super) fn as_gray(bytes: &[u8]) -> Option<Vec<u8>> {
    let directory = Directory::of(bytes)?;
    let values = directory.values(bytes, PHOTOMETRIC)?;
    if directory.numbers(bytes, &values) != [3] {
        return None;
    }
    let mut gray = bytes.to_vec();
    directory.put(&mut gray, &values, 0, 1)?;
    Some(gray)
}

/// A copy of a tiled file of RGB and a fourth channel of no known meaning (near infrared, for example) that calls that one alpha;
/// `None` for other files. The decoder loses its way in tiles with such a channel.
pub(super) fn with_alpha(bytes: &[u8]) -> Option<Vec<u8>> {
    let directory = Directory::of(bytes)?;
    let is = |tag, numbers: &[usize]| {
        directory.values(bytes, tag).is_some_and(|values| directory.numbers(bytes, &values) == numbers)
    };
    directory.values(bytes, TILE_WIDTH)?;
    if !is(PHOTOMETRIC, &[2]) || !is(SAMPLES, &[4]) || !is(EXTRA_SAMPLES, &[0]) {
        return None;
    }
    let mut copy = bytes.to_vec();
    directory.put(&mut copy, &directory.values(bytes, EXTRA_SAMPLES)?, 0, 2)?;
    Some(copy)
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
