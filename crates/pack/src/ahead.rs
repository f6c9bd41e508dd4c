//! What the writer of a shard gets next: blocks of samples, asked for some way ahead, runs of rows, and samples that are
//! copied in pieces.

use crate::budget::Share;
use crate::feed::{Block, Feed, Promise};
use crate::fill::Filler;
use crate::large::is_large;
use packhorse_core::{Error, Result};
use packhorse_dataset::PlanEntry;
use std::collections::VecDeque;
use std::iter::Peekable;

/// A block ends when it holds this many bytes of input…
const BLOCK_BYTES: u64 = 512 << 10;
/// …or this many samples.
const BLOCK_SAMPLES: usize = 64;

/// What a writer wants next.
enum Ask {
    /// These samples, whose fields are bytes.
    Samples(Vec<PlanEntry>),
    /// A sample that is copied in pieces.
    Large(PlanEntry),
    /// A run of samples of an input of typed rows.
    Run(PlanEntry),
}

/// Groups consecutive entries into blocks.
struct Blocks<I: Iterator<Item = Result<PlanEntry>>> {
    entries: Peekable<I>,
    /// Whether large samples are copied in pieces.
    copies: bool,
}

impl<I: Iterator<Item = Result<PlanEntry>>> Iterator for Blocks<I> {
    type Item = Result<Ask>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut block, mut bytes) = (Vec::with_capacity(BLOCK_SAMPLES), 0);
        let copied = |entry: &PlanEntry| self.copies && is_large(entry);
        while block.len() < BLOCK_SAMPLES {
            let fits = |e: &Result<PlanEntry>| match e {
                Ok(e) if e.run().is_some() || copied(e) => block.is_empty(),
                Ok(e) => bytes == 0 || bytes + e.bytes() <= BLOCK_BYTES,
                Err(_) => true,
            };
            match self.entries.next_if(fits) {
                Some(Ok(entry)) if entry.run().is_some() => return Some(Ok(Ask::Run(entry))),
                Some(Ok(entry)) if copied(&entry) => return Some(Ok(Ask::Large(entry))),
                Some(Ok(entry)) => {
                    bytes += entry.bytes();
                    block.push(entry);
                }
                Some(Err(e)) => return Some(Err(e)),
                None => break,
            }
        }
        (!block.is_empty()).then_some(Ok(Ask::Samples(block)))
    }
}

/// What comes next in a shard.
pub(crate) enum Next<'a> {
    /// Samples, with what they hold of the budget.
    Block(Block, Option<Share<'a>>),
    /// A sample that is copied in pieces.
    Large(PlanEntry),
    /// Rows that are read block by block.
    Run(PlanEntry),
}

/// What was asked for.
enum Coming<'a> {
    Block(Promise, Option<Share<'a>>),
    Large(PlanEntry),
    Run(PlanEntry),
}

/// Blocks asked for, in order.
pub(crate) struct Ahead<'a, I: Iterator<Item = Result<PlanEntry>>> {
    blocks: Blocks<I>,
    /// What there was no memory for yet.
    waiting: Option<Vec<PlanEntry>>,
    promised: VecDeque<(u64, Coming<'a>)>,
    bytes: u64,
}

impl<'a, I: Iterator<Item = Result<PlanEntry>>> Ahead<'a, I> {
    /// Nothing was asked for; where a sink `copies`, large samples are not read as blocks.
    pub(crate) fn new(entries: I, copies: bool) -> Self {
        let blocks = Blocks { entries: entries.peekable(), copies };
        Self { blocks, waiting: None, promised: VecDeque::new(), bytes: 0 }
    }

    /// The next block: read here where that is quickest, else asked for well ahead. The caller holds no share of the
    /// budget any more.
    pub(crate) fn next(&mut self, filler: &'a Filler<'_>, feed: &Feed) -> Result<Option<Next<'a>>> {
        if self.promised.is_empty() && self.waiting.is_none() && filler.crowded && !filler.assembly.serves() {
            return match self.blocks.next().transpose()? {
                None => Ok(None),
                Some(Ask::Run(entry)) => Ok(Some(Next::Run(entry))),
                Some(Ask::Large(entry)) => Ok(Some(Next::Large(entry))),
                Some(Ask::Samples(entries)) => {
                    let share = wait(filler, filler.held(&entries));
                    filler.assembly.block(entries).map(|block| Some(Next::Block(block, share)))
                }
            };
        }
        while self.promised.is_empty() || (self.promised.len() < filler.ahead_blocks && self.bytes < filler.ahead_bytes)
        {
            if !self.ask(filler, feed)? {
                break;
            }
        }
        let Some((bytes, coming)) = self.promised.pop_front() else { return Ok(None) };
        self.bytes -= bytes;
        match coming {
            Coming::Run(entry) => Ok(Some(Next::Run(entry))),
            Coming::Large(entry) => Ok(Some(Next::Large(entry))),
            Coming::Block(promise, share) => {
                let block = promise.recv().map_err(|_| Error::bug("a reader ended early"))??;
                Ok(Some(Next::Block(block, share)))
            }
        }
    }

    /// Asks for one block more; false where there is none, or no memory for it before others are written.
    fn ask(&mut self, filler: &'a Filler<'_>, feed: &Feed) -> Result<bool> {
        let waiting = self.waiting.take().map(|entries| Ok(Ask::Samples(entries)));
        let (bytes, coming) = match waiting.or_else(|| self.blocks.next()).transpose()? {
            None => return Ok(false),
            // Read when its turn comes: it is no small read.
            Some(Ask::Run(entry)) => (0, Coming::Run(entry)),
            Some(Ask::Large(entry)) => (0, Coming::Large(entry)),
            Some(Ask::Samples(entries)) => {
                let bytes = filler.held(&entries);
                // Who waits holds nothing, so that those who hold the memory never wait for each other.
                let share = match self.promised.is_empty() {
                    true => wait(filler, bytes),
                    false => match filler.budget.take(bytes) {
                        Some(share) => Some(share),
                        None => {
                            self.waiting = Some(entries);
                            return Ok(false);
                        }
                    },
                };
                (bytes, Coming::Block(feed.ask(entries)?, share))
            }
        };
        self.promised.push_back((bytes, coming));
        self.bytes += bytes;
        Ok(true)
    }
}

/// A share for a block, once there is one. Each writer may have a small block at any time.
fn wait<'a>(filler: &'a Filler<'_>, bytes: u64) -> Option<Share<'a>> {
    (bytes > BLOCK_BYTES).then(|| filler.budget.wait(bytes))
}
