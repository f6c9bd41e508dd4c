//! Reads the rows of a dataset, with any layout, as packed little-endian bytes.

use super::attribute::Attribute;
use super::axis::{Axis, copy_box};
use super::bands::{BandKey, TALL};
use super::chunk_index::{ChunkLocation, Grid};
use super::description::Description;
use super::file::H5File;
use super::filter;
use super::message::{self, DataLayout, FilterDescription};
use super::native::swap;
use super::object_header::ObjectHeader;
use crate::bytes::UNDEFINED;
use crate::datatype::Datatype;
use packhorse_core::{Error, Memory, Result};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// The most bytes of rows decoded ahead of a request.
pub(crate) const AHEAD: u64 = 512 << 20;

/// The longest axis, so that sums and products of rows can't overflow.
const LONGEST: u64 = 1 << 48;

enum Storage {
    Compact(Vec<u8>),
    Contiguous(u64),
    Chunked(Grid, Vec<FilterDescription>, bool),
    /// No storage allocated: all elements are fill values.
    Nothing,
}

/// An open dataset. Clones share the parsed metadata, but decode ahead separately.
#[derive(Clone)]
pub(crate) struct Dataset {
    /// Its path, for errors.
    pub(crate) name: String,
    pub(crate) datatype: Datatype,
    pub(crate) dims: Vec<u64>,
    /// Rows in the file, without those that [`Dataset::pad`] adds.
    there: u64,
    storage: Arc<Storage>,
    fill: Vec<u8>,
    /// The rows that may be read.
    wanted: Range<u64>,
    /// Rows after the last request that were decoded with its chunks.
    ahead: Option<(Range<u64>, Arc<Memory>)>,
    most_ahead: u64,
}

impl Dataset {
    /// Opens the dataset `object`; `name` is for errors.
    pub(crate) fn open(file: &H5File<'_>, object: &ObjectHeader, name: &str) -> Result<Self> {
        Self::parse(file, object, name).map_err(|e| named(name, e))
    }

    fn parse(file: &H5File<'_>, object: &ObjectHeader, name: &str) -> Result<Self> {
        let Description { space, datatype, filters, layout } = Description::of(file, object)?;
        let width = u64::from(datatype.size());
        let storage = match layout {
            DataLayout::Compact(bytes) => Storage::Compact(bytes),
            DataLayout::Contiguous { address: UNDEFINED } => Storage::Nothing,
            DataLayout::Contiguous { address } => Storage::Contiguous(address),
            DataLayout::Chunked(layout) if layout.address == UNDEFINED => Storage::Nothing,
            DataLayout::Chunked(layout) => {
                let whole_only = layout.whole_only;
                let grid = Grid::new(layout, &space, width, !filters.is_empty())?;
                Storage::Chunked(grid, filters, whole_only)
            }
            DataLayout::Virtual => return Err(Error::bug("a virtual dataset that was not refused")),
        };
        let dataset = Self::of_storage(name, datatype, space.dims, storage, message::fill(object)?);
        dataset.check(file)?;
        Ok(dataset)
    }

    /// An attribute as a dataset that is stored in the header of its object.
    pub(crate) fn of_attribute(file: &H5File<'_>, attribute: Attribute, name: &str) -> Result<Self> {
        let Attribute { datatype, space, data } = attribute;
        let dims = if space.dims.is_empty() { vec![1] } else { space.dims };
        let dataset = Self::of_storage(name, datatype, dims, Storage::Compact(data), Vec::new());
        dataset.check(file).map_err(|e| named(name, e))?;
        Ok(dataset)
    }

    fn of_storage(name: &str, datatype: Datatype, dims: Vec<u64>, storage: Storage, fill: Vec<u8>) -> Self {
        let there = dims.first().copied().unwrap_or_default();
        let (name, storage, wanted) = (name.to_owned(), Arc::new(storage), 0..u64::MAX);
        Self { name, datatype, dims, there, storage, fill, wanted, ahead: None, most_ahead: AHEAD }
    }

    /// Refuses datasets that lie outside the file or whose size overflows.
    fn check(&self, file: &H5File<'_>) -> Result<()> {
        let product =
            |dims: &[u64]| dims.iter().try_fold(u64::from(self.datatype.size()), |n, dim| n.checked_mul(*dim));
        let endless = || Error::content("has impossibly large dimensions: the file is damaged");
        let grid: &[u64] = if let Storage::Chunked(grid, _, _) = &*self.storage { grid.dims() } else { &[] };
        if self.dims.iter().chain(grid).any(|dim| *dim > LONGEST) {
            return Err(endless());
        }
        let total = product(&self.dims).ok_or_else(endless)?;
        product(self.dims.get(1..).unwrap_or_default()).ok_or_else(endless)?;
        match &*self.storage {
            Storage::Compact(bytes) if (bytes.len() as u64) < total => {
                Err(Error::content(format!("has {} of {total} bytes: the file is damaged", bytes.len())))
            }
            Storage::Contiguous(address) if !file.holds(*address, total) => Err(Error::content(format!(
                "has {total} bytes at {address}, outside the file: it is cut short or damaged"
            ))),
            _ => Ok(()),
        }
    }

    /// Reads the chunk index, if it has one.
    pub(crate) fn locate(&self, file: &H5File<'_>) -> Result<()> {
        let Storage::Chunked(grid, _, _) = &*self.storage else { return Ok(()) };
        grid.chunks(file).map(drop).map_err(|e| named(&self.name, e))
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.dims.first().copied().unwrap_or_default()
    }

    /// Elements per row.
    pub(crate) fn row_elements(&self) -> u64 {
        self.dims.iter().skip(1).product()
    }

    /// Bytes per row.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.row_elements() * u64::from(self.datatype.size())
    }

    /// The elements of rows `from..to`, which must exist, in C order and little-endian.
    pub(crate) fn read(&mut self, file: &H5File<'_>, from: u64, to: u64) -> Result<Memory> {
        self.read_raw(file, from, to).map_err(|e| named(&self.name, e))
    }

    /// Restricts reads to `rows`.
    pub(crate) fn narrow(&mut self, rows: &Range<u64>) {
        self.wanted = rows.clone();
    }

    /// Extends it to `rows` rows with its fill value.
    pub(crate) fn pad(&mut self, rows: u64) {
        if let Some(dim) = self.dims.first_mut() {
            *dim = rows.max(*dim);
        }
    }

    fn read_raw(&mut self, file: &H5File<'_>, from: u64, to: u64) -> Result<Memory> {
        if from > to || to > self.rows() {
            return Err(Error::content(format!("has {} rows instead of {to}: the file is damaged", self.rows())));
        }
        if from < to && (from < self.wanted.start || to > self.wanted.end) {
            return Err(Error::bug("rows outside the range that may be read"));
        }
        let row = self.row_bytes();
        let len = file.limits.blob((to - from).saturating_mul(row))?;
        if to > self.there && from < to {
            return self.read_padded(file, from, len);
        }
        let mut out = match &*self.storage {
            Storage::Compact(bytes) => {
                let start = (from * row) as usize;
                let mut out = Memory::zeros(len)?;
                let found = bytes.get(start..start + len).unwrap_or_default();
                out.get_mut(..found.len()).unwrap_or_default().copy_from_slice(found);
                out
            }
            Storage::Contiguous(address) => {
                let mut out = file.memory.take(len)?;
                file.read_data(address.saturating_add(from * row), &mut out)?;
                out
            }
            Storage::Nothing => {
                let mut out = file.memory.take(len)?;
                self.fill(&mut out);
                out
            }
            Storage::Chunked(..) => self.read_chunks(file, from, to, len)?,
        };
        swap(&self.datatype, &mut out);
        Ok(out)
    }

    fn read_padded(&mut self, file: &H5File<'_>, from: u64, len: usize) -> Result<Memory> {
        let mut out = file.memory.take(len)?;
        self.fill(&mut out);
        swap(&self.datatype, &mut out);
        if from < self.there {
            copy(&self.read_raw(file, from, self.there)?, &mut out);
        }
        Ok(out)
    }

    /// Fills `out` with the fill value.
    fn fill(&self, out: &mut [u8]) {
        match self.fill.len() == self.datatype.size() as usize && self.fill.iter().any(|byte| *byte != 0) {
            true => out.chunks_exact_mut(self.fill.len()).for_each(|element| element.copy_from_slice(&self.fill)),
            false => out.fill(0),
        }
    }

    /// Limits rows decoded ahead to `bytes` bytes.
    pub(crate) fn limit_ahead(&mut self, bytes: u64) {
        self.most_ahead = bytes.min(AHEAD);
    }

    fn read_chunks(&mut self, file: &H5File<'_>, from: u64, to: u64, len: usize) -> Result<Memory> {
        let Storage::Chunked(grid, filters, _) = &*self.storage else { return file.memory.take(0) };
        let (tall, abreast, row) = (grid.dims().first().copied().unwrap_or(1), grid.abreast(), self.row_bytes());
        if len == 0 {
            return file.memory.take(0);
        }
        file.limits.blob(grid.bytes())?;
        let (first, last) = (from / tall, (to - 1) / tall);
        let chunks = grid.range(file, first.saturating_mul(abreast), (last + 1).saturating_mul(abreast))?;
        for (_, chunk) in chunks {
            if !file.holds(chunk.address, chunk.size) || filter::most(filters, chunk.size) < grid.bytes() {
                return Err(Error::content(format!(
                    "a chunk of {} bytes lies outside the file or is too short: the file is damaged",
                    chunk.size
                )));
            }
        }
        let mut out = file.memory.take(len)?;
        let at = |rows: u64| ((rows - from) * row) as usize;
        let mut next = from;
        if let Some((rows, bytes)) = &self.ahead
            && rows.contains(&from)
        {
            next = rows.end.min(to);
            let start = ((from - rows.start) * row) as usize;
            copy(bytes.get(start..).unwrap_or_default(), out.get_mut(..at(next)).unwrap_or_default());
        }
        if next < to
            && let Some((rows, bytes)) = self.band(file, last * tall, tall)?
        {
            let cut = next.max(rows.start);
            self.decode(file, next, cut, out.get_mut(at(next)..at(cut)).unwrap_or_default())?;
            let start = ((cut - rows.start) * row) as usize;
            copy(bytes.get(start..).unwrap_or_default(), out.get_mut(at(cut)..).unwrap_or_default());
            self.ahead = Some((rows, bytes));
            return Ok(out);
        }
        // The last chunks reach beyond `to`: decode their further rows as well.
        let band = last.saturating_add(1).saturating_mul(tall).min(self.there).min(self.wanted.end);
        let cut = if band > to { next.max(last * tall) } else { to };
        if next < cut {
            self.decode(file, next, cut, out.get_mut(at(next)..at(cut)).unwrap_or_default())?;
        }
        if cut < to {
            let most = self.most_ahead.min(file.limits.blob);
            let most = cut.saturating_add(most / row.max(1)).max(to);
            let rows = cut..band.min(most);
            // Free the memory before taking more.
            self.ahead = None;
            let mut bytes = file.memory.take(file.limits.blob((rows.end - cut).saturating_mul(row))?)?;
            self.decode(file, cut, rows.end, &mut bytes)?;
            copy(&bytes, out.get_mut(at(cut)..).unwrap_or_default());
            self.ahead = Some((rows, Arc::new(bytes)));
        }
        Ok(out)
    }

    /// The `tall` rows from `start` on, shared with other readers of this source; `None` if they are too small or too
    /// large to cache, or this reader wants all of them.
    fn band(&self, file: &H5File<'_>, start: u64, tall: u64) -> Result<Option<(Range<u64>, Arc<Memory>)>> {
        let rows = start..start.saturating_add(tall).min(self.there);
        let bytes = (rows.end - start).saturating_mul(self.row_bytes());
        let alone = self.wanted.start <= start && rows.end <= self.wanted.end;
        if alone || !(TALL..=AHEAD.min(file.limits.blob).min(file.limits.ahead)).contains(&bytes) {
            return Ok(None);
        }
        let key = BandKey { file: file.identity.clone(), dataset: self.name.clone(), start };
        if let Some(found) = file.bands.get(&key) {
            return Ok(Some((rows, found)));
        }
        let mut bytes = file.memory.take(file.limits.blob(bytes)?)?;
        self.decode(file, start, rows.end, &mut bytes)?;
        Ok(Some((rows, file.bands.keep(key, bytes, &file.limits))))
    }

    /// Decodes the rows `from..to` into `out`.
    fn decode(&self, file: &H5File<'_>, from: u64, to: u64, out: &mut [u8]) -> Result<()> {
        let Storage::Chunked(grid, filters, whole_only) = &*self.storage else { return Ok(()) };
        let (tall, abreast, row) = (grid.dims().first().copied().unwrap_or(1), grid.abreast(), self.row_bytes());
        if from >= to {
            return Ok(());
        }
        let (first, end) = (from / tall, to.div_ceil(tall));
        let chunks = grid.range(file, first.saturating_mul(abreast), end.saturating_mul(abreast))?;
        if chunks.len() as u64 != (end - first).saturating_mul(abreast) {
            self.fill(out);
        }
        let (whole_only, there) = (*whole_only, self.there);
        let job = Job { file, grid, filters, whole_only, dims: &self.dims, there, row };
        job.read(chunks, from, to, out)
    }
}

/// Copies as many bytes as both have.
fn copy(from: &[u8], to: &mut [u8]) {
    let len = from.len().min(to.len());
    if let (Some(from), Some(to)) = (from.get(..len), to.get_mut(..len)) {
        to.copy_from_slice(from);
    }
}

/// The context for reading chunks of one dataset.
struct Job<'a> {
    file: &'a H5File<'a>,
    grid: &'a Grid,
    filters: &'a [FilterDescription],
    whole_only: bool,
    dims: &'a [u64],
    /// Rows in the file.
    there: u64,
    /// Bytes per row.
    row: u64,
}

impl Job<'_> {
    /// Whether chunks span whole rows.
    fn covers_rows(&self) -> bool {
        self.grid.dims().iter().zip(self.dims).skip(1).all(|(chunk, dim)| chunk == dim)
    }

    fn decode(&self, number: u64, chunk: &ChunkLocation) -> Result<Memory> {
        let mut out = self.file.memory.take(self.grid.bytes() as usize)?;
        self.decode_into(number, chunk, &mut out)?;
        Ok(out)
    }

    fn decode_into(&self, number: u64, chunk: &ChunkLocation, out: &mut [u8]) -> Result<()> {
        let plain = self.filters.is_empty() || (self.whole_only && self.sticks_out(number));
        if plain && chunk.size == out.len() as u64 {
            return self.file.read(chunk.address, out);
        }
        let (filters, stored) = (if plain { &[] } else { self.filters }, chunk.size as usize);
        let read = |bytes: &mut [u8]| self.file.read(chunk.address, bytes);
        self.file.decoders.with(|decoder| decoder.unpack(filters, chunk.mask, stored, read, out))
    }

    fn sticks_out(&self, number: u64) -> bool {
        let dims = std::iter::once(&self.there).chain(self.dims.iter().skip(1));
        let start = self.grid.start(number);
        start.iter().zip(self.grid.dims()).zip(dims).any(|((start, chunk), dim)| start.saturating_add(*chunk) > *dim)
    }

    /// Copies the elements of `chunks` in rows `from..to` into `out`.
    fn read(&self, chunks: &[(u64, ChunkLocation)], from: u64, to: u64, out: &mut [u8]) -> Result<()> {
        let tall = self.grid.dims().first().copied().unwrap_or(1);
        let inside = |(number, _): &(u64, ChunkLocation)| number * tall >= from && (number + 1) * tall <= to;
        if self.covers_rows() && chunks.iter().all(inside) {
            return self.read_in_place(chunks, from, tall, out);
        }
        // In batches, since chunks may decode to far more than the wanted rows.
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

    /// Decodes chunks of whole rows, all of them wanted, directly into `out`.
    fn read_in_place(&self, chunks: &[(u64, ChunkLocation)], from: u64, tall: u64, out: &mut [u8]) -> Result<()> {
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

    /// Copies the part of rows `from..to` in the chunk that starts at `start` into `out`.
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

/// What an error says of the dataset at this path, or of an attribute, which stands behind the path and an @.
pub(crate) fn described(path: &str) -> String {
    match path.rsplit_once('@') {
        Some(("", name)) => format!("attribute {name}"),
        Some((object, name)) if !name.contains('/') => format!("attribute {name} of {object}"),
        _ => format!("dataset {path}"),
    }
}

pub(crate) fn named(name: &str, error: Error) -> Error {
    let what = described(name);
    let named = match error.kind() {
        packhorse_core::Kind::Unsupported => error.context(format_args!("{what} can't be read")),
        _ => error.context(what),
    };
    named.in_field(name)
}
