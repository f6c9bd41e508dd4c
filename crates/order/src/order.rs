//! Random access: the tokens of sample `k`.

use packhorse_core::Result;

/// A run of tokens of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// The number of the dataset; 0 unless there are several.
    pub dataset: u32,
    /// The number of the sequence in the `.idx`.
    pub sequence: u32,
    /// Tokens of the sequence before the run.
    pub offset: u32,
    /// Tokens in the run, never 0.
    pub length: u32,
}

/// An order over samples. A look-up takes a few array accesses and allocates only in `out`.
pub trait Order: Send + Sync {
    /// The number of samples.
    fn len(&self) -> u64;

    /// Appends the segments of sample `k` to `out`.
    ///
    /// Errors: `k` is not below [`Order::len`], or the arrays contradict each other (kind `Content`).
    fn sample(&self, k: u64, out: &mut Vec<Segment>) -> Result<()>;

    /// True if there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
