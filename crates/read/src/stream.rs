//! Samples that can be read only once and in order, from a pipe or a compressed tar.

use crate::isolation::isolated;
use crate::requested_columns::Column;
use crate::sample_block::{DecodedRows, Piece, Row, SampleBlock};
use packhorse_core::{Error, Input, KEY, Result, Rows, Sample, SchemaRef, Source, key_column};
use std::fmt::Write as _;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Blocks of rows to buffer.
const BLOCKS: usize = 2;

/// An input whose bytes can be read only once and in order, such as standard input.
pub struct Pipe {
    name: String,
    bytes: Mutex<Option<Box<dyn Read + Send>>>,
}

impl Pipe {
    /// A pipe of `bytes`, named `name` in errors.
    pub fn new(name: &str, bytes: Box<dyn Read + Send>) -> Self {
        Self { name: name.to_owned(), bytes: Mutex::new(Some(bytes)) }
    }
}

impl Input for Pipe {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::unsupported("can be read in order only").in_input(&self.name))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).take();
        let once = || Error::unsupported("can be read once only, and its format takes two looks").in_input(&self.name);
        bytes.map(|bytes| -> Box<dyn Read + Send + '_> { bytes }).ok_or_else(once)
    }
}

/// The samples of an input, in order, for steps that several threads request.
pub(crate) struct Stream {
    first: Rows,
    state: Mutex<State>,
    /// Signals the turn of the next step.
    turn: Condvar,
    stopped: AtomicBool,
}

struct State {
    blocks: Receiver<Result<Option<Rows>>>,
    /// The current block, and its first unused row.
    rest: Option<(DecodedRows, usize)>,
    /// Samples seen so far.
    seen: u64,
    step: u64,
    over: bool,
}

impl Stream {
    /// Starts reading `input` on a thread of its own, which ends with the input or when this is dropped; away from rayon's
    /// global pool if `alone`.
    pub(crate) fn start(source: Box<dyn Source>, input: Box<dyn Input>, alone: bool) -> Result<Self> {
        let (sender, blocks) = sync_channel(BLOCKS);
        let name = input.name().to_owned();
        let thread = std::thread::Builder::new().name("packhorse-stream".to_owned());
        let read = move || {
            let send = |block| sender.send(block).is_ok();
            let read = || -> Result<()> {
                let table = source.open(Arc::from(input))?;
                let mut rows = table.rows(0..u64::MAX)?;
                // The end is sent explicitly: a panicked thread sends nothing.
                while send(rows.next().transpose()) {}
                Ok(())
            };
            if let Err(error) = if alone { isolated(read).flatten() } else { read() } {
                send(Err(error));
            }
        };
        thread.spawn(read).map_err(Error::thread)?;
        let first = blocks.recv().map_err(|_| panicked())??;
        let first = first.ok_or_else(|| Error::content("holds no samples").in_input(name))?;
        let rest = Some((first.clone().into(), 0));
        let state = State { blocks, rest, seen: 0, step: 0, over: false };
        Ok(Self { first, state: Mutex::new(state), turn: Condvar::new(), stopped: AtomicBool::new(false) })
    }

    /// The fields of the first block; later blocks may lack any of them.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        let schema = self.first.schema();
        if schema.fields().iter().all(|field| field.name() == KEY) {
            return Err(Error::content("holds samples without fields"));
        }
        Ok(schema)
    }

    /// The bytes of a column in the first sample of the first block that has it.
    pub(crate) fn first(&self, column: &Column) -> Option<Vec<u8>> {
        let samples = (0..self.first.num_rows()).filter_map(|row| Sample::new(&self.first, row));
        samples.into_iter().find_map(|sample| column.0.iter().find_map(|name| sample.bytes(name).map(<[u8]>::to_vec)))
    }

    /// Reads `step`: skips `skip` samples of other ranks, takes `take` samples, and skips `then` more. Waits for the
    /// steps before it. Returns how many of all these samples existed.
    pub(crate) fn fetch(
        &self,
        step: u64,
        (skip, take, then): (u64, u64, u64),
        columns: &[Column],
        out: &mut SampleBlock,
    ) -> Result<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.step != step {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(0);
            }
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut turn = Turn { stream: self, state };
        let state = &mut turn.state;
        out.clear(columns.len());
        let before = state.seen;
        state.advance(skip, None, &self.stopped)?;
        state.advance(take, Some((columns, &mut *out)), &self.stopped)?;
        state.advance(then, None, &self.stopped)?;
        Ok(state.seen - before)
    }

    /// Ends all waits for samples, which then return none.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.turn.notify_all();
    }
}

/// The turn of a step; dropping it passes the turn to the next step.
struct Turn<'s> {
    stream: &'s Stream,
    state: MutexGuard<'s, State>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.state.step += 1;
        self.stream.turn.notify_all();
    }
}

/// The interval at which waits check for a stop.
const LOOK: Duration = Duration::from_millis(100);

impl State {
    /// Advances by `count` samples, or to the end.
    fn advance(
        &mut self,
        mut samples: u64,
        mut out: Option<(&[Column], &mut SampleBlock)>,
        stopped: &AtomicBool,
    ) -> Result<()> {
        while samples > 0 && !self.over {
            let Some((decoded, first)) = self.rest.take() else {
                match self.blocks.recv_timeout(LOOK) {
                    Ok(Ok(Some(rows))) => self.rest = Some((rows.into(), 0)),
                    Ok(Ok(None)) => self.over = true,
                    Ok(Err(error)) => {
                        self.over = true;
                        return Err(error);
                    }
                    Err(RecvTimeoutError::Timeout) => self.over |= stopped.load(Ordering::Relaxed),
                    Err(RecvTimeoutError::Disconnected) => {
                        self.over = true;
                        return Err(panicked());
                    }
                }
                continue;
            };
            let all = decoded.rows.num_rows();
            let count = samples.min((all - first) as u64) as usize;
            if let Some((columns, out)) = &mut out {
                push(&decoded, first..first + count, self.seen, columns, out);
            }
            samples -= count as u64;
            self.seen += count as u64;
            if first + count < all {
                self.rest = Some((decoded, first + count));
            }
        }
        Ok(())
    }
}

fn panicked() -> Error {
    Error::bug("the thread that reads a stream panicked")
}

fn push(
    decoded: &DecodedRows,
    range: std::ops::Range<usize>,
    mut number: u64,
    columns: &[Column],
    out: &mut SampleBlock,
) {
    let piece = out.pieces.len();
    let added = Piece::of(decoded, columns, out.pieces.last());
    out.pieces.push(added);
    let keys = key_column(&decoded.rows).ok();
    for row in range {
        match keys {
            Some(keys) => out.keys.push_str(keys.value(row)),
            // Writing to a String can't fail.
            None => drop(write!(out.keys, "{number}")),
        }
        out.key_ends.push(out.keys.len());
        out.numbers.push(number);
        out.rows.push(Row::Typed { piece, row });
        out.spans.resize(out.spans.len() + columns.len(), None);
        number += 1;
    }
}
