//! How much foreign bytes may make us allocate.

use crate::{Error, Kind, Result};

/// Upper bounds on what a declared length may cost. No reader allocates from a length it read
/// without asking here first.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest single blob held in memory, in bytes.
    pub blob: u64,
    /// The largest image, in pixels.
    pub pixels: u64,
    /// The largest header-like record (a PAX header, a list of members), in bytes.
    pub header: u64,
}

impl Default for Limits {
    /// 8 GiB a blob (USTAR's own bound), 256 megapixels an image, 1 MiB a header.
    fn default() -> Self {
        Self { blob: 8 << 30, pixels: 256 << 20, header: 1 << 20 }
    }
}

impl Limits {
    /// `len` as a size to allocate for a blob, or an error of kind `Limit`.
    pub fn blob(&self, len: u64) -> Result<usize> {
        within("a blob", len, self.blob)
    }

    /// `len` as a size to allocate for a header, or an error of kind `Limit`.
    pub fn header(&self, len: u64) -> Result<usize> {
        within("a header", len, self.header)
    }
}

fn within(what: &str, len: u64, limit: u64) -> Result<usize> {
    usize::try_from(len)
        .ok()
        .filter(|_| len <= limit)
        .ok_or_else(|| Error::new(Kind::Limit, format!("{what} of {len} bytes is over the limit of {limit} bytes")))
}
