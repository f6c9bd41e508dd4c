//! Pictures of other formats as JPEGs. Decides no size.

use super::decode::raster;
use super::format::ImageFormat;
use super::raster::Raster;
use super::{Keep, jpeg, other, png};
use packhorse_core::{Limits, Result};

/// A picture as a JPEG.
pub(super) struct Converted {
    pub(super) bytes: Vec<u8>,
    /// Whether it had pixels that were not opaque, which are now.
    pub(super) was_transparent: bool,
    /// Whether it had further frames or images.
    pub(super) had_more: bool,
}

/// Decodes a picture of format `kind`, as for a batch: alpha is dropped, of 16 bits the high 8 stay. Applies `edit`, and encodes.
pub(super) fn to_jpeg(
    kind: ImageFormat,
    bytes: &[u8],
    limits: &Limits,
    (quality, keep): (u8, Keep),
    edit: impl FnOnce(Raster) -> Result<Raster>,
) -> Result<Converted> {
    let stored = raster(kind, bytes, limits)?;
    // Of a GIF alone colours come without alpha.
    let was_transparent = match kind {
        ImageFormat::Gif => other::shows_clear(kind, bytes, limits)?,
        _ => stored.is_transparent(),
    };
    let shown = edit(stored.without_alpha())?;
    let (notes, had_more) = match kind {
        ImageFormat::Png => (png::notes(bytes)?, png::has_more(bytes)?),
        _ => (other::notes(kind, bytes), other::has_more(kind, bytes)?),
    };
    Ok(Converted { bytes: jpeg::write(&shown, quality, keep, &notes)?, was_transparent, had_more })
}

#[cfg(test)]
mod tests;
