//! The source: records as samples.

use crate::byte_stream::ByteStream;
use crate::document::{self, FileCounts};
use crate::index;
use crate::infer::{BYTES, RECORDS, infer};
use crate::layout::FeatureLayout;
use crate::options::RecordSourceOptions;
use crate::record_reader::{RecordChunk, RecordReader};
use crate::row_builder::{FeatureNames, RowBuilder};
use crate::scan::{self, KnownStarts, RecordStart, START, in_record};
use packhorse_core::{Blocks, Error, Input, Kind, Limits, Result, Rows, Source, Table, TableInfo, blocks};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A block ends when its columns hold this many bytes.
const BLOCK_BYTES: usize = 8 << 20;
/// Or this many rows.
const BLOCK_ROWS: usize = 8192;

#[derive(Clone)]
pub(crate) struct RecordSource {
    pub(crate) options: RecordSourceOptions,
    pub(crate) limits: Limits,
}

impl Source for RecordSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let named = |e: Error| e.in_input(input.name());
        // All features of a document can be read.
        let (layout, size, unread) = match self.documented(&*input).map_err(named)? {
            Some((layout, size)) => (layout, size, Arc::default()),
            None => (self.inferred(&*input).map_err(named)?, None, Arc::clone(&self.options.unread)),
        };
        let names = FeatureNames::of(&layout, &unread);
        Ok(Box::new(Open {
            source: self.clone(),
            input,
            layout,
            names,
            size,
            known: KnownStarts::default(),
            index: Mutex::default(),
        }))
    }
}

/// An open file of records.
struct Open<'a> {
    source: RecordSource,
    input: Arc<dyn Input + 'a>,
    layout: FeatureLayout,
    names: FeatureNames,
    size: Option<FileCounts>,
    known: KnownStarts,
    /// Whether there is an index that can be used, once that is known.
    index: Mutex<Option<bool>>,
}

impl Table for Open<'_> {
    /// Reads the headers of all records, if no index tells how many there are.
    fn info(&self) -> Result<TableInfo> {
        let end = self.end().map_err(|e| e.in_input(self.input.name()))?;
        let (schema, items, bytes) = (self.layout.schema(), end.record, end.offset);
        Ok(TableInfo { schema, items, bytes, counted: true, omitted: Vec::new() })
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let (source, name) = (&self.source, self.input.name());
        let (feed, place) = self.seek(items.start).map_err(|e| e.in_input(name))?;
        let mut records = RecordReader::new(feed, place, items, source.options.crc, source.limits);
        let mut chunk = None;
        Ok(blocks(name, move || self.block(&mut records, &mut chunk)))
    }
}

impl Open<'_> {
    /// Where the records end.
    fn end(&self) -> Result<RecordStart> {
        let (crc, limits) = (self.source.options.crc, self.source.limits);
        let end = match ByteStream::open(&*self.input)? {
            ByteStream::At { len, .. } => match self.indexed()? {
                Some(size) => return Ok(RecordStart { record: size.records, offset: size.bytes }),
                None => scan::find(&*self.input, len, u64::MAX, crc, &self.known)?,
            },
            feed => {
                let none = u64::MAX - 1..u64::MAX;
                let mut records = RecordReader::new(feed, START, none, crc, limits);
                while records.chunk()?.is_some() {}
                records.place()
            }
        };
        match self.size {
            Some(size) if size.records != end.record => {
                Err(Error::content(format!("has {} records where its schema says {}", end.record, size.records)))
            }
            _ => Ok(end),
        }
    }

    /// The file's bytes from record `item` on, or from the start if it is a stream.
    fn seek(&self, item: u64) -> Result<(ByteStream<'_>, RecordStart)> {
        match ByteStream::open(&*self.input)? {
            ByteStream::At { input, len, .. } if item > 0 => {
                self.indexed()?;
                let place = scan::find(input, len, item, self.source.options.crc, &self.known)?;
                Ok((ByteStream::At { input, at: place.offset, len }, place))
            }
            feed => Ok((feed, START)),
        }
    }

    /// The counts of the file, if the index beside it is that of its records, whose starts are known then. Used only if the
    /// file's size is known, so that the index of another file is detected.
    fn indexed(&self) -> Result<Option<FileCounts>> {
        let Some(size) = self.size else { return Ok(None) };
        let mut looked = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_none() {
            let index = self.input.sibling(&format!("{}{}", stem(self.input.name()), index::SUFFIX))?;
            let starts = index.map_or(Ok(None), |index| index::starts(&*index, size))?;
            *looked = Some(starts.is_some());
            starts.into_iter().for_each(|starts| self.known.take(starts));
        }
        Ok(Some(size).filter(|_| *looked == Some(true)))
    }

    /// The next rows: the rest of a chunk, `rest`, after some of its records, or the start of the next chunk.
    fn block(&self, records: &mut RecordReader<'_>, rest: &mut Option<(RecordChunk, usize)>) -> Result<Option<Rows>> {
        let (chunk, used) = match rest.take() {
            Some(rest) => rest,
            None => match records.chunk()? {
                Some(chunk) => (chunk, 0),
                None => return Ok(None),
            },
        };
        let mut block = RowBuilder::new(&self.layout, &self.names, &chunk.bytes, self.source.limits);
        for (i, range) in chunk.data.iter().enumerate().skip(used) {
            let record = chunk.bytes.get(range.clone()).unwrap_or_default();
            block.push(record).map_err(|e| in_record(e, chunk.first + i as u64))?;
            if block.size() >= BLOCK_BYTES || block.rows() >= BLOCK_ROWS {
                break;
            }
        }
        let used = used + block.rows();
        let rows = block.finish()?;
        if used < chunk.data.len() {
            *rest = Some((chunk, used));
        }
        Ok(Some(rows))
    }
}

impl RecordSource {
    /// The columns of `input`, from the schema document of the file or of its dataset; `None` without one.
    fn documented(&self, input: &dyn Input) -> Result<Option<(FeatureLayout, Option<FileCounts>)>> {
        let own = format!("{}{}", stem(input.name()), document::SUFFIX);
        if let Some(document) = input.sibling(&own)? {
            let (layout, size) = self.decode(&*document)?;
            if let (Some(size), Some(len)) = (size, input.len())
                && size.bytes != len
            {
                return Err(Error::content(format!(
                    "is {len} bytes long where {own} says {}; fetch both again",
                    size.bytes
                )));
            }
            return Ok(Some((layout, size)));
        }
        if let Some(document) = input.sibling(document::DATASET)? {
            // A file of this name may belong to another program.
            match self.decode(&*document) {
                Err(error) if error.kind() == Kind::Unsupported => {}
                other => return Ok(Some((other?.0, None))),
            }
        }
        Ok(None)
    }

    /// The columns of `input`, inferred from its first records.
    fn inferred(&self, input: &dyn Input) -> Result<FeatureLayout> {
        let (count, bytes) = self.options.infer.map_or((RECORDS, BYTES), |count| (count, u64::MAX));
        let first = 0..count;
        let mut records = RecordReader::new(ByteStream::open(input)?, START, first, self.options.crc, self.limits);
        infer(&mut records, bytes, &self.options.unread)
    }

    fn decode(&self, file: &dyn Input) -> Result<(FeatureLayout, Option<FileCounts>)> {
        let bytes = file.read_all(document::LONGEST.min(self.limits.blob))?;
        document::decode(&bytes).map_err(|e| e.in_input(file.name()))
    }
}

/// A file name without folder and extension.
fn stem(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.strip_suffix(".gz").unwrap_or(name);
    [".tfrecord", ".tfrecords", ".tfrec"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}
