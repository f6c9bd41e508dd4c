//! Gives the files of a written dataset their names, and seals it.

use super::WriterContext;
use super::destination::Destination;
use super::filling::FilledShard;
use crate::replace::{discard, exchange};
use crate::seal::Sealing;
use crate::shard_packer::record;
use packhorse_core::{Event, Result};
use packhorse_dataset::{Digest, Manifest, RECEIPT_SUFFIX, Receipt};
use packhorse_storage::{ReadyStage, Staging};

/// A dataset that is being published.
pub(super) struct Publishing<'a> {
    pub(super) context: &'a WriterContext,
    pub(super) staging: Staging,
    pub(super) destination: &'a Destination,
    /// The plan's digest.
    pub(super) plan: Digest,
    /// Names of the files published so far.
    pub(super) published: Vec<String>,
}

impl Publishing<'_> {
    /// Publishes plan and shards, and seals. After an error what was published is removed.
    pub(super) fn all(mut self, plan: ReadyStage, shards: Vec<FilledShard>) -> Result<Manifest> {
        let (store, dir) = (&self.context.store, self.destination.dir());
        self.destination.check(&**store)?;
        if self.destination.is_replacement() {
            discard(store, self.destination.out())?;
        }
        let sealed = self.publish(plan, shards).and_then(|()| {
            let WriterContext { registry, cancel, .. } = self.context;
            Sealing { registry, transforms: &[], store, out: dir, cancel }.in_place()
        });
        let manifest = sealed.inspect_err(|_| self.withdraw())?;
        let Self { staging, destination, .. } = self;
        drop(staging);
        if destination.is_replacement() {
            exchange(store, destination.out(), &manifest)?;
        }
        Ok(manifest)
    }

    fn publish(&mut self, plan: ReadyStage, shards: Vec<FilledShard>) -> Result<()> {
        self.name(plan)?;
        shards.into_iter().try_for_each(|shard| self.shard(shard))
    }

    fn shard(&mut self, shard: FilledShard) -> Result<()> {
        self.context.cancel.check()?;
        let FilledShard { name, files, summary, bytes, .. } = shard;
        let receipt = Receipt {
            packhorse_receipt: Receipt::VERSION,
            plan: self.plan,
            shard: name,
            split: None,
            samples: summary.samples,
            input_bytes: bytes,
            files: files.files().iter().cloned().map(record).collect(),
            notes: summary.notes,
            counts: summary.counts,
            skipped: Vec::new(),
        };
        self.name(files)?;
        let document = format!("{}{RECEIPT_SUFFIX}", receipt.shard);
        self.published.push(document.clone());
        self.staging.document(&document, &receipt.encode()?)?;
        self.context.observer.event(&Event::Shard {
            name: &receipt.shard,
            samples: receipt.samples,
            bytes: receipt.files.first().map_or(0, |file| file.bytes),
            input_bytes: bytes,
            reused: false,
        });
        Ok(())
    }

    fn name(&mut self, files: ReadyStage) -> Result<()> {
        self.published.extend(files.files().iter().map(|file| file.name.clone()));
        files.publish().map(drop)
    }

    /// Removes what was published. What can't be removed stays: an unsealed dataset without inputs, which all verbs
    /// refuse.
    fn withdraw(&self) {
        let (store, dir) = (&self.context.store, self.destination.dir());
        let below = store.beneath(self.destination.out()).ok().flatten().unwrap_or_else(|| store.clone());
        for name in self.published.iter().rev() {
            let _ = below.remove(&dir.join(name));
        }
    }
}
