//! Where a format's bytes go. A sink never names, hashes, syncs or renames.

use crate::Result;
use std::io::Write;
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
}
