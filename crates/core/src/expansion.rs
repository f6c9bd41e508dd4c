//! Limits the decoded size of a file relative to its size on disk. Knows no format.
//!
//! Values that were never written, or that are all equal, need almost no space: a file of 6 KB can claim 2,000,000,000
//! of them. Compressed data stays far below the limit: deflate can't exceed 1,032 to 1, and zstd over a chunk of 1 MiB
//! of equal bytes, with its index entry, stays below 10,000.

use crate::{Error, Kind, Options, Result};

/// Any file may decode to this many bytes.
const ALWAYS: u64 = 1 << 30;
/// More bytes are allowed up to this multiple of the file's size.
const TIMES: u64 = 10_000;
/// The least memory of a decoded row: its key and its offset.
const ROW: u64 = 32;

/// The limit of a source: its option `expansion`, `bounded` or `any`.
#[derive(Clone, Copy, Debug)]
pub struct Expansion {
    bounded: bool,
}

impl Expansion {
    /// The limit that `options` set, `bounded` by default. `Config` for an unknown value.
    pub fn parse(options: &Options) -> Result<Self> {
        Ok(Self { bounded: options.choose("expansion", &[("bounded", true), ("any", false)])? })
    }

    /// The most bytes that a file of `file` bytes may decode to, at `times` its size: at least 1 GiB.
    pub fn most(&self, file: u64, times: u64) -> u64 {
        if self.bounded { ALWAYS.max(file.saturating_mul(times)) } else { u64::MAX }
    }

    /// Refuses (`Limit`) `rows` rows of about `bytes` bytes in total in a file of `file` bytes if they exceed the
    /// limit: 1 GiB, counting at least 32 bytes a row, and 10,000 times the file. `option` names the option that
    /// excludes fields.
    pub fn check(&self, rows: u64, bytes: u64, file: u64, option: &str) -> Result<()> {
        let bytes = bytes.max(rows.saturating_mul(ROW));
        if bytes <= self.most(file, TIMES) {
            return Ok(());
        }
        let times = bytes / file.max(1);
        let message = format!(
            "claims {rows} rows of {bytes} bytes, {times} times the size of the file: most of them were never written, or \
             are all equal"
        );
        let hint =
            format!("leave them out with the option `{option}`, or read them with `from` and `read=expansion=any`");
        Err(Error::new(Kind::Limit, message).hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_extreme_ratios_are_refused() {
        let bounded = Expansion::parse(&Options::new()).unwrap();
        let check = |rows, bytes, file| bounded.check(rows, bytes, file, "datasets").map_err(|e| e.kind());
        assert_eq!(check(10, 1 << 30, 6000), Ok(()));
        assert_eq!(check(10, 2_000_000_000, 6000), Err(Kind::Limit));
        assert_eq!(check(10, 100 << 30, 100 << 20), Ok(()));
        assert_eq!(check(100_000_000, 0, 6000), Err(Kind::Limit));
        assert_eq!(check(30_000_000, 0, 6000), Ok(()));
        assert_eq!(check(100_000_000, 0, 1 << 20), Ok(()));
        let any = Expansion::parse(&[("expansion", "any")].into_iter().collect()).unwrap();
        assert!(any.check(u64::MAX, u64::MAX, 1, "datasets").is_ok());
        assert!(Expansion::parse(&[("expansion", "no")].into_iter().collect()).is_err());
    }
}
