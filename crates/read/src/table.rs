//! Reads samples that are rows of typed values: blocks of rows are decoded once and cached.

use crate::dataset::{Content, Shard};
use crate::opened::Opened;
use crate::requested_columns::Column;
use crate::sample_block::{DecodedRows, Piece, Row, SampleBlock, same_rows};
use crate::spans::TARGET;
use arrow_array::{ArrayRef, RecordBatchOptions, UInt64Array};
use arrow_select::take::take;
use packhorse_core::{Error, Kind, Result, Rows, Sample, compacted, counted, held_bytes, owned};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// The approximate size of a decoded block, in bytes.
const BLOCK: u64 = 4 << 20;
/// The maximum number of rows in a block.
const ROWS: u64 = 32_768;

/// A batch that needs rows of so many blocks copies those that no cache keeps for it.
const SCATTERED: usize = 8;
/// Batches whose blocks were decoded again, or seconds that they took, show that the cache is too small.
const SHOWN: u64 = 8;
/// Look-ups for which evictions are remembered, about.
const EVICTED: usize = 1 << 18;
/// That was told.
const TOLD: u64 = 1 << 40;

/// A sample of an open shard that a batch needs.
pub(crate) struct TableSample<'a> {
    pub(crate) number: u32,
    pub(crate) shard: &'a Shard,
    pub(crate) opened: &'a Opened,
    pub(crate) at: u64,
    /// Its row in the batch.
    pub(crate) row: usize,
}

impl TableSample<'_> {
    /// Its block, as shard and first row there, and the number of rows of a block. A block is a part of one of the `run`s in which
    /// samples are wanted.
    fn block(&self, run: Option<u64>) -> Result<(BlockKey, u64)> {
        let Content::Table { sample_bytes, .. } = self.opened.content else {
            return Err(Error::bug("a table without rows"));
        };
        let most = (BLOCK / sample_bytes.max(1)).clamp(1, ROWS);
        let run = run.unwrap_or(most).max(1);
        let rows = run.div_ceil(run.div_ceil(most));
        let (start, within) = (self.at / run * run, self.at % run / rows * rows);
        Ok(((self.number, start + within), rows.min(run - within)))
    }
}

/// A cache of blocks of rows, bounded in bytes.
pub(crate) struct Tables {
    state: Mutex<State>,
    most: usize,
    /// The samples that are wanted together, if the order has such runs.
    run: Option<u64>,
    /// Batches of which half of the blocks or more were decoded again, and the seconds that they took.
    again: AtomicU64,
}

/// Shard and first row of a block.
type BlockKey = (u32, u64);

#[derive(Default)]
struct State {
    blocks: HashMap<BlockKey, Kept>,
    /// The blocks by the clock at their last use.
    by_use: BTreeMap<u64, BlockKey>,
    /// The bytes of all blocks that are decoded.
    bytes: usize,
    clock: u64,
    /// The clock at the last eviction of blocks.
    evicted: HashMap<BlockKey, u64>,
}

struct Kept {
    used: u64,
    /// The bytes of memory that it keeps; 0 before it is decoded.
    bytes: usize,
    block: Arc<Block>,
}

impl State {
    fn remove(&mut self, place: BlockKey) {
        if let Some(kept) = self.blocks.remove(&place) {
            self.by_use.remove(&kept.used);
            self.bytes -= kept.bytes;
        }
    }
}

/// Decoded by the first thread that needs it, while others wait.
#[derive(Default)]
pub(crate) struct Block {
    rows: OnceLock<Result<Vec<DecodedRows>>>,
}

impl Block {
    /// The number of its rows; 0 before it is decoded.
    fn len(&self) -> usize {
        let Some(Ok(rows)) = self.rows.get() else { return 0 };
        rows.iter().map(|decoded| decoded.rows.num_rows()).sum()
    }

    /// Row `row` of the block, in one of its pieces.
    pub(crate) fn row(&self, row: usize) -> Option<(&DecodedRows, usize)> {
        let mut rest = row;
        self.rows.get()?.as_ref().ok()?.iter().find_map(|decoded| {
            let here = rest < decoded.rows.num_rows();
            let row = rest;
            rest = rest.saturating_sub(decoded.rows.num_rows());
            here.then_some((decoded, row))
        })
    }
}

impl Tables {
    /// A cache of `most` bytes, of samples that are wanted in runs of `run` neighbours.
    pub(crate) fn new(most: usize, run: Option<u64>) -> Self {
        Self { state: Mutex::default(), most, run, again: AtomicU64::new(0) }
    }

    /// Puts samples into their rows of `out`, in the order of these rows.
    pub(crate) fn read(&self, samples: &[TableSample<'_>], columns: &[Column], out: &mut SampleBlock) -> Result<()> {
        let start = Instant::now();
        let place = |sample: &TableSample<'_>| {
            let (key, _) = sample.block(self.run)?;
            Ok((key, usize::try_from(sample.at - key.1).unwrap_or(usize::MAX)))
        };
        let places = samples.iter().map(place).collect::<Result<Vec<_>>>()?;
        let mut order: Vec<usize> = (0..samples.len()).collect();
        order.sort_unstable_by_key(|i| places.get(*i));
        let block_of = |i: &usize| places.get(*i).map(|(key, _)| *key);
        let groups: Vec<&[usize]> = order.chunk_by(|a, b| block_of(a) == block_of(b)).collect();
        // For each sample the place of its block in `held`.
        let mut group_of = vec![0; samples.len()];
        let (mut held, mut again) = (Vec::with_capacity(groups.len()), 0);
        for group in &groups {
            let first = group.first().and_then(|first| samples.get(*first)).zip(group.first().and_then(block_of));
            let (sample, key) = first.ok_or_else(|| Error::bug("a block without samples"))?;
            let (block, now) = self.decoded_block(key, sample)?;
            again += usize::from(now && self.was_here(key, 4 * groups.len() as u64));
            let rows = group.iter().filter_map(|i| places.get(*i)).map(|(_, row)| *row);
            held.push(match block {
                None => Held::Damaged,
                // A batch that held blocks of which it needs few rows would need the memory of whole shards.
                Some(block)
                    if groups.len() >= SCATTERED && 2 * group.len() < block.len() && (now || self.is_full()) =>
                {
                    Held::Copied(CopiedRows::of(&block, rows)?)
                }
                Some(block) => Held::Block(block),
            });
            for i in *group {
                if let Some(of) = group_of.get_mut(*i) {
                    *of = held.len() - 1;
                }
            }
        }
        if groups.len() >= SCATTERED && 2 * again >= groups.len() {
            self.again.fetch_add(1 + start.elapsed().as_secs(), Ordering::Relaxed);
        }
        for ((sample, (_, row)), group) in samples.iter().zip(places.iter().copied()).zip(group_of) {
            out.end_keys(sample.row);
            match held.get(group) {
                Some(Held::Block(block)) => {
                    let (rows, row) = block.row(row).ok_or_else(|| gone(sample))?;
                    push(rows, row, sample, columns, out);
                }
                Some(Held::Copied(rows)) => rows.push(row, sample, columns, out)?,
                // The block has an error, which may be of another sample.
                Some(Held::Damaged) | None => single(sample, columns, out),
            }
        }
        Ok(())
    }

    /// The block with a sample, and whether it was decoded now; none if its content is damaged.
    fn decoded_block(&self, key: BlockKey, sample: &TableSample<'_>) -> Result<(Option<Arc<Block>>, bool)> {
        let block = self.block(key.0, key.1);
        let mut now = false;
        let decoded = block.rows.get_or_init(|| {
            now = true;
            let (_, rows) = sample.block(self.run)?;
            decode(sample.shard, sample.opened, key.1, rows)
        });
        match decoded {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), Kind::Content | Kind::Limit) => return Ok((None, now)),
            Err(error) => {
                // The error may be temporary: other threads try again.
                self.forget(key.0, key.1);
                return Err(error.clone().in_input(&sample.shard.name));
            }
        }
        if now {
            self.keep(key, &block);
        }
        Ok((Some(block), now))
    }

    fn is_full(&self) -> bool {
        !self.state().evicted.is_empty()
    }

    /// Whether a block was evicted so few look-ups ago: it was wanted for batches of the same time.
    fn was_here(&self, key: BlockKey, lookups: u64) -> bool {
        let state = self.state();
        state.evicted.get(&key).is_some_and(|then| state.clock.saturating_sub(*then) <= lookups)
    }

    /// What to do about a cache into which the samples that are shuffled together don't fit: told once.
    pub(crate) fn advice(&self) -> Option<String> {
        let shown = self.again.load(Ordering::Relaxed) >= SHOWN && self.again.swap(TOLD, Ordering::Relaxed) < TOLD;
        shown.then(|| {
            format!(
                "the rows that are shuffled together don't fit into {} MB, so each batch decodes most of them again; \
                 give the loader a larger cache, shuffle in windows as the default does, or pack smaller shards",
                self.most / 1_000_000
            )
        })
    }

    /// A block of rows that `decode` makes; errors are not kept.
    pub(crate) fn decoded(
        &self,
        (shard, number): (u32, u64),
        decode: impl FnOnce() -> Result<Vec<Rows>>,
    ) -> Result<Arc<Block>> {
        let block = self.block(shard, number);
        let mut now = false;
        let decoded = block.rows.get_or_init(|| {
            now = true;
            Ok(decode()?.into_iter().map(DecodedRows::from).collect())
        });
        if let Err(error) = decoded {
            self.forget(shard, number);
            return Err(error.clone());
        }
        if now {
            self.keep((shard, number), &block);
        }
        Ok(block)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block(&self, shard: u32, block: u64) -> Arc<Block> {
        let (mut state, place) = (self.state(), (shard, block));
        let state = &mut *state;
        state.clock += 1;
        let used = state.clock;
        let kept = state.blocks.entry(place).or_insert_with(|| Kept { used, bytes: 0, block: Arc::default() });
        state.by_use.remove(&kept.used);
        kept.used = used;
        state.by_use.insert(used, place);
        Arc::clone(&kept.block)
    }

    fn forget(&self, shard: u32, block: u64) {
        self.state().remove((shard, block));
    }

    /// Counts a block that was decoded now, and evicts those that were used least recently if there are too many bytes.
    fn keep(&self, place: BlockKey, block: &Arc<Block>) {
        let decoded = block.rows.get().and_then(|rows| rows.as_ref().ok()).into_iter().flatten();
        let bytes = held_bytes(decoded.map(|decoded| &decoded.rows));
        let mut state = self.state();
        let state = &mut *state;
        // Another thread may have evicted it meanwhile.
        if let Some(kept) = state.blocks.get_mut(&place).filter(|kept| Arc::ptr_eq(&kept.block, block)) {
            kept.bytes = bytes;
            state.bytes += bytes;
        }
        while state.bytes > self.most && state.blocks.len() > 1 {
            let Some((_, oldest)) = state.by_use.first_key_value().map(|(used, place)| (*used, *place)) else { break };
            state.remove(oldest);
            state.evicted.insert(oldest, state.clock);
        }
        if state.evicted.len() > EVICTED {
            let recent = state.clock.saturating_sub(EVICTED as u64);
            state.evicted.retain(|_, then| *then > recent);
        }
    }
}

/// What a batch holds of a block.
enum Held {
    Block(Arc<Block>),
    Copied(CopiedRows),
    Damaged,
}

/// Some rows of a block.
struct CopiedRows {
    /// Their positions in the block, sorted.
    at: Vec<usize>,
    /// For each piece of the block the first of these positions, and the rows.
    pieces: Vec<(usize, DecodedRows)>,
}

impl CopiedRows {
    /// The rows at these positions, which ascend.
    fn of(block: &Block, at: impl Iterator<Item = usize>) -> Result<Self> {
        let mut at: Vec<usize> = at.collect();
        at.dedup();
        let (mut pieces, mut first, mut begin) = (Vec::new(), 0, 0);
        for DecodedRows { rows, .. } in block.rows.get().and_then(|rows| rows.as_ref().ok()).into_iter().flatten() {
            let end = begin + rows.num_rows();
            let here = at.get(first..).unwrap_or_default().iter().take_while(|row| **row < end);
            let positions: UInt64Array = here.map(|row| (*row - begin) as u64).collect();
            if !positions.is_empty() {
                pieces.push((first, taken(rows, &positions)?.into()));
            }
            first += positions.len();
            begin = end;
        }
        Ok(Self { at, pieces })
    }

    fn push(&self, row: usize, sample: &TableSample<'_>, columns: &[Column], out: &mut SampleBlock) -> Result<()> {
        let at = self.at.binary_search(&row).map_err(|_| gone(sample))?;
        let piece = self.pieces.partition_point(|(first, _)| *first <= at).checked_sub(1);
        let (first, rows) = piece.and_then(|piece| self.pieces.get(piece)).ok_or_else(|| gone(sample))?;
        match at - first < rows.rows.num_rows() {
            true => push(rows, at - first, sample, columns, out),
            false => return Err(gone(sample)),
        }
        Ok(())
    }
}

/// These rows, which keep no bytes of others.
fn taken(rows: &Rows, positions: &UInt64Array) -> Result<Rows> {
    let own = |column: &ArrayRef| compacted(&take(column, positions, None).map_err(bug)?);
    let columns = rows.columns().iter().map(own).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(positions.len()));
    Rows::try_new_with_options(rows.schema(), columns, &options).map_err(bug)
}

fn bug(error: impl std::fmt::Display) -> Error {
    Error::bug(error.to_string())
}

/// A sample that its block does not hold.
fn gone(sample: &TableSample<'_>) -> Error {
    Error::content(format!("has no sample {}", sample.at)).in_input(&sample.shard.name)
}

/// Reads a single sample of a block that can't be read as a whole.
fn single(sample: &TableSample<'_>, columns: &[Column], out: &mut SampleBlock) {
    let none = || Error::content("can't be read");
    let rows = decode(sample.shard, sample.opened, sample.at, 1)
        .and_then(|rows| rows.into_iter().find(|decoded| decoded.rows.num_rows() > 0).ok_or_else(none));
    match rows {
        Ok(rows) => push(&rows, 0, sample, columns, out),
        Err(error) => {
            push_number(sample.shard, sample.at, out);
            out.key_ends.push(out.keys.len());
            out.faults.push((sample.row, error.in_input(&sample.shard.name)));
        }
    }
}

/// The rows of `count` samples from sample `from` on.
fn decode(shard: &Shard, opened: &Opened, from: u64, count: u64) -> Result<Vec<DecodedRows>> {
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
    let rows = table.rows(items)?.map(|rows| Ok(owned(rows?)?.into())).collect::<Result<Vec<DecodedRows>>>()?;
    let (found, wanted) =
        (rows.iter().map(|decoded| decoded.rows.num_rows() as u64).sum::<u64>(), to.saturating_sub(from));
    if found != wanted {
        return Err(Error::content(format!("gave {found} of {} from sample {from} on", counted(wanted, "sample"))));
    }
    span.record("bytes", rows.iter().map(|decoded| decoded.bytes).sum::<u64>());
    Ok(rows)
}

/// Without a key, a sample is named by its number.
fn push_number(shard: &Shard, at: u64, out: &mut SampleBlock) {
    // Writing to a String can't fail.
    let _ = write!(out.keys, "{}/{at}", shard.stem);
}

fn push(decoded: &DecodedRows, row: usize, sample: &TableSample<'_>, columns: &[Column], out: &mut SampleBlock) {
    match Sample::new(&decoded.rows, row).map(|sample| sample.key()) {
        Some(Ok(key)) => out.keys.push_str(key),
        _ => push_number(sample.shard, sample.at, out),
    }
    out.key_ends.push(out.keys.len());
    let known = out.pieces.iter().rposition(|piece| same_rows(&piece.rows, &decoded.rows));
    let piece = known.unwrap_or_else(|| {
        let piece = Piece::of(decoded, columns, out.pieces.last());
        out.pieces.push(piece);
        out.pieces.len() - 1
    });
    if let Some(place) = out.rows.get_mut(sample.row) {
        *place = Row::Typed { piece, row };
    }
}
