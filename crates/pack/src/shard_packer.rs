//! Fills one shard: feed → sink → stage → publish → receipt.

use crate::block_reader::BlockReader;
use crate::feed::Feed;
use crate::memory_budget::MemoryBudget;
use crate::ordered_transformer::OrderedTransformer;
use crate::read_ahead::{ReadAhead, ReadAheadItem};
use crate::sample_block::{SampleBlock, add_counts};
use packhorse_core::{Cancel, Error, Event, Kind, Observer, Result, SchemaRef, ShardSummary, ShardWriter, Sink};
use packhorse_dataset::{
    Digest, FileRecord, INDEX_SUFFIX, PlanEntry, PlanReader, RECEIPT_SUFFIX, Receipt, ShardFrame, SkipRecord,
    encode_index,
};
use packhorse_storage::{Published, Staging};
use packhorse_transform::Counts;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The note of a shard with rows, which bring keys of their own: they are compared over all shards when it is sealed.
pub(crate) const KEYS_OF_ROWS: (&str, &str) = ("keys", "of rows");

/// Shards to be filled although they are there, by name, each with the digest of the receipt that it must have then,
/// where that is known.
pub(crate) type Redo = BTreeMap<String, Option<Digest>>;

/// What filling a shard needs.
#[derive(Clone, Copy)]
pub(crate) struct ShardPacker<'a> {
    pub(crate) plan: &'a PlanReader,
    pub(crate) reader: &'a BlockReader<'a>,
    /// Whether there are writers enough to keep all cores busy without anybody's help.
    pub(crate) crowded: bool,
    /// Writers that have not run out of shards.
    pub(crate) busy: &'a AtomicUsize,
    /// Threads that transform.
    pub(crate) jobs: usize,
    pub(crate) sink: &'a dyn Sink,
    /// The schema of what reaches the sink.
    pub(crate) schema: &'a SchemaRef,
    pub(crate) staging: &'a Staging,
    /// Shards that are filled again.
    pub(crate) redo: &'a Redo,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
    /// What blocks may take up, those of all shards together.
    pub(crate) budget: &'a MemoryBudget,
    /// The least bytes that a sample takes up once it is decoded.
    pub(crate) decoded: u64,
    /// The most bytes asked for ahead, for one shard.
    pub(crate) ahead_bytes: u64,
    /// The most blocks asked for ahead, for one shard.
    pub(crate) ahead_blocks: usize,
}

impl ShardPacker<'_> {
    /// Fills `shard` and publishes it; the receipt comes last.
    pub(crate) fn fill(&self, shard: &ShardFrame, feed: &Feed) -> Result<Receipt> {
        let mut stage = self.staging.stage(&shard.name)?;
        let (summary, skipped) = {
            let writer = self.sink.create(self.schema, &mut stage)?;
            self.write(shard, feed, writer)?
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
        stage.publish_if(|files| {
            receipt.files = files.iter().cloned().map(record).collect();
            self.check_again(&receipt)
        })?;
        self.staging.document(&format!("{}{RECEIPT_SUFFIX}", shard.name), &receipt.encode()?)?;
        Ok(receipt)
    }

    /// A shard that is filled again must be what it was.
    fn check_again(&self, receipt: &Receipt) -> Result<()> {
        let Some(wanted) = self.redo.get(&receipt.shard).copied().flatten() else { return Ok(()) };
        match Digest::of(&receipt.encode()?) == wanted {
            true => Ok(()),
            false => {
                let message = format!(
                    "shard {}: its inputs give other bytes now than those that were sealed, and it stays as it is;                      give the inputs back what they held, or pack into a new folder",
                    receipt.shard
                );
                Err(Error::new(Kind::Changed, message))
            }
        }
    }

    fn write(
        &self,
        shard: &ShardFrame,
        feed: &Feed,
        writer: Box<dyn ShardWriter>,
    ) -> Result<(ShardSummary, Vec<SkipRecord>)> {
        let copies = self.sink.copies() && self.reader.transforms.is_empty();
        let mut ahead = ReadAhead::new(self.plan.entries(shard)?, copies);
        let (mut written, mut of_rows) = (Written::new(self, writer), false);
        while let Some(next) = ahead.next(self, feed)? {
            match next {
                ReadAheadItem::Block((block, _share)) => written.block(block)?,
                ReadAheadItem::Large(entry) => written.large(&entry)?,
                ReadAheadItem::Run(entry) => {
                    of_rows = true;
                    // Where every core has a writer of its own, handing blocks over only costs; towards the end,
                    // those that have none help with the last shards.
                    let alone = || self.busy.load(Ordering::Relaxed) >= self.jobs;
                    let mut write = |block| written.block(block);
                    self.reader.run(&entry, OrderedTransformer::new(feed, self.jobs, &alone, &mut write))?;
                }
            }
        }
        let Written { writer, samples: written, skipped, counts, .. } = written;
        let mut summary = writer.finish()?;
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
}

impl ShardPacker<'_> {
    /// Bytes of input by the first part of the keys, as formats that count more than samples name sources.
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
}

impl ShardPacker<'_> {
    /// About how many bytes of memory a block of these samples takes up.
    pub(crate) fn held(&self, entries: &[PlanEntry]) -> u64 {
        let bytes: u64 = entries.iter().map(PlanEntry::bytes).sum();
        bytes.max(self.decoded.saturating_mul(entries.len() as u64))
    }
}

/// What has been written of a shard.
struct Written<'a> {
    packer: &'a ShardPacker<'a>,
    writer: Box<dyn ShardWriter>,
    samples: u64,
    skipped: Vec<SkipRecord>,
    counts: Counts,
}

impl<'a> Written<'a> {
    fn new(packer: &'a ShardPacker<'a>, writer: Box<dyn ShardWriter>) -> Self {
        Self { packer, writer, samples: 0, skipped: Vec::new(), counts: Counts::new() }
    }

    fn block(&mut self, block: SampleBlock) -> Result<()> {
        self.packer.cancel.check()?;
        for rows in &block.rows {
            self.writer.push(rows)?;
            self.samples += rows.num_rows() as u64;
        }
        self.packer.observer.event(&Event::Packed { samples: block.samples, bytes: block.bytes });
        for record in &block.skipped {
            self.packer.observer.event(&Event::Skipped(&as_error(record)));
        }
        self.skipped.extend(block.skipped);
        add_counts(&mut self.counts, block.counts);
        Ok(())
    }

    /// A sample that is copied in pieces.
    fn large(&mut self, entry: &PlanEntry) -> Result<()> {
        let mut block = SampleBlock::of(1, entry.bytes(), Vec::new());
        match self.packer.reader.copy(entry, &mut *self.writer)? {
            None => self.samples += 1,
            Some(record) => block.skipped.push(record),
        }
        self.block(block)
    }
}

pub(crate) fn record(file: Published) -> FileRecord {
    FileRecord { name: file.name, bytes: file.bytes, blake3: Digest::from(file.blake3) }
}

fn as_error(record: &SkipRecord) -> Error {
    let error = record.input.iter().fold(Error::new(Kind::Content, &record.reason), |e, input| e.in_input(input));
    record.sample.iter().fold(error, |e, sample| e.in_sample(sample))
}
