//! Locates the chunks of a dataset, with any kind of chunk index.

use super::file::H5File;
use super::message::{ChunkIndexType, ChunkLayout, Space};
use super::{btree_v1, btree_v2, extensible_array, fixed_array};
use crate::bytes::{Cursor, UNDEFINED};
use packhorse_core::{Error, Limits, Result};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A chunk in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLocation {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Bit `i`: filter `i` was skipped.
    pub(crate) mask: u32,
}

/// The chunks of a dataset, numbered row-major over the grid of chunks. The index is read when a chunk is first asked for.
#[derive(Debug)]
pub(crate) struct Grid {
    /// Dimensions of a chunk.
    dims: Vec<u64>,
    /// Chunks along each axis.
    counts: Vec<u64>,
    /// Chunks along each axis at the maximum size.
    most: Vec<u64>,
    /// The unlimited axis, if any.
    growing: Option<usize>,
    /// Bytes per chunk before filters.
    bytes: u64,
    /// Whether chunks are filtered, so that the index has their sizes.
    filtered: bool,
    index: ChunkIndexType,
    /// Address of the index, or of the only chunk.
    address: u64,
    /// Sorted by number.
    chunks: OnceLock<Vec<(u64, ChunkLocation)>>,
    /// Held while the index is read, which waits for no other thread.
    reading: Mutex<()>,
}

/// The entries of a chunk index while it is read.
pub(crate) struct ChunkIndex<'a> {
    grid: &'a Grid,
    chunks: Vec<(u64, ChunkLocation)>,
    /// How many more entries the file's size allows.
    left: u64,
    limits: Limits,
}

impl Grid {
    /// The grid of a dataset with elements of `width` bytes. Reads nothing.
    pub(crate) fn new(layout: ChunkLayout, space: &Space, width: u64, filtered: bool) -> Result<Self> {
        let dims = &layout.dims;
        let bad = |what: &str| Error::content(format!("has {what}: the file is damaged"));
        if dims.len() != space.dims.len() {
            return Err(bad("chunks whose rank is not the dataset's"));
        }
        let bytes = dims
            .iter()
            .try_fold(width, |bytes, dim| bytes.checked_mul(*dim))
            .ok_or_else(|| bad("chunks of more than 2^64 bytes"))?;
        let counts: Vec<u64> = space.dims.iter().zip(dims).map(|(dim, chunk)| dim.div_ceil(*chunk)).collect();
        let cells = counts.iter().try_fold(1u64, |cells, count| cells.checked_mul((*count).max(1)));
        cells.ok_or_else(|| bad("more than 2^64 chunks"))?;
        let most = space.most.iter().zip(dims).map(|(dim, chunk)| dim.div_ceil(*chunk)).collect();
        let growing = space.most.iter().position(|dim| *dim == UNDEFINED);
        let ChunkLayout { dims, address, index, .. } = layout;
        Ok(Self {
            dims,
            counts,
            most,
            growing,
            bytes,
            filtered,
            index,
            address,
            chunks: OnceLock::new(),
            reading: Mutex::default(),
        })
    }

    /// All written chunks.
    pub(crate) fn chunks(&self, file: &H5File<'_>) -> Result<&[(u64, ChunkLocation)]> {
        if let Some(chunks) = self.chunks.get() {
            return Ok(chunks);
        }
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunks) = self.chunks.get() {
            return Ok(chunks);
        }
        let mut index = ChunkIndex { grid: self, chunks: Vec::new(), left: file.len() / 2, limits: file.limits };
        match &self.index {
            ChunkIndexType::BTreeV1 => btree_v1::chunks(file, self.address, &mut index)?,
            ChunkIndexType::Single(how) => {
                let (size, mask) = how.unwrap_or((self.bytes, 0));
                index.add(0, ChunkLocation { address: self.address, size, mask })?;
            }
            ChunkIndexType::Implicit => index.implicit(file, self.address)?,
            ChunkIndexType::FixedArray => fixed_array::chunks(file, self.address, &mut index)?,
            ChunkIndexType::ExtensibleArray => extensible_array::chunks(file, self.address, &mut index)?,
            ChunkIndexType::BTreeV2 => index.tree2(file, self.address)?,
        }
        let mut chunks = index.chunks;
        chunks.sort_by_key(|(number, _)| *number);
        if chunks.windows(2).any(|two| matches!(two, [(a, _), (b, _)] if a == b)) {
            return Err(Error::content("a chunk index has two chunks in one place: the file is damaged"));
        }
        chunks.shrink_to_fit();
        Ok(self.chunks.get_or_init(|| chunks))
    }

    /// Dimensions of a chunk.
    pub(crate) fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Bytes per chunk before filters.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of chunks that share the same rows.
    pub(crate) fn abreast(&self) -> u64 {
        self.counts.iter().skip(1).product()
    }

    /// The written chunks numbered `from..to`.
    pub(crate) fn range(&self, file: &H5File<'_>, from: u64, to: u64) -> Result<&[(u64, ChunkLocation)]> {
        let chunks = self.chunks(file)?;
        let start = chunks.partition_point(|(number, _)| *number < from);
        let end = chunks.partition_point(|(number, _)| *number < to);
        Ok(chunks.get(start..end).unwrap_or_default())
    }

    /// The first element of chunk `number` along each axis.
    pub(crate) fn start(&self, number: u64) -> Vec<u64> {
        let mut start = vec![0; self.dims.len()];
        let mut rest = number;
        for ((start, count), dim) in start.iter_mut().zip(&self.counts).zip(&self.dims).rev() {
            let count = (*count).max(1);
            *start = rest % count * dim;
            rest /= count;
        }
        start
    }

    /// The cell of entry `index` of an array: row-major over the maximum size, the unlimited axis first.
    fn cell(&self, index: u64) -> Vec<u64> {
        let mut cell = vec![0; self.dims.len()];
        let mut rest = index;
        for axis in (0..cell.len()).rev().filter(|axis| Some(*axis) != self.growing) {
            let (Some(cell), Some(most)) = (cell.get_mut(axis), self.most.get(axis)) else { continue };
            *cell = rest % (*most).max(1);
            rest /= (*most).max(1);
        }
        if let Some(cell) = self.growing.and_then(|axis| cell.get_mut(axis)) {
            *cell = rest;
        }
        cell
    }
}

impl ChunkIndex<'_> {
    /// The number of dimensions.
    pub(crate) fn rank(&self) -> usize {
        self.grid.dims.len()
    }

    fn count(&mut self) -> Result<()> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| {
            Error::content("a chunk index has more entries than the file has room for: the file is damaged")
        })?;
        Ok(())
    }

    fn add(&mut self, number: u64, chunk: ChunkLocation) -> Result<()> {
        if chunk.address != UNDEFINED {
            // Growing and sorting take as much again, each.
            let bytes = 3 * size_of_val(&*self.chunks) as u64;
            self.limits.held(bytes).map_err(|e| e.context("the chunk index"))?;
            self.chunks.push((number, chunk));
        }
        Ok(())
    }

    /// Adds the chunk that starts at `elements`, if that is inside the dataset.
    pub(crate) fn add_at(&mut self, elements: &[u64], chunk: ChunkLocation) -> Result<()> {
        self.count()?;
        if elements.iter().zip(&self.grid.dims).any(|(element, dim)| element % dim != 0) {
            return Err(Error::content("a chunk index has a chunk between others: the file is damaged"));
        }
        let cells: Vec<u64> = elements.iter().zip(&self.grid.dims).map(|(element, dim)| element / dim).collect();
        self.add_cell(&cells, chunk)
    }

    fn add_cell(&mut self, cells: &[u64], chunk: ChunkLocation) -> Result<()> {
        if cells.len() == self.grid.counts.len()
            && cells.iter().zip(&self.grid.counts).all(|(cell, count)| cell < count)
        {
            let number = cells.iter().zip(&self.grid.counts).fold(0, |number, (cell, count)| number * count + cell);
            return self.add(number, chunk);
        }
        Ok(())
    }

    /// Adds the entries of an array, numbered from `first` on.
    pub(crate) fn add_entries(
        &mut self,
        first: u64,
        bytes: &[u8],
        entry: usize,
        filtered: bool,
        file: &H5File<'_>,
    ) -> Result<()> {
        for (i, entry) in bytes.chunks_exact(entry.max(1)).enumerate() {
            self.count()?;
            let number = first.saturating_add(i as u64);
            let mut cursor = Cursor::new(entry, "a chunk's entry");
            let address = cursor.address(file.offsets)?;
            let (mut size, mut mask) = (self.grid.bytes, 0);
            if filtered {
                let width = cursor.rest().len().saturating_sub(4);
                (size, mask) = (cursor.uint(width)?, cursor.u32()?);
            }
            self.add_cell(&self.grid.cell(number), ChunkLocation { address, size, mask })?;
        }
        Ok(())
    }

    fn implicit(&mut self, file: &H5File<'_>, address: u64) -> Result<()> {
        let most = self.grid.most.iter().try_fold(1u64, |cells, count| cells.checked_mul(*count));
        let total =
            most.filter(|most| most.checked_mul(self.grid.bytes).is_some_and(|bytes| file.holds(address, bytes)));
        let Some(total) = total else {
            return if address == UNDEFINED { Ok(()) } else { Err(Error::content("has chunks outside the file")) };
        };
        for number in 0..total {
            let chunk = ChunkLocation { address: address + number * self.grid.bytes, size: self.grid.bytes, mask: 0 };
            self.add_cell(&self.grid.cell(number), chunk)?;
        }
        Ok(())
    }

    fn tree2(&mut self, file: &H5File<'_>, address: u64) -> Result<()> {
        let rank = self.grid.dims.len();
        btree_v2::records(file, address, &mut |_, record| {
            self.count()?;
            let mut cursor = Cursor::new(record, "a chunk's record");
            let address = cursor.address(file.offsets)?;
            let (mut size, mut mask) = (self.grid.bytes, 0);
            if self.grid.filtered {
                let width = cursor.rest().len().saturating_sub(4 + 8 * rank);
                (size, mask) = (cursor.uint(width)?, cursor.u32()?);
            }
            let cells = (0..rank).map(|_| cursor.u64()).collect::<Result<Vec<_>>>()?;
            self.add_cell(&cells, ChunkLocation { address, size, mask })
        })
    }
}
