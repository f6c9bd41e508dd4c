//! A dataset: its elements by rows, whatever its layout, as packed little-endian bytes.

use super::axis::{Axis, copy_box};
use super::chunk_index::{Chunk, Grid};
use super::file::H5File;
use super::filter;
use super::message::{self, Filter, Layout};
use super::object::{Object, kind};
use crate::bytes::UNDEFINED;
use crate::datatype::Datatype;
use packhorse_core::{Error, Memory, Result};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Elements that were never written may take up this many bytes beyond [`SPARSE`] times the file.
const UNWRITTEN: u64 = 64 << 20;
const SPARSE: u64 = 1000;
/// Rows of chunks side by side are kept for the next rows up to this size.
const KEPT: u64 = 64 << 20;

/// No axis is longer, so that sums and products of rows can't overflow.
const LONGEST: u64 = 1 << 48;

/// All rows.
pub(crate) const ALL: Range<u64> = 0..u64::MAX;

enum Storage {
    Compact(Vec<u8>),
    Contiguous(u64),
    Chunked(Grid, Vec<Filter>, bool),
    /// Never written.
    Nothing,
}

/// An open dataset.
pub(crate) struct Dataset {
    /// Its path, for errors.
    pub(crate) name: String,
    pub(crate) datatype: Datatype,
    pub(crate) dims: Vec<u64>,
    storage: Storage,
    fill: Vec<u8>,
    /// The rows that can be read.
    open: Range<u64>,
    /// Decoded chunks that cover rows beyond those asked for last: their first row, and rows.
    kept: Option<(u64, Arc<Memory>)>,
}

/// Dimensions and datatype of the dataset that `object` is; `None` where it is none, or has no rows.
pub(crate) fn describe(file: &H5File<'_>, object: &Object) -> Result<Option<(Datatype, Vec<u64>)>> {
    let (Some(space), true) = (object.first(kind::DATASPACE)?, object.message(kind::LAYOUT).is_some()) else {
        return Ok(None);
    };
    let space = message::space(file, space)?;
    if space.none || space.dims.is_empty() {
        return Ok(None);
    }
    Ok(Some((message::datatype(file, object)?, space.dims)))
}

impl Dataset {
    /// The dataset that `object` is, called `name`, of which only `rows` will be read: an index of many chunks is not
    /// read for a few of them.
    pub(crate) fn open(file: &H5File<'_>, object: &Object, name: &str, rows: &Range<u64>) -> Result<Self> {
        Self::parse(file, object, name, rows).map_err(|e| named(name, e))
    }

    fn parse(file: &H5File<'_>, object: &Object, name: &str, rows: &Range<u64>) -> Result<Self> {
        let none = || Error::content("is no dataset of rows");
        let space = message::space(file, object.first(kind::DATASPACE)?.ok_or_else(none)?)?;
        let datatype = message::datatype(file, object)?;
        if space.none || space.dims.is_empty() {
            return Err(none());
        }
        let filters = object.first(kind::FILTERS)?.map(message::filters).transpose()?.unwrap_or_default();
        filter::check(&filters)?;
        if object.message(kind::EXTERNAL_FILES).is_some() {
            return Err(Error::unsupported("datasets in external files; rewrite the file with h5repack"));
        }
        let width = u64::from(datatype.size());
        // Of what may be more than the file can hold all chunks are counted.
        let total = space.dims.iter().try_fold(width, |n, dim| n.checked_mul(*dim));
        let open = if total.is_some_and(|total| total <= unwritten(file)) { rows.clone() } else { ALL };
        let storage = match message::layout(file, object.first(kind::LAYOUT)?.ok_or_else(none)?)? {
            Layout::Compact(bytes) => Storage::Compact(bytes),
            Layout::Contiguous { address: UNDEFINED } => Storage::Nothing,
            Layout::Contiguous { address } => Storage::Contiguous(address),
            Layout::Chunked(layout) if layout.address == UNDEFINED => Storage::Nothing,
            Layout::Chunked(layout) => {
                let grid = Grid::read(file, &layout, &space, width, !filters.is_empty(), open.clone())?;
                Storage::Chunked(grid, filters, layout.whole_only)
            }
            Layout::Virtual => {
                return Err(Error::unsupported("virtual datasets; read the files that they are made of"));
            }
        };
        let fill = message::fill(object)?;
        let dataset = Self { name: name.to_owned(), datatype, dims: space.dims, storage, fill, open, kept: None };
        dataset.check(file)?;
        Ok(dataset)
    }

    /// Refuses what claims to be far larger than what the file holds of it.
    fn check(&self, file: &H5File<'_>) -> Result<()> {
        let product =
            |dims: &[u64]| dims.iter().try_fold(u64::from(self.datatype.size()), |n, dim| n.checked_mul(*dim));
        let endless = || Error::content("is larger than can be counted: the file is damaged");
        let grid: &[u64] = if let Storage::Chunked(grid, _, _) = &self.storage { grid.dims() } else { &[] };
        if self.dims.iter().chain(grid).any(|dim| *dim > LONGEST) {
            return Err(endless());
        }
        let total = product(&self.dims).ok_or_else(endless)?;
        product(self.dims.get(1..).unwrap_or_default()).ok_or_else(endless)?;
        let backed = match &self.storage {
            Storage::Compact(bytes) if (bytes.len() as u64) < total => {
                return Err(Error::content(format!("holds {} bytes of {total}: the file is damaged", bytes.len())));
            }
            Storage::Contiguous(address) if !file.holds(*address, total) => {
                return Err(Error::content(format!(
                    "has {total} bytes at {address}, outside the file: it is cut short or damaged"
                )));
            }
            Storage::Compact(_) | Storage::Contiguous(_) => total,
            Storage::Chunked(grid, _, _) => grid.len().saturating_mul(grid.bytes()),
            Storage::Nothing => 0,
        };
        let missing = total.saturating_sub(backed);
        match missing > unwritten(file) {
            true => {
                Err(Error::content(format!("says that it has {total} bytes, of which {missing} were never written")))
            }
            false => Ok(()),
        }
    }

    /// How many rows.
    pub(crate) fn rows(&self) -> u64 {
        self.dims.first().copied().unwrap_or_default()
    }

    /// Elements of a row.
    pub(crate) fn row_elements(&self) -> u64 {
        self.dims.iter().skip(1).product()
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.row_elements() * u64::from(self.datatype.size())
    }

    /// The elements of rows `from..to`, which exist, in C order and little-endian.
    pub(crate) fn read(&mut self, file: &H5File<'_>, from: u64, to: u64) -> Result<Memory> {
        self.read_raw(file, from, to).map_err(|e| named(&self.name, e))
    }

    fn read_raw(&mut self, file: &H5File<'_>, from: u64, to: u64) -> Result<Memory> {
        if from > to || to > self.rows() {
            return Err(Error::content(format!("has {} rows where {to} are wanted: the file is damaged", self.rows())));
        }
        if from < to && (from < self.open.start || to > self.open.end) {
            return Err(Error::bug("rows of a dataset that was opened for others"));
        }
        let row = self.row_bytes();
        let len = file.limits.blob((to - from).saturating_mul(row))?;
        let mut out = match &self.storage {
            Storage::Compact(bytes) => {
                let start = (from * row) as usize;
                let mut out = file.memory.zeros(len)?;
                let found = bytes.get(start..start + len).unwrap_or_default();
                out.get_mut(..found.len()).unwrap_or_default().copy_from_slice(found);
                out
            }
            Storage::Contiguous(address) => {
                let mut out = file.memory.take(len)?;
                file.read_data(address.saturating_add(from * row), &mut out)?;
                out
            }
            Storage::Nothing => self.filled(file, len)?,
            Storage::Chunked(..) => self.read_chunks(file, from, to, len)?,
        };
        swap(&self.datatype, &mut out);
        Ok(out)
    }

    /// Elements that were never written.
    fn filled(&self, file: &H5File<'_>, len: usize) -> Result<Memory> {
        let mut out = file.memory.zeros(len)?;
        if self.fill.len() == self.datatype.size() as usize && self.fill.iter().any(|byte| *byte != 0) {
            out.chunks_exact_mut(self.fill.len()).for_each(|element| element.copy_from_slice(&self.fill));
        }
        Ok(out)
    }

    fn read_chunks(&mut self, file: &H5File<'_>, from: u64, to: u64, len: usize) -> Result<Memory> {
        let Storage::Chunked(grid, filters, whole_only) = &self.storage else { return file.memory.take(0) };
        let (tall, abreast, row) = (grid.dims().first().copied().unwrap_or(1), grid.abreast(), self.row_bytes());
        if len == 0 {
            return file.memory.take(0);
        }
        file.limits.blob(grid.bytes())?;
        let (first, last) = (from / tall, (to - 1) / tall);
        let chunks = grid.range(first.saturating_mul(abreast), (last + 1).saturating_mul(abreast));
        for (_, chunk) in chunks {
            if !file.holds(chunk.address, chunk.size) || filter::most(filters, chunk.size) < grid.bytes() {
                return Err(Error::content(format!(
                    "a chunk of {} bytes is not what it says: the file is damaged",
                    chunk.size
                )));
            }
        }
        let job = Job { file, grid, filters, whole_only: *whole_only, dims: &self.dims, row };
        // One chunk across, which also holds other rows: it will be wanted again.
        let keeps = abreast == 1 && tall > 1 && grid.bytes() <= KEPT && job.covers_rows();
        // Chunks that are all there leave nothing to fill.
        let whole = chunks.len() as u64 == (last - first + 1).saturating_mul(abreast);
        let mut out = if whole { file.memory.take(len)? } else { self.filled(file, len)? };
        if !keeps {
            job.read(chunks, from, to, &mut out)?;
            return Ok(out);
        }
        let mut kept = self.kept.clone();
        let whole: Vec<(u64, Chunk)> =
            chunks.iter().copied().filter(|(number, _)| number * tall >= from && (number + 1) * tall <= to).collect();
        job.read(&whole, from, to, &mut out)?;
        for (number, chunk) in chunks.iter().filter(|chunk| !whole.contains(chunk)) {
            let start = number * tall;
            let bytes = match kept.take().filter(|(at, _)| *at == start) {
                Some((_, bytes)) => bytes,
                None => Arc::new(job.decode(*number, chunk)?),
            };
            copy_rows(&bytes, start, &mut out, from, to, row);
            kept = Some((start, bytes));
        }
        self.kept = kept;
        Ok(out)
    }
}

/// How many bytes that were never written a dataset of `file` may have.
fn unwritten(file: &H5File<'_>) -> u64 {
    UNWRITTEN.saturating_add(file.len().saturating_mul(SPARSE))
}

/// The rows of `chunk`, which start at row `start`, into `out`, which holds rows `from..to`.
fn copy_rows(chunk: &[u8], start: u64, out: &mut [u8], from: u64, to: u64, row: u64) {
    let first = start.max(from);
    let end = (start + chunk.len() as u64 / row.max(1)).min(to);
    let bytes = |rows: u64| (rows * row) as usize;
    if end <= first {
        return;
    }
    let source = chunk.get(bytes(first - start)..bytes(end - start)).unwrap_or_default();
    if let Some(target) = out.get_mut(bytes(first - from)..bytes(end - from)) {
        target.copy_from_slice(source);
    }
}

/// What reading chunks of one dataset needs.
struct Job<'a> {
    file: &'a H5File<'a>,
    grid: &'a Grid,
    filters: &'a [Filter],
    whole_only: bool,
    dims: &'a [u64],
    row: u64,
}

impl Job<'_> {
    /// Whether a chunk is whole rows and nothing else.
    fn covers_rows(&self) -> bool {
        self.grid.dims().iter().zip(self.dims).skip(1).all(|(chunk, dim)| chunk == dim)
    }

    fn decode(&self, number: u64, chunk: &Chunk) -> Result<Memory> {
        let mut out = self.file.memory.take(self.grid.bytes() as usize)?;
        self.decode_into(number, chunk, &mut out)?;
        Ok(out)
    }

    fn decode_into(&self, number: u64, chunk: &Chunk, out: &mut [u8]) -> Result<()> {
        let plain = self.filters.is_empty() || (self.whole_only && self.sticks_out(number));
        if plain && chunk.size == out.len() as u64 {
            return self.file.read(chunk.address, out);
        }
        let (filters, stored) = (if plain { &[] } else { self.filters }, chunk.size as usize);
        let read = |bytes: &mut [u8]| self.file.read(chunk.address, bytes);
        self.file.decoders.with(|decoder| decoder.unpack(filters, chunk.mask, stored, read, out))
    }

    fn sticks_out(&self, number: u64) -> bool {
        let start = self.grid.start(number);
        start
            .iter()
            .zip(self.grid.dims())
            .zip(self.dims)
            .any(|((start, chunk), dim)| start.saturating_add(*chunk) > *dim)
    }

    /// The elements of `chunks` in rows `from..to`, into `out`.
    fn read(&self, chunks: &[(u64, Chunk)], from: u64, to: u64, out: &mut [u8]) -> Result<()> {
        let tall = self.grid.dims().first().copied().unwrap_or(1);
        let inside = |(number, _): &(u64, Chunk)| number * tall >= from && (number + 1) * tall <= to;
        if self.covers_rows() && chunks.iter().all(inside) {
            return self.read_in_place(chunks, from, tall, out);
        }
        // A batch of decoded chunks at a time: what is decoded may be far more than what is wanted.
        let batch = ((32 << 20) / self.grid.bytes().max(1)).max(1) as usize;
        for chunks in chunks.chunks(batch.min(1 << 16)) {
            let decoded: Vec<Result<Memory>> =
                chunks.par_iter().map(|(number, chunk)| self.decode(*number, chunk)).collect();
            for ((number, _), bytes) in chunks.iter().zip(decoded) {
                self.copy(&bytes?, &self.grid.start(*number), from, to, out);
            }
        }
        Ok(())
    }

    /// Chunks of whole rows, all of them wanted, decoded where they belong.
    fn read_in_place(&self, chunks: &[(u64, Chunk)], from: u64, tall: u64, out: &mut [u8]) -> Result<()> {
        let mut jobs = Vec::with_capacity(chunks.len());
        let (mut rest, mut at) = (out, 0);
        for (number, chunk) in chunks {
            let start = ((number * tall - from) * self.row) as usize;
            let gap = std::mem::take(&mut rest).split_at_mut_checked(start - at);
            let part = gap.and_then(|(_, tail)| tail.split_at_mut_checked(self.grid.bytes() as usize));
            let (part, tail) = part.ok_or_else(|| Error::bug("a chunk outside the rows it belongs to"))?;
            jobs.push((*number, chunk, part));
            (rest, at) = (tail, start + self.grid.bytes() as usize);
        }
        jobs.into_par_iter()
            .with_max_len(1)
            .map(|(number, chunk, part)| self.decode_into(number, chunk, part))
            .collect()
    }

    /// What the chunk that starts at `start` has of rows `from..to`, into `out`.
    fn copy(&self, chunk: &[u8], start: &[u64], from: u64, to: u64, out: &mut [u8]) {
        let width = self.row / self.dims.iter().skip(1).product::<u64>().max(1);
        let mut axes: Vec<Axis> = Vec::new();
        let (mut in_stride, mut out_stride) = (width, width);
        for ((chunk, dim), start) in self.grid.dims().iter().zip(self.dims).zip(start).rev() {
            axes.push(Axis {
                start: *start,
                skip: 0,
                count: (*dim).saturating_sub(*start).min(*chunk),
                in_stride,
                out_stride,
            });
            in_stride = in_stride.saturating_mul(*chunk);
            out_stride = out_stride.saturating_mul(*dim);
        }
        axes.reverse();
        if let Some(rows) = axes.first_mut() {
            let (first, end) = (rows.start.max(from), (rows.start + rows.count).min(to));
            rows.skip = first - rows.start;
            rows.count = end.saturating_sub(first);
            rows.start = first - from;
        }
        copy_box(&axes, chunk, 0, out, 0, width);
    }
}

/// Turns big-endian elements around.
pub(crate) fn swap(datatype: &Datatype, bytes: &mut [u8]) {
    let size = match datatype {
        Datatype::Integer { size, big: true, .. }
        | Datatype::Float { size, big: true }
        | Datatype::Complex { size, big: true } => *size as usize,
        _ => return,
    };
    bytes.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
}

pub(crate) fn named(name: &str, error: Error) -> Error {
    let message = match error.kind() {
        packhorse_core::Kind::Unsupported => format!("dataset {name}: {} can't be read", error.message()),
        _ => format!("dataset {name}: {}", error.message()),
    };
    Error::new(error.kind(), message)
}
