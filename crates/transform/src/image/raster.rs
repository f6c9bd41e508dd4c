//! Pixels in memory, of any depth. Owns the layout; knows no container.

use packhorse_core::{Error, Result};

/// Row-major pixels, channels innermost: gray, gray + alpha, RGB or RGBA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raster {
    pub(super) width: u32,
    pub(super) height: u32,
    /// 1 to 4; 2 and 4 end in alpha, which is not premultiplied.
    pub(super) channels: u8,
    /// Two bytes a channel, in the machine's order, instead of one.
    pub(super) wide: bool,
    /// Exactly width × height × channels (× 2) bytes.
    pub(super) data: Vec<u8>,
}

impl Raster {
    /// Checks that `data` has the size that the rest says.
    pub(super) fn new(width: u32, height: u32, channels: u8, wide: bool, data: Vec<u8>) -> Result<Self> {
        let raster = Self { width, height, channels, wide, data };
        let expected = u64::from(width) * u64::from(height) * raster.stride() as u64;
        if raster.data.len() as u64 == expected && (1..=4).contains(&channels) {
            return Ok(raster);
        }
        Err(Error::bug(format!("{} bytes for {width} × {height} × {channels}", raster.data.len())))
    }

    /// Bytes a pixel.
    pub(super) fn stride(&self) -> usize {
        usize::from(self.channels) * if self.wide { 2 } else { 1 }
    }

    /// Whether the last channel is alpha.
    pub(super) fn has_alpha(&self) -> bool {
        self.channels.is_multiple_of(2)
    }

    /// The bytes of one pixel; nothing outside.
    pub(super) fn pixel(&self, (x, y): (u32, u32)) -> &[u8] {
        let start = (y as usize * self.width as usize + x as usize) * self.stride();
        self.data.get(start..start + self.stride()).unwrap_or_default()
    }
}
