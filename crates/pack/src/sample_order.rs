//! The order of more samples than are shuffled in memory. Pure.

/// Inputs from which on samples are not shuffled in memory.
pub(crate) const MANY: usize = 1 << 24;

/// The order of samples: by key, or by a hash of seed and key, so that the order of two samples depends on no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleOrder(pub(crate) Option<u64>);

impl SampleOrder {
    /// Where the sample stands whose key is that of a folder and the rest: the first 64 bits of BLAKE3 of the seed (little-endian) and
    /// the key. Samples that stand at one place are in the order of their keys.
    pub(crate) fn place(self, folder_key: &str, rest: &[u8]) -> u64 {
        let Some(seed) = self.0 else { return 0 };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes()).update(folder_key.as_bytes()).update(rest);
        hasher.finalize().as_bytes().first_chunk::<8>().map_or(0, |head| u64::from_be_bytes(*head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_seed_never_changes() {
        let place = |seed, folder: &str, rest: &str| SampleOrder(seed).place(folder, rest.as_bytes());
        assert_eq!(place(None, "cat/", "001"), 0);
        assert_eq!(place(Some(7), "cat/", "001"), place(Some(7), "", "cat/001"));
        assert_eq!(place(Some(7), "cat/", "001"), OF_7);
        assert_ne!(place(Some(8), "cat/", "001"), OF_7);
    }

    const OF_7: u64 = 11_576_410_978_979_459_568;
}
