//! Sizes as people write them.

use packhorse_core::{Error, Result};

/// Bytes: a number with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024).
pub(crate) fn parse(text: &str) -> Result<u64> {
    const UNITS: [(&str, u64); 13] = [
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
        ("b", 1),
        ("", 1),
    ];
    let lower = text.trim().to_ascii_lowercase();
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?.trim_end(), *bytes)));
    let value = unit.and_then(|(number, bytes)| Some(number.parse::<f64>().ok()? * bytes as f64));
    match value.filter(|v| v.is_finite() && *v >= 1.0 && *v < 9e18) {
        Some(value) => Ok(value as u64),
        None => Err(Error::config(format!("\"{text}\" is no size; write it like 1GiB, 500MB or 65536"))),
    }
}

/// The size of a shard: [`parse`], but a small number needs its unit, since `--shard-size 20` means 20 of something else.
pub(crate) fn parse_shard(text: &str) -> Result<u64> {
    let bytes = parse(text)?;
    match text.trim().bytes().all(|b| b.is_ascii_digit()) && bytes < 1 << 20 {
        true => Err(Error::config(format!(
            "{text} without a unit is {text} bytes; write it like {text}MB or 1GiB, or {text}B if that is meant"
        ))),
        false => Ok(bytes),
    }
}

/// Bytes for people, in powers of 1000.
pub(crate) fn show(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("1GiB", 1 << 30), ("500MB", 500_000_000), ("1.5 kib", 1536), ("65536", 65536), ("1g", 1 << 30), ("7b", 7)]
        {
            assert_eq!(parse(text).unwrap(), bytes, "{text}");
        }
        for bad in ["", "0", "x", "GiB", "-1", "1e400", "nan"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse_shard("20").is_err() && parse_shard("1048575").is_err());
        assert_eq!((parse_shard("20B").unwrap(), parse_shard("1048576").unwrap()), (20, 1 << 20));
        assert_eq!((show(999), show(1_500), show(2_000_000_000)), ("999 B".into(), "1.5 KB".into(), "2.0 GB".into()));
    }
}
