//! Pixels as readers want them. Owns the public layout alone.

use super::raster::Raster;

/// A decoded picture: height × width × channels, one `u8` each, row-major, channels innermost, no
/// padding. The colours are as stored: no profile is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
    /// 1: gray. 3: red, green, blue.
    pub channels: u8,
    /// Exactly height × width × channels bytes.
    pub data: Vec<u8>,
}

/// Drops alpha. The raster's channels are one byte each.
impl From<Raster> for Pixels {
    fn from(raster: Raster) -> Self {
        let Raster { width, height, channels, data, .. } = raster;
        let kept = if channels >= 3 { 3 } else { 1 };
        if channels == kept {
            return Self { width, height, channels, data };
        }
        let pixels = data.chunks_exact(usize::from(channels));
        let data = pixels.flat_map(|pixel| pixel.iter().take(usize::from(kept)).copied()).collect();
        Self { width, height, channels: kept, data }
    }
}
