//! A GPT dataset's order that owns, or shares, what it is made of.

use crate::IntArray;
use packhorse_core::Result;
use packhorse_order::{GptIndex, GptOptions, GptOrder, Order, Segment};

/// [`GptOrder`] over shared numbers, built or mapped: it lives as long as anybody wants.
#[derive(Clone, Debug)]
pub struct GptSamples {
    indices: [IntArray; 3],
    lengths: IntArray,
    options: GptOptions,
    dataset: u32,
    len: u64,
}

impl GptSamples {
    /// Over the document, sample and shuffle index, `lengths` of all sequences, and the options they were made with.
    ///
    /// Errors: those of [`GptOrder::new`].
    pub fn new(indices: [IntArray; 3], lengths: IntArray, options: GptOptions) -> Result<Self> {
        let mut made = Self { indices, lengths, options, dataset: 0, len: 0 };
        made.len = made.order()?.len();
        Ok(made)
    }

    /// Over indices just built.
    pub fn of(index: GptIndex, lengths: IntArray, options: GptOptions) -> Result<Self> {
        Self::new([index.document, index.sample, index.shuffle].map(IntArray::from), lengths, options)
    }

    /// The same, with `dataset` as the number in its segments.
    pub fn numbered(self, dataset: u32) -> Self {
        Self { dataset, ..self }
    }

    #[inline]
    fn order(&self) -> Result<GptOrder<'_>> {
        let indices = self.indices.each_ref().map(IntArray::view);
        Ok(GptOrder::new(indices, self.lengths.view(), &self.options)?.numbered(self.dataset))
    }
}

impl Order for GptSamples {
    fn len(&self) -> u64 {
        self.len
    }

    fn sample(&self, k: u64, out: &mut Vec<Segment>) -> Result<()> {
        self.order()?.sample(k, out)
    }
}
