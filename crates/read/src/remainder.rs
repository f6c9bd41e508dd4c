//! The samples that don't fill a last batch.

/// The treatment of the last samples of an epoch, if they don't make a full batch for every rank. All ranks have the
/// same number of batches in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remainder {
    /// They are dropped.
    #[default]
    Drop,
    /// Every rank gets a full last batch: samples from the beginning of the epoch's order repeat, beyond the
    /// [positions](crate::Batch::positions) of the batch. For tokens such rows are padding instead (0 without a padding
    /// token), and their loss mask is 0.
    Pad,
    /// Last batches have fewer rows, possibly none.
    Uneven,
}
