//! How much larger than its file what is read of it may be.
//!
//! Values that were never written, or that are all equal, take up next to nothing: a file of 6 KB can say that it holds
//! 2,000,000,000 of them. Compressed measurements do not come near the bound: deflate can't go beyond 1,032 to 1, and
//! zstd over a chunk of 1 MiB of equal bytes, with its entry in the index, stays below 10,000.

use packhorse_core::{Error, Kind, Options, Result};

/// So many bytes are read of any file.
const ALWAYS: u64 = 1 << 30;
/// Of more, as many times the bytes of the file.
const TIMES: u64 = 10_000;

/// Values in the global heap are not compressed, and only fill values are shared: as many times the bytes of the file.
const HEAP_TIMES: u64 = 100;

/// The rule that a source goes by.
pub(crate) struct Expansion {
    bounded: bool,
}

impl Expansion {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        match options.get("expansion").unwrap_or("bounded") {
            "bounded" => Ok(Self { bounded: true }),
            "any" => Ok(Self { bounded: false }),
            other => Err(Error::config(format!("option expansion: no \"{other}\"; known are bounded, any"))),
        }
    }

    /// Refuses rows of about `bytes` bytes in a file of `file` bytes, where that is absurd.
    pub(crate) fn check(&self, bytes: u64, file: u64) -> Result<()> {
        if !self.bounded || bytes <= ALWAYS.max(file.saturating_mul(TIMES)) {
            return Ok(());
        }
        let times = bytes / file.max(1);
        Err(Error::new(
            Kind::Limit,
            format!(
                "says that its rows are {bytes} bytes, {times} times the bytes of the file: most of them were never \
                 written, or are all equal; leave them out with option datasets, or read them with expansion=any"
            ),
        ))
    }
}

impl Expansion {
    /// The most bytes that a field of a file of `file` bytes may have in the global heap.
    pub(crate) fn heap(&self, file: u64) -> u64 {
        if self.bounded { ALWAYS.max(file.saturating_mul(HEAP_TIMES)) } else { u64::MAX }
    }
}

/// The error that a field has more.
pub(crate) fn too_often() -> Error {
    Error::new(
        Kind::Limit,
        "has the same values of any length again and again, far more bytes than the file has; leave it out with option \
         datasets, or read it with expansion=any",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_absurd_is_refused() {
        let bounded = Expansion::parse(&Options::new()).unwrap();
        assert!(bounded.check(1 << 30, 6000).is_ok());
        assert_eq!(bounded.check(2_000_000_000, 6000).unwrap_err().kind(), Kind::Limit);
        assert!(bounded.check(100 << 30, 100 << 20).is_ok());
        let any = Expansion::parse(&[("expansion", "any")].into_iter().collect()).unwrap();
        assert!(any.check(u64::MAX, 1).is_ok());
        assert!(Expansion::parse(&[("expansion", "no")].into_iter().collect()).is_err());
    }
}
