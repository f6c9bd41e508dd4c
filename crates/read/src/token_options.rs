//! Settings of a loader of tokens.

use crate::Remainder;
use packhorse_order::Rank;

/// How samples are shared among ranks, batched and read ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOptions {
    /// Samples per batch and rank.
    pub batch: u32,
    /// Inputs per sample, in tokens.
    pub length: u32,
    /// Whether a row has one more token than inputs: inputs are all but its last, labels all but its first.
    pub extra_token: bool,
    /// The rank of this loader, and the number of ranks that share the samples.
    pub rank: Rank,
    /// The samples of the order that all ranks together have already taken: where to begin.
    pub consumed: u64,
    /// The treatment of samples that don't fill a last step.
    pub remainder: Remainder,
    /// Threads that fill batches, one batch each; with 0 the caller's thread does this when it takes a batch.
    pub threads: usize,
    /// Batches that are filled or being filled ahead of the caller, each in a slab of memory; at least as many as
    /// threads.
    pub ahead: usize,
    /// The token that pads shorter samples; without it such a sample is an error.
    pub pad: Option<i64>,
    /// The fields of a slab beside the tokens.
    pub companions: Companions,
}

impl TokenOptions {
    /// One rank, from the first sample on, rows of `length + 1` tokens without padding or companions, the last
    /// incomplete batch dropped as in Megatron; one thread, two batches more ahead than threads.
    pub fn new(batch: u32, length: u32) -> Self {
        Self {
            batch,
            length,
            extra_token: true,
            rank: Rank::default(),
            consumed: 0,
            remainder: Remainder::Drop,
            threads: 1,
            ahead: 3,
            pad: None,
            companions: Companions::default(),
        }
    }
}

/// Fields beside `tokens`, which describe the inputs: `length` per row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Companions {
    /// `position_ids`, `Int32 [batch, length]`: the position of a token in its document, or in the part of it that the
    /// sample has.
    pub position_ids: bool,
    /// `segment_ids`, `Int32 [batch, length]`: the number of a token's document in the row, from 0; -1 for padding.
    pub segment_ids: bool,
    /// `loss_mask`, `UInt8 [batch, length]`: whether the next token counts as a label.
    pub loss_mask: LossMask,
    /// `cu_seqlens`, `Int32 [rows·length + 1]` at most: the cumulative lengths of the documents of all rows, from 0,
    /// for variable-length attention kernels. Padding is a segment of its own.
    pub cu_seqlens: bool,
}

/// Which tokens count as labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossMask {
    /// No such field.
    #[default]
    Off,
    /// All but padding.
    Padding,
    /// Neither padding nor the first token of a document that follows another.
    Documents,
}
