//! Fractal heaps, which hold the links and attributes of objects with many of them.

use super::btree_v2::{bytes_for, records};
use super::file::H5File;
use crate::bytes::Cursor;
use packhorse_core::{Error, Result};
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// The type of B-trees of long objects with keys.
const INDIRECT: u8 = 1;

/// An open heap.
pub(crate) struct FractalHeap {
    /// Bytes of an offset in the heap.
    offset: usize,
    /// Bytes of an object's length.
    length: usize,
    /// Columns of the doubling table.
    width: u64,
    /// Bytes of the first blocks.
    first: u64,
    /// Rows of direct blocks; later rows are indirect.
    direct_rows: u64,
    root: u64,
    /// Rows of the root block; 0 if it is a direct block.
    rows: u64,
    /// The B-tree of objects that are too long for a block.
    huge: u64,
    /// Address and length of those objects, by their keys.
    found: OnceCell<BTreeMap<u64, (u64, u64)>>,
}

impl FractalHeap {
    pub(crate) fn open(file: &H5File<'_>, address: u64) -> Result<Self> {
        let (o, l) = (file.offsets, file.lengths);
        // With filters the header is longer, and its checksum is elsewhere.
        let start = file.bytes(address, 9)?;
        if start.starts_with(b"FRHP\0") && !start.ends_with(&[0, 0]) {
            return Err(Error::unsupported("fractal heaps with filters; rewrite the file with h5repack"));
        }
        let bytes = file.checked(address, 26 + 3 * o + 12 * l, "a fractal heap")?;
        let mut cursor = Cursor::new(&bytes, "a fractal heap");
        cursor.expect(b"FRHP\0")?;
        cursor.skip(5)?;
        let managed = u64::from(cursor.u32()?);
        cursor.skip(l)?;
        let huge = cursor.address(o)?;
        cursor.skip(9 * l + o)?;
        let width = u64::from(cursor.u16()?);
        let (first, direct) = (cursor.uint(l)?, cursor.uint(l)?);
        let bits = cursor.u16()?;
        cursor.skip(2)?;
        let (root, rows) = (cursor.address(o)?, u64::from(cursor.u16()?));
        let powers = width.is_power_of_two() && first.is_power_of_two() && direct.is_power_of_two();
        if !powers || bits > 64 || direct < first {
            return Err(cursor.bad("has invalid sizes"));
        }
        let direct_rows = u64::from(direct.ilog2() - first.ilog2()) + 2;
        let offset = usize::from(bits).div_ceil(8);
        let (length, found) = (bytes_for(managed.min(direct)), OnceCell::new());
        Ok(Self { offset, length, width, first, direct_rows, root, rows, huge, found })
    }

    /// The object with this heap ID.
    pub(crate) fn object(&self, file: &H5File<'_>, id: &[u8]) -> Result<Vec<u8>> {
        let mut cursor = Cursor::new(id, "a heap's object");
        let flags = cursor.u8()?;
        match flags >> 4 & 3 {
            0 => {
                let (offset, len) = (cursor.uint(self.offset)?, cursor.uint(self.length)?);
                let address = self.place(file, offset)?;
                file.bytes(address, file.limits.header(len)?)
            }
            1 => {
                // Attributes and links have IDs of 7 or 8 bytes, which are too short for an address.
                let key = cursor.uint(id.len().saturating_sub(1))?;
                let huge = self.huge(file)?.get(&key);
                let (address, len) = *huge.ok_or_else(|| cursor.bad("has a key that its heap lacks"))?;
                file.bytes(address, file.limits.header(len)?)
            }
            2 => {
                let len = usize::from(flags & 15) + 1;
                Ok(cursor.take(len)?.to_vec())
            }
            _ => Err(cursor.bad("has an unknown type")),
        }
    }

    /// Objects that are too long for a block, by their keys.
    fn huge(&self, file: &H5File<'_>) -> Result<&BTreeMap<u64, (u64, u64)>> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let mut found = BTreeMap::new();
        records(file, self.huge, &mut |kind, record| {
            // Those of heaps with filters have another type.
            if kind == INDIRECT {
                let mut cursor = Cursor::new(record, "a heap's long object");
                let place = (cursor.address(file.offsets)?, cursor.uint(file.lengths)?);
                found.insert(cursor.uint(file.lengths)?, place);
            }
            Ok(())
        })?;
        Ok(self.found.get_or_init(|| found))
    }

    /// The file address of byte `offset` of the heap.
    fn place(&self, file: &H5File<'_>, offset: u64) -> Result<u64> {
        let damaged = || Error::content("a fractal heap's object lies outside it: the file is damaged");
        let (mut block, mut rows, mut rest) = (self.root, self.rows, offset);
        // Each level is at most half as large as the one above.
        for _ in 0..64 {
            if rows == 0 {
                return block.checked_add(rest).ok_or_else(damaged);
            }
            let (row, column, start) = self.cell(rest).filter(|(row, _, _)| *row < rows).ok_or_else(damaged)?;
            let entry = row.checked_mul(self.width).and_then(|cells| cells.checked_add(column)).ok_or_else(damaged)?;
            let head = (5 + file.offsets + self.offset) as u64;
            let at = entry.checked_mul(file.offsets as u64).and_then(|at| at.checked_add(head)?.checked_add(block));
            let bytes = file.bytes(at.ok_or_else(damaged)?, file.offsets)?;
            block = Cursor::new(&bytes, "a fractal heap's block").address(file.offsets)?;
            rest -= start;
            rows = match row < self.direct_rows {
                true => 0,
                false => self.rows_of(row),
            };
        }
        Err(damaged())
    }

    /// Row, column and first byte of the cell that holds the byte `offset` of an indirect block.
    fn cell(&self, offset: u64) -> Option<(u64, u64, u64)> {
        let row_bytes = self.width.checked_mul(self.first)?;
        let row = match offset / row_bytes {
            0 => 0,
            rows => u64::from(rows.ilog2()) + 1,
        };
        let scale = row.saturating_sub(1) as u32;
        let size = self.first.checked_shl(scale)?;
        let start = if row == 0 { 0 } else { row_bytes.checked_shl(scale)? };
        let column = (offset - start).checked_div(size)?;
        Some((row, column, start.checked_add(column.checked_mul(size)?)?))
    }

    /// Rows of an indirect block in `row`.
    fn rows_of(&self, row: u64) -> u64 {
        let size = u64::from(self.first.ilog2()) + row - 1;
        (size + 1).saturating_sub(u64::from(self.first.ilog2() + self.width.ilog2()))
    }
}
