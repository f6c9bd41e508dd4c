//! Limits the decoded size of a file relative to its size on disk.
//!
//! Values that were never written, or that are all equal, need almost no space: a file of 6 KB can claim 2,000,000,000
//! of them. Compressed data stays far below the limit: deflate can't exceed 1,032 to 1, and zstd over a chunk of 1 MiB
//! of equal bytes, with its index entry, stays below 10,000.

use packhorse_core::{Error, Kind, Options, Result};

/// Any file may decode to this many bytes.
const ALWAYS: u64 = 1 << 30;
/// More bytes are allowed up to this multiple of the file's size.
const TIMES: u64 = 10_000;

/// The same multiple for values in the global heap, which is not compressed; only fill values are shared there.
const HEAP_TIMES: u64 = 100;

/// The limit of a source.
pub(crate) struct Expansion {
    bounded: bool,
}

impl Expansion {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        match options.get("expansion").unwrap_or("bounded") {
            "bounded" => Ok(Self { bounded: true }),
            "any" => Ok(Self { bounded: false }),
            other => {
                Err(Error::config(format!("option expansion: unknown value \"{other}\"; use one of bounded, any")))
            }
        }
    }

    /// Refuses rows of about `bytes` bytes in a file of `file` bytes if they exceed the limit.
    pub(crate) fn check(&self, bytes: u64, file: u64) -> Result<()> {
        if !self.bounded || bytes <= ALWAYS.max(file.saturating_mul(TIMES)) {
            return Ok(());
        }
        let times = bytes / file.max(1);
        Err(Error::new(
            Kind::Limit,
            format!(
                "claims rows of {bytes} bytes, {times} times the size of the file: most of them were never \
                 written, or are all equal; leave them out with the option datasets, or read them with expansion=any"
            ),
        ))
    }

    /// The most bytes that a field of a file of `file` bytes may have in the global heap.
    pub(crate) fn heap(&self, file: u64) -> u64 {
        if self.bounded { ALWAYS.max(file.saturating_mul(HEAP_TIMES)) } else { u64::MAX }
    }
}

/// The error for fields that exceed [`Expansion::heap`].
pub(crate) fn too_often() -> Error {
    Error::new(
        Kind::Limit,
        "repeats the same variable-length values, far more bytes than the file has; leave it out with the option \
         datasets, or read it with expansion=any",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_extreme_ratios_are_refused() {
        let bounded = Expansion::parse(&Options::new()).unwrap();
        assert!(bounded.check(1 << 30, 6000).is_ok());
        assert_eq!(bounded.check(2_000_000_000, 6000).unwrap_err().kind(), Kind::Limit);
        assert!(bounded.check(100 << 30, 100 << 20).is_ok());
        let any = Expansion::parse(&[("expansion", "any")].into_iter().collect()).unwrap();
        assert!(any.check(u64::MAX, 1).is_ok());
        assert!(Expansion::parse(&[("expansion", "no")].into_iter().collect()).is_err());
    }
}
