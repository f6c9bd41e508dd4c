//! From bytes to pixels, for readers. Owns the way in; each codec has a module of its own.

use super::kind::Kind;
use super::orientation::Orientation;
use super::raster::Raster;
use super::{Pixels, jpeg, other, png};
use packhorse_core::{Error, Limits, Result};

/// The pixels of a JPEG or a PNG, or (feature `image`) of a WebP, TIFF, BMP, GIF or PNM, as stored: EXIF's orientation
/// and ICC profiles are not applied, palettes become colours, alpha is dropped, 16 bits become 8 (the high ones), CMYK
/// becomes RGB (in a JPEG inverted, as Adobe writes it). Gray stays gray. Of what moves this is the first frame.
///
/// Strict: what is cut short or breaks a checksum is a `Content` error. An image of more pixels than
/// [`Limits::pixels`] is a `Limit` error, before anything is allocated.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Pixels> {
    let kind = Kind::of(bytes)?;
    header(kind, bytes, limits)?;
    raster(kind, bytes, limits).map(Pixels::from)
}

/// Stored width, height and orientation, within `limits`.
pub(super) fn header(kind: Kind, bytes: &[u8], limits: &Limits) -> Result<(u32, u32, Orientation)> {
    let (width, height, orientation) = match kind {
        Kind::Jpeg => jpeg::header(bytes)?,
        Kind::Png => png::header(bytes)?,
        _ => other::header(kind, bytes)?,
    };
    if width == 0 || height == 0 {
        return Err(Error::content("has no pixels; get it again or leave it out"));
    }
    if u64::from(width) * u64::from(height) > limits.pixels {
        let text = format!("is {width} × {height} pixels, over the limit of {} pixels", limits.pixels);
        return Err(Error::new(packhorse_core::Kind::Limit, text));
    }
    Ok((width, height, orientation))
}

/// All pixels, 8 bits a channel. The header is within limits.
pub(super) fn raster(kind: Kind, bytes: &[u8], limits: &Limits) -> Result<Raster> {
    match kind {
        Kind::Jpeg => jpeg::decode(bytes),
        Kind::Png => png::decode(bytes, false),
        _ => other::decode(kind, bytes, limits),
    }
}
