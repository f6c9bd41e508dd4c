//! Sizes in bytes, written with units.

use packhorse_core::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A shard size in bytes. As text, a number below 1 MiB needs a unit: `20` most likely means 20 MB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// Parses bytes: a number with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024), or without
/// unit.
///
/// Errors: `Config`.
pub fn parse_bytes(text: &str) -> Result<u64> {
    const UNITS: [(&str, u64); 14] = [
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
        ("k", 1 << 10),
        ("m", 1 << 20),
        ("g", 1 << 30),
        ("t", 1 << 40),
        ("b", 1),
        ("", 1),
    ];
    let lower = text.trim().to_ascii_lowercase();
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?.trim_end(), *bytes)));
    let whole = unit.and_then(|(number, bytes)| number.parse::<u64>().ok()?.checked_mul(bytes));
    let value = unit.and_then(|(number, bytes)| Some(number.parse::<f64>().ok()? * bytes as f64));
    match value.filter(|v| v.is_finite() && *v >= 1.0 && *v < 9e18) {
        Some(value) => Ok(whole.unwrap_or(value as u64)),
        None => Err(Error::config(format!("\"{text}\" is not a size; write it like 1GiB or 500MB"))),
    }
}

impl FromStr for ByteSize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = parse_bytes(text)?;
        match !text.contains(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E')) && bytes < 1 << 20 {
            true => Err(Error::config(format!(
                "{text} without a unit is {text} bytes; write it like {text}MB or 1GiB, or {text}B if that is meant"
            ))),
            false => Ok(Self(bytes)),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("1GiB", 1 << 30), ("500MB", 500_000_000), ("1.5 kib", 1536), ("65536", 65536), ("1g", 1 << 30), ("7b", 7)]
        {
            assert_eq!(parse_bytes(text).unwrap(), bytes, "{text}");
        }
        for bad in ["", "0", "x", "GiB", "-1", "1e400", "nan"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        let shard = |text: &str| text.parse::<ByteSize>();
        assert!(["20", "1048575", "1.5", "1e3"].iter().all(|text| shard(text).is_err()));
        assert_eq!((shard("20B").unwrap(), shard("1048576").unwrap()), (ByteSize(20), ByteSize(1 << 20)));
        assert_eq!(shard(&ByteSize(20).to_string()).unwrap(), ByteSize(20));
    }
}
