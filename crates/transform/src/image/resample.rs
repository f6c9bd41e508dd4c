//! The only calls into the resampling library, one per pixel type: the library's code is large and is instantiated
//! again for each image type.

use super::crop_window::misfit;
use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::{PixelTrait, ResizeOptions, Resizer};
use packhorse_core::Result;

/// Resamples the box (left, top, width, height) of `source` to the size of `target`. Pixels outside the box have no
/// influence; those outside a crop in `options` do.
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
