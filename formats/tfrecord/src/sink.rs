//! The sink: samples as framed records, with index and schema document.

use crate::document::{self, FileCounts};
use crate::example::{self, EncodedRecords, encode};
use crate::feature::{Feature, features};
use crate::frame::{FRAME, LONGEST};
use crate::gzip::Gzip;
use crate::index;
use crate::layout::FeatureLayout;
use crate::options::RecordSinkOptions;
use packhorse_core::{
    Context, Error, Kind, Outlet, Result, RowCheck, Rows, SchemaRef, Sealed, ShardSummary, ShardWriter, Sink,
    add_sizes, rows_bytes,
};
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, IntoParallelRefMutIterator, ParallelIterator};
use std::io::Write;
use std::ops::Range;

/// The note that carries a shard's schema from the writer to the seal.
const NOTE: &str = "tfrecord.schema";

/// About the bytes of rows that one thread encodes at a time.
const PIECE: usize = 1 << 20;
/// Pieces encoded in parallel before they are written.
const PIECES: usize = 8;
/// The largest buffer that is kept for reuse, in bytes.
const KEPT: usize = 4 * PIECE;

pub(crate) struct RecordSink {
    pub(crate) options: RecordSinkOptions,
}

impl Sink for RecordSink {
    fn typed(&self) -> bool {
        true
    }

    fn suffix(&self) -> &'static str {
        if self.options.gzip { ".tfrecord.gz" } else { ".tfrecord" }
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        let layout = FeatureLayout::of(schema, self.options.raw_tensors)?;
        let largest = Some(FileCounts { records: u64::MAX, bytes: u64::MAX });
        readable(document::encode(&layout, largest).len() as u64)
    }

    fn row_check(&self, schema: &SchemaRef) -> Option<RowCheck> {
        let layout = FeatureLayout::of(schema, self.options.raw_tensors).ok()?;
        Some(Box::new(move |rows| check(rows, &layout)))
    }

    fn admit(&self, _: &str, _: &str, bytes: u64) -> Result<()> {
        match bytes < LONGEST - (1 << 16) {
            true => Ok(()),
            false => {
                let message = format!("is {bytes} bytes long, over the limit of 2 GiB of an Example; split it");
                Err(Error::new(Kind::Limit, message))
            }
        }
    }

    fn size_of(&self, bytes: u64) -> u64 {
        // Tags and lengths of value, list, feature, name and entry.
        bytes + 32 + FRAME
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        let layout = FeatureLayout::of(schema, self.options.raw_tensors)?;
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

/// Refuses a schema document that is too long for the source.
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
    layout: FeatureLayout,
    data: Data,
    index: Option<Box<dyn Write + Send>>,
    document: Box<dyn Write + Send>,
    records: u64,
    /// Uncompressed bytes of records so far.
    at: u64,
    /// Reused buffers for encoding.
    room: Vec<EncodedRecords>,
}

impl ShardWriter for RecordWriter {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        let all = all_features(rows, &self.layout)?;
        let pieces: Vec<Range<usize>> = pieces(rows);
        for some in pieces.chunks(PIECES) {
            let mut room = std::mem::take(&mut self.room);
            room.resize_with(PIECES, EncodedRecords::default);
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
        let size = FileCounts { records: self.records, bytes };
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
    fn write(&mut self, encoded: &EncodedRecords) -> Result<()> {
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

/// The features of `rows`, by name.
fn all_features(rows: &Rows, layout: &FeatureLayout) -> Result<Vec<Feature>> {
    let mut all: Vec<Feature> = Vec::new();
    for (column, array) in layout.0.iter().zip(rows.columns()) {
        all.extend(features(column, array)?);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Refuses samples that a record can't hold, so that one costs itself alone: with nulls inside lists, or longer than readers
/// accept.
fn check(rows: &Rows, layout: &FeatureLayout) -> Result<()> {
    let of_row = |row: usize| all_features(&rows.slice(row, 1), layout).map_err(|error| error.in_row_of(rows, row));
    if let Err(error) = all_features(rows, layout) {
        return (0..rows.num_rows()).find_map(|row| of_row(row).err()).map_or(Err(error), Err);
    }
    let mut sizes = vec![0u64; rows.num_rows()];
    rows.columns().iter().for_each(|column| add_sizes(column, &mut sizes));
    // A byte takes at most ten as a number of variable length.
    for (row, _) in sizes.iter().enumerate().filter(|(_, size)| size.saturating_mul(10) > LONGEST) {
        example::check(&of_row(row)?, 0).map_err(|error| error.in_row_of(rows, row))?;
    }
    Ok(())
}

/// Splits rows into pieces for the threads.
fn pieces(rows: &Rows) -> Vec<Range<usize>> {
    let n = rows.num_rows();
    let each = (PIECE / (rows_bytes(rows) / n.max(1)).max(1)).clamp(1, 4096);
    (0..n).step_by(each).map(|from| from..n.min(from + each)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_document_too_long_to_read_is_refused() {
        assert!(readable(document::LONGEST).is_ok());
        assert_eq!(readable(document::LONGEST + 1).unwrap_err().kind(), Kind::Unsupported);
    }
}
