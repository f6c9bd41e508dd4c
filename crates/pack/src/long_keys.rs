//! Keys that are longer than the sink or its readers allow.

use crate::choice::choice;

/// How keys are handled that are longer than the sink or its readers allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongKeys {
    /// They are bad inputs.
    #[default]
    Refuse,
    /// They are cut, and end with `~` and 16 hexadecimal digits of the BLAKE3 hash of the whole key.
    Hash,
}

choice!(LongKeys: Refuse = "refuse", Hash = "hash");

/// `key` shortened to `longest` bytes: its start and a hash of the whole key.
pub(crate) fn shorten(key: &str, longest: usize) -> String {
    let hash = blake3::hash(key.as_bytes()).to_hex();
    let end = (0..=longest.saturating_sub(17)).rev().find(|i| key.is_char_boundary(*i)).unwrap_or(0);
    format!("{}~{}", key.get(..end).unwrap_or_default(), hash.get(..16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_keeps_its_start_and_stays_unique() {
        let (a, b) = ("x".repeat(200), "x".repeat(201));
        let (short_a, short_b) = (shorten(&a, 96), shorten(&b, 96));
        assert_eq!((short_a.len(), short_b.len()), (96, 96));
        assert_ne!(short_a, short_b);
        assert!(shorten(&"ß".repeat(100), 96).len() <= 96);
    }
}
