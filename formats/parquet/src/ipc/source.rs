//! Arrow IPC files and streams, anybody's, as samples.

use super::guard;
use super::layout::{Layout, Part};
use crate::contain::{arrow_error, contained};
use crate::decode;
use crate::mapping::Mapping;
use crate::note::{KEY_OF_NOTE, Note};
use crate::options::Choice;
use crate::trial;
use crate::wave::{self, Waves, block_rows, has_room};
use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::root_as_message;
use packhorse_core::{Blocks, Error, FileStat, Input, Limits, Omission, Probe, Result, Rows, Source};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct IpcSource {
    pub(crate) choice: Choice,
    pub(crate) limits: Limits,
    /// What was found faulty in the file read last, for those who read a file piece by piece.
    pub(crate) last: Mutex<Option<(String, FileStat, Vec<Omission>)>>,
}

impl IpcSource {
    fn load(&self, input: &dyn Input) -> Result<(Layout, Mapping)> {
        let layout = contained(|| Layout::load(input, self.limits)).map_err(|e| e.in_input(input.name()))?;
        let note = layout.schema.metadata().get(KEY_OF_NOTE).and_then(|text| Note::parse(text));
        let map = |faulty: &[Omission]| {
            let mapping = contained(|| Mapping::new(&layout.schema, note.as_ref(), &self.choice, faulty, &|_| None));
            mapping.map_err(|e| e.in_input(input.name()))
        };
        let mut mapping = map(&[])?;
        if self.choice.tries() {
            let faulty = self.faulty(input, &mapping)?;
            mapping = if faulty.is_empty() { mapping } else { map(&faulty)? };
        }
        Ok((layout, mapping))
    }

    fn faulty(&self, input: &dyn Input, mapping: &Mapping) -> Result<Vec<Omission>> {
        let stat = input.stat()?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some((name, known, faulty)), Some(stat)) = (&*last, &stat)
            && name == input.name()
            && known == stat
        {
            return Ok(faulty.clone());
        }
        let alone = |name: &str| {
            let choice = self.choice.alone(name);
            Box::new(Self { choice, limits: self.limits, last: Mutex::default() }) as Box<dyn Source>
        };
        let faulty = trial::faulty(mapping, input, &alone)?;
        *last = stat.map(|stat| (input.name().to_owned(), stat, faulty.clone()));
        Ok(faulty)
    }
}

impl Source for IpcSource {
    fn probe(&self, input: &dyn Input) -> Result<Option<Probe>> {
        let (layout, mapping) = self.load(input)?;
        let items = layout.batches.iter().map(|part| part.rows).fold(0, u64::saturating_add);
        let bytes = layout.batches.iter().map(|part| part.body).fold(0, u64::saturating_add);
        Ok(Some(Probe { schema: mapping.schema, items, bytes, counted: true, omitted: mapping.omitted }))
    }

    fn rows<'a>(&'a self, input: &'a dyn Input, items: Range<u64>) -> Result<Blocks<'a>> {
        let (layout, mapping) = self.load(input)?;
        let roots = mapping.roots();
        let decoder = FileDecoder::new(Arc::new(layout.schema), layout.version).with_projection(roots.clone());
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
        let reading = Reading { input, mapping, roots, decoder, limits: self.limits };
        let dictionaries = layout.dictionaries;
        Ok(Box::new(wave::Blocks::new(WavesOf { reading, dictionaries, read: 0, wanted })))
    }
}

struct Reading<'a> {
    input: &'a dyn Input,
    mapping: Mapping,
    roots: Vec<usize>,
    decoder: FileDecoder,
    limits: Limits,
}

impl Reading<'_> {
    /// The bytes of a message, aligned, and checked for what they would make us allocate.
    fn fetch(&self, part: &Part) -> Result<Buffer> {
        let len = self.limits.blob(part.body.saturating_add(part.head.into()))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        self.input.read_at(part.offset, &mut bytes)?;
        let (head, body) = bytes.split_at_checked(part.head as usize).ok_or_else(|| Error::bug("a head over all"))?;
        let skip = if head.starts_with(&[0xff; 4]) { 8 } else { 4 };
        let message = root_as_message(head.get(skip..).unwrap_or_default());
        let message = message.map_err(|e| Error::content(format!("has a damaged message: {e}")))?;
        guard::buffers(&message, body, self.limits)?;
        Ok(bytes.into())
    }

    /// The rows `rows` of a record batch.
    fn decode(&self, part: &Part, rows: &Range<u64>) -> Result<Vec<Rows>> {
        contained(|| {
            let batch = self.decoder.read_record_batch(&part.block(), &self.fetch(part)?);
            let batch = batch.map_err(|e| arrow_error(e, "Arrow"))?;
            let batch = batch.filter(|batch| batch.num_rows() as u64 == part.rows);
            let batch = batch.ok_or_else(|| Error::content("has a record batch of another length; write it anew"))?;
            let step = block_rows(part.body, part.rows);
            let rows = rows.start as usize..rows.end as usize;
            rows.clone().step_by(step).map(|at| self.block(&batch, at, step.min(rows.end - at))).collect()
        })
    }

    fn block(&self, batch: &RecordBatch, at: usize, len: usize) -> Result<Rows> {
        decode::rows(&self.mapping, &self.roots, batch.slice(at, len).columns(), len)
    }
}

struct WavesOf<'a> {
    reading: Reading<'a>,
    dictionaries: Vec<Part>,
    /// How many dictionaries the decoder knows.
    read: usize,
    wanted: VecDeque<(Part, Range<u64>)>,
}

impl Waves for WavesOf<'_> {
    fn name(&self) -> &str {
        self.reading.input.name()
    }

    fn wave(&mut self) -> Result<Option<Vec<Rows>>> {
        let wave = self.parts();
        let Some((first, _)) = wave.first() else { return Ok(None) };
        self.learn(first.dictionaries)?;
        let reading = &self.reading;
        if let [(part, rows)] = wave.as_slice() {
            return reading.decode(part, rows).map(Some);
        }
        let blocks: Result<Vec<_>> = wave.par_iter().map(|(part, rows)| reading.decode(part, rows)).collect();
        Ok(Some(blocks?.into_iter().flatten().collect()))
    }
}

impl WavesOf<'_> {
    /// The record batches to be decoded side by side next, all with the same dictionaries.
    fn parts(&mut self) -> Vec<(Part, Range<u64>)> {
        let (mut wave, mut bytes): (Vec<(Part, Range<u64>)>, u64) = (Vec::new(), 0);
        while has_room(wave.len(), bytes, &self.reading.limits) {
            let same = |part: &Part| wave.first().is_none_or(|(first, _)| first.dictionaries == part.dictionaries);
            if !self.wanted.front().is_some_and(|(part, _)| same(part)) {
                break;
            }
            let Some(next) = self.wanted.pop_front() else { break };
            bytes = bytes.saturating_add(next.0.body);
            wave.push(next);
        }
        wave
    }

    /// Reads the dictionaries up to number `upto`, in order, since a later one may replace an earlier.
    fn learn(&mut self, upto: usize) -> Result<()> {
        while self.read < upto {
            let part = self.dictionaries.get(self.read).ok_or_else(|| Error::bug("a dictionary is missing"))?;
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
