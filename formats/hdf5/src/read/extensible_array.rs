//! Extensible arrays: the chunk index of datasets with one unlimited axis.

use super::chunk_index::ChunkIndex;
use super::file::H5File;
use crate::bytes::{Cursor, UNDEFINED};
use packhorse_core::{Error, Result};

/// The header of an array.
struct Array {
    /// Bytes per entry.
    entry: usize,
    filtered: bool,
    /// Entries in the index block.
    inner: u64,
    /// Entries in the smallest data block.
    least: u64,
    /// Data blocks that the index block addresses directly.
    direct: u64,
    /// Entries per page of a data block.
    page: u64,
    /// Bytes of an offset in the array.
    offset: usize,
    /// Super blocks, including those whose data blocks the index block addresses.
    supers: u32,
    /// The highest index ever set, plus one.
    set: u64,
}

/// Adds the chunks of the array at `address` to `found`.
pub(crate) fn chunks(file: &H5File<'_>, address: u64, found: &mut ChunkIndex<'_>) -> Result<()> {
    if address == UNDEFINED {
        return Ok(());
    }
    let bytes = file.checked(address, 16 + 6 * file.lengths + file.offsets, "an extensible array")?;
    let mut cursor = Cursor::new(&bytes, "an extensible array");
    cursor.expect(b"EAHD\0")?;
    let (client, entry, bits) = (cursor.u8()?, usize::from(cursor.u8()?), u32::from(cursor.u8()?));
    let (inner, least) = (u64::from(cursor.u8()?), u64::from(cursor.u8()?));
    let (pointers, page_bits) = (u64::from(cursor.u8()?), u32::from(cursor.u8()?));
    cursor.skip(4 * file.lengths)?;
    let set = cursor.uint(file.lengths)?;
    cursor.skip(file.lengths)?;
    let block = cursor.address(file.offsets)?;
    let powers = least.is_power_of_two() && pointers.is_power_of_two();
    if !powers || bits > 64 || page_bits >= 32 || entry < file.offsets || bits < least.ilog2() {
        return Err(cursor.bad("has invalid sizes"));
    }
    if block == UNDEFINED {
        return Ok(());
    }
    let array = Array {
        entry,
        filtered: client == 1,
        inner,
        least,
        direct: 2 * (pointers - 1),
        page: 1 << page_bits,
        offset: (bits as usize).div_ceil(8),
        supers: 1 + bits - least.ilog2(),
        set,
    };
    array.index_block(file, block, 2 * pointers.ilog2(), found)
}

impl Array {
    /// The number of data blocks of super block `number`, and of entries in each.
    fn sizes(&self, number: u32) -> (u64, u64) {
        (1 << (number / 2), self.least.saturating_mul(1 << number.div_ceil(2)))
    }

    fn index_block(&self, file: &H5File<'_>, address: u64, skipped: u32, found: &mut ChunkIndex<'_>) -> Result<()> {
        let more = u64::from(self.supers.saturating_sub(skipped));
        let head = 6 + file.offsets;
        let len = head + self.inner as usize * self.entry + (self.direct + more) as usize * file.offsets + 4;
        let bytes = file.checked(address, len, "an extensible array's index")?;
        let mut cursor = Cursor::new(&bytes, "an extensible array's index");
        cursor.expect(b"EAIB\0")?;
        cursor.skip(head - 5)?;
        let inner = cursor.take(self.inner as usize * self.entry)?;
        found.add_entries(0, inner, self.entry, self.filtered, file)?;
        let mut first = self.inner;
        for number in 0..self.supers {
            let (blocks, each) = self.sizes(number);
            if first >= self.set {
                break;
            }
            if number < skipped {
                for _ in 0..blocks {
                    let block = cursor.address(file.offsets)?;
                    self.data_block(file, block, first, each, None, found)?;
                    first = first.saturating_add(each);
                }
            } else {
                let block = cursor.address(file.offsets)?;
                self.super_block(file, block, first, blocks, each, found)?;
                first = first.saturating_add(blocks.saturating_mul(each));
            }
        }
        Ok(())
    }

    fn super_block(
        &self,
        file: &H5File<'_>,
        address: u64,
        mut first: u64,
        blocks: u64,
        each: u64,
        found: &mut ChunkIndex<'_>,
    ) -> Result<()> {
        if address == UNDEFINED {
            return Ok(());
        }
        let pages = if each > self.page { each / self.page } else { 0 };
        let map = pages.div_ceil(8);
        let head = (6 + file.offsets + self.offset) as u64;
        let len = blocks.saturating_mul(map + file.offsets as u64).saturating_add(head + 4);
        if !file.holds(address, len) {
            return Err(Error::content("an extensible array is larger than the file: it is damaged"));
        }
        let bytes = file.checked(address, len as usize, "an extensible array's super block")?;
        let mut cursor = Cursor::new(&bytes, "an extensible array's super block");
        cursor.expect(b"EASB\0")?;
        cursor.skip(head as usize - 5)?;
        let maps = cursor.take((blocks * map) as usize)?;
        for number in 0..blocks {
            let block = cursor.address(file.offsets)?;
            // The bits of one block follow those of the block before it, in the same byte too.
            self.data_block(file, block, first, each, Some((maps, number * pages)), found)?;
            first = first.saturating_add(each);
        }
        Ok(())
    }

    /// Adds the entries from `first` on; if the block has pages, `map` marks those that were written, from this bit on.
    fn data_block(
        &self,
        file: &H5File<'_>,
        address: u64,
        first: u64,
        each: u64,
        map: Option<(&[u8], u64)>,
        found: &mut ChunkIndex<'_>,
    ) -> Result<()> {
        if address == UNDEFINED {
            return Ok(());
        }
        let head = 6 + file.offsets + self.offset;
        let entries = |count: u64| count.saturating_mul(self.entry as u64);
        if !file.holds(address, entries(each)) {
            return Err(Error::content("an extensible array is larger than the file: it is damaged"));
        }
        if each <= self.page {
            let bytes = file.checked(address, head + entries(each) as usize + 4, "an extensible array's block")?;
            return found.add_entries(first, bytes.get(head..).unwrap_or_default(), self.entry, self.filtered, file);
        }
        let Some((map, before)) = map else {
            return Err(Error::unsupported("an extensible array has pages in its first blocks"));
        };
        let mut at = address.saturating_add(head as u64 + 4);
        for number in 0..each / self.page {
            let bit = before + number;
            let byte = map.get((bit / 8) as usize).copied().unwrap_or_default();
            if byte & (0x80 >> (bit % 8)) != 0 {
                let bytes = file.checked(at, entries(self.page) as usize + 4, "an extensible array's page")?;
                found.add_entries(first.saturating_add(number * self.page), &bytes, self.entry, self.filtered, file)?;
            }
            at = at.saturating_add(entries(self.page) + 4);
        }
        Ok(())
    }
}
