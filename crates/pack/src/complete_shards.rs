//! The complete shards of a dataset that is being sealed, as their receipts say. A dataset may have a million, so they
//! keep only what sealing needs.

use crate::shard_packer::KEYS_OF_ROWS;
use packhorse_core::Result;
use packhorse_dataset::{Digest, INDEX_SUFFIX, Receipt, ShardRecord, SkipRecord};
use std::collections::BTreeMap;

/// Complete shards, in order.
pub(crate) struct CompleteShards {
    /// What the manifest says of each.
    pub(crate) records: Vec<ShardRecord>,
    /// What else their receipts say.
    pub(crate) remarks: Vec<Remarks>,
}

/// What sealing needs of a shard's receipt beside its record.
pub(crate) struct Remarks {
    /// Notes of the format.
    pub(crate) notes: BTreeMap<String, String>,
    /// Planned samples that are missing.
    pub(crate) skipped: Vec<SkipRecord>,
    /// Whether the shard has a member index.
    pub(crate) is_indexed: bool,
}

impl CompleteShards {
    /// None yet, with room for so many.
    pub(crate) fn with_capacity(shards: usize) -> Self {
        Self { records: Vec::with_capacity(shards), remarks: Vec::with_capacity(shards) }
    }

    pub(crate) fn push(&mut self, (record, remarks): (ShardRecord, Remarks)) {
        self.records.push(record);
        self.remarks.push(remarks);
    }

    /// Divides a receipt.
    ///
    /// Errors: `Content` for a receipt without files.
    pub(crate) fn divide(receipt: Receipt) -> Result<(ShardRecord, Remarks)> {
        let data = receipt.data()?;
        let record = ShardRecord {
            file: data.name.clone(),
            bytes: data.bytes,
            blake3: data.blake3,
            receipt: Digest::of(&receipt.encode()?),
            name: receipt.shard,
            split: receipt.split,
            samples: receipt.samples,
            counts: receipt.counts,
        };
        let is_indexed = receipt.files.iter().any(|file| file.name.ends_with(INDEX_SUFFIX));
        Ok((record, Remarks { notes: receipt.notes, skipped: receipt.skipped, is_indexed }))
    }

    /// Whether keys came with rows, so that only the finished shards know them.
    pub(crate) fn has_keys_of_rows(&self) -> bool {
        let of_rows = |shard: &Remarks| shard.notes.get(KEYS_OF_ROWS.0).is_some_and(|note| note == KEYS_OF_ROWS.1);
        self.remarks.iter().any(of_rows)
    }

    /// Planned samples that are missing.
    pub(crate) fn lost(&self) -> u64 {
        self.remarks.iter().flat_map(|shard| &shard.skipped).map(|record| record.samples).sum()
    }
}
