//! Decoded pixels for readers. Owns the public layout.

use super::raster::Raster;

/// A decoded image: height × width × channels bytes, row-major, channels innermost, no padding. No colour profile is
/// applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// 1: gray. 3: RGB.
    pub channels: u8,
    /// Exactly height × width × channels bytes.
    pub data: Vec<u8>,
}

/// Drops alpha. The raster must have one byte per channel.
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
