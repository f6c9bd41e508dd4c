//! Waiting for a batch for a limited time.

use packhorse_core::Result;

/// The result of a wait of limited time for the next batch: [`Loader::next_within`](crate::Loader::next_within).
#[derive(Debug)]
pub enum Next<B> {
    /// The batch, or its error; the wait after an error is for the batch after it.
    Batch(Result<B>),
    /// Time is up. The next wait is for the same batch.
    NotYet,
    /// There are no more batches.
    End,
}

impl<B> Next<B> {
    /// The same with what `make` makes of the batch.
    pub fn map<C>(self, make: impl FnOnce(B) -> Result<C>) -> Next<C> {
        match self {
            Next::Batch(batch) => Next::Batch(batch.and_then(make)),
            Next::NotYet => Next::NotYet,
            Next::End => Next::End,
        }
    }

    /// The item of an iterator; `None` also if time is up.
    pub(crate) fn item(self) -> Option<Result<B>> {
        match self {
            Next::Batch(batch) => Some(batch),
            Next::NotYet | Next::End => None,
        }
    }
}
