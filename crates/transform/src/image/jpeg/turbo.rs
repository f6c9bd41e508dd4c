//! libjpeg-turbo. Owns its handle and the conversion from CMYK; judges no damage.

use super::super::pixel_buffer::PixelBuffer;
use super::header::JpegHeader;
use packhorse_core::{Error, Kind, Result};
use turbojpeg::{Decompressor, Image, PixelFormat, ScalingFactor};

/// The most scans of a progressive JPEG, as in zune-jpeg: more only cost time.
const SCANS: u32 = 100;

/// A libjpeg-turbo handle with exact inverse DCT and smooth upsampling, as Pillow uses it.
pub(super) struct Turbo {
    decompressor: Decompressor,
    cmyk: PixelBuffer,
}

impl Turbo {
    pub(super) fn new() -> Result<Self> {
        let failed = |error| Error::new(Kind::Environment, format!("libjpeg-turbo does not start: {error}"));
        let mut decompressor = Decompressor::new().map_err(failed)?;
        decompressor.set_scan_limit(SCANS).map_err(failed)?;
        Ok(Self { decompressor, cmyk: PixelBuffer::default() })
    }

    /// Decodes to RGB at 1/`part` of the size into `out`, which has exactly the needed size. Returns whether it
    /// finished without a warning.
    pub(super) fn decode(&mut self, bytes: &[u8], header: &JpegHeader<'_>, part: u32, out: &mut [u8]) -> bool {
        let factor = match part {
            1 => ScalingFactor::ONE,
            2 => ScalingFactor::ONE_HALF,
            4 => ScalingFactor::ONE_QUARTER,
            8 => ScalingFactor::ONE_EIGHTH,
            _ => return false,
        };
        let (width, height) = (factor.scale(header.width.into()), factor.scale(header.height.into()));
        if out.len() != width * height * 3 {
            return false;
        }
        if self.decompressor.scaling_factor() != factor && self.decompressor.set_scaling_factor(factor).is_err() {
            return false;
        }
        if header.components != 4 {
            let image = Image { pixels: out, width, pitch: width * 3, height, format: PixelFormat::RGB };
            return self.decompressor.decompress(bytes, image).is_ok();
        }
        let pixels = self.cmyk.room(width * height * 4);
        let image = Image { pixels: &mut *pixels, width, pitch: width * 4, height, format: PixelFormat::CMYK };
        let whole = self.decompressor.decompress(bytes, image).is_ok();
        if whole {
            to_rgb(pixels, out);
        }
        whole
    }

    pub(super) fn trim(&mut self) {
        self.cmyk.trim();
    }
}

/// Converts inverted CMYK, as Adobe writes it, to RGB.
fn to_rgb(cmyk: &[u8], out: &mut [u8]) {
    for (to, [c, m, y, k]) in out.as_chunks_mut::<3>().0.iter_mut().zip(cmyk.as_chunks::<4>().0) {
        *to = [c, m, y].map(|colour| share(*colour, *k));
    }
}

/// a × b / 255, rounded.
fn share(a: u8, b: u8) -> u8 {
    let product = u32::from(a) * u32::from(b) + 128;
    u8::try_from((product + (product >> 8)) >> 8).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_products() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                let exact = (f64::from(a) * f64::from(b) / 255.0).round() as u8;
                assert_eq!(share(a, b), exact, "{a} {b}");
            }
        }
    }
}
