//! Reads baskets: the bytes of a branch for consecutive entries, and the offset of each entry.

use crate::bytes::Bytes;
use crate::file::{RootFile, read_key};
use arrow_buffer::Buffer;
use packhorse_core::{Error, Result};
use std::ops::Range;

/// An unflushed basket, stored in the tree's own record.
#[derive(Clone, Debug)]
pub(crate) struct Embedded {
    pub(crate) entries: u64,
    /// Its data in the tree's bytes.
    pub(crate) data: Range<usize>,
    /// The offset of each entry in the data.
    pub(crate) offsets: Option<Vec<u32>>,
}

/// An uncompressed basket.
#[derive(Debug)]
pub(crate) struct Basket {
    bytes: Buffer,
    data: usize,
    /// The number of entries.
    pub(crate) entries: usize,
    /// The offset of each entry and, last, the end of the data; sorted.
    pub(crate) offsets: Option<Vec<u32>>,
}

/// The end of a basket's key: entries, end of the data, flags.
const TAIL: usize = 4 + 4 + 1;

impl Basket {
    /// Reads the basket in `record` of `file`, key included.
    pub(crate) fn read(record: &[u8], file: &RootFile<'_>) -> Result<Self> {
        let mut bytes = Bytes::new(record);
        let key = read_key(&mut bytes)?;
        let key_bytes = usize::try_from(key.key_bytes).unwrap_or(usize::MAX);
        let tail = key_bytes.checked_sub(TAIL).ok_or_else(|| Error::content("a basket's key is too short"))?;
        bytes.advance_to(tail)?;
        let (entries, end) = (bytes.place(false)?, bytes.place(false)?);
        bytes.take(1)?;
        let len = usize::try_from(key.bytes).unwrap_or(usize::MAX).saturating_sub(key_bytes);
        let packed = bytes.take(len)?;
        let object_bytes = file.limits().blob(key.object_bytes)?;
        let unpacked = match object_bytes > len {
            true => file.coders().unpack_into(file.buffers(), packed, object_bytes)?,
            false => packed.get(..object_bytes).unwrap_or(packed).into(),
        };
        let data = usize::try_from(end).unwrap_or(usize::MAX).checked_sub(key_bytes).filter(|n| *n <= unpacked.len());
        let data = data.ok_or_else(|| Error::content("a basket's data ends outside it"))?;
        let entries = usize::try_from(entries).unwrap_or(usize::MAX);
        let table = unpacked.get(data..).unwrap_or_default();
        let offsets = match table.is_empty() {
            true => None,
            false => Some(check(table_of(&mut Bytes::new(table), entries, key_bytes)?, data)?),
        };
        Ok(Self { bytes: unpacked, data, entries, offsets })
    }

    /// The basket at `place` in the tree's bytes.
    pub(crate) fn embedded(place: &Embedded, tree: &[u8]) -> Result<Self> {
        let bytes = tree.get(place.data.clone()).ok_or_else(|| Error::bug("a basket outside its tree"))?;
        let bytes = Buffer::from(bytes);
        let data = bytes.len();
        let entries = usize::try_from(place.entries).unwrap_or(usize::MAX);
        let offsets = place.offsets.clone().map(|offsets| check(offsets, data)).transpose()?;
        Ok(Self { bytes, data, entries, offsets })
    }

    /// The data, without the table of offsets.
    pub(crate) fn data(&self) -> &[u8] {
        self.bytes.get(..self.data).unwrap_or_default()
    }

    /// Bytes of memory that it uses.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.offsets.as_ref().map_or(0, |offsets| 4 * offsets.len())
    }

    /// Sets the offsets of a basket without any, computed from its counter branch.
    pub(crate) fn set_offsets(&mut self, offsets: Vec<u32>) -> Result<()> {
        if offsets.len() != self.entries.saturating_add(1) {
            return Err(Error::content("a counter branch with another number of entries than the basket"));
        }
        let end = offsets.last().copied().unwrap_or(0) as usize;
        if end != self.data {
            return Err(Error::content(format!("a basket of {} bytes, but its counter says {end}", self.data)));
        }
        self.offsets = Some(offsets);
        Ok(())
    }
}

/// A table of offsets: its length, one offset per entry from the start of the key, and an unused one.
fn table_of(bytes: &mut Bytes<'_>, entries: usize, key_bytes: usize) -> Result<Vec<u32>> {
    let count = bytes.count(4)?;
    if count < entries {
        return Err(Error::content(format!("a basket of {entries} entries has {count} offsets")));
    }
    let (found, _) = bytes.take(4 * count)?.as_chunks::<4>();
    let found = found.get(..entries).unwrap_or(found);
    let key_bytes = u32::try_from(key_bytes).unwrap_or(u32::MAX);
    if found.iter().any(|offset| u32::from_be_bytes(*offset) < key_bytes) {
        return Err(Error::content("an entry begins before its basket"));
    }
    let mut offsets = Vec::with_capacity(entries.saturating_add(1));
    offsets.extend(found.iter().map(|offset| u32::from_be_bytes(*offset).wrapping_sub(key_bytes)));
    Ok(offsets)
}

/// Checks that offsets are sorted and within `data` bytes, and appends the end.
fn check(mut offsets: Vec<u32>, data: usize) -> Result<Vec<u32>> {
    offsets.push(u32::try_from(data).map_err(|_| Error::content("a basket of more than 4 GiB"))?);
    if !offsets.is_sorted() {
        return Err(Error::content("the entries of a basket are out of order"));
    }
    Ok(offsets)
}

impl Embedded {
    /// Reads a `TBasket` inside a tree's record: key, members, offsets, then the data, preceded by room for the key.
    pub(crate) fn read(bytes: &mut Bytes<'_>) -> Result<Self> {
        let key = read_key(bytes)?;
        let key_bytes = usize::try_from(key.key_bytes).unwrap_or(usize::MAX);
        bytes.take(2 + 4)?;
        // After a negative size, a byte of features follows.
        if bytes.i32()? < 0 {
            bytes.u8()?;
        }
        let (entries, end) = (bytes.place(false)?, bytes.place(false)?);
        let flag = bytes.u8()? % 80;
        let count = usize::try_from(entries).unwrap_or(usize::MAX);
        let has_data = flag == 1 || flag > 10;
        let mut offsets = None;
        if flag != 0 && flag % 10 != 2 && count > 0 {
            offsets = Some(table_of(bytes, count, key_bytes)?);
        }
        if flag > 40 {
            let displacements = bytes.count(4)?;
            bytes.take(4 * displacements)?;
        }
        let start = bytes.at().saturating_add(key_bytes);
        let len = usize::try_from(end).unwrap_or(usize::MAX);
        if has_data {
            bytes.take(len)?;
        }
        if !has_data || len < key_bytes {
            return Ok(Self { entries: 0, data: 0..0, offsets: None });
        }
        Ok(Self { entries, data: start..bytes.at(), offsets })
    }
}
