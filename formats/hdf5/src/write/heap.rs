//! Variable-length values: global heap collections and references into them.
//!
//! A reference holds a length, the address of a collection and an object's number in it. Until the file
//! is finished it holds the collection's number in place of the address.

use crate::bytes::padded;

/// A collection is closed once it has this many bytes or [`MOST`] objects.
const FULL: usize = 64 << 10;
/// The smallest collection that HDF5 accepts.
const LEAST: usize = 4096;
const MOST: u16 = 4096;

/// Bytes of a reference.
pub(crate) const REFERENCE: usize = 16;

/// A collection under construction.
#[derive(Default)]
pub(crate) struct Collection {
    bytes: Vec<u8>,
    objects: u16,
}

impl Collection {
    /// Appends an object; returns its number.
    pub(crate) fn push(&mut self, object: &[u8]) -> u16 {
        self.objects += 1;
        self.bytes.extend(self.objects.to_le_bytes());
        self.bytes.extend([0; 6]);
        self.bytes.extend((object.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(object);
        let end = padded(self.bytes.len() as u64) as usize;
        self.bytes.resize(end, 0);
        self.objects
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL || self.objects >= MOST
    }

    /// Returns the bytes of the collection, and starts an empty one.
    pub(crate) fn close(&mut self) -> Vec<u8> {
        let size = (16 + self.bytes.len()).max(LEAST);
        let mut bytes = b"GCOL\x01\0\0\0".to_vec();
        bytes.extend((size as u64).to_le_bytes());
        bytes.append(&mut self.bytes);
        // Object 0 is the free space, header included.
        let free = size - bytes.len();
        if free >= 16 {
            bytes.extend([0; 8]);
            bytes.extend((free as u64).to_le_bytes());
        }
        bytes.resize(size, 0);
        self.objects = 0;
        bytes
    }
}

/// A reference to object `index` of the collection at `address`.
pub(crate) fn reference(len: u32, address: u64, index: u16) -> [u8; REFERENCE] {
    let mut bytes = [0; REFERENCE];
    let parts = len.to_le_bytes().into_iter().chain(address.to_le_bytes()).chain(u32::from(index).to_le_bytes());
    bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
    bytes
}

/// Replaces the address of each non-null reference in `bytes` by `place` of it.
pub(crate) fn relocate(bytes: &mut [u8], place: impl Fn(u64) -> u64) {
    for reference in bytes.chunks_exact_mut(REFERENCE) {
        let Some((rest, index)) = reference.split_last_chunk_mut::<4>() else { continue };
        let Some(address) = rest.last_chunk_mut::<8>() else { continue };
        if u32::from_le_bytes(*index) != 0 {
            *address = place(u64::from_le_bytes(*address)).to_le_bytes();
        }
    }
}
