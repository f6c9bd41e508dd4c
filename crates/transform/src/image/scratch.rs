//! Memory that is used again from picture to picture. Owns how much of it is kept.

/// Bytes, grown when needed.
#[derive(Debug, Default)]
pub(super) struct Scratch(Vec<u8>);

impl Scratch {
    /// What is kept when a picture is done with: enough for 20 megapixels.
    const KEPT: usize = 64 << 20;

    /// Room for `len` bytes, which hold anything. Asking again for as many gives the same bytes.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len {
            // Fresh zeros cost nothing until they are written; growing would copy what nobody needs.
            self.0 = Vec::new();
            self.0 = vec![0; len];
        }
        self.0.get_mut(..len).unwrap_or_default()
    }

    /// Gives back what only a very large picture needed.
    pub(super) fn trim(&mut self) {
        if self.0.len() > Self::KEPT {
            self.0 = Vec::new();
        }
    }
}
