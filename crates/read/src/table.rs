//! Reads samples that are rows of typed values: blocks of rows are decoded once and cached.

use crate::dataset::{Content, Shard};
use crate::opened::Opened;
use crate::reader::Column;
use crate::sample_block::{Piece, Row, SampleBlock, same_rows};
use crate::spans::TARGET;
use packhorse_core::{Error, Kind, Result, Rows, Sample, held_bytes, rows_bytes};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The approximate size of a decoded block, in bytes.
const BLOCK: u64 = 4 << 20;
/// The maximum number of rows in a block.
const ROWS: u64 = 4096;

/// A cache of blocks of rows, bounded in bytes.
pub(crate) struct Tables {
    state: Mutex<State>,
    most: usize,
}

#[derive(Default)]
struct State {
    blocks: HashMap<(u32, u64), (u64, Arc<Block>)>,
    clock: u64,
    /// The number of blocks when bytes were last counted.
    counted: usize,
}

/// Decoded by the first thread that needs it, while others wait.
#[derive(Default)]
pub(crate) struct Block {
    rows: OnceLock<Result<Vec<Rows>>>,
    /// The bytes of memory that they keep.
    bytes: OnceLock<usize>,
}

impl Block {
    /// The bytes of memory that it keeps; 0 before it is decoded.
    fn bytes(&self) -> usize {
        let Some(Ok(rows)) = self.rows.get() else { return 0 };
        *self.bytes.get_or_init(|| held_bytes(rows))
    }

    /// Row `row` of the block, in one of its pieces.
    pub(crate) fn row(&self, row: usize) -> Option<(&Rows, usize)> {
        let mut rest = row;
        self.rows.get()?.as_ref().ok()?.iter().find_map(|rows| {
            let here = rest < rows.num_rows();
            let row = rest;
            rest = rest.saturating_sub(rows.num_rows());
            here.then_some((rows, row))
        })
    }
}

impl Tables {
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), most }
    }

    /// Puts sample `at` of a shard into row `to` of `out`.
    #[expect(clippy::too_many_arguments, reason = "one call, and each argument is of another kind")]
    pub(crate) fn read(
        &self,
        number: u32,
        shard: &Shard,
        opened: &Opened,
        at: u64,
        columns: &[Column],
        to: usize,
        out: &mut SampleBlock,
    ) -> Result<()> {
        let Content::Table { sample_bytes, .. } = opened.content else {
            return Err(Error::bug("a table without rows"));
        };
        let per_block = (BLOCK / sample_bytes.max(1)).clamp(1, ROWS);
        let block = self.block(number, at / per_block);
        let decoded = block.rows.get_or_init(|| {
            let from = at / per_block * per_block;
            decode(shard, opened, from, per_block)
        });
        match decoded {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), Kind::Content | Kind::Limit) => {
                // The block has an error, which may be of another sample.
                single(shard, opened, at, columns, to, out);
                return Ok(());
            }
            Err(error) => {
                // The error may be temporary: other threads try again.
                self.forget(number, at / per_block);
                return Err(error.clone().in_input(&shard.name));
            }
        }
        self.make_room();
        let found = block.row(usize::try_from(at % per_block).unwrap_or(usize::MAX));
        let (rows, row) = found.ok_or_else(|| Error::content(format!("has no sample {at}")).in_input(&shard.name))?;
        push(rows, row, &shard.name, at, columns, to, out);
        Ok(())
    }

    /// A block of rows that `decode` makes; errors are not kept.
    pub(crate) fn decoded(
        &self,
        (shard, number): (u32, u64),
        decode: impl FnOnce() -> Result<Vec<Rows>>,
    ) -> Result<Arc<Block>> {
        let block = self.block(shard, number);
        if let Err(error) = block.rows.get_or_init(decode) {
            self.forget(shard, number);
            return Err(error.clone());
        }
        self.make_room();
        Ok(block)
    }

    fn block(&self, shard: u32, block: u64) -> Arc<Block> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        let (used, found) = state.blocks.entry((shard, block)).or_default();
        *used = now;
        Arc::clone(found)
    }

    fn forget(&self, shard: u32, block: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).blocks.remove(&(shard, block));
    }

    /// Evicts the least recently used blocks if there are too many.
    fn make_room(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // There are hundreds of blocks but millions of samples: count only after a new block.
        if state.counted == state.blocks.len() {
            return;
        }
        let mut all: Vec<_> = state.blocks.iter().map(|(key, (used, block))| (*used, *key, block.bytes())).collect();
        all.sort_unstable();
        let mut bytes: usize = all.iter().map(|(_, _, weight)| weight).sum();
        for (_, key, weight) in all.iter().take(all.len().saturating_sub(1)) {
            if bytes <= self.most {
                break;
            }
            state.blocks.remove(key);
            bytes -= weight;
        }
        state.counted = state.blocks.len();
    }
}

/// Reads a single sample of a block that can't be read as a whole.
fn single(shard: &Shard, opened: &Opened, at: u64, columns: &[Column], to: usize, out: &mut SampleBlock) {
    let none = || Error::content("can't be read");
    let rows =
        decode(shard, opened, at, 1).and_then(|rows| rows.into_iter().find(|r| r.num_rows() > 0).ok_or_else(none));
    match rows {
        Ok(rows) => push(&rows, 0, &shard.name, at, columns, to, out),
        Err(error) => {
            push_number(&shard.name, at, out);
            out.key_ends.push(out.keys.len());
            out.faults.push((to, error.in_input(&shard.name)));
        }
    }
}

/// The rows of `count` samples from sample `from` on.
fn decode(shard: &Shard, opened: &Opened, from: u64, count: u64) -> Result<Vec<Rows>> {
    let to = from.saturating_add(count).min(shard.samples);
    let items = match &opened.content {
        Content::Table { starts: Some(starts), items, .. } => {
            let start = |at: u64| usize::try_from(at).ok().and_then(|at| starts.get(at).copied());
            start(from).unwrap_or(*items)..start(to).unwrap_or(*items)
        }
        _ => from..to,
    };
    let table = opened.table.as_ref().ok_or_else(|| Error::bug("typed rows that are not open"))?;
    let (fname, bytes) = (shard.name.as_str(), tracing::field::Empty);
    let span =
        tracing::debug_span!(target: TARGET, "read_rows", fname, samples = to.saturating_sub(from), bytes).entered();
    let rows: Vec<Rows> = table.rows(items)?.collect::<Result<_>>()?;
    span.record("bytes", rows.iter().map(rows_bytes).sum::<usize>());
    Ok(rows)
}

/// Without a key, a sample is named by its number.
fn push_number(shard: &str, at: u64, out: &mut SampleBlock) {
    let stem = shard.rsplit('/').next().unwrap_or(shard);
    // Writing to a String can't fail.
    let _ = write!(out.keys, "{stem}/{at}");
}

fn push(rows: &Rows, row: usize, shard: &str, at: u64, columns: &[Column], to: usize, out: &mut SampleBlock) {
    match Sample::new(rows, row).map(|sample| sample.key()) {
        Some(Ok(key)) => out.keys.push_str(key),
        _ => push_number(shard, at, out),
    }
    out.key_ends.push(out.keys.len());
    let known = out.pieces.iter().rposition(|piece| same_rows(&piece.rows, rows));
    let piece = known.unwrap_or_else(|| {
        out.pieces.push(Piece::of(rows, columns));
        out.pieces.len() - 1
    });
    if let Some(place) = out.rows.get_mut(to) {
        *place = Row::Typed { piece, row };
    }
}
