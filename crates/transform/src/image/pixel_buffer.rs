//! Pixel memory that is reused from image to image. Owns how much is kept.

/// A buffer that grows on demand.
#[derive(Debug, Default)]
pub(super) struct PixelBuffer(Vec<u8>);

impl PixelBuffer {
    /// Kept between images: enough for 20 megapixels.
    const KEPT: usize = 64 << 20;

    /// A slice of `len` bytes with undefined content. The same `len` again gives the same bytes.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len {
            // Fresh zeroed pages cost nothing until written; growing would copy old content.
            self.0 = Vec::new();
            self.0 = vec![0; len];
        }
        self.0.get_mut(..len).unwrap_or_default()
    }

    /// Frees memory that only a very large image needed.
    pub(super) fn trim(&mut self) {
        if self.0.len() > Self::KEPT {
            self.0 = Vec::new();
        }
    }
}
