//! Samples as framed records, with index and schema beside them.

use crate::document::{self, Size};
use crate::example::{Encoded, encode};
use crate::feature::{Feature, features};
use crate::frame::{FRAME, LONGEST};
use crate::gzip::Gzip;
use crate::index;
use crate::layout::Layout;
use crate::options::Writing;
use packhorse_core::{Context, Error, Kind, Outlet, Result, Rows, SchemaRef, Sealed, ShardSummary, ShardWriter, Sink};
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, IntoParallelRefMutIterator, ParallelIterator};
use std::io::Write;
use std::ops::Range;

/// The note that carries a shard's schema to the seal.
const NOTE: &str = "tfrecord.schema";

/// About how many bytes of rows one thread encodes at a time.
const PIECE: usize = 1 << 20;
/// Pieces encoded side by side before they are written.
const PIECES: usize = 8;
/// The largest buffer that is kept to be used again, in bytes.
const KEPT: usize = 4 * PIECE;

pub(crate) struct RecordSink {
    pub(crate) options: Writing,
}

impl Sink for RecordSink {
    fn typed(&self) -> bool {
        true
    }

    fn suffix(&self) -> &'static str {
        if self.options.gzip { ".tfrecord.gz" } else { ".tfrecord" }
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        let layout = Layout::of(schema, self.options.raw_tensors)?;
        let largest = Some(Size { records: u64::MAX, bytes: u64::MAX });
        readable(document::encode(&layout, largest).len() as u64)
    }

    fn admit(&self, _: &str, _: &str, bytes: u64) -> Result<()> {
        match bytes < LONGEST - (1 << 16) {
            true => Ok(()),
            false => {
                let message = format!("is {bytes} bytes long, and no Example is over 2 GiB: split it");
                Err(Error::new(Kind::Limit, message))
            }
        }
    }

    fn size_of(&self, bytes: u64) -> u64 {
        // Tags and lengths of value, list, feature, name and entry.
        bytes + 32 + FRAME
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        let layout = Layout::of(schema, self.options.raw_tensors)?;
        let data = out.stream(self.suffix())?;
        let (data, index) = match self.options.gzip {
            true => (Data::Gzip(Gzip::new(data)?), None),
            false => (Data::Plain(data), Some(out.stream(index::SUFFIX)?)),
        };
        let document = out.stream(document::SUFFIX)?;
        Ok(Box::new(RecordWriter { layout, data, index, document, records: 0, at: 0, room: Vec::new() }))
    }

    fn seal(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        let Some(schema) = dataset.shards.iter().find_map(|shard| shard.notes.get(NOTE)) else { return Ok(()) };
        let mut file = out.stream(document::DATASET)?;
        file.write_all(schema.as_bytes()).and_then(|()| file.flush()).context("write")
    }
}

/// Refuses what the source would not read.
fn readable(document: u64) -> Result<()> {
    match document <= document::LONGEST {
        true => Ok(()),
        false => Err(Error::unsupported(format!(
            "the fields' description has {document} bytes, and the most are {}: pack fewer fields (`field`, `drop`), or \
             another format",
            document::LONGEST
        ))),
    }
}

enum Data {
    Plain(Box<dyn Write + Send>),
    Gzip(Gzip),
}

struct RecordWriter {
    layout: Layout,
    data: Data,
    index: Option<Box<dyn Write + Send>>,
    document: Box<dyn Write + Send>,
    records: u64,
    /// Bytes of records so far, not compressed.
    at: u64,
    /// Buffers to encode into.
    room: Vec<Encoded>,
}

impl ShardWriter for RecordWriter {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        let mut all: Vec<Feature> = Vec::new();
        for (column, array) in self.layout.0.iter().zip(rows.columns()) {
            all.extend(features(column, array)?);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let pieces: Vec<Range<usize>> = pieces(rows);
        for some in pieces.chunks(PIECES) {
            let mut room = std::mem::take(&mut self.room);
            room.resize_with(PIECES, Encoded::default);
            let work = room.par_iter_mut().zip(some.par_iter());
            work.map(|(to, piece)| encode(&all, piece.clone(), to)).collect::<Result<()>>()?;
            room.iter().take(some.len()).try_for_each(|encoded| self.write(encoded))?;
            room.retain(|encoded| encoded.bytes.capacity() <= KEPT);
            self.room = room;
        }
        self.records += rows.num_rows() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ShardSummary> {
        let bytes = match self.data {
            Data::Gzip(gzip) => gzip.finish()?,
            Data::Plain(mut out) => {
                out.flush().context("write")?;
                self.at
            }
        };
        if let Some(mut index) = self.index {
            index.flush().context("write")?;
        }
        let size = Size { records: self.records, bytes };
        let text = document::encode(&self.layout, Some(size));
        self.document.write_all(text.as_bytes()).and_then(|()| self.document.flush()).context("write")?;
        Ok(ShardSummary {
            samples: self.records,
            bytes,
            notes: [(NOTE.to_owned(), document::encode(&self.layout, None))].into(),
            ..ShardSummary::default()
        })
    }
}

impl RecordWriter {
    fn write(&mut self, encoded: &Encoded) -> Result<()> {
        match &mut self.data {
            Data::Plain(out) => out.write_all(&encoded.bytes).context("write")?,
            Data::Gzip(gzip) => gzip.write(&encoded.bytes)?,
        }
        let mut lines = String::new();
        self.at = index::put_lines(self.at, &encoded.ends, &mut lines);
        match &mut self.index {
            Some(index) => index.write_all(lines.as_bytes()).context("write"),
            None => Ok(()),
        }
    }
}

/// Rows in pieces for the threads.
fn pieces(rows: &Rows) -> Vec<Range<usize>> {
    let n = rows.num_rows();
    let each = (PIECE / (rows.get_array_memory_size() / n.max(1)).max(1)).clamp(1, 4096);
    (0..n).step_by(each).map(|from| from..n.min(from + each)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_that_would_not_be_read_is_not_written() {
        assert!(readable(document::LONGEST).is_ok());
        assert_eq!(readable(document::LONGEST + 1).unwrap_err().kind(), Kind::Unsupported);
    }
}
