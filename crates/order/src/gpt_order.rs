//! Random access to the samples of a GPT dataset, over its three indices and the lengths.

use crate::{Array, GptIndex, GptOptions, IntView, Ints, Order, Segment};
use packhorse_core::{Error, Result};

/// The samples of a GPT dataset in training order, over arrays that it owns, shares or borrows.
#[derive(Clone, Copy, Debug)]
pub struct GptOrder<A> {
    indices: [A; 3],
    lengths: A,
    tokens: u64,
    extra: i64,
    dataset: u32,
}

impl<A: Ints> GptOrder<A> {
    /// Over the document, sample and shuffle index, and the `lengths` of all sequences. Of `options` only the sequence
    /// length and the extra token matter.
    ///
    /// Errors: a sample index that does not have exactly one row more than the shuffle index has entries.
    pub fn new(indices: [A; 3], lengths: A, options: &GptOptions) -> Result<Self> {
        let [_, sample, shuffle] = indices.each_ref().map(|index| index.view().len());
        if sample / 2 != shuffle + 1 {
            let message = format!("a sample index of {sample} numbers does not fit {shuffle} samples");
            return Err(Error::content(message));
        }
        let tokens = u64::from(options.sequence_length) + options.extra();
        Ok(Self { indices, lengths, tokens, extra: options.extra() as i64, dataset: 0 })
    }

    /// Over indices that it owns.
    pub fn of(index: GptIndex, lengths: A, options: &GptOptions) -> Result<Self>
    where
        A: From<Array>,
    {
        Self::new([index.document, index.sample, index.shuffle].map(A::from), lengths, options)
    }

    /// The same order, whose segments have the dataset number `dataset`.
    pub fn numbered(self, dataset: u32) -> Self {
        Self { dataset, ..self }
    }
}

impl<'a> GptOrder<IntView<'a>> {
    /// Over borrowed indices.
    pub fn over(index: &'a GptIndex, lengths: &'a [i32], options: &GptOptions) -> Result<Self> {
        Self::new([index.document.view(), index.sample.view(), index.shuffle.view()], IntView::I32(lengths), options)
    }
}

/// Position in the document index, and offset, of a row of the sample index.
fn row(sample: &IntView<'_>, row: u64) -> Result<(u64, i64)> {
    let position = sample.at(2 * row, "sample index")?;
    let offset = usize::try_from(2 * row + 1).ok().and_then(|at| sample.get(at));
    let offset = offset.ok_or_else(|| Error::content(format!("the sample index ends before row {row}")))?;
    Ok((position, offset))
}

impl<A: Ints> Order for GptOrder<A> {
    fn len(&self) -> u64 {
        let [_, _, shuffle] = &self.indices;
        shuffle.view().len() as u64
    }

    /// Has sequence length + extra tokens, except for a kept last sample. Inputs are all but the last token, labels all
    /// but the first.
    fn sample(&self, k: u64, out: &mut Vec<Segment>) -> Result<()> {
        let [document, sample, shuffle] = self.indices.each_ref().map(Ints::view);
        let lengths = self.lengths.view();
        let number = shuffle.at(k, "shuffle index")?;
        if number >= shuffle.len() as u64 {
            return Err(Error::content(format!("the shuffle index names sample {number} of {}", shuffle.len())));
        }
        let ((first, begin), (last, end)) = (row(&sample, number)?, row(&sample, number + 1)?);
        let mut left = self.tokens;
        for position in first..=last {
            let sequence = document.at(position, "document index")?;
            let length = lengths.at(sequence, "lengths")? as i64;
            let from = if position == first { begin.max(0) } else { 0 };
            let to = if position == last { end.saturating_add(self.extra) } else { length };
            let run = to.saturating_sub(from);
            if run <= 0 {
                continue;
            }
            if to > length || run as u64 > left {
                let message =
                    format!("sample {number} does not fit sequence {sequence}: these indices are of other data");
                return Err(Error::content(message));
            }
            left -= run as u64;
            let (sequence, offset, length) = (sequence as u32, from as u32, run as u32);
            out.push(Segment { dataset: self.dataset, sequence, offset, length });
        }
        Ok(())
    }
}
