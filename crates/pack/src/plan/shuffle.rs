//! Seeded shuffles. Pure: equal seeds give equal orders on every machine and in every version.

use packhorse_core::{Error, Result, SplitMix64};
use std::fmt;
use std::str::FromStr;

/// The order of samples in shards.
///
/// ```
/// use packhorse_pack::Shuffle;
///
/// assert_eq!("7".parse::<Shuffle>()?, Shuffle::Global { seed: 7 });
/// assert_eq!("7,block:1000".parse::<Shuffle>()?, Shuffle::Blocks { seed: 7, size: 1000 });
/// # Ok::<(), packhorse_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shuffle {
    /// Sorted by key.
    #[default]
    No,
    /// All samples permuted.
    Global {
        /// Equal seeds give equal orders.
        seed: u64,
    },
    /// Blocks of consecutive samples permuted, each sorted inside, so that reads stay mostly sequential.
    Blocks {
        /// Equal seeds give equal orders.
        seed: u64,
        /// Samples in a block.
        size: u32,
    },
}

impl FromStr for Shuffle {
    type Err = Error;

    /// `SEED`, `block:N` (seed 0) or `SEED,block:N`.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::config(format!("takes SEED, block:N or SEED,block:N, not \"{text}\""));
        let (seed, block) = match text.split_once(',') {
            Some((seed, block)) => (seed, Some(block)),
            None if text == "none" => return Ok(Shuffle::No),
            None if text.starts_with("block:") => ("0", Some(text)),
            None => (text, None),
        };
        let seed = seed.parse().map_err(|_| bad())?;
        match block {
            None => Ok(Shuffle::Global { seed }),
            Some(block) => {
                let size = block.strip_prefix("block:").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                Ok(Shuffle::Blocks { seed, size: size.ok_or_else(bad)? })
            }
        }
    }
}

impl fmt::Display for Shuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shuffle::No => f.write_str("none"),
            Shuffle::Global { seed } => write!(f, "{seed}"),
            Shuffle::Blocks { seed, size } => write!(f, "{seed},block:{size}"),
        }
    }
}

/// The order of `n` samples.
pub(crate) fn order(n: u32, shuffle: Shuffle) -> Vec<u32> {
    match shuffle {
        Shuffle::No => (0..n).collect(),
        Shuffle::Global { seed } => permutation(n, seed),
        Shuffle::Blocks { seed, size } => {
            let blocks = permutation(n.div_ceil(size), seed);
            blocks.into_iter().flat_map(|b| b * size..(b * size).saturating_add(size).min(n)).collect()
        }
    }
}

/// Fisher–Yates (Durstenfeld 1964) with SplitMix64.
pub(super) fn permutation(n: u32, seed: u64) -> Vec<u32> {
    let mut list: Vec<u32> = (0..n).collect();
    let mut random = SplitMix64::new(seed);
    for i in (1..list.len()).rev() {
        list.swap(i, random.below(i as u64 + 1) as usize);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_of_a_seed_never_changes() {
        assert_eq!(order(10, Shuffle::Global { seed: 7 }), GLOBAL);
        assert_eq!(order(10, Shuffle::Blocks { seed: 7, size: 3 }), BLOCKS);
    }

    const GLOBAL: [u32; 10] = [9, 5, 8, 6, 1, 2, 4, 7, 0, 3];
    const BLOCKS: [u32; 10] = [6, 7, 8, 9, 0, 1, 2, 3, 4, 5];

    #[test]
    fn forms_of_the_option() {
        assert_eq!("7".parse::<Shuffle>().unwrap(), Shuffle::Global { seed: 7 });
        assert_eq!("block:64".parse::<Shuffle>().unwrap(), Shuffle::Blocks { seed: 0, size: 64 });
        assert_eq!("7,block:64".parse::<Shuffle>().unwrap(), Shuffle::Blocks { seed: 7, size: 64 });
        for bad in ["", "x", "block:0", "block:", "7,8", "-1"] {
            assert!(bad.parse::<Shuffle>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_order_is_a_permutation(n in 0u32..2000, seed: u64, size in 1u32..100) {
            for shuffle in [Shuffle::No, Shuffle::Global { seed }, Shuffle::Blocks { seed, size }] {
                let mut list = order(n, shuffle);
                list.sort_unstable();
                prop_assert!(list.into_iter().eq(0..n));
            }
        }

        #[test]
        fn blocks_stay_together(n in 0u32..2000, seed: u64, size in 1u32..100) {
            for pair in order(n, Shuffle::Blocks { seed, size }).windows(2) {
                prop_assert!(pair[0] + 1 == pair[1] || pair[1] % size == 0);
            }
        }
    }
}
