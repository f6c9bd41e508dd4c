//! Splits sequences into training, validation and test sets.

use crate::pairwise_sum;
use packhorse_core::{Error, Result};
use std::ops::Range;

/// One of the three splits of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// `train`
    Train,
    /// `valid`
    Valid,
    /// `test`
    Test,
}

impl Split {
    /// In Megatron's order.
    pub const ALL: [Split; 3] = [Split::Train, Split::Valid, Split::Test];

    /// Its name in the names of cache files.
    pub fn name(self) -> &'static str {
        ["train", "valid", "test"][self as usize]
    }
}

/// The shares of the three splits, such as `969,30,1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Splits {
    text: String,
    shares: [f64; 3],
}

impl Splits {
    /// Up to three weights with any separators: like Megatron, takes every run of digits and points.
    ///
    /// Errors: more than three numbers, none above zero, or text that is not a number.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::config(format!("a split of '{text}' is not up to three weights such as '969,30,1'"));
        let mut weights = [0.0; 3];
        let mut places = weights.iter_mut();
        let numbers = text.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|run| !run.is_empty());
        for number in numbers {
            *places.next().ok_or_else(wrong)? = number.parse().map_err(|_| wrong())?;
        }
        let sum = pairwise_sum(&weights);
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(wrong());
        }
        Ok(Self { text: text.to_owned(), shares: weights.map(|weight| weight / sum) })
    }

    /// The text as given, which is part of the description that names Megatron's cache files.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The bounds of each split, from 0 to 1; `None` for an empty one.
    pub(crate) fn matrix(&self) -> [Option<(f64, f64)>; 3] {
        let mut begin = 0.0;
        self.shares.map(|share| {
            let end = begin + share;
            let part = (end > begin).then_some((begin, end));
            begin = end;
            part
        })
    }

    /// The range of a split among `sequences` sequences: both bounds rounded half to even. `None` for an empty split.
    pub fn range(&self, split: Split, sequences: u32) -> Option<Range<u32>> {
        let (begin, end) = self.matrix()[split as usize]?;
        let bound = |share: f64| ((share * f64::from(sequences)).round_ties_even() as u32).min(sequences);
        Some(bound(begin)..bound(end))
    }

    /// The range of a split as computed by Megatron-DeepSpeed and BlendCorpus: sizes are rounded and summed, and the
    /// difference to `sequences` is subtracted from every bound but the first.
    pub fn range_by_sizes(&self, split: Split, sequences: u32) -> Range<u32> {
        let mut bounds = [0i64; 4];
        for (at, share) in self.shares.iter().enumerate() {
            bounds[at + 1] = bounds[at] + (share * f64::from(sequences)).round_ties_even() as i64;
        }
        let off = bounds[3] - i64::from(sequences);
        let bound = |at: usize| if at == 0 { 0 } else { (bounds[at] - off).clamp(0, i64::from(sequences)) as u32 };
        bound(split as usize)..bound(split as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_customary_split() {
        let splits = Splits::parse("969, 30, 1").unwrap();
        let ranges = Split::ALL.map(|split| splits.range(split, 1000).unwrap());
        assert_eq!(ranges, [0..969, 969..999, 999..1000]);
        assert_eq!(Split::ALL.map(|split| splits.range_by_sizes(split, 1000)), [0..969, 969..999, 999..1000]);
    }

    #[test]
    fn halves_go_to_even() {
        let splits = Splits::parse("50,50").unwrap();
        assert_eq!(splits.range(Split::Train, 5), Some(0..2));
        assert_eq!(splits.range(Split::Train, 7), Some(0..4));
        assert_eq!(splits.range(Split::Test, 7), None);
    }

    #[test]
    fn what_is_no_split() {
        for text in ["", "0,0", "1,2,3,4", "1..2", "a"] {
            assert!(Splits::parse(text).is_err(), "{text}");
        }
    }
}
