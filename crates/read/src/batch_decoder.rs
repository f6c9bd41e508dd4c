//! Any samples of a dataset as a batch, without an order of samples.

use crate::epoch_order::EpochOrder;
use crate::sample_work::{Feed, SampleWork, WorkerState};
use crate::{Batch, Dataset, FieldOptions, Host, HostSlab, Layout, LoaderOptions, Remainder};
use packhorse_core::{Error, Result};
use packhorse_order::{Rank, Shuffle};
use std::sync::{Arc, Mutex, PoisonError};

/// Decodes any samples of a dataset into batches in host memory, as a [`Loader`](crate::Loader) does. Threads share it:
/// each decodes on its own.
///
/// ```
/// use packhorse_core::Result;
/// use packhorse_read::{BatchDecoder, Dataset, LoaderOptions};
///
/// fn first_and_last(dataset: &Dataset) -> Result<()> {
///     let decoder = BatchDecoder::new(dataset, &[], &LoaderOptions::new(2))?;
///     let batch = decoder.decode(&[0, dataset.len() - 1], 0)?;
///     assert_eq!(batch.numbers(), [0, dataset.len() - 1]);
///     Ok(())
/// }
/// ```
pub struct BatchDecoder {
    work: SampleWork,
    /// Buffers of threads that decode no batch now.
    kept: Mutex<Vec<WorkerState>>,
}

impl BatchDecoder {
    /// A decoder of these fields; of all fields of the dataset if `fields` is empty. Of `options` it uses seed, batch,
    /// `on_error`, how bytes are read and cached, limits and observer.
    ///
    /// Errors: those of [`Loader::new`](crate::Loader::new) for the fields and the dataset.
    pub fn new(dataset: &Dataset, fields: &[FieldOptions], options: &LoaderOptions) -> Result<Self> {
        let options = LoaderOptions {
            rank: Rank::default(),
            shuffle: Some(Shuffle::Sequential),
            state: None,
            epochs: None,
            remainder: Remainder::Uneven,
            threads: 0,
            ..options.clone()
        };
        let order = EpochOrder::of(dataset, &options)?;
        let (work, _) = SampleWork::of_dataset(dataset.clone(), (fields, &[]), order, 0, &options, None)?;
        Ok(Self { work, kept: Mutex::default() })
    }

    /// The layout of a batch of `options.batch` samples. A batch has the layout of as many rows as were asked for.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.work.collate.layout
    }

    /// The samples with these numbers, one per row in this order; numbers may repeat. Random crops and flips are those
    /// that a loader with this seed makes in `epoch`. The [positions](Batch::positions) of the batch are those in
    /// `numbers`. If bad samples are skipped, the others move up, and the rows beyond them are zeros. Not for tasks of a rayon pool
    /// (see [`Loader::at`](crate::Loader::at)).
    ///
    /// Errors: a number past the end (kind `Config`), a sample that can't be read or decoded.
    pub fn decode(&self, numbers: &[u64], epoch: u64) -> Result<Batch<HostSlab>> {
        let Feed::Dataset { reader, .. } = &self.work.feed else { return Err(Error::bug("a decoder of a stream")) };
        let collate = self.work.collate.with_rows(numbers.len())?;
        let mut kept = self.kept().pop().unwrap_or_default();
        let mut fetched = self.work.spare();
        let batch = self.work.isolation.run(|| {
            reader.read_numbers(numbers.iter().copied(), &mut kept.wants, &mut fetched)?;
            let memory = (&self.work.free, &mut Host::default());
            self.work.batch(&collate, fetched, (epoch, 0..numbers.len() as u64), &mut kept, memory)
        });
        self.kept().push(kept);
        batch
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<WorkerState>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for BatchDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchDecoder").field("layout", self.layout()).finish_non_exhaustive()
    }
}
