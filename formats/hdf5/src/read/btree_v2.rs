//! Version 2 B-trees: visits all records in order.

use super::file::{H5File, Visits};
use crate::bytes::{Cursor, UNDEFINED};
use packhorse_core::{Error, Result};

/// The sizes in a tree's header.
struct BTreeHeader {
    /// Bytes per node.
    node: usize,
    /// Bytes per record.
    record: usize,
    /// Bytes of a node's record count.
    count: usize,
    /// Bytes of a subtree's record count, by level.
    total: Vec<usize>,
}

/// Calls `each` with the tree's type and every record of the tree at `address`.
pub(crate) fn records(file: &H5File<'_>, address: u64, each: &mut dyn FnMut(u8, &[u8]) -> Result<()>) -> Result<()> {
    if address == UNDEFINED {
        return Ok(());
    }
    let bytes = file.checked(address, 22 + file.offsets + file.lengths, "a B-tree")?;
    let mut cursor = Cursor::new(&bytes, "a B-tree");
    cursor.expect(b"BTHD\0")?;
    let (kind, node, record) = (cursor.u8()?, cursor.u32()? as usize, usize::from(cursor.u16()?));
    let depth = cursor.u16()?;
    cursor.skip(2)?;
    let (root, count) = (cursor.address(file.offsets)?, usize::from(cursor.u16()?));
    if record == 0 || node < 32 || node as u64 > file.limits.header || depth > 32 {
        return Err(cursor.bad("has invalid sizes"));
    }
    let tree = BTreeHeader::new(file, node, record, depth);
    if root == UNDEFINED {
        return Ok(());
    }
    let mut visits = Visits::new(file, 4);
    tree.walk(file, root, count, depth, &mut visits, &mut |record| each(kind, record))
}

impl BTreeHeader {
    fn new(file: &H5File<'_>, node: usize, record: usize, depth: u16) -> Self {
        let leaf = ((node - 10) / record) as u64;
        let count = bytes_for(leaf);
        let (mut total, mut below) = (vec![0], leaf);
        for _ in 0..depth {
            let pointer = file.offsets + count + total.last().copied().unwrap_or_default();
            let most = ((node - 10).saturating_sub(pointer) / (record + pointer)) as u64;
            below = (most + 1).saturating_mul(below).saturating_add(most);
            total.push(bytes_for(below));
        }
        Self { node, record, count, total }
    }

    fn walk(
        &self,
        file: &H5File<'_>,
        address: u64,
        count: usize,
        depth: u16,
        visits: &mut Visits,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        visits.one()?;
        let pointer = match usize::from(depth).checked_sub(1) {
            None => 0,
            Some(below) => file.offsets + self.count + self.total.get(below).copied().unwrap_or_default(),
        };
        let len = 10 + count.saturating_mul(self.record).saturating_add((count + 1).saturating_mul(pointer));
        if len > self.node {
            return Err(Error::content("a B-tree node has too many records: the file is damaged"));
        }
        let bytes = file.checked(address, len, "a B-tree's node")?;
        let mut cursor = Cursor::new(&bytes, "a B-tree's node");
        cursor.expect(if depth == 0 { b"BTLF\0" } else { b"BTIN\0" })?;
        cursor.skip(1)?;
        let records = cursor.take(count * self.record)?;
        let mut records = records.chunks_exact(self.record);
        if depth == 0 {
            return records.try_for_each(|record| visits.one().and_then(|()| each(record)));
        }
        for _ in 0..=count {
            let (child, held) = (cursor.address(file.offsets)?, cursor.uint(self.count)? as usize);
            cursor.skip(pointer - file.offsets - self.count)?;
            self.walk(file, child, held, depth - 1, visits, each)?;
            if let Some(record) = records.next() {
                each(record)?;
            }
        }
        Ok(())
    }
}

/// The bytes needed for numbers up to `most`.
pub(crate) fn bytes_for(most: u64) -> usize {
    (most.max(1).ilog2() / 8 + 1) as usize
}
