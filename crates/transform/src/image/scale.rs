//! Resampling. Owns filters and alpha; decides no size.

use super::raster::Raster;
use fast_image_resize::images::Image;
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use packhorse_core::{Error, Result};

/// Bicubic, antialiased (Catmull-Rom), as [`Resize`](super::Resize) promises.
pub(super) fn smooth(mut raster: Raster, width: u32, height: u32) -> Result<Raster> {
    let pixel_type = pixel_type(&raster)?;
    // Ours and not the library's: its 16-bit premultiplication differs between instruction sets.
    raster.premultiply();
    let source = as_image(&mut raster, pixel_type)?;
    let mut target = Image::new(width, height, pixel_type);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom)).use_alpha(false);
    Resizer::new()
        .resize(&source, &mut target, &options)
        .map_err(|error| Error::bug(format!("can't be resized to {width} × {height}: {error}")))?;
    let mut scaled = Raster::new(width, height, raster.channels, raster.wide, target.into_vec())?;
    scaled.unmultiply();
    Ok(scaled)
}

/// Takes the pixels out of `raster`. Wide ones are copied to where they are aligned.
fn as_image(raster: &mut Raster, pixel_type: PixelType) -> Result<Image<'static>> {
    if raster.wide {
        let mut image = Image::new(raster.width, raster.height, pixel_type);
        image.buffer_mut().copy_from_slice(&raster.data);
        return Ok(image);
    }
    Image::from_vec_u8(raster.width, raster.height, std::mem::take(&mut raster.data), pixel_type)
        .map_err(|error| Error::bug(format!("pixels that are no image: {error}")))
}

/// The nearest pixel, centre to centre: no value comes out that did not go in.
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

fn pixel_type(raster: &Raster) -> Result<PixelType> {
    Ok(match (raster.channels, raster.wide) {
        (1, false) => PixelType::U8,
        (2, false) => PixelType::U8x2,
        (3, false) => PixelType::U8x3,
        (4, false) => PixelType::U8x4,
        (1, true) => PixelType::U16,
        (2, true) => PixelType::U16x2,
        (3, true) => PixelType::U16x3,
        (4, true) => PixelType::U16x4,
        _ => return Err(Error::bug(format!("an image of {} channels", raster.channels))),
    })
}

impl Raster {
    /// Colour × alpha, so that the colour of what can't be seen does not bleed into what can.
    fn premultiply(&mut self) {
        self.map_colours(|colour, alpha, max| (colour * alpha + max / 2) / max);
    }

    /// The inverse; fully transparent pixels become black.
    fn unmultiply(&mut self) {
        self.map_colours(|colour, alpha, max| ((colour * max + alpha / 2).checked_div(alpha)).unwrap_or(0).min(max));
    }

    /// Replaces each colour by `f(colour, alpha, largest value)`; nothing happens without alpha.
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

    fn flat(channels: u8, wide: bool, pixel: &[u8]) -> Raster {
        Raster::new(31, 17, channels, wide, pixel.repeat(31 * 17)).unwrap()
    }

    #[test]
    fn a_flat_colour_stays_what_it_is_in_every_layout() {
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
