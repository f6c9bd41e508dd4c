//! Random access to the samples of a GPT dataset, over its three indices and the lengths.

use crate::{GptIndex, GptOptions, Order, Segment, View};
use packhorse_core::{Error, Result};

/// The samples of a GPT dataset in training order.
#[derive(Clone, Copy, Debug)]
pub struct GptOrder<'a> {
    document: View<'a>,
    sample: View<'a>,
    shuffle: View<'a>,
    lengths: View<'a>,
    tokens: u64,
    extra: i64,
    dataset: u32,
}

impl<'a> GptOrder<'a> {
    /// Over indices from anywhere; `lengths` are those of all sequences. Of `options` the sequence length and
    /// the extra token count.
    ///
    /// Errors: a sample index that has not a row more than the shuffle index has entries.
    pub fn new([document, sample, shuffle]: [View<'a>; 3], lengths: View<'a>, options: &GptOptions) -> Result<Self> {
        if sample.len() / 2 != shuffle.len() + 1 {
            let message = format!("a sample index of {} numbers does not fit {} samples", sample.len(), shuffle.len());
            return Err(Error::content(message));
        }
        let tokens = u64::from(options.sequence_length) + options.extra();
        let extra = options.extra() as i64;
        Ok(Self { document, sample, shuffle, lengths, tokens, extra, dataset: 0 })
    }

    /// Over indices just built.
    pub fn over(index: &'a GptIndex, lengths: &'a [i32], options: &GptOptions) -> Result<Self> {
        Self::new([index.document.view(), index.sample.view(), index.shuffle.view()], View::I32(lengths), options)
    }

    /// The same, with `dataset` as the number in its segments.
    pub fn numbered(self, dataset: u32) -> Self {
        Self { dataset, ..self }
    }

    /// Place in the document index, and offset, of a row.
    fn row(&self, row: u64) -> Result<(u64, i64)> {
        let place = self.sample.at(2 * row, "sample index")?;
        let offset = usize::try_from(2 * row + 1).ok().and_then(|at| self.sample.get(at));
        let offset = offset.ok_or_else(|| Error::content(format!("the sample index ends before row {row}")))?;
        Ok((place, offset))
    }
}

impl Order for GptOrder<'_> {
    fn len(&self) -> u64 {
        self.shuffle.len() as u64
    }

    /// Sequence length + extra tokens, but for a kept last sample. Inputs are all but the last token, labels
    /// all but the first.
    fn sample(&self, k: u64, out: &mut Vec<Segment>) -> Result<()> {
        let row = self.shuffle.at(k, "shuffle index")?;
        if row >= self.len() {
            return Err(Error::content(format!("the shuffle index names sample {row} of {}", self.len())));
        }
        let ((first, begin), (last, end)) = (self.row(row)?, self.row(row + 1)?);
        let mut left = self.tokens;
        for place in first..=last {
            let sequence = self.document.at(place, "document index")?;
            let length = self.lengths.at(sequence, "lengths")? as i64;
            let from = if place == first { begin.max(0) } else { 0 };
            let to = if place == last { end.saturating_add(self.extra) } else { length };
            let run = to.saturating_sub(from);
            if run <= 0 {
                continue;
            }
            if to > length || run as u64 > left {
                let message = format!("sample {row} does not fit sequence {sequence}: these indices are of other data");
                return Err(Error::content(message));
            }
            left -= run as u64;
            out.push(Segment {
                dataset: self.dataset,
                sequence: sequence as u32,
                offset: from as u32,
                length: run as u32,
            });
        }
        Ok(())
    }
}
