//! Resampling. Owns filters and alpha; decides no size.

use super::crop_window::misfit;
use super::raster::Raster;
use super::resample::resample;
use fast_image_resize::images::{Image, TypedImage};
use fast_image_resize::pixels::{InnerPixel, U8, U8x3, U16};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use packhorse_core::Result;

/// Antialiased bicubic (Catmull-Rom), as documented at [`Resize`](super::Resize).
pub(super) fn smooth(mut raster: Raster, width: u32, height: u32) -> Result<Raster> {
    // The library's own 16-bit premultiplication differs between instruction sets.
    raster.premultiply();
    let (from, to) = ((raster.width, raster.height), (width, height));
    let data = match (raster.channels, raster.wide) {
        (1, false) => resized::<U8>(&raster.data, from, to)?,
        (1, true) => resized::<U16>(&raster.data, from, to)?,
        (3, false) => resized::<U8x3>(&raster.data, from, to)?,
        _ => by_planes(&raster, to)?,
    };
    let mut scaled = Raster::new(width, height, raster.channels, raster.wide, data)?;
    scaled.unmultiply();
    Ok(scaled)
}

/// Resamples rarer layouts channel by channel, with the same result. Another pixel type in the library would add a
/// tenth to this crate's code.
fn by_planes(raster: &Raster, to: (u32, u32)) -> Result<Vec<u8>> {
    let (stride, width) = (raster.stride(), if raster.wide { 2 } else { 1 });
    let mut data = vec![0; to.0 as usize * to.1 as usize * stride];
    for at in (0..stride).step_by(width) {
        let pixels = raster.data.chunks_exact(stride);
        let plane: Vec<u8> = pixels.flat_map(|pixel| pixel.iter().skip(at).take(width)).copied().collect();
        let from = (raster.width, raster.height);
        let plane = if raster.wide { resized::<U16>(&plane, from, to) } else { resized::<U8>(&plane, from, to) }?;
        for (pixel, value) in data.chunks_exact_mut(stride).zip(plane.chunks_exact(width)) {
            pixel.iter_mut().skip(at).zip(value).for_each(|(to, from)| *to = *from);
        }
    }
    Ok(data)
}

/// Resamples pixels of type `P`; sizes are (width, height).
fn resized<P: PixelTrait + InnerPixel>(data: &[u8], from: (u32, u32), to: (u32, u32)) -> Result<Vec<u8>> {
    // A copy: 16-bit pixels may lie at an odd address.
    let mut aligned = Image::new(from.0, from.1, P::pixel_type());
    aligned.buffer_mut().copy_from_slice(data);
    let source = TypedImage::<P>::from_buffer(from.0, from.1, aligned.buffer_mut()).map_err(misfit)?;
    let mut scaled = Image::new(to.0, to.1, P::pixel_type());
    let mut target = TypedImage::from_buffer(to.0, to.1, scaled.buffer_mut()).map_err(misfit)?;
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom)).use_alpha(false);
    resample(&mut Resizer::new(), &source, &mut target, &options)?;
    drop(target);
    Ok(scaled.into_vec())
}

/// The nearest pixel, centre to centre; creates no new values.
pub(super) fn nearest(raster: &Raster, width: u32, height: u32) -> Result<Raster> {
    let mut data = Vec::with_capacity(width as usize * height as usize * raster.stride());
    for y in 0..height {
        let from_y = centre(y, height, raster.height);
        for x in 0..width {
            data.extend_from_slice(raster.pixel((centre(x, width, raster.width), from_y)));
        }
    }
    Raster::new(width, height, raster.channels, raster.wide, data)
}

/// floor((i + 1/2) × from / to)
fn centre(i: u32, to: u32, from: u32) -> u32 {
    let at = (2 * u64::from(i) + 1) * u64::from(from) / (2 * u64::from(to.max(1)));
    u32::try_from(at).unwrap_or(u32::MAX).min(from.saturating_sub(1))
}

impl Raster {
    /// Colour × alpha, so that invisible colours do not bleed into visible ones.
    fn premultiply(&mut self) {
        self.map_colours(|colour, alpha, max| (colour * alpha + max / 2) / max);
    }

    /// The inverse; fully transparent pixels become black.
    fn unmultiply(&mut self) {
        self.map_colours(|colour, alpha, max| ((colour * max + alpha / 2).checked_div(alpha)).unwrap_or(0).min(max));
    }

    /// Replaces each colour by `f(colour, alpha, largest value)`; does nothing without alpha.
    fn map_colours(&mut self, f: impl Fn(u64, u64, u64) -> u64) {
        if !self.has_alpha() {
            return;
        }
        let stride = self.stride();
        for pixel in self.data.chunks_exact_mut(stride) {
            if self.wide { map_wide(pixel, &f) } else { map_narrow(pixel, &f) }
        }
    }
}

fn map_narrow(pixel: &mut [u8], f: impl Fn(u64, u64, u64) -> u64) {
    let Some((alpha, colours)) = pixel.split_last_mut() else { return };
    for colour in colours {
        *colour = u8::try_from(f((*colour).into(), (*alpha).into(), 255)).unwrap_or(u8::MAX);
    }
}

fn map_wide(pixel: &mut [u8], f: impl Fn(u64, u64, u64) -> u64) {
    let (values, _) = pixel.as_chunks_mut::<2>();
    let Some((alpha, colours)) = values.split_last_mut() else { return };
    let alpha = u16::from_ne_bytes(*alpha);
    for colour in colours {
        let new = f(u16::from_ne_bytes(*colour).into(), alpha.into(), 65_535);
        *colour = u16::try_from(new).unwrap_or(u16::MAX).to_ne_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fast_image_resize::pixels::{U8x4, U16x3};

    fn flat(channels: u8, wide: bool, pixel: &[u8]) -> Raster {
        Raster::new(31, 17, channels, wide, pixel.repeat(31 * 17)).unwrap()
    }

    #[test]
    fn a_flat_colour_is_unchanged_in_every_layout() {
        for (channels, wide, pixel) in [
            (1, false, &[77u8][..]),
            (2, false, &[200, 255]),
            (3, false, &[1, 128, 255]),
            (4, false, &[9, 100, 250, 255]),
            (1, true, &[1, 2]),
            (2, true, &[1, 2, 255, 255]),
            (3, true, &[1, 2, 3, 4, 5, 6]),
            (4, true, &[1, 2, 3, 4, 5, 6, 255, 255]),
        ] {
            let scaled = smooth(flat(channels, wide, pixel), 13, 29).unwrap();
            assert_eq!((scaled.width, scaled.height), (13, 29));
            assert!(scaled.data.chunks_exact(pixel.len()).all(|p| p == pixel), "{channels} {wide}");
        }
    }

    #[test]
    fn channel_by_channel_gives_the_same_bytes() {
        let noise = |len: usize| {
            (0..len as u64).map(|i| (i.wrapping_mul(i).wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<u8>>()
        };
        for (from, to) in [((64, 50), (23, 31)), ((31, 17), (60, 40)), ((333, 201), (112, 112)), ((7, 9), (3, 2))] {
            let pixels = from.0 as usize * from.1 as usize;
            let raster = Raster::new(from.0, from.1, 4, false, noise(4 * pixels)).unwrap();
            assert_eq!(by_planes(&raster, to).unwrap(), resized::<U8x4>(&raster.data, from, to).unwrap());
            let raster = Raster::new(from.0, from.1, 3, true, noise(6 * pixels)).unwrap();
            assert_eq!(by_planes(&raster, to).unwrap(), resized::<U16x3>(&raster.data, from, to).unwrap());
        }
    }

    #[test]
    fn invisible_colour_does_not_bleed() {
        let half: Vec<u8> =
            (0..64 * 64).flat_map(|i| if i % 64 < 32 { [255, 0, 0, 255] } else { [0, 255, 0, 0] }).collect();
        let scaled = smooth(Raster::new(64, 64, 4, false, half).unwrap(), 15, 15).unwrap();
        assert!(scaled.data.chunks_exact(4).all(|p| p[1] == 0), "green was never visible");
    }

    #[test]
    fn nearest_invents_no_value() {
        let raster =
            Raster::new(16, 16, 1, false, (0..=255).map(|v| if v % 3 == 0 { 7 } else { 200 }).collect()).unwrap();
        let scaled = nearest(&raster, 5, 9).unwrap();
        assert!(scaled.data.iter().all(|v| [7, 200].contains(v)));
        assert_eq!(nearest(&raster, 16, 16).unwrap(), raster);
    }
}
