//! Generator keys: one per use, so that no two uses share random numbers.

use packhorse_core::SplitMix64;

/// The key for the use `tag` in an epoch.
pub(super) fn key(seed: u64, tag: &[u8; 8], epoch: u64) -> u64 {
    SplitMix64::at(SplitMix64::at(seed, u64::from_le_bytes(*tag)), epoch)
}
