//! Samples that are left over.

/// What becomes of the samples that are left where they don't make a batch for every rank. All ranks have the same number
/// of batches in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remainder {
    /// They are dropped.
    #[default]
    Drop,
    /// Every rank gets a last full batch: samples from the beginning of the epoch's order come again, beyond the
    /// [positions](crate::Batch::positions) of the batch. Of tokens, whose samples count by their loss, such rows are padding
    /// (0 without a token to pad with), and the loss mask is 0 there.
    Pad,
    /// Last batches have fewer rows, maybe none.
    Uneven,
}
