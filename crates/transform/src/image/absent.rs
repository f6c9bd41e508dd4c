//! Stand-in for `other` in a build without the feature `image`: refuses WebP, TIFF, BMP, GIF and PNM by name.

use super::Keep;
use super::format::ImageFormat;
use super::jpeg::ImageNotes;
use super::orientation::Orientation;
use super::raster::Raster;
use packhorse_core::{Error, Limits, Result};

fn absent<T>(kind: ImageFormat) -> Result<T> {
    let text = format!("is a {kind:?}, and this build reads JPEG and PNG only; build with the feature image");
    Err(Error::unsupported(text))
}

pub(super) fn header(kind: ImageFormat, _: &[u8]) -> Result<(u32, u32, Orientation)> {
    absent(kind)
}

pub(super) fn decode(kind: ImageFormat, _: &[u8], _: &Limits) -> Result<Raster> {
    absent(kind)
}

pub(super) fn numbers(kind: ImageFormat, _: &[u8], _: &Limits) -> Result<Raster> {
    absent(kind)
}

pub(super) fn rewrite(
    kind: ImageFormat,
    _: &[u8],
    _: &Limits,
    _: (Keep, bool),
    _: impl FnOnce(Raster, bool) -> Result<Raster>,
) -> Result<Vec<u8>> {
    absent(kind)
}

pub(super) fn shows_clear(kind: ImageFormat, _: &[u8], _: &Limits) -> Result<bool> {
    absent(kind)
}

pub(super) fn notes(_: ImageFormat, _: &[u8]) -> ImageNotes<'_> {
    ImageNotes::default()
}

pub(super) fn has_more(kind: ImageFormat, _: &[u8]) -> Result<bool> {
    absent(kind)
}

pub(super) fn check_frames(kind: ImageFormat, _: &[u8], _: &Limits) -> Result<()> {
    absent(kind)
}
