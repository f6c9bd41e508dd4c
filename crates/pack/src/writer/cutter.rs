//! Decides where a shard ends, sample by sample.

use crate::ShardBounds;
use packhorse_core::{KEY, Result, Rows, Sink, add_sizes};
use packhorse_dataset::PlanHeader;
use std::collections::BTreeSet;

/// The bytes of the header of an encoded array.
const ARRAY_HEADER: u64 = 128;

/// The sizes of a sample in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SampleSize {
    /// Its values.
    pub(super) raw: u64,
    /// What it takes in a shard, before compression.
    pub(super) stored: u64,
}

/// How full the open shard is.
pub(super) struct ShardCutter {
    most_bytes: u64,
    most_samples: u64,
    bytes: u64,
    samples: u64,
    /// Columns that are encoded as arrays.
    encoded: BTreeSet<String>,
}

impl ShardCutter {
    pub(super) fn new(bounds: ShardBounds, header: &PlanHeader) -> Result<Self> {
        let encoded = header.encode.iter().filter(|record| record.format == "npz").flat_map(|record| &record.columns);
        Ok(Self {
            most_bytes: bounds.limit().unwrap_or(u64::MAX),
            most_samples: bounds.samples.unwrap_or(u64::MAX),
            bytes: 0,
            samples: 0,
            encoded: encoded.map(|column| column.name.clone()).collect(),
        })
    }

    /// The size of each row.
    pub(super) fn sizes(&self, rows: &Rows, sink: &dyn Sink) -> Vec<SampleSize> {
        let mut sizes = vec![SampleSize::default(); rows.num_rows()];
        let mut values = Vec::new();
        for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
            values.clear();
            values.resize(rows.num_rows(), 0);
            add_sizes(column, &mut values);
            let more = if self.encoded.contains(field.name()) { ARRAY_HEADER } else { 0 };
            for (row, (size, value)) in sizes.iter_mut().zip(&values).enumerate() {
                if column.is_null(row) {
                    continue;
                }
                size.raw = size.raw.saturating_add(*value);
                if field.name() != KEY {
                    size.stored = size.stored.saturating_add(sink.size_of(value.saturating_add(more)));
                }
            }
        }
        sizes
    }

    /// How many of the next samples go into the open shard together, in at most `piece` bytes; 0 if it is full.
    pub(super) fn take(&mut self, sizes: &[SampleSize], piece: u64) -> usize {
        let (mut taken, mut raw) = (0, 0u64);
        for size in sizes {
            let bytes = self.bytes.saturating_add(size.stored);
            let full = self.samples >= self.most_samples || bytes > self.most_bytes;
            raw = raw.saturating_add(size.raw);
            if (full && self.samples > 0) || (raw > piece && taken > 0) {
                break;
            }
            (self.bytes, self.samples) = (bytes, self.samples + 1);
            taken += 1;
        }
        taken
    }

    /// Starts the next shard.
    pub(super) fn restart(&mut self) {
        (self.bytes, self.samples) = (0, 0);
    }
}
