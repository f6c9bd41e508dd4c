//! An image and its JPEG encoding. Owns the encoder settings; knows no scene.

use super::plane::Plane;
use jpeg_encoder::{Encoder, ImageBuffer, JpegColorType, SamplingFactor};
use packhorse_core::{Error, Result};

/// 8-bit YCbCr with the chroma at half of each side, rounded up.
pub(super) struct Picture {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) planes: [Plane; 3],
}

impl Picture {
    pub(super) fn black(width: u32, height: u32) -> Self {
        let (w, h) = (width as usize, height as usize);
        let chroma = || Plane::new(w.div_ceil(2), h.div_ceil(2)).map(|_| 128);
        Self { width, height, planes: [Plane::new(w, h), chroma(), chroma()] }
    }

    /// Appends a baseline JPEG, 4:2:0. Encoded without SIMD, whose output differs between machines.
    pub(super) fn encode(&self, quality: u32, out: &mut Vec<u8>) -> Result<()> {
        let mut encoder = Encoder::new(out, quality as u8);
        encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
        let failed = |error| Error::bug(format!("a synthetic image can't be encoded: {error}"));
        encoder.encode_image(Lines(self)).map_err(failed)
    }
}

/// Full-width lines for the encoder, which subsamples the chroma by taking every second value.
struct Lines<'a>(&'a Picture);

impl ImageBuffer for Lines<'_> {
    fn get_jpeg_color_type(&self) -> JpegColorType {
        JpegColorType::Ycbcr
    }

    fn width(&self) -> u16 {
        self.0.width as u16
    }

    fn height(&self) -> u16 {
        self.0.height as u16
    }

    fn fill_buffers(&self, y: u16, buffers: &mut [Vec<u8>; 4]) {
        let [luma, cb, cr] = &self.0.planes;
        let [to_luma, to_cb, to_cr, _] = buffers;
        to_luma.extend_from_slice(luma.line(y.into()));
        for (chroma, to) in [(cb, to_cb), (cr, to_cr)] {
            let twice = chroma.line(usize::from(y) / 2).iter().flat_map(|v| [*v, *v]);
            to.extend(twice.take(self.0.width as usize));
        }
    }
}
