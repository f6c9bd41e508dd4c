//! The only memory map of the workspace: of a local file that is no longer written.
//!
//! Other inputs are read with `pread`. A map is for sealed files: they are published by a rename and never written
//! again, and replacing one creates a new file, which leaves the map unchanged. Truncating a mapped file in place kills
//! the process with SIGBUS, as in every program that maps files, Megatron included; if that can't be ruled out, use
//! [`Access::Ranges`](crate::Access::Ranges).

#![expect(unsafe_code, reason = "mapping a file is inherently unsafe: see the one block")]

use memmap2::Mmap;
use packhorse_core::{Error, Input, Kind, Result};
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// The bytes of a whole file, mapped for reading.
#[derive(Debug)]
pub(crate) struct Mapping(Mmap);

impl Mapping {
    /// Maps `input` if it is a local file that is not empty.
    ///
    /// Errors: the file can't be opened or mapped; the path now names another file than the input (kind `Changed`).
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
        // SAFETY: the map is private to this value, read-only, and borrowed only from it. By choosing to map, the
        // caller guarantees that the file is not written or truncated (see above). Reads are checked against the length
        // of the map, so a file that is too short from the start is an error, not a fault.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| failed("map", error))?;
        Ok(Some(Self(map)))
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
