//! The digests that receipts of shards must have that are filled again.

use crate::recorded_files::sealed_manifest;
use crate::shard_packer::Redo;
use packhorse_core::{Error, Kind, Result, Store};
use packhorse_dataset::{Digest, Receipt};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

/// Knows them from who asks to fill a shard again, and from the manifest of a sealed dataset that lacks a file.
pub(crate) struct RecordedReceipts<'a> {
    store: &'a dyn Store,
    out: &'a Path,
    plan: Digest,
    redo: &'a Redo,
    /// Those of the manifest, which is read when the first shard is complete; none without one.
    sealed: OnceLock<BTreeMap<String, Digest>>,
}

impl<'a> RecordedReceipts<'a> {
    /// Those of shards of this plan in the folder `out`.
    pub(crate) fn new(store: &'a dyn Store, out: &'a Path, plan: Digest, redo: &'a Redo) -> Self {
        Self { store, out, plan, redo, sealed: OnceLock::new() }
    }

    /// Refuses a shard that has another receipt than it had. The receipt gets the layout version that it had.
    ///
    /// Errors: `Changed`.
    pub(crate) fn check(&self, receipt: &mut Receipt) -> Result<()> {
        let Some(wanted) = self.digest(&receipt.shard)? else { return Ok(()) };
        if Digest::of(&receipt.encode()?) == wanted {
            return Ok(());
        }
        *receipt = receipt.clone().without_digest();
        match Digest::of(&receipt.encode()?) == wanted {
            true => Ok(()),
            false => {
                let message = format!(
                    "shard {}: its inputs now give other bytes than those that were sealed, so the old shard stays",
                    receipt.shard
                );
                let hint = match self.redo.contains_key(&receipt.shard) {
                    true => "restore the inputs, or pack into a new folder",
                    false => {
                        "run `packhorse repair`, which needs no inputs if only an index is lost; else restore them, or \
                              pack into a new folder"
                    }
                };
                Err(Error::new(Kind::Changed, message).hint(hint))
            }
        }
    }

    fn digest(&self, shard: &str) -> Result<Option<Digest>> {
        if let Some(Some(digest)) = self.redo.get(shard) {
            return Ok(Some(*digest));
        }
        if let Some(sealed) = self.sealed.get() {
            return Ok(sealed.get(shard).copied());
        }
        let manifest = match sealed_manifest(self.store, self.out) {
            // Sealing writes a damaged one again.
            Err(e) if e.kind() == Kind::Incomplete => None,
            manifest => manifest?.filter(|manifest| manifest.plans().any(|plan| plan == self.plan)),
        };
        let shards = manifest.into_iter().flat_map(|manifest| manifest.shards);
        let sealed = self.sealed.get_or_init(|| shards.map(|shard| (shard.name, shard.receipt)).collect());
        Ok(sealed.get(shard).copied())
    }
}
