//! The only calls into the resampling library, one per pixel type: the library's code is large and is instantiated
//! again for each image type. Its own buffer between columns and rows is a `TypedImage`, so sources are such too: another type
//! is nine seconds of a build.

use super::crop_window::misfit;
use fast_image_resize::images::TypedImage;
use fast_image_resize::{PixelTrait, ResizeOptions, Resizer};
use packhorse_core::Result;

/// Resamples `source` to the size of `target`. Pixels outside a crop in `options` have influence.
pub(super) fn resample<P: PixelTrait>(
    resizer: &mut Resizer,
    source: &TypedImage<'_, P>,
    target: &mut TypedImage<'_, P>,
    options: &ResizeOptions,
) -> Result<()> {
    resizer.resize_typed(source, target, options).map_err(misfit)
}
