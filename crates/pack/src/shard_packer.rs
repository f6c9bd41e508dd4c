//! Fills one shard: read ahead → sink → stage → publish → receipt.

use crate::block_reader::BlockReader;
use crate::feed::Feed;
use crate::ordered_transformer::OrderedTransformer;
use crate::read_ahead::{ReadAhead, ReadAheadItem};
use crate::recorded_receipts::RecordedReceipts;
use crate::sample_block::{SampleBlock, add_counts};
use crate::spans::TARGET;
use crate::without_inputs::{gone_samples, lacks_inputs};
use packhorse_core::{ByteBudget, Cancel, Error, Event, Observer, Result, SchemaRef, ShardSummary, ShardWriter, Sink};
use packhorse_dataset::{
    Digest, FileRecord, INDEX_SUFFIX, PlanEntry, PlanReader, RECEIPT_SUFFIX, Receipt, ShardFrame, SkipRecord,
    encode_index,
};
use packhorse_storage::{Published, Staging};
use packhorse_transform::Counts;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The receipt's note that a shard holds rows of table inputs: sealing compares their keys over all shards.
pub(crate) const KEYS_OF_ROWS: (&str, &str) = ("keys", "of rows");

/// Shards to fill again although they exist, by name, each with the digest that its receipt must have, if known.
pub(crate) type Redo = BTreeMap<String, Option<Digest>>;

/// What filling a shard needs.
#[derive(Clone, Copy)]
pub(crate) struct ShardPacker<'a> {
    pub(crate) plan: &'a PlanReader,
    pub(crate) reader: &'a BlockReader<'a>,
    /// Whether the writers alone keep all cores busy.
    pub(crate) crowded: bool,
    /// Writers that still have shards to fill.
    pub(crate) busy: &'a AtomicUsize,
    /// Threads that transform.
    pub(crate) jobs: usize,
    pub(crate) sink: &'a dyn Sink,
    /// The schema of the rows that the sink gets.
    pub(crate) schema: &'a SchemaRef,
    pub(crate) staging: &'a Staging,
    /// Fails where another job has replaced the dataset since.
    pub(crate) is_placed: &'a (dyn Fn() -> Result<()> + Sync),
    /// Shards to fill again.
    pub(crate) redo: &'a Redo,
    pub(crate) recorded: &'a RecordedReceipts<'a>,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
    /// The memory of the blocks of all shards.
    pub(crate) budget: &'a ByteBudget,
    /// The least bytes of a decoded sample.
    pub(crate) decoded: u64,
    /// The most bytes requested ahead, for one shard.
    pub(crate) ahead_bytes: u64,
    /// The most blocks requested ahead, for one shard.
    pub(crate) ahead_blocks: usize,
}

impl ShardPacker<'_> {
    /// Fills `shard` and publishes it; the receipt comes last. `told`: what earlier attempts said of it.
    ///
    /// Errors: `Incomplete` if the plan has no inputs.
    pub(crate) fn fill(&self, shard: &ShardFrame, feed: &Feed, told: &mut Told) -> Result<Receipt> {
        if lacks_inputs(self.plan.header()) {
            return Err(gone_samples(self.plan.header(), &shard.name));
        }
        let mut stage = self.staging.stage(&shard.name)?;
        let (summary, skipped) = {
            let writer = self.sink.create(self.schema, &mut stage)?;
            self.write(shard, feed, writer, told)?
        };
        if let Some(members) = &summary.members {
            stage.write(INDEX_SUFFIX, &encode_index(members))?;
        }
        self.cancel.check()?;
        let mut receipt = Receipt {
            packhorse_receipt: Receipt::VERSION,
            plan: self.plan.digest(),
            shard: shard.name.clone(),
            split: shard.split.clone(),
            samples: summary.samples,
            input_bytes: shard.bytes,
            files: Vec::new(),
            notes: summary.notes,
            counts: summary.counts,
            skipped,
        };
        let _span = tracing::debug_span!(target: TARGET, "publish").entered();
        stage.publish_if(|files| {
            (self.is_placed)()?;
            receipt.files = files.iter().cloned().map(record).collect();
            self.recorded.check(&mut receipt)
        })?;
        // Writing the files may have taken long.
        let name = format!("{}{RECEIPT_SUFFIX}", shard.name);
        let mut stage = self.staging.stage(&name)?;
        stage.write("", &receipt.encode()?)?;
        stage.publish_if(|_| (self.is_placed)())?;
        Ok(receipt)
    }

    fn write(
        &self,
        shard: &ShardFrame,
        feed: &Feed,
        writer: Box<dyn ShardWriter>,
        told: &mut Told,
    ) -> Result<(ShardSummary, Vec<SkipRecord>)> {
        let copies = self.sink.copies() && self.reader.transforms.is_empty();
        let mut ahead = ReadAhead::new(self.plan.entries(shard)?, copies);
        let (mut written, mut of_rows) = (Written::new(self, writer, told), false);
        while let Some(next) = ahead.next(self, feed)? {
            match next {
                ReadAheadItem::Block((block, _share)) => written.block(block)?,
                ReadAheadItem::Large(entry) => written.large(&entry)?,
                ReadAheadItem::Run(entries) => {
                    of_rows = true;
                    // While every core has a writer, handing blocks over only costs; idle threads help with the last
                    // shards.
                    let alone = || self.busy.load(Ordering::Relaxed) >= self.jobs;
                    let mut write = |block| written.block(block);
                    let feed = (feed, self.budget);
                    self.reader.run(&entries, OrderedTransformer::new(feed, self.jobs, &alone, &mut write))?;
                }
            }
        }
        let Written { writer, samples: written, skipped, counts, .. } = written;
        let span = tracing::debug_span!(target: TARGET, "finish");
        let mut summary = span.in_scope(|| writer.finish())?;
        if of_rows && summary.members.is_some() {
            summary.notes.insert(KEYS_OF_ROWS.0.to_owned(), KEYS_OF_ROWS.1.to_owned());
        }
        if !summary.counts.is_empty() {
            summary.counts.extend(self.input_bytes(shard)?);
        }
        add_counts(&mut summary.counts, counts);
        let lost: u64 = skipped.iter().map(|record| record.samples).sum();
        let planned = shard.holds(written + lost);
        match summary.samples == written && planned {
            true => Ok((summary, skipped)),
            false => {
                Err(Error::bug(format!("shard {}: {written} of {} samples reached it", shard.name, shard.samples)))
            }
        }
    }

    /// Bytes of input by source, the first part of the keys.
    fn input_bytes(&self, shard: &ShardFrame) -> Result<BTreeMap<String, u64>> {
        let mut bytes = BTreeMap::new();
        for entry in self.plan.entries(shard)? {
            let entry = entry?;
            let inside = entry.run().is_some() || entry.key.contains('/');
            let source = entry.key.split('/').next().filter(|_| inside);
            if let Some(source) = source {
                *bytes.entry(format!("input bytes of {source}")).or_default() += entry.bytes();
            }
        }
        Ok(bytes)
    }

    /// About the bytes of memory that a block of these samples takes.
    pub(crate) fn held(&self, entries: &[PlanEntry]) -> u64 {
        let bytes: u64 = entries.iter().map(PlanEntry::bytes).sum();
        bytes.max(self.decoded.saturating_mul(entries.len() as u64))
    }
}

/// How far the observer was told of a shard. A shard that is filled again tells only what goes beyond.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// Samples and bytes.
    done: (u64, u64),
    /// Samples that were left out. Each attempt leaves out the same ones in the same order.
    skips: usize,
}

impl Told {
    /// An attempt that left out `before` samples leaves out `found` more: how many of these were told already.
    fn skips(&mut self, before: usize, found: usize) -> usize {
        let known = self.skips.saturating_sub(before).min(found);
        self.skips = self.skips.max(before + found);
        known
    }
}

/// The part of a shard that is written.
struct Written<'a> {
    packer: &'a ShardPacker<'a>,
    told: &'a mut Told,
    /// How far this attempt is.
    now: (u64, u64),
    writer: Box<dyn ShardWriter>,
    samples: u64,
    skipped: Vec<SkipRecord>,
    counts: Counts,
}

impl<'a> Written<'a> {
    fn new(packer: &'a ShardPacker<'a>, writer: Box<dyn ShardWriter>, told: &'a mut Told) -> Self {
        Self { packer, told, now: (0, 0), writer, samples: 0, skipped: Vec::new(), counts: Counts::new() }
    }

    fn block(&mut self, block: SampleBlock) -> Result<()> {
        self.packer.cancel.check()?;
        let (samples, bytes) = (block.samples, block.bytes);
        let span = tracing::debug_span!(target: TARGET, "write", samples, bytes).entered();
        for rows in &block.rows {
            self.writer.push(rows)?;
            self.samples += rows.num_rows() as u64;
        }
        drop(span);
        self.now = (self.now.0 + block.samples, self.now.1 + block.bytes);
        let done = self.told.done;
        if self.now > done {
            let (samples, bytes) = (self.now.0 - done.0, self.now.1.saturating_sub(done.1));
            self.packer.observer.event(&Event::Packed { samples, bytes });
            self.told.done = self.now;
        }
        let known = self.told.skips(self.skipped.len(), block.skipped.len());
        let new = block.skipped.iter().skip(known);
        new.for_each(|skip| self.packer.observer.event(&Event::Skipped(&skip.error)));
        self.skipped.extend(block.skipped.into_iter().map(|skip| skip.record));
        add_counts(&mut self.counts, block.counts);
        Ok(())
    }

    /// A sample that is copied in pieces.
    fn large(&mut self, entry: &PlanEntry) -> Result<()> {
        let mut block = SampleBlock::of(1, entry.bytes(), Vec::new());
        let span = tracing::debug_span!(target: TARGET, "copy", samples = 1, bytes = entry.bytes());
        match span.in_scope(|| self.packer.reader.copy(entry, &mut *self.writer))? {
            None => self.samples += 1,
            Some(skip) => block.skipped.push(skip),
        }
        self.block(block)
    }
}

pub(crate) fn record(file: Published) -> FileRecord {
    FileRecord { name: file.name, bytes: file.bytes, blake3: Digest::from(file.blake3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_attempt_tells_only_skips_beyond_the_first() {
        let mut told = Told::default();
        assert_eq!((told.skips(0, 2), told.skips(2, 1)), (0, 0));
        // The second attempt has other blocks.
        assert_eq!((told.skips(0, 1), told.skips(1, 4), told.skips(5, 1)), (1, 2, 0));
    }
}
