//! The three indices of a GPT dataset, identical to those of Megatron's `GPTDataset`.

use crate::array::room;
use crate::samples::{Row, Walk};
use crate::{Array, GptOptions, GptPlan, RandomState, shuffle};
use packhorse_core::{Error, Result};
use rayon::prelude::*;
use std::ops::Range;

/// From this number of samples on, the shuffle index has 64-bit entries.
const WIDE: u64 = u32::MAX as u64 - 1;

/// The indices of a GPT dataset.
///
/// Sample `k` is made of the tokens from row `shuffle[k]` of the sample index to the row after it.
#[derive(Clone, Debug)]
pub struct GptIndex {
    /// The totals.
    pub plan: GptPlan,
    /// `<i4`: sequence numbers, epoch after epoch, shuffled.
    pub document: Array,
    /// `<i4` or `<i8`, rows of two: position in `document`, offset in tokens. One row per sample and one for the end.
    pub sample: Array,
    /// `<u4` or `<i8`: a permutation of the samples.
    pub shuffle: Array,
}

impl GptIndex {
    /// Builds the indices over the sequences `ids`, a range of those whose `lengths` are given in tokens.
    ///
    /// Each sequence is treated as a document, as in Megatron. Runs on rayon's pool; the result does not depend on the
    /// number of threads. Memory: 4 bytes per sequence and epoch, 12 (or 24) per sample.
    ///
    /// Errors: a negative length, no tokens, not enough memory.
    pub fn build(lengths: &[i32], ids: Range<u32>, options: &GptOptions) -> Result<Self> {
        if lengths.len() > i32::MAX as usize {
            return Err(Error::unsupported(format!("{} sequences are over the 2147483647 of an index", lengths.len())));
        }
        let plan = GptPlan::new(options, tokens(lengths, &ids)?)?;
        let mut random = RandomState::new(options.seed);
        let document = documents(&ids, &plan, &mut random)?;
        let walk =
            Walk { lengths, documents: &document, length: u64::from(options.sequence_length), extra: options.extra() };
        let wide = options.wide || document.len() > i32::MAX as usize;
        let sample = if wide {
            Array::I64(rows(&walk, plan.samples, |value| value)?)
        } else {
            Array::I32(rows(&walk, plan.samples, |value| value as i32)?)
        };
        let shuffle = shuffled(plan.first, plan.samples, &mut random)?;
        Ok(Self { plan, document: Array::I32(document), sample, shuffle })
    }
}

fn tokens(lengths: &[i32], ids: &Range<u32>) -> Result<u64> {
    let exposed = lengths.get(ids.start as usize..ids.end as usize).ok_or_else(|| {
        let message = format!("sequences {}..{} are not all among the {} there are", ids.start, ids.end, lengths.len());
        Error::config(message)
    })?;
    let (sum, least) = exposed
        .par_chunks(1 << 16)
        .map(|part| part.iter().fold((0u64, 0), |(sum, least), &n| (sum.wrapping_add(n as u64), n.min(least))))
        .reduce(|| (0, 0), |a, b| (a.0.wrapping_add(b.0), a.1.min(b.1)));
    if least < 0 {
        return Err(Error::content(format!("a sequence has a length of {least} tokens: verify the .idx file")));
    }
    Ok(sum)
}

fn documents(ids: &Range<u32>, plan: &GptPlan, random: &mut RandomState) -> Result<Vec<i32>> {
    let each = ids.len();
    let mut documents = room(plan.epochs.saturating_mul(each as u64), "document index")?;
    for _ in 0..plan.epochs {
        documents.extend(ids.start as i32..ids.end as i32);
    }
    let first = documents.len() - if plan.separate { each } else { 0 };
    let (together, last) = documents.split_at_mut(first);
    shuffle(together, random);
    shuffle(last, random);
    Ok(documents)
}

fn rows<T: Copy + Send + Sync + Default>(walk: &Walk<'_>, samples: u64, number: fn(i64) -> T) -> Result<Vec<T>> {
    let mut numbers: Vec<T> = room(2 * (samples + 1), "sample index")?;
    numbers.resize(2 * (samples as usize + 1), T::default());
    let (rows, _): (&mut [Row<T>], _) = numbers.as_chunks_mut();
    walk.fill(rows, number);
    Ok(numbers)
}

fn shuffled(first: u64, samples: u64, random: &mut RandomState) -> Result<Array> {
    if samples < WIDE {
        let mut numbers: Vec<u32> = room(samples, "shuffle index")?;
        numbers.extend(0..samples as u32);
        shuffle_both(&mut numbers, first, random);
        return Ok(Array::U32(numbers));
    }
    let mut numbers: Vec<i64> = room(samples, "shuffle index")?;
    numbers.extend(0..samples as i64);
    shuffle_both(&mut numbers, first, random);
    Ok(Array::I64(numbers))
}

fn shuffle_both<T: Send>(numbers: &mut [T], first: u64, random: &mut RandomState) {
    let (together, last) = numbers.split_at_mut(numbers.len().min(first as usize));
    shuffle(together, random);
    shuffle(last, random);
}
