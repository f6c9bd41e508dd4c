//! Selects a fixed fraction of many items.

use packhorse_core::{Error, Result};
use packhorse_dataset::Digest;
use std::collections::BTreeSet;

/// A fraction of many items, selected by their numbers alone. Each fraction is a subset of every larger one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share(f64);

impl Share {
    /// The fraction `fraction`. Errors (kind `Config`): one that is not from 0 to 1.
    pub(super) fn new(fraction: f64) -> Result<Self> {
        match (0.0..=1.0).contains(&fraction) {
            true => Ok(Self(fraction)),
            false => Err(Error::config(format!("a fraction of {fraction} is not from 0 to 1"))),
        }
    }

    /// Whether it selects all items.
    pub(super) fn is_whole(self) -> bool {
        self.0 >= 1.0
    }

    /// Whether it selects the item with this pseudo-random number.
    #[inline]
    pub(super) fn has(self, number: u64) -> bool {
        self.is_whole() || ((number >> 11) as f64) < self.0 * (1u64 << 53) as f64
    }

    /// Whether it selects the item of this name.
    pub(super) fn has_name(self, name: &str) -> bool {
        self.has(number(name))
    }

    /// Selects the fraction of `names`, rounded up: those with the lowest digests. It is exact even for few names, and
    /// each fraction is a subset of every larger one of the same names.
    pub(super) fn choose<'n>(self, names: impl Iterator<Item = &'n str>) -> BTreeSet<&'n str> {
        let ranked: BTreeSet<(u64, &str)> = names.map(|name| (number(name), name)).collect();
        // Tolerates rounding errors of a product that should be an integer.
        let count = (self.0 * ranked.len() as f64 - 1e-9).ceil().max(0.0) as usize;
        ranked.into_iter().take(count).map(|(_, name)| name).collect()
    }
}

/// The first 64 bits of a name's digest.
fn number(name: &str) -> u64 {
    Digest::of(name.as_bytes()).as_bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_few_names_is_rounded_up_and_nested() {
        let names: Vec<String> = (0..10).map(|i| format!("shard-{i:06}")).collect();
        let mut before = BTreeSet::new();
        for (fraction, wanted) in [(0.0, 0), (0.001, 1), (0.1, 1), (0.11, 2), (0.3, 3), (0.5, 5), (0.7, 7), (1.0, 10)] {
            let part = Share::new(fraction).unwrap().choose(names.iter().map(String::as_str));
            assert_eq!(part.len(), wanted, "{fraction}");
            assert!(before.is_subset(&part));
            before = part;
        }
        // The files of a shard share one name.
        let twice = names.iter().chain(&names).map(String::as_str);
        assert_eq!(Share::new(0.1).unwrap().choose(twice).len(), 1);
    }

    #[test]
    fn a_part_is_as_large_as_asked_and_grows() {
        let in_part = |fraction| {
            let share = Share::new(fraction).unwrap();
            (0..20_000).map(|i| share.has_name(&format!("shard-{i:06}"))).collect::<Vec<_>>()
        };
        let (third, half) = (in_part(1.0 / 3.0), in_part(0.5));
        let count = |part: &[bool]| part.iter().filter(|&&is| is).count();
        assert!(count(&third).abs_diff(6667) < 250 && count(&half).abs_diff(10_000) < 250);
        assert!(third.iter().zip(&half).all(|(third, half)| !third || *half));
        assert_eq!((count(&in_part(0.0)), count(&in_part(1.0))), (0, 20_000));
        for fraction in [-0.1, 1.1, f64::NAN] {
            assert!(Share::new(fraction).is_err());
        }
    }
}
