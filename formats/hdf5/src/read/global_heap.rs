//! Reads global heap collections, which hold variable-length values.

use super::file::H5File;
use crate::bytes::Cursor;
use arrow_buffer::Buffer;
use packhorse_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most bytes of cached collections; one is always cached.
const KEPT: usize = 16 << 20;

/// A collection, with offset and length of each object.
pub(crate) struct Collection {
    pub(crate) bytes: Buffer,
    objects: BTreeMap<u16, (usize, usize)>,
}

/// A cache of collections.
#[derive(Clone, Default)]
pub(crate) struct GlobalHeap {
    kept: BTreeMap<u64, Arc<Collection>>,
    bytes: usize,
}

impl GlobalHeap {
    /// The collection at `address`.
    pub(crate) fn collection(&mut self, file: &H5File<'_>, address: u64) -> Result<Arc<Collection>> {
        if let Some(found) = self.kept.get(&address) {
            return Ok(found.clone());
        }
        let found = Arc::new(Collection::read(file, address)?);
        if self.bytes + found.bytes.len() > KEPT {
            (self.kept, self.bytes) = (BTreeMap::new(), 0);
        }
        self.bytes += found.bytes.len();
        self.kept.insert(address, found.clone());
        Ok(found)
    }
}

impl Collection {
    fn read(file: &H5File<'_>, address: u64) -> Result<Self> {
        let head = file.bytes(address, 8 + file.lengths)?;
        let mut cursor = Cursor::new(&head, "a global heap's collection");
        cursor.expect(b"GCOL\x01")?;
        cursor.skip(3)?;
        let size = cursor.uint(file.lengths)?;
        if !file.holds(address, size) {
            return Err(cursor.bad("lies outside the file: it is damaged or cut short"));
        }
        let bytes = file.bytes(address, file.limits.blob(size)?)?;
        let mut cursor = Cursor::new(&bytes, "a global heap's collection");
        // Headers are padded if lengths have fewer than 8 bytes.
        let padding = 8 - file.lengths.min(8);
        cursor.skip((8 + file.lengths + padding).min(bytes.len()))?;
        let mut objects = BTreeMap::new();
        while cursor.rest().len() >= 8 + file.lengths {
            let index = cursor.u16()?;
            cursor.skip(6)?;
            let len = usize::try_from(cursor.uint(file.lengths)?).unwrap_or(usize::MAX);
            if index == 0 {
                break;
            }
            cursor.skip(padding.min(cursor.rest().len()))?;
            let at = bytes.len() - cursor.rest().len();
            cursor.take(len)?;
            cursor.skip((len.next_multiple_of(8) - len).min(cursor.rest().len()))?;
            objects.insert(index, (at, len));
        }
        Ok(Self { bytes: Buffer::from(bytes), objects })
    }

    /// The offset in the collection of object `index`, which must have `len` bytes.
    pub(crate) fn object(&self, index: u32, len: usize) -> Result<usize> {
        let found = u16::try_from(index).ok().and_then(|index| self.objects.get(&index));
        match found {
            Some((at, held)) if *held == len => Ok(*at),
            Some((_, held)) => Err(Error::content(format!(
                "a value of {len} bytes has {held} in the global heap: the file is damaged"
            ))),
            None => Err(Error::content("a value is missing in the global heap: the file is damaged")),
        }
    }
}
