//! The BMP codec.

use super::{Palette, Stored, pixels, refused, unencodable};
use crate::image::format::ImageFormat;
use crate::image::orientation::Orientation;
use crate::image::raster::Raster;
use image::codecs::bmp::{BmpDecoder, BmpEncoder};
use image::{ExtendedColorType, ImageDecoder};
use packhorse_core::{Limits, Result};
use std::collections::BTreeMap;
use std::io::Cursor;

pub(super) fn header(bytes: &[u8]) -> Result<(u32, u32, Orientation)> {
    let (width, height) = decoder(bytes)?.dimensions();
    Ok((width, height, Orientation::default()))
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Stored> {
    let mut decoder = decoder(bytes)?;
    let Some(mut colours) = decoder.get_palette().map(<[_]>::to_vec) else {
        return pixels(ImageFormat::Bmp, decoder, limits).map(Stored::plain);
    };
    colours.truncate(256);
    let plain = has_bytes(bytes);
    decoder.set_indexed_color(plain);
    let raster = pixels(ImageFormat::Bmp, decoder, limits)?;
    let raster = if plain { raster } else { numbers(raster, &colours)? };
    // Gray images have a palette too: all 256 grays in order.
    if colours.len() == 256 && colours.iter().zip(0..=255).all(|(colour, gray)| *colour == [gray; 3]) {
        return Ok(Stored::plain(raster));
    }
    Ok(Stored { raster, palette: Some(Palette { colours, clear: None }), exact: true, numbers: None })
}

/// Whether palette indices are stored as plain bytes, the only layout whose indices the decoder returns.
fn has_bytes(bytes: &[u8]) -> bool {
    let short = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|two| u16::from_le_bytes(*two));
    match short(14) {
        Some(12) => short(24) == Some(8),
        _ => short(28) == Some(8) && short(30) == Some(0),
    }
}

/// Maps colours back to palette indices, the first of equal colours; unknown colours become index 0.
fn numbers(colours: Raster, palette: &[[u8; 3]]) -> Result<Raster> {
    let Raster { width, height, channels, data, .. } = colours;
    let mut places = BTreeMap::new();
    for (place, colour) in (0..=u8::MAX).zip(palette) {
        places.entry(colour.as_slice()).or_insert(place);
    }
    let place = |pixel: &[u8]| pixel.get(..3).and_then(|colour| places.get(colour)).copied().unwrap_or_default();
    let data = data.chunks_exact(channels.into()).map(place).collect();
    Raster::new(width, height, 1, false, data)
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
