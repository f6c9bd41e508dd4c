//! How much foreign bytes may make us allocate.

use crate::{Code, Error, Kind, Result};

/// Upper bounds on what a declared length may cost. No reader allocates from a length it read
/// without asking here first.
///
/// ```
/// use packhorse_core::{Kind, Limits};
///
/// let limits = Limits::of_memory(1 << 30);
/// assert_eq!(limits.blob(1000)?, 1000);
/// assert_eq!(limits.blob(1 << 40).map_err(|error| error.kind()), Err(Kind::Limit));
/// # Ok::<(), packhorse_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest single value held in memory, in bytes: a file, an array, a document, a page, a chunk.
    pub blob: u64,
    /// The largest image, in pixels.
    pub pixels: u64,
    /// The largest header-like record (a PAX header, a list of members), in bytes.
    pub header: u64,
    /// About the most bytes that one input is read or decoded ahead of what was asked for.
    pub ahead: u64,
    /// What a compressed archive may take up on disk while it is read, unless it is large itself
    /// ([`Limits::scratch_of`]), in bytes.
    pub scratch: u64,
}

impl Default for Limits {
    /// 2 GiB a value, 256 megapixels an image, 1 MiB a header, 512 MiB ahead, 64 GiB of disk.
    fn default() -> Self {
        Self { blob: 2 << 30, pixels: 256 << 20, header: 1 << 20, ahead: 512 << 20, scratch: 64 << 30 }
    }
}

impl Limits {
    /// A value may take one part in this many of the memory: there are up to four copies of it in flight, as read,
    /// decoded, encoded and in the writer's buffers.
    const PART: u64 = 4;

    /// The smallest limit of a value: with little memory, ordinary files still pass.
    const LEAST: u64 = 16 << 20;

    /// Limits for work within about `memory` bytes: a quarter of it (at least 16 MiB) for a value and for reading
    /// ahead, and half as many pixels as that has bytes.
    pub fn of_memory(memory: u64) -> Self {
        let blob = (memory / Self::PART).max(Self::LEAST);
        let default = Self::default();
        Self { blob, pixels: blob / 2, ahead: default.ahead.min(blob), ..default }
    }

    /// The smaller of each.
    pub fn min(self, other: Self) -> Self {
        Self {
            blob: self.blob.min(other.blob),
            pixels: self.pixels.min(other.pixels),
            header: self.header.min(other.header),
            ahead: self.ahead.min(other.ahead),
            scratch: self.scratch.min(other.scratch),
        }
    }

    /// The disk that an archive of `packed` compressed bytes may take: data rarely compresses more than 50-fold.
    pub fn scratch_of(&self, packed: u64) -> u64 {
        self.scratch.max(packed.saturating_mul(50))
    }

    /// `len` as a size to allocate for a value, or an error of kind `Limit`.
    pub fn blob(&self, len: u64) -> Result<usize> {
        usize::try_from(len)
            .ok()
            .filter(|_| len <= self.blob)
            .ok_or_else(|| Self::too_large(len, self.blob, Self::PART))
    }

    /// `len` as a size to allocate for bytes that exist once and are processed in pieces: up to four times the limit of
    /// a value.
    pub fn held(&self, len: u64) -> Result<usize> {
        let most = self.blob.saturating_mul(Self::PART);
        usize::try_from(len).ok().filter(|_| len <= most).ok_or_else(|| Self::too_large(len, most, 1))
    }

    /// An error of kind `Limit` for a picture of more pixels than the limit.
    pub fn picture(&self, width: u32, height: u32) -> Result<()> {
        let pixels = u64::from(width) * u64::from(height);
        if pixels <= self.pixels {
            return Ok(());
        }
        let message = format!("is {width} × {height} pixels, over the limit of {} pixels", self.pixels);
        let memory = (pixels >> 20).saturating_add(1).saturating_mul(2 * Self::PART);
        Err(Error::new(Kind::Limit, message).hint(format!("it can be packed smaller with `memory={memory}MiB`")))
    }

    /// The error for `len` bytes that must be in memory, over the limit `most`, which is a `part`th of the memory.
    fn too_large(len: u64, most: u64, part: u64) -> Error {
        let memory = (len >> 20).saturating_add(1).saturating_mul(part);
        let message = format!("has {len} bytes that must be in memory at once, over the limit of {most} bytes");
        Error::new(Kind::Limit, message).with_code(Code::OverMemory).hint(format!("`memory={memory}MiB` allows that"))
    }

    /// `len` as a size to allocate for a header, or an error of kind `Limit`.
    pub fn header(&self, len: u64) -> Result<usize> {
        usize::try_from(len).ok().filter(|_| len <= self.header).ok_or_else(|| {
            let message = format!("a header of {len} bytes is over the limit of {} bytes", self.header);
            Error::new(Kind::Limit, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_allowed_with_the_memory_that_the_error_names() {
        for (memory, len) in [(1, (16 << 20) + 1), (256 << 20, 100 << 20), (1 << 30, (3 << 30) + 17)] {
            let limits = Limits::of_memory(memory);
            assert!(limits.blob(limits.blob).is_ok());
            let error = limits.blob(len).unwrap_err();
            let wanted = error.hints().unwrap().split("`memory=").nth(1).and_then(|text| text.split("MiB").next());
            let wanted: u64 = wanted.unwrap().parse().unwrap();
            assert!(Limits::of_memory(wanted << 20).blob(len).is_ok() && error.kind() == Kind::Limit, "{error}");
        }
    }

    #[test]
    fn large_pictures_are_allowed_with_the_memory_that_the_error_names() {
        let error = Limits::default().picture(17_000, 17_000).unwrap_err();
        let wanted = error.hints().unwrap().split("`memory=").nth(1).and_then(|text| text.split("MiB").next());
        let wanted: u64 = wanted.unwrap().parse().unwrap();
        assert!(
            Limits::of_memory(wanted << 20).picture(17_000, 17_000).is_ok() && error.kind() == Kind::Limit,
            "{error}"
        );
        assert!(Limits::of_memory(wanted << 19).picture(17_000, 17_000).is_err());
        assert!(Limits::default().picture(u32::MAX, u32::MAX).is_err());
    }

    #[test]
    fn lengths_that_no_memory_has_are_refused() {
        for len in [u64::MAX, u64::MAX / 2, 1 << 62] {
            assert_eq!(Limits::default().blob(len).unwrap_err().kind(), Kind::Limit);
        }
        assert_eq!(Limits::default().header(u64::MAX).unwrap_err().kind(), Kind::Limit);
    }
}
