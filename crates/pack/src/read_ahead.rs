//! Read-ahead of one shard: blocks of samples, requested ahead and returned in order, between rows and large samples
//! that are read when their turn comes.

use crate::feed::{Feed, PendingBlock};
use crate::large_sample::is_large;
use crate::runs::follows;
use crate::sample_block::SampleBlock;
use crate::shard_packer::ShardPacker;
use crate::spans;
use packhorse_core::{ByteShare, Result};
use packhorse_dataset::PlanEntry;
use std::collections::VecDeque;
use std::iter::Peekable;

/// A block ends when it holds this many bytes of input…
const BLOCK_BYTES: u64 = 512 << 10;
/// …or this many samples.
const BLOCK_SAMPLES: usize = 64;

/// The most runs that are read together.
const RUNS: usize = 1 << 14;

/// One step of filling a shard: a block of small samples (requested, pending or read), or an entry on its own.
pub(crate) enum ReadAheadItem<B> {
    /// Samples whose fields are bytes.
    Block(B),
    /// A sample that is copied in pieces.
    Large(PlanEntry),
    /// Rows of a table input, read block by block: runs near each other.
    Run(Vec<PlanEntry>),
}

/// The entries of a block.
type BlockRequest = ReadAheadItem<Vec<PlanEntry>>;
/// A block that is being read, with its share of the memory budget.
type Pending<'a> = ReadAheadItem<(PendingBlock, Option<ByteShare<'a>>)>;
/// A block that was read, with its share of the memory budget.
type Ready<'a> = ReadAheadItem<(SampleBlock, Option<ByteShare<'a>>)>;

/// Groups consecutive entries into block requests.
pub(crate) struct BlockRequests<I: Iterator<Item = Result<PlanEntry>>> {
    entries: Peekable<I>,
    /// Whether large samples are copied in pieces.
    copies: bool,
}

impl<I: Iterator<Item = Result<PlanEntry>>> Iterator for BlockRequests<I> {
    type Item = Result<BlockRequest>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut block, mut bytes) = (Vec::with_capacity(BLOCK_SAMPLES), 0);
        let copied = |entry: &PlanEntry| self.copies && is_large(entry);
        while block.len() < BLOCK_SAMPLES {
            let fits = |e: &Result<PlanEntry>| match e {
                Ok(e) if e.run().is_some() || copied(e) => block.is_empty(),
                Ok(e) => block.is_empty() || bytes + e.bytes() <= BLOCK_BYTES,
                Err(_) => true,
            };
            match self.entries.next_if(fits) {
                Some(Ok(entry)) if entry.run().is_some() => return Some(Ok(BlockRequest::Run(self.near(entry)))),
                Some(Ok(entry)) if copied(&entry) => return Some(Ok(BlockRequest::Large(entry))),
                Some(Ok(entry)) => {
                    bytes += entry.bytes();
                    block.push(entry);
                }
                Some(Err(e)) => return Some(Err(e)),
                None => break,
            }
        }
        (!block.is_empty()).then_some(Ok(BlockRequest::Block(block)))
    }
}

impl<I: Iterator<Item = Result<PlanEntry>>> BlockRequests<I> {
    /// The requests of `entries`; with `copies` large samples come one by one.
    pub(crate) fn new(entries: I, copies: bool) -> Self {
        Self { entries: entries.peekable(), copies }
    }

    /// The run `first` with those near behind it.
    fn near(&mut self, first: PlanEntry) -> Vec<PlanEntry> {
        let mut runs = vec![first];
        while runs.len() < RUNS
            && let Some(Ok(next)) = self
                .entries
                .next_if(|next| next.as_ref().is_ok_and(|next| runs.last().is_some_and(|last| follows(last, next))))
        {
            runs.push(next);
        }
        runs
    }
}

/// The read-ahead of one shard.
pub(crate) struct ReadAhead<'a, I: Iterator<Item = Result<PlanEntry>>> {
    requests: BlockRequests<I>,
    /// The next block, for which there was no memory yet.
    waiting: Option<Vec<PlanEntry>>,
    pending: VecDeque<(u64, Pending<'a>)>,
    bytes: u64,
}

impl<'a, I: Iterator<Item = Result<PlanEntry>>> ReadAhead<'a, I> {
    /// A read-ahead without requests. If the sink `copies`, large samples come one by one, unread.
    pub(crate) fn new(entries: I, copies: bool) -> Self {
        let requests = BlockRequests::new(entries, copies);
        Self { requests, waiting: None, pending: VecDeque::new(), bytes: 0 }
    }

    /// The next item: read on this thread if that is fastest, else requested ahead. The caller must have dropped all
    /// shares of the budget.
    pub(crate) fn next(&mut self, packer: &'a ShardPacker<'_>, feed: &Feed) -> Result<Option<Ready<'a>>> {
        if self.pending.is_empty() && self.waiting.is_none() && packer.crowded && !packer.reader.serves() {
            return match self.requests.next().transpose()? {
                None => Ok(None),
                Some(BlockRequest::Run(entries)) => Ok(Some(ReadAheadItem::Run(entries))),
                Some(BlockRequest::Large(entry)) => Ok(Some(ReadAheadItem::Large(entry))),
                Some(BlockRequest::Block(entries)) => {
                    let share = wait(packer, packer.held(&entries));
                    packer.reader.block(entries).map(|block| Some(ReadAheadItem::Block((block, share))))
                }
            };
        }
        while self.pending.is_empty() || (self.pending.len() < packer.ahead_blocks && self.bytes < packer.ahead_bytes) {
            if !self.request(packer, feed)? {
                break;
            }
        }
        let Some((bytes, item)) = self.pending.pop_front() else { return Ok(None) };
        self.bytes -= bytes;
        match item {
            Pending::Run(entries) => Ok(Some(ReadAheadItem::Run(entries))),
            Pending::Large(entry) => Ok(Some(ReadAheadItem::Large(entry))),
            Pending::Block((pending, share)) => {
                let block = spans::receive(&pending, "read")??;
                Ok(Some(ReadAheadItem::Block((block, share))))
            }
        }
    }

    /// Requests one more block; false if there is none, or no memory for it before other blocks are written.
    fn request(&mut self, packer: &'a ShardPacker<'_>, feed: &Feed) -> Result<bool> {
        let waiting = self.waiting.take().map(|entries| Ok(BlockRequest::Block(entries)));
        let (bytes, item) = match waiting.or_else(|| self.requests.next()).transpose()? {
            None => return Ok(false),
            // Large: read when its turn comes.
            Some(BlockRequest::Run(entries)) => (0, Pending::Run(entries)),
            Some(BlockRequest::Large(entry)) => (0, Pending::Large(entry)),
            Some(BlockRequest::Block(entries)) => {
                let bytes = packer.held(&entries);
                // Waiting only without a share rules out deadlock.
                let share = match self.pending.is_empty() {
                    true => wait(packer, bytes),
                    false => match packer.budget.take(bytes) {
                        Some(share) => Some(share),
                        None => {
                            self.waiting = Some(entries);
                            return Ok(false);
                        }
                    },
                };
                (bytes, Pending::Block((feed.request(entries)?, share)))
            }
        };
        self.pending.push_back((bytes, item));
        self.bytes += bytes;
        Ok(true)
    }
}

/// Waits for the share of a block. A small block needs none, so that every writer makes progress.
fn wait<'a>(packer: &'a ShardPacker<'_>, bytes: u64) -> Option<ByteShare<'a>> {
    if bytes <= BLOCK_BYTES {
        return None;
    }
    packer.budget.take(bytes).or_else(|| {
        let _waits = spans::wait("memory");
        Some(packer.budget.wait(bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_larger_than_a_block_is_alone_in_it() {
        let entry = |bytes: u64| {
            let text = format!(r#"{{"key": "a", "in": [{{"f": "bin", "r": 0, "p": "a.bin", "n": {bytes}, "t": 0}}]}}"#);
            Ok(serde_json::from_str::<PlanEntry>(&text).unwrap())
        };
        let sizes = [0, 3 << 30, 0, 1, BLOCK_BYTES, 5];
        let blocks = BlockRequests::new(sizes.map(entry).into_iter(), false).map(|block| match block.unwrap() {
            ReadAheadItem::Block(entries) => entries.iter().map(PlanEntry::bytes).collect::<Vec<u64>>(),
            ReadAheadItem::Large(_) | ReadAheadItem::Run(_) => Vec::new(),
        });
        let blocks: Vec<_> = blocks.collect();
        assert_eq!(blocks, [&[0][..], &[3 << 30], &[0, 1], &[BLOCK_BYTES], &[5]]);
    }
}
