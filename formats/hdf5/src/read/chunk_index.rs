//! Locates the chunks of a dataset, with any kind of chunk index.

use super::file::H5File;
use super::message::{ChunkIndexType, ChunkLayout, Space};
use super::{btree_v1, btree_v2, extensible_array, fixed_array};
use crate::bytes::{Cursor, UNDEFINED};
use packhorse_core::{Error, Result};

/// A chunk in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLocation {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Bit `i`: filter `i` was skipped.
    pub(crate) mask: u32,
}

/// The chunks of a dataset, numbered row-major over the grid of chunks.
#[derive(Clone, Debug)]
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
    /// Sorted by number.
    chunks: Vec<(u64, ChunkLocation)>,
    /// How many more index entries the file's size allows.
    left: u64,
}

impl Grid {
    /// Reads the index of a dataset with elements of `width` bytes.
    pub(crate) fn read(
        file: &H5File<'_>,
        layout: &ChunkLayout,
        space: &Space,
        width: u64,
        filtered: bool,
    ) -> Result<Self> {
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
        let (chunks, left) = (Vec::new(), file.len() / 2);
        let mut grid = Self { dims: dims.clone(), counts, most, growing, bytes, chunks, left };
        match &layout.index {
            ChunkIndexType::BTreeV1 => btree_v1::chunks(file, layout.address, &mut grid)?,
            ChunkIndexType::Single(how) => {
                let (size, mask) = how.unwrap_or((bytes, 0));
                grid.add(0, ChunkLocation { address: layout.address, size, mask });
            }
            ChunkIndexType::Implicit => grid.implicit(file, layout.address)?,
            ChunkIndexType::FixedArray => fixed_array::chunks(file, layout.address, &mut grid)?,
            ChunkIndexType::ExtensibleArray => extensible_array::chunks(file, layout.address, &mut grid)?,
            ChunkIndexType::BTreeV2 => grid.tree2(file, layout.address, filtered)?,
        }
        grid.chunks.sort_by_key(|(number, _)| *number);
        grid.chunks.dedup_by_key(|(number, _)| *number);
        grid.chunks.shrink_to_fit();
        Ok(grid)
    }

    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
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
    pub(crate) fn range(&self, from: u64, to: u64) -> &[(u64, ChunkLocation)] {
        let start = self.chunks.partition_point(|(number, _)| *number < from);
        let end = self.chunks.partition_point(|(number, _)| *number < to);
        self.chunks.get(start..end).unwrap_or_default()
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

    fn count(&mut self) -> Result<()> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| {
            Error::content("a chunk index has more entries than the file has room for: the file is damaged")
        })?;
        Ok(())
    }

    fn add(&mut self, number: u64, chunk: ChunkLocation) {
        if chunk.address != UNDEFINED {
            self.chunks.push((number, chunk));
        }
    }

    /// Adds the chunk that starts at `elements`, if that is inside the dataset.
    pub(crate) fn add_at(&mut self, elements: &[u64], chunk: ChunkLocation) {
        let cells: Vec<u64> = elements.iter().zip(&self.dims).map(|(element, dim)| element / dim).collect();
        self.add_cell(&cells, chunk);
    }

    fn add_cell(&mut self, cells: &[u64], chunk: ChunkLocation) {
        if cells.len() == self.counts.len() && cells.iter().zip(&self.counts).all(|(cell, count)| cell < count) {
            let number = cells.iter().zip(&self.counts).fold(0, |number, (cell, count)| number * count + cell);
            self.add(number, chunk);
        }
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
            let (mut size, mut mask) = (self.bytes, 0);
            if filtered {
                let width = cursor.rest().len().saturating_sub(4);
                (size, mask) = (cursor.uint(width)?, cursor.u32()?);
            }
            self.add_cell(&self.cell(number), ChunkLocation { address, size, mask });
        }
        Ok(())
    }

    fn implicit(&mut self, file: &H5File<'_>, address: u64) -> Result<()> {
        let most = self.most.iter().try_fold(1u64, |cells, count| cells.checked_mul(*count));
        let total = most.filter(|most| most.checked_mul(self.bytes).is_some_and(|bytes| file.holds(address, bytes)));
        let Some(total) = total else {
            return if address == UNDEFINED { Ok(()) } else { Err(Error::content("has chunks outside the file")) };
        };
        for number in 0..total {
            let chunk = ChunkLocation { address: address + number * self.bytes, size: self.bytes, mask: 0 };
            self.add_cell(&self.cell(number), chunk);
        }
        Ok(())
    }

    fn tree2(&mut self, file: &H5File<'_>, address: u64, filtered: bool) -> Result<()> {
        let rank = self.rank();
        btree_v2::records(file, address, &mut |_, record| {
            self.count()?;
            let mut cursor = Cursor::new(record, "a chunk's record");
            let address = cursor.address(file.offsets)?;
            let (mut size, mut mask) = (self.bytes, 0);
            if filtered {
                let width = cursor.rest().len().saturating_sub(4 + 8 * rank);
                (size, mask) = (cursor.uint(width)?, cursor.u32()?);
            }
            let cells = (0..rank).map(|_| cursor.u64()).collect::<Result<Vec<_>>>()?;
            self.add_cell(&cells, ChunkLocation { address, size, mask });
            Ok(())
        })
    }
}
