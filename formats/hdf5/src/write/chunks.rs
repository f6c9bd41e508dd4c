//! Cuts a dataset into chunks and collects them for the compressor.

use super::filter::{Coder, Pipeline};
use super::index::{self, StoredChunk};
use super::main_file::MainFile;
use super::object::{ObjectWriter, chunked, contiguous};
use crate::datatype::Datatype;
use crate::options::{Compression, ShuffleMode, SinkOptions};
use crate::pool::Pool;
use arrow_buffer::Buffer;
use packhorse_core::{Memory, Pool as MemoryPool, Result};
use rayon::prelude::*;

/// The largest chunk with automatic chunk sizes, in bytes.
const LARGEST: u64 = 4 << 20;
/// Samples of this size or larger are chunks of their own.
const ALONE: u64 = 128 << 10;
/// The number of chunks that decide on shuffling.
pub(super) const PROBES: usize = 4;

/// The shape of chunks.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    /// Bytes per element.
    width: u64,
    /// The dimensions of a sample.
    sample: Vec<u64>,
    /// The dimensions of a chunk, rows first.
    chunk: Vec<u64>,
    /// The axis that is split: chunks have length 1 along all axes before, and full length along all after.
    axis: usize,
}

impl Geometry {
    /// Chunks of `rows` rows, or of about `target` bytes, for samples with dimensions `sample`, all of them positive.
    pub(crate) fn new(width: u64, sample: &[u64], rows: Option<u64>, target: u64) -> Self {
        let bytes = sample.iter().fold(width, |bytes, dim| bytes.saturating_mul(*dim)).max(1);
        let mut chunk: Vec<u64> = [&[1], sample].concat();
        let mut axis = 0;
        match rows {
            Some(rows) => chunk.iter_mut().take(1).for_each(|first| *first = rows),
            None if bytes < ALONE => chunk.iter_mut().take(1).for_each(|first| *first = (target / bytes).max(1)),
            None => {
                let mut inner = bytes;
                for (i, dim) in chunk.iter_mut().enumerate().skip(1) {
                    if inner <= LARGEST {
                        break;
                    }
                    inner /= *dim;
                    (*dim, axis) = ((LARGEST / inner).clamp(1, *dim), i);
                }
            }
        }
        Self { width, sample: sample.to_vec(), chunk, axis }
    }

    /// Bytes per chunk.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunk.iter().fold(self.width, |bytes, dim| bytes.saturating_mul(*dim))
    }

    /// The bytes of chunk `number` that come from rows; the rest is padding.
    fn filled(&self, number: u64) -> u64 {
        let (Some(cut), Some(whole)) =
            (self.chunk.get(self.axis), self.axis.checked_sub(1).and_then(|i| self.sample.get(i)))
        else {
            return self.bytes();
        };
        let start = (number % whole.div_ceil(*cut)) * cut;
        self.bytes() / cut * (whole - start).min(*cut)
    }

    /// The start of chunk `number`, in elements per axis.
    fn offsets(&self, number: u64) -> Vec<u64> {
        let mut offsets = vec![0; self.chunk.len()];
        let mut rest = number;
        for i in (0..=self.axis).rev() {
            let (Some(offset), Some(cut)) = (offsets.get_mut(i), self.chunk.get(i)) else { continue };
            let cuts = i.checked_sub(1).and_then(|i| self.sample.get(i)).map_or(u64::MAX, |dim| dim.div_ceil(*cut));
            *offset = rest % cuts * cut;
            rest /= cuts;
        }
        offsets
    }
}

/// Collects the elements of one dataset into chunks.
pub(crate) struct Chunker {
    geometry: Geometry,
    pipeline: Pipeline,
    /// Whether the pipeline's shuffle is final.
    decided: bool,
    /// The chunk being filled, and its bytes so far.
    open: Option<Memory>,
    held: usize,
    full: Vec<Buffer>,
    /// Chunks completed so far.
    number: u64,
    stored: Vec<StoredChunk>,
    elements: u64,
    memory: MemoryPool,
}

/// Rows that form a whole chunk are not copied, unless the view would keep a buffer larger than this alive.
const BEHIND: usize = 32 << 20;

impl Chunker {
    /// Chunks take their memory from `memory`.
    pub(crate) fn new(geometry: Geometry, options: &SinkOptions, memory: &MemoryPool) -> Self {
        let width = geometry.width as usize;
        let shuffles = width > 1 && options.filter != Compression::None;
        Self {
            pipeline: Pipeline {
                filter: options.filter,
                shuffle: shuffles && options.shuffle == ShuffleMode::On,
                width,
            },
            decided: !shuffles || options.shuffle != ShuffleMode::Auto,
            geometry,
            open: None,
            held: 0,
            full: Vec::new(),
            number: 0,
            stored: Vec::new(),
            elements: 0,
            memory: memory.clone(),
        }
    }

    /// Appends elements, in C order.
    pub(crate) fn push(&mut self, bytes: &Buffer) -> Result<()> {
        self.elements += bytes.len() as u64 / self.geometry.width.max(1);
        let whole = self.geometry.bytes() as usize;
        let mut at = 0;
        while at < bytes.len() {
            let wanted = self.geometry.filled(self.number) as usize;
            let len = (wanted - self.held).min(bytes.len() - at);
            if len == whole && bytes.capacity() <= BEHIND {
                self.add(bytes.slice_with_length(at, len));
            } else {
                let piece = bytes.get(at..at + len).unwrap_or_default();
                self.fill(piece, whole)?;
                if self.held == wanted {
                    self.close();
                }
            }
            at += len;
        }
        Ok(())
    }

    fn fill(&mut self, piece: &[u8], whole: usize) -> Result<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.memory.take(whole)?,
        };
        let end = self.held + piece.len();
        open.get_mut(self.held..end).unwrap_or_default().copy_from_slice(piece);
        (self.open, self.held) = (Some(open), end);
        Ok(())
    }

    /// Completes the open chunk, padded with zeros.
    fn close(&mut self) {
        let held = std::mem::take(&mut self.held);
        if let Some(mut chunk) = self.open.take() {
            chunk.truncate(self.geometry.bytes() as usize);
            chunk.get_mut(held..).unwrap_or_default().fill(0);
            self.add(chunk.into());
        }
    }

    fn add(&mut self, chunk: Buffer) {
        self.full.push(chunk);
        self.number += 1;
    }

    /// Completes the last chunk; call it after the last element.
    pub(crate) fn end(&mut self) {
        if self.held == 0 {
            return;
        }
        if self.number == 0 && self.geometry.axis == 0 {
            let row: u64 = self.geometry.sample.iter().product::<u64>() * self.geometry.width;
            let rows = self.held as u64 / row.max(1);
            self.geometry.chunk.iter_mut().take(1).for_each(|first| *first = rows);
        }
        self.close();
    }

    /// Takes the chunks that can be compressed now: none while shuffling is undecided, unless `ended`.
    pub(crate) fn ready(&mut self, ended: bool, coders: &Pool<Coder>) -> Result<Vec<Buffer>> {
        if !self.decided {
            if self.full.is_empty() || (self.full.len() < PROBES && !ended) {
                return Ok(Vec::new());
            }
            self.decide(coders)?;
        }
        Ok(std::mem::take(&mut self.full))
    }

    /// Turns shuffling on if it makes the first chunks smaller.
    fn decide(&mut self, coders: &Pool<Coder>) -> Result<()> {
        let size = |shuffle: bool| -> Result<usize> {
            let pipeline = Pipeline { shuffle, ..self.pipeline };
            let probes = self.full.get(..PROBES.min(self.full.len())).unwrap_or_default();
            let pack = |chunk: &Buffer| coders.with(|coder| coder.pack(&pipeline, chunk.clone(), &self.memory));
            let sizes = probes.par_iter().map(pack);
            sizes.map(|packed| packed.map(|packed| packed.bytes.len())).sum()
        };
        self.pipeline.shuffle = size(true)? < size(false)?;
        self.decided = true;
        Ok(())
    }

    pub(crate) fn pipeline(&self) -> Pipeline {
        self.pipeline
    }

    /// Notes where the next chunk was written.
    pub(crate) fn stored(&mut self, chunk: StoredChunk) {
        self.stored.push(chunk);
    }

    /// Writes the chunk index and returns the dataset's object; `base` is added to the addresses of chunks.
    pub(crate) fn object(&mut self, datatype: &Datatype, base: u64, main: &mut MainFile) -> Result<ObjectWriter> {
        let row: u64 = self.geometry.sample.iter().product();
        let rows = self.elements / row.max(1);
        let dims = [&[rows], &self.geometry.sample[..]].concat();
        self.stored.iter_mut().for_each(|chunk| chunk.address += base);
        let tree = index::write(&self.stored, |number| self.geometry.offsets(number), main)?;
        let layout = chunked(tree, &self.geometry.chunk, datatype.size());
        let mut object = ObjectWriter::dataset(datatype, &dims, true, layout);
        object.filters(&self.pipeline.entries(self.geometry.bytes()));
        Ok(object)
    }
}

/// The object of a contiguous dataset at `address`.
pub(crate) fn plain_object(datatype: &Datatype, dims: &[u64], address: u64) -> ObjectWriter {
    let bytes = dims.iter().fold(u64::from(datatype.size()), |bytes, dim| bytes.saturating_mul(*dim));
    ObjectWriter::dataset(datatype, dims, false, contiguous(address, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_the_right_size() {
        let chunk = |width, sample: &[u64], rows| Geometry::new(width, sample, rows, 512 << 10).chunk;
        assert_eq!(chunk(4, &[224, 224, 3], None), [1, 224, 224, 3]);
        assert_eq!(chunk(1, &[32, 32, 3], None), [170, 32, 32, 3]);
        assert_eq!(chunk(8, &[], None), [65_536]);
        assert_eq!(chunk(8, &[], Some(10)), [10]);
        assert_eq!(chunk(4, &[512, 512, 512], None), [1, 4, 512, 512]);
        assert_eq!(chunk(4, &[3, 2048, 2048], None), [1, 1, 512, 2048]);
    }

    #[test]
    fn pieces_of_a_sample_are_numbered_in_order() {
        let geometry = Geometry { width: 4, sample: vec![2, 5, 3], chunk: vec![1, 1, 2, 3], axis: 2 };
        let found: Vec<_> = (0..7).map(|i| (geometry.offsets(i), geometry.filled(i))).collect();
        assert_eq!(found[0], (vec![0, 0, 0, 0], 24));
        assert_eq!(found[2], (vec![0, 0, 4, 0], 12));
        assert_eq!(found[3], (vec![0, 1, 0, 0], 24));
        assert_eq!(found[6], (vec![1, 0, 0, 0], 24));
    }
}
