//! WebP (RFC 9649). Owns the metadata chunks and the codec settings.

use super::{Stored, Work, cut_short, pixels, refused, unencodable};
use crate::image::format::ImageFormat;
use crate::image::jpeg::ImageNotes;
use crate::image::orientation::Orientation;
use crate::image::raster::Raster;
use crate::image::{Keep, exif};
use image::codecs::webp::{WebPDecoder, WebPEncoder};
use image::{AnimationDecoder, ExtendedColorType, ImageDecoder, ImageEncoder};
use packhorse_core::{Limits, Result};
use std::borrow::Cow;
use std::io::Cursor;

pub(super) fn header(bytes: &[u8]) -> Result<(u32, u32, Orientation)> {
    let (width, height) = decoder(bytes)?.dimensions();
    Ok((width, height, Orientation::of(exif_of(bytes), chunk(bytes, b"XMP "))))
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Stored> {
    let length = bytes.first_chunk::<8>().map_or(0, |[.., a, b, c, d]| u32::from_le_bytes([*a, *b, *c, *d]));
    if (bytes.len() as u64) < u64::from(length) + 8 {
        return Err(cut_short(ImageFormat::WebP));
    }
    pixels(ImageFormat::WebP, decoder(bytes)?, limits).map(Stored::plain)
}

pub(super) fn is_animated(bytes: &[u8]) -> Result<bool> {
    decoder(bytes).map(|decoder| decoder.has_animation())
}

pub(super) fn check_frames(bytes: &[u8], limits: &Limits) -> Result<()> {
    let decoder = decoder(bytes)?;
    let (width, height) = decoder.dimensions();
    let mut work = Work::within(limits);
    let mut frames = decoder.has_animation().then(|| decoder.into_frames()).into_iter().flatten();
    frames.try_for_each(|frame| {
        frame.map_err(|error| refused(ImageFormat::WebP, error))?;
        work.take(u64::from(width) * u64::from(height))
    })
}

/// Lossless: there is no lossy encoder in pure Rust.
pub(super) fn encode(raster: &Raster, from: &[u8], keep: Keep) -> Result<Vec<u8>> {
    let color = if raster.channels == 4 { ExtendedColorType::Rgba8 } else { ExtendedColorType::Rgb8 };
    let mut out = Vec::new();
    let mut encoder = WebPEncoder::new_lossless(&mut out);
    let failed = |error: &dyn std::fmt::Display| unencodable(ImageFormat::WebP, error);
    if let Some(profile) = chunk(from, b"ICCP").filter(|_| keep.icc) {
        encoder.set_icc_profile(profile.to_vec()).map_err(|e| failed(&e))?;
    }
    if let Some(exif) =
        exif_of(from).filter(|_| keep.exif).and_then(|tiff| exif::upright(tiff, (raster.width, raster.height)))
    {
        encoder.set_exif_metadata(exif).map_err(|e| failed(&e))?;
    }
    encoder.write_image(&raster.data, raster.width, raster.height, color).map_err(|e| failed(&e))?;
    Ok(out)
}

fn decoder(bytes: &[u8]) -> Result<WebPDecoder<Cursor<&[u8]>>> {
    WebPDecoder::new(Cursor::new(bytes)).map_err(|error| refused(ImageFormat::WebP, error))
}

pub(super) fn notes(bytes: &[u8]) -> ImageNotes<'_> {
    ImageNotes { icc: chunk(bytes, b"ICCP").map(Cow::Borrowed), exif: exif_of(bytes).map(Cow::Borrowed) }
}

fn exif_of(bytes: &[u8]) -> Option<&[u8]> {
    chunk(bytes, b"EXIF").map(|body| body.strip_prefix(b"Exif\0\0").unwrap_or(body))
}

/// The body of the first chunk with this name.
fn chunk<'a>(bytes: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    let mut rest = bytes.get(12..)?;
    loop {
        let (head, body) = rest.split_first_chunk::<8>()?;
        let [kind @ .., a, b, c, d] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if &kind == name {
            return body.get(..length);
        }
        rest = body.get(length.checked_next_multiple_of(2)?..)?;
    }
}
