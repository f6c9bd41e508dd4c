//! The output file: appended to, with the superblock written last.

use crate::bytes::{UNDEFINED, padded};
use crate::checksum::lookup3;
use packhorse_core::{Context, PatchableWriter, Result};
use std::io::{BufWriter, Write};

/// The first address after the superblock (version 2), rounded up.
pub(crate) const START: u64 = 64;

/// An HDF5 file being written.
pub(crate) struct MainFile {
    file: BufWriter<Box<dyn PatchableWriter>>,
    at: u64,
}

impl MainFile {
    /// Starts the empty `file` with room for a superblock.
    pub(crate) fn create(file: Box<dyn PatchableWriter>) -> Result<Self> {
        let mut main = Self { file: BufWriter::with_capacity(256 << 10, file), at: 0 };
        main.append(&[0; START as usize])?;
        Ok(main)
    }

    /// The address of the next byte.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Appends `bytes`; returns their address.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        let address = self.at;
        self.file.write_all(bytes).context("write")?;
        self.at += bytes.len() as u64;
        Ok(address)
    }

    /// Pads with zeros to a multiple of 8.
    pub(crate) fn align(&mut self) -> Result<()> {
        let padding = (padded(self.at) - self.at) as usize;
        self.append([0; 8].get(..padding).unwrap_or_default()).map(|_| ())
    }

    /// Flushes and writes the superblock with the address of the root group; returns the file's length.
    pub(crate) fn finish(mut self, root: u64) -> Result<u64> {
        self.align()?;
        let superblock = superblock(self.at, root);
        let file = self.file.into_inner().map_err(|e| e.into_error()).context("write")?;
        file.finish(&superblock)?;
        Ok(self.at)
    }
}

/// Version 2: HDF5 1.8 and later.
fn superblock(end: u64, root: u64) -> Vec<u8> {
    let mut bytes = b"\x89HDF\r\n\x1a\n\x02\x08\x08\x00".to_vec();
    for address in [0, UNDEFINED, end, root] {
        bytes.extend(address.to_le_bytes());
    }
    bytes.extend(lookup3(&bytes).to_le_bytes());
    bytes
}
