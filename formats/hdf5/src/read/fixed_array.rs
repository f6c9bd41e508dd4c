//! Fixed arrays: the chunk index of datasets with limited dimensions.

use super::chunk_index::ChunkIndex;
use super::file::H5File;
use crate::bytes::{Cursor, UNDEFINED};
use packhorse_core::{Error, Result};

/// Adds the chunks of the array at `address` to `found`.
pub(crate) fn chunks(file: &H5File<'_>, address: u64, found: &mut ChunkIndex<'_>) -> Result<()> {
    if address == UNDEFINED {
        return Ok(());
    }
    let bytes = file.checked(address, 12 + file.lengths + file.offsets, "a fixed array")?;
    let mut cursor = Cursor::new(&bytes, "a fixed array");
    cursor.expect(b"FAHD\0")?;
    let (client, entry, bits) = (cursor.u8()?, usize::from(cursor.u8()?), u32::from(cursor.u8()?));
    let (count, block) = (cursor.uint(file.lengths)?, cursor.address(file.offsets)?);
    if block == UNDEFINED {
        return Ok(());
    }
    let page = 1u64.checked_shl(bits).ok_or_else(|| cursor.bad("has an invalid page size"))?;
    if entry < file.offsets || !file.holds(block, count.saturating_mul(entry as u64).min(page)) {
        return Err(cursor.bad("is larger than the file: it is damaged"));
    }
    let head = 6 + file.offsets;
    let elements =
        |count: u64| usize::try_from(count.saturating_mul(entry as u64)).ok().and_then(|n| n.checked_add(4 + head));
    let too_large = || Error::content("a fixed array is larger than the file: it is damaged");
    if count <= page {
        let bytes = file.checked(block, elements(count).ok_or_else(too_large)?, "a fixed array's block")?;
        return found.add_entries(0, bytes.get(head..).unwrap_or_default(), entry, client == 1, file);
    }
    let array = Pages { count, page, entry, filtered: client == 1, head };
    array.read(file, block, found)
}

/// An array that is divided into pages.
struct Pages {
    count: u64,
    page: u64,
    entry: usize,
    filtered: bool,
    /// Bytes before the bitmap of written pages.
    head: usize,
}

impl Pages {
    fn read(&self, file: &H5File<'_>, block: u64, found: &mut ChunkIndex<'_>) -> Result<()> {
        let too_large = |_| Error::content("a fixed array is larger than the file: it is damaged");
        let pages = self.count.div_ceil(self.page);
        let map = usize::try_from(pages.div_ceil(8)).map_err(too_large)?;
        let bytes = file.checked(block, self.head.saturating_add(map).saturating_add(4), "a fixed array's block")?;
        let map = bytes.get(self.head..).unwrap_or_default();
        let mut at = block.saturating_add(bytes.len() as u64 + 4);
        for number in 0..pages {
            let first = number * self.page;
            let len = self.page.min(self.count - first).saturating_mul(self.entry as u64).saturating_add(4);
            let byte = map.get((number / 8) as usize).copied().unwrap_or_default();
            if byte & (0x80 >> (number % 8)) != 0 {
                let bytes = file.checked(at, usize::try_from(len).map_err(too_large)?, "a fixed array's page")?;
                found.add_entries(first, &bytes, self.entry, self.filtered, file)?;
            }
            at = at.saturating_add(len);
        }
        Ok(())
    }
}
