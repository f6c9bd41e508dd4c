//! The BMP codec.

use super::{Palette, Stored, pixels, refused, unencodable};
use crate::image::format::ImageFormat;
use crate::image::orientation::Orientation;
use crate::image::raster::Raster;
use image::codecs::bmp::{BmpDecoder, BmpEncoder};
use image::{ExtendedColorType, ImageDecoder};
use packhorse_core::{Limits, Result};
use std::io::Cursor;

pub(super) fn header(bytes: &[u8]) -> Result<(u32, u32, Orientation)> {
    let (width, height) = decoder(bytes)?.dimensions();
    Ok((width, height, Orientation::default()))
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Stored> {
    let first = decoder(bytes)?;
    let Some(mut colours) = first.get_palette().map(<[_]>::to_vec) else {
        return pixels(ImageFormat::Bmp, first, limits).map(Stored::plain);
    };
    colours.truncate(256);
    let numbered = with_numbers(bytes);
    let mut numbers = decoder(&numbered)?;
    // Only of plain bytes does the decoder return indices, also those beyond the palette.
    numbers.set_indexed_color(has_bytes(bytes));
    let Raster { width, height, channels, data, .. } = pixels(ImageFormat::Bmp, numbers, limits)?;
    let data = data.chunks_exact(channels.into()).filter_map(|pixel| pixel.first().copied()).collect();
    let raster = Raster::new(width, height, 1, false, data)?;
    // Gray images have a palette too: all 256 grays in order.
    if colours.len() == 256 && colours.iter().zip(0..=255).all(|(colour, gray)| *colour == [gray; 3]) {
        return Ok(Stored::plain(raster));
    }
    Ok(Stored { raster, palette: Some(Palette { colours, clear: None }), exact: true, numbers: None })
}

/// Whether palette indices are stored as plain bytes.
fn has_bytes(bytes: &[u8]) -> bool {
    let short = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|two| u16::from_le_bytes(*two));
    match short(14) {
        Some(12) => short(24) == Some(8),
        _ => short(28) == Some(8) && short(30) == Some(0),
    }
}

/// A copy whose palette gives each index itself as its colour, so that the decoder, which returns indices of one layout only,
/// returns those of all. Where the pixels are said to begin with the palette they begin behind it, as for Pillow.
fn with_numbers(bytes: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    let long = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |four| u32::from_le_bytes(*four));
    let header = long(14);
    let (colour, bits, count) = match header {
        12 => (3, long(24) & 0xffff, 0),
        _ => (4, long(28) & 0xffff, long(46)),
    };
    let most = 1u32 << bits.min(8);
    let count = if count == 0 { most } else { count.min(most) };
    let (first, pixels) = (14 + header, long(10));
    let end = first + colour * count;
    // Some files have fewer colours than they say.
    let palette = first as usize..if pixels > first { end.min(pixels) } else { end } as usize;
    for (number, entry) in
        (0..=u8::MAX).zip(copy.get_mut(palette).unwrap_or_default().chunks_exact_mut(colour as usize))
    {
        entry.iter_mut().take(3).for_each(|part| *part = number);
    }
    if let (true, Some(offset)) = (pixels == first, copy.get_mut(10..14)) {
        offset.copy_from_slice(&end.to_le_bytes());
    }
    copy
}

pub(super) fn encode(raster: &Raster, palette: Option<&Palette>) -> Result<Vec<u8>> {
    let color = match raster.channels {
        1 => ExtendedColorType::L8,
        3 => ExtendedColorType::Rgb8,
        _ => ExtendedColorType::Rgba8,
    };
    let mut out = Vec::new();
    let colours = palette.map(|palette| &*palette.colours);
    BmpEncoder::new(&mut out)
        .encode_with_palette(&raster.data, raster.width, raster.height, color, colours)
        .map_err(|error| unencodable(ImageFormat::Bmp, error))?;
    Ok(out)
}

fn decoder(bytes: &[u8]) -> Result<BmpDecoder<Cursor<&[u8]>>> {
    BmpDecoder::new(Cursor::new(bytes)).map_err(|error| refused(ImageFormat::Bmp, error))
}
