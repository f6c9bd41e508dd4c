//! Version 1 B-trees: the chunk index of older files.

use super::chunk_index::{ChunkIndex, ChunkLocation};
use super::file::{H5File, Visits};
use crate::bytes::{Cursor, UNDEFINED};
use packhorse_core::Result;

/// Adds the chunks of the tree at `address` to `found`.
pub(crate) fn chunks(file: &H5File<'_>, address: u64, found: &mut ChunkIndex<'_>) -> Result<()> {
    if address == UNDEFINED {
        return Ok(());
    }
    let mut visits = Visits::new(file, 8);
    node(file, address, u8::MAX, &mut visits, found)
}

fn node(file: &H5File<'_>, address: u64, above: u8, visits: &mut Visits, found: &mut ChunkIndex<'_>) -> Result<()> {
    visits.one()?;
    let head = 8 + 2 * file.offsets;
    let bytes = file.bytes(address, head)?;
    let mut cursor = Cursor::new(&bytes, "a chunk tree");
    cursor.expect(b"TREE\x01")?;
    let (level, count) = (cursor.u8()?, usize::from(cursor.u16()?));
    if level >= above {
        return Err(cursor.bad("has levels that do not decrease: the file is damaged"));
    }
    let rank = found.rank();
    let each = 16 + 8 * rank + file.offsets;
    let bytes = file.bytes(address.saturating_add(head as u64), count * each)?;
    for entry in bytes.chunks_exact(each) {
        let mut cursor = Cursor::new(entry, "a chunk tree");
        let (size, mask) = (cursor.u32()?, cursor.u32()?);
        let offsets = (0..rank).map(|_| cursor.u64()).collect::<Result<Vec<_>>>()?;
        if cursor.u64()? != 0 {
            return Err(cursor.bad("has a chunk that begins inside an element: the file is damaged"));
        }
        let child = cursor.address(file.offsets)?;
        if level > 0 {
            node(file, child, level, visits, found)?;
            continue;
        }
        visits.one()?;
        found.add_at(&offsets, ChunkLocation { address: child, size: u64::from(size), mask })?;
    }
    Ok(())
}
