//! The workspace's only memory map: of a local file that is not written any more.
//!
//! Other inputs are read with `pread`. A map is for files that were sealed: they are published by a rename
//! and never written again, and replacing one makes another file, which leaves the map unchanged. A file
//! that is truncated in place while it is mapped ends the process with SIGBUS, as in every program that maps
//! it, Megatron among them; where that can't be ruled out, use [`Access::Ranges`](crate::Access::Ranges).

#![expect(unsafe_code, reason = "a map of a file is unsafe by its nature: see the one block")]

use memmap2::Mmap;
use packhorse_core::{Error, Input, Kind, Result};
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// The bytes of a whole file, mapped for reading.
#[derive(Debug)]
pub(crate) struct Mapping(Mmap);

impl Mapping {
    /// Maps `input`, if it has a path on this machine and any bytes.
    ///
    /// Errors: the file can't be opened or mapped; it is not the file that the input is (kind `Changed`).
    pub(crate) fn of(input: &dyn Input) -> Result<Option<Self>> {
        let (Some(path), Some(len)) = (input.local_path(), input.len().filter(|len| *len > 0)) else {
            return Ok(None);
        };
        let failed = |action, error| Error::io(action, error).in_input(input.name());
        let file = File::open(path).map_err(|error| failed("open", error))?;
        let now = file.metadata().map_err(|error| failed("stat", error))?;
        let same = input.stat()?.is_none_or(|stat| stat.id == (now.dev(), now.ino()));
        if now.len() != len || !same {
            let message = format!("is another file of {} bytes and was one of {len}: open it again", now.len());
            return Err(Error::new(Kind::Changed, message).in_input(input.name()));
        }
        // SAFETY: the map is private to this value, read-only, and never handed out beyond its borrow. That
        // the file is not written or truncated meanwhile is what the caller guarantees by choosing to map
        // (see above); all that is read is checked against the length of the map, so a file that was short
        // from the start is an error and no fault.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| failed("map", error))?;
        Ok(Some(Self(map)))
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
