//! Where a format's bytes go. A sink never names, hashes, syncs or renames.

use crate::{Context, Error, Input, Result};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Opens the files of one shard (or, at seal, of the dataset). The implementation stages, hashes,
/// syncs and publishes them; a format only writes.
pub trait Outlet {
    /// A new file. For a shard `suffix` follows the shard's name (`".tar"`); for a dataset it is a
    /// relative path (`".nv-meta/split.yaml"`). Bytes are hashed while they are written. The file is
    /// complete when the writer was flushed and dropped.
    fn stream(&mut self, suffix: &str) -> Result<Box<dyn Write + Send>>;

    /// The same for a file whose first bytes are written last.
    fn patchable(&mut self, suffix: &str) -> Result<Box<dyn PatchableWriter>>;

    /// A new file that concatenates `parts`; they may be copied in parallel.
    fn concat(&mut self, suffix: &str, parts: &[InputRange<'_>]) -> Result<()> {
        copy_ranges(parts, &mut *self.stream(suffix)?)
    }

    /// A temporary file for bytes whose place in the shard is not yet known, such as an array that follows one which is
    /// still growing. It has no name and is gone when dropped, also after a crash. `Unsupported` where the outlet has
    /// none.
    fn scratch(&mut self) -> Result<Box<dyn ScratchFile>> {
        Err(Error::unsupported("this output has no temporary files"))
    }
}

/// Writes `parts` to `out`, one after the other.
pub fn copy_ranges(parts: &[InputRange<'_>], out: &mut dyn Write) -> Result<()> {
    for InputRange { input, offset, len } in parts {
        input.each_piece(*offset..offset.saturating_add(*len), &mut |piece| out.write_all(piece).context("write"))?;
    }
    out.flush().context("write")
}

/// A range of an input. As a [`Read`] it is the bytes that are left.
#[derive(Clone, Copy)]
pub struct InputRange<'a> {
    /// The input.
    pub input: &'a dyn Input,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

impl Read for InputRange<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = usize::try_from(self.len).map_or(buf.len(), |len| len.min(buf.len()));
        self.input.read_at(self.offset, buf.get_mut(..n).unwrap_or_default())?;
        self.offset += n as u64;
        self.len -= n as u64;
        Ok(n)
    }
}

/// A temporary file: bytes are appended in order and read back at any offset.
pub trait ScratchFile: Send {
    /// Adds `bytes` at the end.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Fills `buf` from `offset`; all of it was appended before.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()>;
}

/// In memory.
impl ScratchFile for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = from.checked_add(buf.len()).and_then(|to| self.get(from..to));
        buf.copy_from_slice(bytes.ok_or_else(|| Error::bug("bytes are read that were not written"))?);
        Ok(())
    }
}

/// A file that is written in order, except that its first bytes are replaced at the end.
pub trait PatchableWriter: Write + Send {
    /// Overwrites the first bytes with `head`, which is at most 64 KiB and not longer than the file. Only this
    /// completes the file.
    fn finish(self: Box<Self>, head: &[u8]) -> Result<()>;
}

impl PatchableWriter for File {
    fn finish(mut self: Box<Self>, head: &[u8]) -> Result<()> {
        self.seek(SeekFrom::Start(0)).context("write")?;
        self.write_all(head).context("write")
    }
}
