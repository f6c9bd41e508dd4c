//! Keys of generators: one for each use, so that no two uses share numbers.

use packhorse_core::SplitMix64;

/// The key for what `tag` names in an epoch.
pub(super) fn key(seed: u64, tag: &[u8; 8], epoch: u64) -> u64 {
    SplitMix64::at(SplitMix64::at(seed, u64::from_le_bytes(*tag)), epoch)
}
