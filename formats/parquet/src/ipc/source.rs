//! The source: rows of Arrow IPC files and streams.

use super::guard;
use super::layout::{IpcLayout, IpcMessage};
use super::parts::{self, Parts};
use crate::contain::{arrow_error, contained};
use crate::decode;
use crate::mapping::Mapping;
use crate::note::{KEY_OF_NOTE, Note};
use crate::options::ColumnSelection;
use crate::trial;
use crate::wave::{self, block_rows, has_room};
use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::root_as_message;
use packhorse_core::{Blocks, Error, Input, Limits, Omission, Result, Rows, Source, Table, TableInfo, owned};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

pub(crate) struct IpcSource {
    choice: ColumnSelection,
    limits: Limits,
    parts: Arc<Parts>,
}

impl IpcSource {
    pub(crate) fn new(choice: ColumnSelection, limits: Limits) -> Self {
        let most = usize::try_from(wave::most_bytes(&limits)).unwrap_or(usize::MAX);
        Self { choice, limits, parts: Arc::new(Parts::new(most)) }
    }

    fn load(&self, input: &dyn Input) -> Result<(IpcLayout, Mapping)> {
        let layout = contained(|| IpcLayout::load(input, self.limits)).map_err(|e| e.in_input(input.name()))?;
        let note = layout.schema.metadata().get(KEY_OF_NOTE).and_then(|text| Note::parse(text));
        let map = |faulty: &[Omission]| {
            let mapping = contained(|| Mapping::new(&layout.schema, note.as_ref(), &self.choice, faulty, &|_| None));
            mapping.map_err(|e| e.in_input(input.name()))
        };
        let mut mapping = map(&[])?;
        if self.choice.tries() {
            let faulty = trial::faulty(&mapping, input, &|name| self.alone(name))?;
            mapping = if faulty.is_empty() { mapping } else { map(&faulty)? };
        }
        Ok((layout, mapping))
    }

    /// A source of only the field `name`.
    fn alone(&self, name: &str) -> Box<dyn Source> {
        Box::new(Self::new(self.choice.alone(name), self.limits))
    }
}

impl Source for IpcSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let (layout, mapping) = self.load(&*input)?;
        let roots = mapping.roots();
        let (limits, number, parts) = (self.limits, self.parts.number(), Arc::clone(&self.parts));
        Ok(Box::new(Open { input, layout, mapping, roots, limits, number, parts }))
    }
}

/// An open file.
struct Open<'a> {
    input: Arc<dyn Input + 'a>,
    layout: IpcLayout,
    mapping: Mapping,
    roots: Vec<usize>,
    limits: Limits,
    /// Its number among the inputs of `parts`.
    number: u64,
    parts: Arc<Parts>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.parts.close(self.number);
    }
}

impl Table for Open<'_> {
    fn info(&self) -> Result<TableInfo> {
        let (batches, mapping) = (&self.layout.batches, &self.mapping);
        let items = batches.iter().map(|part| part.rows).fold(0, u64::saturating_add);
        let bytes = batches.iter().map(|part| part.body).fold(0, u64::saturating_add);
        let (schema, omitted) = (mapping.schema.clone(), mapping.omitted.clone());
        Ok(TableInfo { schema, items, bytes, counted: true, omitted })
    }

    fn decoded_bytes(&self) -> Option<u64> {
        Some(self.layout.batches.iter().map(|part| part.decoded).fold(0, u64::saturating_add))
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let layout = &self.layout;
        let decoder = FileDecoder::new(Arc::clone(&layout.schema), layout.version);
        // It looks for each column among those to read, which takes long where these are all of thousands.
        let all = self.roots.iter().copied().eq(0..layout.schema.fields().len());
        let decoder = if all { decoder } else { decoder.with_projection(self.roots.clone()) };
        let mut wanted = VecDeque::new();
        let mut start = 0u64;
        for part in &layout.batches {
            let end = start.saturating_add(part.rows);
            let (from, to) = (items.start.max(start), items.end.min(end));
            if from < to {
                wanted.push_back((*part, from - start..to - start));
            }
            start = end;
        }
        let mut waves = Waves { reading: Reading { open: self, decoder }, read: 0, wanted };
        Ok(wave::blocks(self.input.name(), move || waves.next()))
    }
}

struct Reading<'a> {
    open: &'a Open<'a>,
    decoder: FileDecoder,
}

impl Reading<'_> {
    /// Reads a message, aligned, and checks its declared sizes.
    fn fetch(&self, part: &IpcMessage) -> Result<Buffer> {
        let len = self.open.limits.blob(part.body.saturating_add(part.head.into()))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        self.open.input.read_at(part.offset, &mut bytes)?;
        let (head, body) =
            bytes.split_at_checked(part.head as usize).ok_or_else(|| Error::bug("a header longer than its message"))?;
        let skip = if head.starts_with(&[0xff; 4]) { 8 } else { 4 };
        let message = root_as_message(head.get(skip..).unwrap_or_default());
        let message = message.map_err(|e| Error::content(format!("has a damaged message: {e}")))?;
        guard::buffers(&message, body, self.open.limits)?;
        Ok(bytes.into())
    }

    /// The rows `rows` of a record batch.
    fn decode(&self, part: &IpcMessage, rows: &Range<u64>) -> Result<Vec<Rows>> {
        contained(|| {
            let batch = self.decoder.read_record_batch(&part.block(), &self.fetch(part)?);
            let batch = batch.map_err(|e| arrow_error(e, "Arrow"))?;
            let batch = batch.filter(|batch| batch.num_rows() as u64 == part.rows);
            let batch = batch.ok_or_else(|| Error::content("has a record batch of another length; write it again"))?;
            if *rows != (0..part.rows) {
                self.open.parts.keep(self.open.place(part), &batch);
            }
            self.open.blocks(&batch, part, rows)
        })
    }
}

impl Open<'_> {
    fn place(&self, part: &IpcMessage) -> parts::BatchKey {
        (self.number, part.offset)
    }

    /// The rows `rows` of a record batch that another part was read of.
    fn known(&self, part: &IpcMessage, rows: &Range<u64>) -> Option<Result<Vec<Rows>>> {
        let batch = self.parts.get(self.place(part))?;
        Some(contained(|| self.blocks(&batch, part, rows)))
    }

    /// The rows `rows` of the decoded batch of `part`. They keep no more of it than they need.
    fn blocks(&self, batch: &RecordBatch, part: &IpcMessage, rows: &Range<u64>) -> Result<Vec<Rows>> {
        let step = block_rows(part.decoded, part.rows);
        let (from, to) = (rows.start as usize, rows.end as usize);
        let block = |at: usize| {
            let len = step.min(to - at);
            decode::rows(&self.mapping, &self.roots, batch.slice(at, len).columns(), len)
        };
        let blocks = (from..to).step_by(step).map(block);
        match 2 * (rows.end - rows.start) < part.rows {
            true => blocks.map(|rows| rows.and_then(owned)).collect(),
            false => blocks.collect(),
        }
    }
}

struct Waves<'a> {
    reading: Reading<'a>,
    /// The number of dictionaries read.
    read: usize,
    wanted: VecDeque<(IpcMessage, Range<u64>)>,
}

impl Waves<'_> {
    /// The blocks of the next wave.
    fn next(&mut self) -> Result<Option<Vec<Rows>>> {
        let wave = self.parts();
        let Some((first, _)) = wave.first() else { return Ok(None) };
        let open = self.reading.open;
        let known: Vec<_> = wave.iter().map(|(part, rows)| open.known(part, rows)).collect();
        if known.iter().any(Option::is_none) {
            self.learn(first.dictionaries)?;
        }
        let reading = &self.reading;
        let decode = |((part, rows), known): (&(IpcMessage, Range<u64>), Option<_>)| {
            known.unwrap_or_else(|| reading.decode(part, rows))
        };
        let blocks: Vec<Result<Vec<Rows>>> = match wave.len() {
            1 => wave.iter().zip(known).map(decode).collect(),
            _ => wave.par_iter().zip(known).map(decode).collect(),
        };
        // Of several errors the first in the file.
        let blocks = blocks.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(Some(blocks.into_iter().flatten().collect()))
    }

    /// The next record batches to decode in parallel, all with the same dictionaries.
    fn parts(&mut self) -> Vec<(IpcMessage, Range<u64>)> {
        let (mut wave, mut bytes): (Vec<(IpcMessage, Range<u64>)>, u64) = (Vec::new(), 0);
        while has_room(wave.len(), bytes, &self.reading.open.limits) {
            let same =
                |part: &IpcMessage| wave.first().is_none_or(|(first, _)| first.dictionaries == part.dictionaries);
            if !self.wanted.front().is_some_and(|(part, _)| same(part)) {
                break;
            }
            let Some(next) = self.wanted.pop_front() else { break };
            bytes = bytes.saturating_add(next.0.decoded);
            wave.push(next);
        }
        wave
    }

    /// Reads the dictionaries up to number `upto`, in order, since a later one may replace an earlier one.
    fn learn(&mut self, upto: usize) -> Result<()> {
        while self.read < upto {
            let part = self
                .reading
                .open
                .layout
                .dictionaries
                .get(self.read)
                .ok_or_else(|| Error::bug("a dictionary is missing"))?;
            let reading = &mut self.reading;
            contained(|| {
                let bytes = reading.fetch(part)?;
                reading.decoder.read_dictionary(&part.block(), &bytes).map_err(|e| arrow_error(e, "Arrow"))
            })?;
            self.read += 1;
        }
        Ok(())
    }
}
