//! The way into the library that resamples: one for each type of pixels, since its code is made anew, and is large, for
//! each kind of image that it is given.

use super::window::misfit;
use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::{PixelTrait, ResizeOptions, Resizer};
use packhorse_core::Result;

/// Brings a part of `source`, its left, top, width and height, to the size of `target`. Pixels beside the part do not
/// count; `options` may cut further, and then they do.
pub(super) fn resample<P: PixelTrait>(
    resizer: &mut Resizer,
    source: &TypedImageRef<'_, P>,
    [left, top, width, height]: [u32; 4],
    target: &mut TypedImage<'_, P>,
    options: &ResizeOptions,
) -> Result<()> {
    let part = TypedCroppedImage::from_ref(source, left, top, width, height).map_err(misfit)?;
    resizer.resize_typed(&part, target, options).map_err(misfit)
}
