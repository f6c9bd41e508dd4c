//! Decodes and resizes consecutive rows of a batch in one lane.

use super::JpegOptions;
use super::callers::Callers;
use super::calls::Status;
use super::chunk::{Chunk, Picture, Way};
use super::cpu::{Cpu, Job};
use super::engine::Engine;
use super::jpegs::Counts;
use super::lane::Lane;
use super::source::Source;
use crate::Stream;
use crate::kernels::{Picks, RaggedPictures};
use crate::transforms::{Commands, made, view};
use packhorse_core::{Error, Result};

/// The fewest pictures of a call, where several are made side by side.
const LEAST: usize = 64;

/// Consecutive rows of a batch, and the resources to decode them.
pub(super) struct LaneBatch<'w> {
    pub(super) options: &'w JpegOptions,
    pub(super) counts: &'w Counts,
    pub(super) source: &'w Source<'w>,
    /// A lane that the GPU does not use.
    pub(super) lane: &'w mut Lane,
    pub(super) engines: &'w [Engine],
    pub(super) callers: &'w mut Callers,
    /// The pictures of the rows.
    pub(super) pictures: &'w mut [Picture],
    /// The number of the first row.
    pub(super) first: usize,
    pub(super) stream: &'w Stream,
    /// The address of memory for kernels.
    pub(super) scratch: u64,
}

impl LaneBatch<'_> {
    /// Queues the GPU work and decodes the CPU's pictures. After an error some work may be queued.
    pub(super) fn run(&mut self, cpu: &mut Cpu, commands: &mut dyn Commands) -> Result<()> {
        let rows = u32::try_from(self.pictures.len()).map_err(|_| Error::config("a batch of too many pictures"))?;
        let chunk = Chunk::new(self.pictures)?;
        let memory = self.lane.memory(chunk.bytes, self.options.memory)?;
        let mut pinned = self.lane.lend(self.bytes_here(&chunk))?;
        let decoded = self.decode_all(cpu, &chunk, memory, pinned.as_mut())?;
        let mine = self.pictures.iter().filter(|picture| picture.way == Way::Cpu).count();
        if mine > decoded {
            // Those of a backend that failed too. All again, since they lie one after another.
            self.lane.give_back(pinned)?;
            pinned = self.lane.lend(self.bytes_here(&chunk))?;
            self.decode_here(cpu, jobs(self.pictures, self.source, self.first, &chunk, pinned.as_mut()))?;
        }
        self.lane.give_back(pinned)?;
        self.counts.add(Counts::CPU, mine)?;
        self.copy(&chunk, memory)?;
        self.resize(&chunk, memory, rows, commands)
    }

    /// Decodes the pictures of an engine. If that fails, they go to the next engine that accepts them, else to the CPU.
    fn decode(&mut self, number: usize, chunk: &Chunk, memory: u64) -> Result<()> {
        let Some(engine) = self.engines.get(number) else { return Ok(()) };
        let is_mine = |picture: &Picture| matches!(picture.way, Way::Engine(engine, _) if engine == number);
        let mine: Vec<_> = self.pictures.iter().zip(&chunk.places).filter(|(picture, _)| is_mine(picture)).collect();
        if mine.is_empty() {
            return Ok(());
        }
        let calls = self.options.calls.min(mine.len() / LEAST).max(1);
        let states = self.lane.states(number, engine, calls)?;
        for (at, state) in states.iter_mut().enumerate() {
            state.clear();
            let share = at * mine.len() / calls..(at + 1) * mine.len() / calls;
            for (picture, place) in mine.get(share).unwrap_or_default() {
                let Way::Engine(_, facts) = &picture.way else { continue };
                let bytes = self.source.bytes(picture.bytes.clone());
                state.push(bytes, facts, memory + (chunk.pictures + **place) as u64)?;
            }
        }
        // SAFETY: the bytes are in the batch's slab, which the ring keeps until the queued work has finished; the lane
        // is marked after that work and not reused before. The host has waited for the lane's last use, and since then
        // other engines got only other parts of its memory, as other states do.
        let status = unsafe { self.callers.decode(states, self.stream.handle()) };
        if matches!(status, Ok(Status::SUCCESS)) {
            return self.counts.add(engine.backend as usize, mine.len());
        }
        // Work that was queued before the failure may still write, and may belong to no stream.
        self.lane.drain()?;
        status?.fails()?;
        let next = self.engines.get(number + 1);
        for picture in self.pictures.iter_mut() {
            if let Way::Engine(engine, facts) = picture.way
                && engine == number
            {
                let taken = next.is_some_and(|next| next.backend.takes(&facts));
                picture.way = if taken { Way::Engine(number + 1, facts) } else { Way::Cpu };
            }
        }
        self.counts.add(Counts::FAILED, 1)
    }

    /// Bytes of the tables and of the CPU's pictures.
    fn bytes_here(&self, chunk: &Chunk) -> usize {
        let mine = self.pictures.iter().filter(|picture| picture.way == Way::Cpu);
        mine.fold(chunk.tables, |bytes, picture| bytes.saturating_add(picture.pixels()))
    }

    /// Decodes the pictures of all engines, and meanwhile those of the CPU; returns the number of the latter.
    fn decode_all(&mut self, cpu: &mut Cpu, chunk: &Chunk, memory: u64, pinned: &mut [u8]) -> Result<usize> {
        let jobs = jobs(self.pictures, self.source, self.first, chunk, pinned);
        let mine = jobs.len();
        if mine > 0 {
            cpu.start()?;
        }
        let engines = 0..self.engines.len();
        let (queued, decoded) =
            cpu.decode(jobs, || engines.into_iter().try_for_each(|number| self.decode(number, chunk, memory)));
        queued.and_then(|()| decoded.map_err(|(row, error)| self.source.named(error, row))).map(|()| mine)
    }

    fn decode_here(&self, cpu: &mut Cpu, jobs: Vec<Job<'_>>) -> Result<()> {
        cpu.start()?;
        cpu.decode(jobs, || ()).1.map_err(|(row, error)| self.source.named(error, row))
    }

    /// Queues the copies of the tables and of the CPU's pictures.
    fn copy(&mut self, chunk: &Chunk, memory: u64) -> Result<()> {
        self.lane.copy(0..chunk.tables, memory, self.stream)?;
        let mut from = chunk.tables;
        for (picture, place) in self.pictures.iter().zip(&chunk.places) {
            if picture.way == Way::Cpu {
                let to = memory + (chunk.pictures + place) as u64;
                self.lane.copy(from..from + picture.pixels(), to, self.stream)?;
                from += picture.pixels();
            }
        }
        Ok(())
    }

    /// Queues the kernels that resize the decoded pictures.
    fn resize(&self, chunk: &Chunk, memory: u64, rows: u32, commands: &mut dyn Commands) -> Result<()> {
        let JpegOptions { resize, draws, into, .. } = self.options;
        let output = made(self.source.fields, into)?.address + (self.first * resize.output(1)?.bytes()) as u64;
        let keys =
            if self.options.drawn() { view(self.source.fields, draws)?.address + 8 * self.first as u64 } else { 0 };
        let at = |offset: usize| memory + offset as u64;
        let ragged = RaggedPictures {
            values: at(chunk.pictures),
            bytes: (chunk.bytes - chunk.pictures) as u64,
            offsets: memory,
            shapes: at(chunk.shapes),
        };
        let picks = Picks { keys, ..Picks::default() };
        let launches = resize.launch(&ragged, &picks, output, self.scratch, rows)?;
        launches.iter().try_for_each(|launch| commands.launch(launch))
    }
}

/// Writes the tables, and returns the CPU's pictures, which go behind them, one after another.
fn jobs<'j>(
    pictures: &[Picture],
    source: &'j Source<'_>,
    first: usize,
    chunk: &Chunk,
    pinned: &'j mut [u8],
) -> Vec<Job<'j>> {
    let (tables, mut rest) = pinned.split_at_mut(chunk.tables);
    chunk.write(pictures, tables);
    let mut jobs = Vec::new();
    for (row, picture) in pictures.iter().enumerate().filter(|(_, picture)| picture.way == Way::Cpu) {
        let (out, after) = rest.split_at_mut(picture.pixels());
        jobs.push(Job { row: first + row, bytes: source.bytes(picture.bytes.clone()), out });
        rest = after;
    }
    jobs
}
