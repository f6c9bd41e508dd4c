//! Where a format's bytes go. A sink never names, hashes, syncs or renames.

use crate::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Opens the files of one shard (or, at seal, of the dataset). Whoever implements it stages,
/// hashes, syncs and publishes them; a format only writes.
pub trait Outlet {
    /// A new file. For a shard `suffix` follows the shard's name (`".tar"`); for a dataset it is a
    /// relative path (`".nv-meta/split.yaml"`). Bytes are hashed while they are written. The file is
    /// complete when the writer was flushed and dropped.
    fn stream(&mut self, suffix: &str) -> Result<Box<dyn Write + Send>>;

    /// The same for libraries that insist on a path: the file is hashed after they closed it.
    fn path(&mut self, suffix: &str) -> Result<PathBuf>;

    /// The same for a file whose first bytes are known last.
    fn headed(&mut self, suffix: &str) -> Result<Box<dyn Headed>> {
        let path = self.path(suffix)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).doing("create")?;
        Ok(Box::new(file))
    }

    /// A folder for files without a name: as large, and as near, as where the files go.
    fn scratch(&self) -> PathBuf {
        std::env::temp_dir()
    }
}

/// A file that is written in order but for its first bytes, in whose place others stand meanwhile.
pub trait Headed: Write + Send {
    /// Puts `head` over the first bytes, of which there are at most 64 KiB and as many as were written. The
    /// file is complete then; dropped without that, it never is.
    fn finish(self: Box<Self>, head: &[u8]) -> Result<()>;
}

impl Headed for File {
    fn finish(mut self: Box<Self>, head: &[u8]) -> Result<()> {
        self.seek(SeekFrom::Start(0)).doing("write")?;
        self.write_all(head).doing("write")
    }
}
