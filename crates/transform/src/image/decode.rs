//! Decodes image bytes to pixels for readers. Owns the dispatch; each codec has its own module.

use super::format::ImageFormat;
use super::orientation::Orientation;
use super::raster::Raster;
use super::{Pixels, jpeg, other, png};
use packhorse_core::{Error, Limits, Result};

/// Decodes a JPEG or PNG, or with the feature `image` a WebP, TIFF, BMP, GIF or PNM. Pixels are as stored: neither
/// EXIF orientation nor ICC profiles are applied. Palettes become colours, alpha is dropped, 16 bits are cut to the
/// high 8, CMYK becomes RGB (inverted in a JPEG, as Adobe writes it). Gray stays gray. Of an animation this is the
/// first frame.
///
/// Strict: a truncated image or a wrong checksum is a `Content` error. An image over [`Limits::pixels`] is a `Limit`
/// error, raised before any allocation.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Pixels> {
    let kind = ImageFormat::of(bytes)?;
    header(kind, bytes, limits)?;
    raster(kind, bytes, limits).map(Pixels::from)
}

/// Height and width of an image, upright as EXIF or XMP says; reads no more than its headers.
///
/// # Errors
/// `Content` for something that is not an image, `Limit` for too many pixels.
pub fn upright_size(bytes: &[u8], limits: &Limits) -> Result<(u32, u32)> {
    let (width, height, orientation) = header(ImageFormat::of(bytes)?, bytes, limits)?;
    let (width, height) = orientation.swap((width, height));
    Ok((height, width))
}

/// Stored width, height and orientation, checked against `limits`.
pub(super) fn header(kind: ImageFormat, bytes: &[u8], limits: &Limits) -> Result<(u32, u32, Orientation)> {
    let (width, height, orientation) = match kind {
        ImageFormat::Jpeg => jpeg::header(bytes)?,
        ImageFormat::Png => png::header(bytes)?,
        _ => other::header(kind, bytes)?,
    };
    if width == 0 || height == 0 {
        return Err(Error::content("has no pixels; get it again or leave it out"));
    }
    limits.picture(width, height)?;
    Ok((width, height, orientation))
}

/// All pixels, 8 bits per channel. The caller has checked the limits.
pub(super) fn raster(kind: ImageFormat, bytes: &[u8], limits: &Limits) -> Result<Raster> {
    match kind {
        ImageFormat::Jpeg => jpeg::decode(bytes),
        ImageFormat::Png => png::decode(bytes, false),
        _ => other::decode(kind, bytes, limits),
    }
}
