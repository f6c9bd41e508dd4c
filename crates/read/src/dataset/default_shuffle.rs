//! How a dataset is shuffled where nothing else is asked for.

use super::Dataset;
use packhorse_core::{DataType, FieldType, element_width};
use packhorse_order::{RUNS, Shuffle};

/// Shards whose samples are shuffled together.
const SHARDS: u32 = 16;
/// Bytes of rows that are shuffled together. The cache of rows has at least 256 MiB.
const WINDOW: u64 = 192 << 20;

impl Dataset {
    /// How loaders shuffle where nothing else is asked for: the samples of 16 shards together (`blocks:16`). Rows of typed formats are
    /// decoded in blocks, so where 16 shards have more than 192 MiB these are shuffled in windows of about so many bytes
    /// ([`Shuffle::Windows`]): each row is decoded once. The bytes are those of the shards, or of the numbers in them where these
    /// are more. So it depends on the shards and the fields of the dataset alone.
    pub fn default_shuffle(&self) -> Shuffle {
        let is_table = self.shards.first().is_some_and(|shard| shard.is_table());
        let (shards, samples) = self
            .used()
            .fold((0u64, 0u64), |(shards, samples), shard| (shards + 1, samples.saturating_add(shard.samples)));
        let row = self.mean().max(self.numbers_in_row()).max(1);
        let together = samples / shards.max(1) * shards.min(SHARDS.into());
        if !is_table || together.saturating_mul(row) <= WINDOW {
            return Shuffle::Blocks { shards: SHARDS };
        }
        Shuffle::Windows { shards: SHARDS, samples: (WINDOW / RUNS / row).max(1) * RUNS }
    }

    /// The bytes of the numbers of a sample, in all fields of one shape.
    fn numbers_in_row(&self) -> u64 {
        let width = |element: &DataType| element_width(element).unwrap_or(0) as u64;
        let fields = self.schema.fields().iter().map(|field| match FieldType::of(field) {
            Ok(FieldType::Scalar(element)) => width(&element),
            Ok(FieldType::Tensor { element, shape }) => {
                shape.iter().fold(width(&element), |bytes, size| bytes.saturating_mul(*size as u64))
            }
            _ => 0,
        });
        fields.fold(0, u64::saturating_add)
    }
}
