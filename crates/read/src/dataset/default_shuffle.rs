//! How a dataset is shuffled where nothing else is asked for.

use super::Dataset;
use packhorse_core::{DataType, FieldType, Schema, element_width};
use packhorse_order::{RUNS, Shuffle};

/// Shards whose samples are shuffled together.
const SHARDS: u32 = 16;
/// Bytes of rows that are shuffled together: at the end of a window those of two are wanted, and the cache of rows has at least 256 MiB.
const WINDOW: u64 = 120 << 20;
/// How much larger text and lists are decoded than stored, about.
const EXPANSION: u64 = 3;

impl Dataset {
    /// How loaders shuffle where nothing else is asked for: the samples of 16 shards together (`blocks:16`). Rows of typed formats are
    /// decoded in blocks, so where 16 shards have more than 120 MiB these are shuffled in windows of about so many bytes
    /// ([`Shuffle::Windows`]), and a rank decodes each block about once an epoch. The bytes are an estimate of decoded ones: those of
    /// the shards, three times as many where a field is text or a list, or those of the numbers in them where these are more. So the
    /// shuffle depends on the shards and the fields of the dataset alone.
    pub fn default_shuffle(&self) -> Shuffle {
        let is_table = self.used().any(|shard| !shard.source.lists());
        let (shards, samples) = self
            .used()
            .fold((0u64, 0u64), |(shards, samples), shard| (shards + 1, samples.saturating_add(shard.samples)));
        let row = self.decoded_row().max(1);
        let together = samples / shards.max(1) * shards.min(SHARDS.into());
        if !is_table || together.saturating_mul(row) <= WINDOW {
            return Shuffle::Blocks { shards: SHARDS };
        }
        Shuffle::Windows { shards: SHARDS, samples: (WINDOW / RUNS / row).max(1) * RUNS }
    }

    /// The approximate bytes of a decoded sample.
    fn decoded_row(&self) -> u64 {
        let (numbers, expands) = numbers(&self.schema);
        let stored = self.mean();
        numbers.max(if expands { stored.saturating_mul(EXPANSION) } else { stored })
    }
}

/// The bytes of the numbers in a row whose count is fixed, and whether other fields are larger in memory than stored.
pub(super) fn numbers(schema: &Schema) -> (u64, bool) {
    let width = |element: &DataType| element_width(element).unwrap_or(0) as u64;
    let (mut numbers, mut expands) = (0u64, false);
    for field in schema.fields() {
        numbers = numbers.saturating_add(match FieldType::of(field) {
            Ok(FieldType::Scalar(element)) => width(&element),
            Ok(FieldType::Tensor { element, shape }) => {
                shape.iter().fold(width(&element), |bytes, size| bytes.saturating_mul(*size as u64))
            }
            // Blobs are compressed themselves.
            Err(_) => 0,
            Ok(kind) if kind.holds_blobs() => 0,
            Ok(FieldType::Blob | FieldType::Text | FieldType::Ragged { .. } | FieldType::List { .. }) => {
                expands = true;
                0
            }
        });
    }
    (numbers, expands)
}
