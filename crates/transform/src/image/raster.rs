//! Pixels in memory at 8 or 16 bits. Owns the layout; knows no container.

use packhorse_core::{Error, Result};

/// Row-major pixels, channels innermost: gray, gray + alpha, RGB or RGBA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raster {
    pub(super) width: u32,
    pub(super) height: u32,
    /// 1 to 4; 2 and 4 include alpha, not premultiplied.
    pub(super) channels: u8,
    /// Two bytes per channel in native byte order, instead of one.
    pub(super) wide: bool,
    /// Exactly width × height × channels (× 2) bytes.
    pub(super) data: Vec<u8>,
}

impl Raster {
    /// A `Bug` error if `data` has another size than the dimensions need.
    pub(super) fn new(width: u32, height: u32, channels: u8, wide: bool, data: Vec<u8>) -> Result<Self> {
        let raster = Self { width, height, channels, wide, data };
        let expected = u64::from(width) * u64::from(height) * raster.stride() as u64;
        if raster.data.len() as u64 == expected && (1..=4).contains(&channels) {
            return Ok(raster);
        }
        Err(Error::bug(format!("{} bytes for {width} × {height} × {channels}", raster.data.len())))
    }

    /// Bytes per pixel.
    pub(super) fn stride(&self) -> usize {
        usize::from(self.channels) * if self.wide { 2 } else { 1 }
    }

    /// Writes RGB to `out`, which has exactly the needed size: drops alpha, repeats gray. One byte per channel only.
    pub(super) fn to_rgb(&self, out: &mut [u8]) -> Result<()> {
        if self.wide || out.len() != self.width as usize * self.height as usize * 3 {
            return Err(Error::bug(format!("{} bytes for {} × {} pixels", out.len(), self.width, self.height)));
        }
        rgb_of(&self.data, self.channels.into(), out);
        Ok(())
    }

    /// Whether the last channel is alpha.
    pub(super) fn has_alpha(&self) -> bool {
        self.channels.is_multiple_of(2)
    }

    /// Whether a pixel is not opaque. One byte per channel only.
    pub(super) fn is_transparent(&self) -> bool {
        self.has_alpha()
            && self.data.iter().skip(self.stride() - 1).step_by(self.stride()).any(|alpha| *alpha < u8::MAX)
    }

    /// Gray or RGB. One byte per channel only.
    pub(super) fn without_alpha(mut self) -> Self {
        if self.has_alpha() {
            self.channels -= 1;
            self.data = match self.channels {
                1 => self.data.as_chunks::<2>().0.iter().map(|[gray, _]| *gray).collect(),
                _ => self.data.as_chunks::<4>().0.iter().flat_map(|[r, g, b, _]| [*r, *g, *b]).collect(),
            };
        }
        self
    }

    /// The bytes of one pixel; empty outside.
    pub(super) fn pixel(&self, (x, y): (u32, u32)) -> &[u8] {
        let start = (y as usize * self.width as usize + x as usize) * self.stride();
        self.data.get(start..start + self.stride()).unwrap_or_default()
    }
}

/// Converts pixels of `channels` bytes to RGB: drops alpha, repeats gray.
pub(super) fn rgb_of(pixels: &[u8], channels: usize, out: &mut [u8]) {
    let out = out.as_chunks_mut::<3>().0.iter_mut();
    match channels {
        1 => out.zip(pixels).for_each(|(to, gray)| *to = [*gray; 3]),
        2 => out.zip(pixels.as_chunks::<2>().0).for_each(|(to, [gray, _])| *to = [*gray; 3]),
        3 => out.zip(pixels.as_chunks::<3>().0).for_each(|(to, pixel)| *to = *pixel),
        _ => out.zip(pixels.as_chunks::<4>().0).for_each(|(to, [r, g, b, _])| *to = [*r, *g, *b]),
    }
}
