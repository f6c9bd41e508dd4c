//! Fills one shard: feed → sink → stage → publish → receipt.

use crate::feed::{Ask, Assembly, Block, Blocks, Feed, Promise, add};
use crate::pack::Redo;
use crate::runs::Outflow;
use packhorse_core::{Cancel, Error, Event, Kind, Observer, Result, SchemaRef, ShardSummary, ShardWriter, Sink};
use packhorse_dataset::{
    Digest, Entry, FileRecord, INDEX_SUFFIX, PlanReader, RECEIPT_SUFFIX, Receipt, ShardFrame, SkipRecord, encode_index,
};
use packhorse_storage::{Published, Staging};
use packhorse_transform::Counts;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The note of a shard with rows, which bring keys of their own: they are compared over all shards when it is sealed.
pub(crate) const KEYS_OF_ROWS: (&str, &str) = ("keys", "of rows");

/// What filling a shard needs.
pub(crate) struct Filler<'a> {
    pub(crate) plan: &'a PlanReader,
    pub(crate) assembly: &'a Assembly<'a>,
    /// Whether there are writers enough to keep all cores busy without anybody's help.
    pub(crate) crowded: bool,
    /// Writers that have not run out of shards.
    pub(crate) busy: AtomicUsize,
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
    /// The most bytes asked for ahead, for one shard.
    pub(crate) ahead_bytes: u64,
    /// The most blocks asked for ahead, for one shard.
    pub(crate) ahead_blocks: usize,
}

impl Filler<'_> {
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
        mut writer: Box<dyn ShardWriter>,
    ) -> Result<(ShardSummary, Vec<SkipRecord>)> {
        let mut ahead = Ahead { blocks: Blocks::new(self.plan.entries(shard)?), promised: VecDeque::new(), bytes: 0 };
        let mut skipped = Vec::new();
        let (mut written, mut of_rows) = (0, false);
        let mut counts = Counts::new();
        let mut write = |mut block: Block| {
            self.cancel.check()?;
            for rows in &block.rows {
                writer.push(rows)?;
                written += rows.num_rows() as u64;
            }
            self.observer.event(&Event::Packed { samples: block.samples, bytes: block.bytes });
            for record in &block.skipped {
                self.observer.event(&Event::Skipped(&as_error(record)));
            }
            skipped.append(&mut block.skipped);
            add(&mut counts, std::mem::take(&mut block.counts));
            Ok(())
        };
        while let Some(next) = ahead.next(self, feed)? {
            match next {
                Next::Block(block) => write(block)?,
                Next::Run(entry) => {
                    of_rows = true;
                    // Where every core has a writer of its own, handing blocks over only costs; towards the end,
                    // those that have none help with the last shards.
                    let alone = || self.busy.load(Ordering::Relaxed) >= self.jobs;
                    self.assembly.run(&entry, Outflow::new(feed, self.jobs, &alone, &mut write))?;
                }
            }
        }
        let mut summary = writer.finish()?;
        if of_rows && summary.members.is_some() {
            summary.notes.insert(KEYS_OF_ROWS.0.to_owned(), KEYS_OF_ROWS.1.to_owned());
        }
        if !summary.counts.is_empty() {
            summary.counts.extend(self.input_bytes(shard)?);
        }
        add(&mut summary.counts, counts);
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

impl Filler<'_> {
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

pub(crate) fn record(file: Published) -> FileRecord {
    FileRecord { name: file.name, bytes: file.bytes, blake3: Digest::from(file.blake3) }
}

fn as_error(record: &SkipRecord) -> Error {
    let error = record.input.iter().fold(Error::new(Kind::Content, &record.reason), |e, input| e.in_input(input));
    record.sample.iter().fold(error, |e, sample| e.in_sample(sample))
}

/// What comes next in a shard.
enum Next {
    Block(Block),
    Run(Entry),
}

/// What was asked for.
enum Coming {
    Block(Promise),
    Run(Entry),
}

/// Blocks asked for, in order.
struct Ahead<I: Iterator<Item = Result<Entry>>> {
    blocks: Blocks<I>,
    promised: VecDeque<(u64, Coming)>,
    bytes: u64,
}

impl<I: Iterator<Item = Result<Entry>>> Ahead<I> {
    /// The next block: read here where that is quickest, else asked for well ahead.
    fn next(&mut self, filler: &Filler<'_>, feed: &Feed) -> Result<Option<Next>> {
        if self.promised.is_empty() && filler.crowded && !filler.assembly.serves() {
            return match self.blocks.next().transpose()? {
                None => Ok(None),
                Some(Ask::Run(entry)) => Ok(Some(Next::Run(entry))),
                Some(Ask::Samples(entries)) => filler.assembly.block(entries).map(|block| Some(Next::Block(block))),
            };
        }
        while self.promised.is_empty() || (self.promised.len() < filler.ahead_blocks && self.bytes < filler.ahead_bytes)
        {
            let (bytes, coming) = match self.blocks.next().transpose()? {
                None => break,
                // Read when its turn comes: it is no small read.
                Some(Ask::Run(entry)) => (0, Coming::Run(entry)),
                Some(Ask::Samples(entries)) => {
                    (entries.iter().map(Entry::bytes).sum(), Coming::Block(feed.ask(entries)?))
                }
            };
            self.promised.push_back((bytes, coming));
            self.bytes += bytes;
        }
        let Some((bytes, coming)) = self.promised.pop_front() else { return Ok(None) };
        self.bytes -= bytes;
        match coming {
            Coming::Run(entry) => Ok(Some(Next::Run(entry))),
            Coming::Block(promise) => {
                let block = promise.recv().map_err(|_| Error::bug("a reader ended early"))??;
                Ok(Some(Next::Block(block)))
            }
        }
    }
}
