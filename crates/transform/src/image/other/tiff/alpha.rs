//! Alpha of TIFF 6.0 (ExtraSamples), made what a raster means by it.

use crate::image::raster::Raster;

/// Colours that were multiplied by alpha, as they were before; those of no alpha stay as they are, as in Pillow.
pub(super) fn divide_by_alpha(raster: &mut Raster) {
    if !matches!(raster.channels, 2 | 4) {
        return;
    }
    let colours = usize::from(raster.channels) - 1;
    if raster.wide {
        for pixel in raster.data.as_chunks_mut::<2>().0.chunks_exact_mut(colours + 1) {
            let alpha = pixel.last().map_or(0, |alpha| u32::from(u16::from_ne_bytes(*alpha)));
            for value in pixel.iter_mut().take(colours).filter(|_| alpha > 0) {
                let whole = u32::from(u16::from_ne_bytes(*value)) * u32::from(u16::MAX) / alpha;
                *value = u16::try_from(whole).unwrap_or(u16::MAX).to_ne_bytes();
            }
        }
    } else {
        for pixel in raster.data.chunks_exact_mut(colours + 1) {
            let alpha = pixel.last().copied().map_or(0, u32::from);
            for value in pixel.iter_mut().take(colours).filter(|_| alpha > 0) {
                *value = u8::try_from(u32::from(*value) * u32::from(u8::MAX) / alpha).unwrap_or(u8::MAX);
            }
        }
    }
}

/// The colours alone.
pub(super) fn without_alpha(raster: Raster) -> Raster {
    if !raster.has_alpha() {
        return raster;
    }
    let (stride, channels) = (raster.stride(), raster.channels - 1);
    let kept = stride / usize::from(raster.channels) * usize::from(channels);
    let data = raster.data.chunks_exact(stride).flat_map(|pixel| pixel.iter().take(kept)).copied().collect();
    Raster { channels, data, ..raster }
}
