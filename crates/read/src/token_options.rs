//! Settings of a loader of tokens.

use crate::Remainder;
use packhorse_order::Rank;

/// How samples become batches, who takes which, and how far ahead they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOptions {
    /// Samples a batch, of one rank.
    pub batch: u32,
    /// Tokens of a sample that are inputs.
    pub length: u32,
    /// A row has a token more than that, so that inputs are all but its last, labels all but its first.
    pub extra_token: bool,
    /// The rank that takes these batches, and the number of ranks that share the samples.
    pub rank: Rank,
    /// Samples of the order that all ranks together have had already: where to begin.
    pub consumed: u64,
    /// What becomes of samples that don't fill a last step.
    pub remainder: Remainder,
    /// Threads that fill batches, no more than `ahead`; with 0 of them the caller's does, when it takes one.
    pub threads: usize,
    /// Batches that are filled or being filled ahead of the caller, at least 1: so many slabs of memory.
    pub ahead: usize,
    /// The token that fills rows whose samples are shorter; without it such a sample is an error.
    pub pad: Option<i64>,
    /// What a slab holds beside the tokens.
    pub companions: Companions,
}

impl TokenOptions {
    /// One rank, from the first sample on, rows of `length + 1` tokens without padding and companions, last
    /// samples dropped as Megatron does; one thread, four batches ahead.
    pub fn new(batch: u32, length: u32) -> Self {
        Self {
            batch,
            length,
            extra_token: true,
            rank: Rank::default(),
            consumed: 0,
            remainder: Remainder::Drop,
            threads: 1,
            ahead: 4,
            pad: None,
            companions: Companions::default(),
        }
    }
}

/// Fields beside `tokens`, all about the inputs: `length` a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Companions {
    /// `position_ids`, `Int32 [batch, length]`: the place of a token in its document, or what the sample has of it.
    pub position_ids: bool,
    /// `segment_ids`, `Int32 [batch, length]`: which document of the row a token is of, from 0; -1 for padding.
    pub segment_ids: bool,
    /// `loss_mask`, `UInt8 [batch, length]`: whether the token that follows counts.
    pub loss_mask: LossMask,
    /// `cu_seqlens`, `Int32 [rows·length + 1]` at most: where documents end in all rows, one after another, from 0
    /// on, as kernels for packed sequences take them. Padding is a segment of its own.
    pub cu_seqlens: bool,
}

/// Which tokens count as labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossMask {
    /// There is no such field.
    #[default]
    Off,
    /// All but padding.
    Padding,
    /// Neither padding nor the first token of a document that follows another.
    Documents,
}
