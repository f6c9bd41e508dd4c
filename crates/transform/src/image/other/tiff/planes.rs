//! Tiles of single channels (PlanarConfiguration 2), as satellite images have them.
//!
//! The crate `tiff` 0.11 reads a whole image of such tiles only if they end where the image does. It reads each tile.

use super::{Tiff, refused, too_large};
use packhorse_core::{Limits, Result};
use tiff::decoder::DecodingResult;
use tiff::tags::Tag;

/// The most channels that a picture has: inks and alpha.
const MOST_CHANNELS: usize = 5;

/// The pixels of an image of 8 or 16 bits in tiles of single channels, of which the first `channels` count; `None` for
/// others.
pub(super) fn read(decoder: &mut Tiff<'_>, channels: usize, limits: &Limits) -> Result<Option<DecodingResult>> {
    let (width, height) = decoder.dimensions().map_err(refused)?;
    let planar = decoder.find_tag_unsigned::<u32>(Tag::PlanarConfiguration).map_err(refused)? == Some(2);
    let bits = decoder.colortype().map_err(refused)?.bit_depth();
    let tiled = decoder.find_tag(Tag::TileWidth).map_err(refused)?.is_some();
    let pixels = u64::from(width) * u64::from(height);
    if !planar
        || !tiled
        || !(2..=MOST_CHANNELS).contains(&channels)
        || !matches!(bits, 8 | 16)
        || pixels > limits.pixels
    {
        return Ok(None);
    }
    let (across, down) = decoder.chunk_dimensions();
    let tiles = width.div_ceil(across.max(1)).saturating_mul(height.div_ceil(down.max(1)));
    let size = (width as usize, height as usize);
    let (mut narrow, mut wide) = (Vec::new(), Vec::new());
    match bits {
        8 => zeros(&mut narrow, size, channels)?,
        _ => zeros(&mut wide, size, channels)?,
    }
    for (channel, number) in (0..channels).flat_map(|channel| (0..tiles).map(move |number| (channel, number))) {
        let tile = tiles.saturating_mul(channel as u32).saturating_add(number);
        let stride = decoder.chunk_data_dimensions(tile).0 as usize;
        let left = (number % width.div_ceil(across) * across) as usize;
        let top = (number / width.div_ceil(across) * down) as usize;
        let place = Place { left, top, stride, size, channel, channels };
        match decoder.read_chunk(tile).map_err(refused)? {
            DecodingResult::U8(samples) => place.put(&samples, &mut narrow),
            DecodingResult::U16(samples) => place.put(&samples, &mut wide),
            _ => return Ok(None),
        }
    }
    Ok(Some(if bits == 8 { DecodingResult::U8(narrow) } else { DecodingResult::U16(wide) }))
}

/// Fills an empty list with those of an image.
fn zeros<T: Clone + Default>(list: &mut Vec<T>, size: (usize, usize), channels: usize) -> Result<()> {
    let len = size.0.checked_mul(size.1).and_then(|pixels| pixels.checked_mul(channels));
    let len = len.filter(|len| list.try_reserve_exact(*len).is_ok()).ok_or_else(too_large)?;
    list.resize(len, T::default());
    Ok(())
}

/// Where a tile of one channel lies in an image.
struct Place {
    left: usize,
    top: usize,
    /// Samples of a row of the tile.
    stride: usize,
    size: (usize, usize),
    channel: usize,
    channels: usize,
}

impl Place {
    /// Copies what lies in the image, whose channels are interleaved.
    fn put<T: Copy>(&self, tile: &[T], image: &mut [T]) {
        let (width, height) = self.size;
        let rows = tile.chunks_exact(self.stride.max(1)).take(height.saturating_sub(self.top));
        for (row, samples) in (self.top..).zip(rows) {
            let start = (row * width + self.left) * self.channels;
            let end = (row + 1) * width * self.channels;
            let pixels = image.get_mut(start..end).unwrap_or_default().chunks_exact_mut(self.channels);
            for (pixel, sample) in pixels.zip(samples) {
                if let Some(place) = pixel.get_mut(self.channel) {
                    *place = *sample;
                }
            }
        }
    }
}
