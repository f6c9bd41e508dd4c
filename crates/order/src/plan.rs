//! How many epochs and samples a GPT dataset has: arithmetic on totals, before any array is made.

use packhorse_core::{Error, Result};

/// The settings of a GPT dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GptOptions {
    /// Seeds both shuffles.
    pub seed: u32,
    /// Tokens per sample, without the extra one.
    pub sequence_length: u32,
    /// The least number of samples; `None` for one epoch.
    pub samples: Option<u64>,
    /// Samples overlap by a token, so that inputs and labels are both `sequence_length` long
    /// (Megatron's default).
    pub extra_token: bool,
    /// Leaves out a last sample that is not full. Megatron's default; only its validation split may keep one.
    pub drop_last: bool,
    /// Always holds the sample index in 64 bits, as Megatron-DeepSpeed and BlendCorpus do.
    pub wide: bool,
}

impl GptOptions {
    /// Megatron's defaults.
    pub fn new(seed: u32, sequence_length: u32, samples: Option<u64>) -> Self {
        Self { seed, sequence_length, samples, extra_token: true, drop_last: true, wide: false }
    }

    pub(crate) fn extra(&self) -> u64 {
        u64::from(self.extra_token)
    }
}

/// The number of epochs and samples of a GPT dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GptPlan {
    /// Tokens per epoch.
    pub tokens: u64,
    /// The number of epochs, and so of occurrences of each document.
    pub epochs: u64,
    /// Samples in all.
    pub samples: u64,
    /// Samples that are shuffled together first; the others are shuffled after them.
    pub first: u64,
    /// Whether the last epoch is shuffled on its own, because less than 80 % of it is needed.
    pub separate: bool,
}

impl GptPlan {
    /// The plan for documents of `tokens` tokens in all.
    ///
    /// Errors: no tokens, a sequence length of 0 or beyond what Megatron's 32 bits hold, totals beyond 2^62.
    pub(crate) fn new(options: &GptOptions, tokens: u64) -> Result<Self> {
        let (length, extra) = (u64::from(options.sequence_length), options.extra());
        if length == 0 || length >= i32::MAX as u64 {
            return Err(Error::config(format!("a sequence length of {length} tokens is not in 1..{}", i32::MAX)));
        }
        if tokens == 0 {
            return Err(Error::content("the sequences of this split have no tokens: nothing to train on"));
        }
        let too_much = || Error::config("so many samples of so many tokens do not fit into 62 bits: ask for fewer");
        let wanted = u128::from(options.samples.unwrap_or(0)) * u128::from(length) + u128::from(extra);
        let epochs = match options.samples {
            Some(_) => u64::try_from(wanted.div_ceil(u128::from(tokens))).map_err(|_| too_much())?.max(1),
            None => 1,
        };
        let total = epochs.checked_mul(tokens).filter(|total| total >> 62 == 0).ok_or_else(too_much)?;
        let samples = if options.drop_last { (total - extra) / length } else { rounded_up(total - extra, length) };
        let mut plan = Self { tokens, epochs, samples, first: samples, separate: false };
        if epochs > 1 {
            let before = ((epochs - 1) * tokens - extra) / length;
            let each = (tokens - extra) / length;
            plan.separate = options.samples.unwrap_or(0).saturating_sub(before) < (0.80 * each as f64) as u64;
            if plan.separate {
                plan.first = before;
            }
        }
        Ok(plan)
    }
}

/// `ceil(float(tokens) / length)` in C++: the division is in 32-bit floats, so for large totals the result often
/// differs from the exact one.
fn rounded_up(tokens: u64, length: u64) -> u64 {
    (tokens as f32 / length as f32).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(tokens: u64, samples: Option<u64>, drop_last: bool) -> GptPlan {
        GptPlan::new(&GptOptions { drop_last, ..GptOptions::new(1, 10, samples) }, tokens).unwrap()
    }

    #[test]
    fn epochs_are_as_many_as_it_takes() {
        assert_eq!(plan(101, Some(10), true).epochs, 1);
        assert_eq!(plan(101, Some(11), true).epochs, 2);
        assert_eq!(plan(100, Some(10), true).epochs, 2);
        assert_eq!(plan(100, None, true).epochs, 1);
        assert_eq!(plan(1, Some(0), true), GptPlan { tokens: 1, epochs: 1, samples: 0, first: 0, separate: false });
    }

    #[test]
    fn a_last_epoch_of_which_little_is_wanted_is_separate() {
        assert!(plan(101, Some(17), true).separate);
        assert!(!plan(101, Some(18), true).separate);
        assert_eq!(plan(101, Some(11), true).first, 10);
    }

    #[test]
    fn a_kept_last_sample_is_counted_in_32_bits() {
        assert_eq!(plan(102, None, false).samples, 11);
        // 2^24 + 1 is not a 32-bit float.
        assert_eq!(rounded_up((1 << 24) + 1, 1), 1 << 24);
    }

    #[test]
    fn what_makes_no_plan() {
        assert!(GptPlan::new(&GptOptions::new(1, 0, None), 5).is_err());
        assert!(GptPlan::new(&GptOptions::new(1, 10, None), 0).is_err());
        assert!(GptPlan::new(&GptOptions::new(1, 10, Some(u64::MAX)), 5).is_err());
    }
}
