//! Copies a stream to an unnamed temporary file for random access.

use packhorse_core::{Cancel, Context, Error, FileStat, Input, Kind, Limits, Result};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Copies `input` into an unnamed temporary file in `dir`. The space is freed on drop, even after a crash. A `Limit`
/// error if it needs more than the limits allow for a compressed file.
pub fn spool(input: &dyn Input, dir: &Path, limits: &Limits, cancel: &Cancel) -> Result<Box<dyn Input>> {
    let stat = input.stat()?;
    let most = limits.scratch_of(stat.map_or(0, |stat| stat.size));
    let mut file =
        tempfile::tempfile_in(dir).map_err(|e| Error::io("create temporary file", e).in_input(dir.display()))?;
    let mut stream = input.stream()?;
    let mut buf = packhorse_core::aligned(1 << 20);
    let (mut len, mut fault) = (0u64, None);
    loop {
        cancel.check()?;
        let n = match stream.read(&mut buf) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            n => n.context("read").map_err(|e| e.in_input(input.name())),
        };
        let n = match n {
            Err(e) if e.kind() == Kind::Content => {
                fault = Some(e);
                break;
            }
            n => n?,
        };
        let Some(bytes) = buf.get(..n).filter(|b| !b.is_empty()) else { break };
        file.write_all(bytes).context("write temporary file").map_err(|e| e.in_input(dir.display()))?;
        len += n as u64;
        if len > most {
            let message = format!(
                "is over {most} bytes decompressed, which is more than it may take up on disk while it is read; decompress \
                 it first"
            );
            return Err(Error::new(Kind::Limit, message).in_input(input.name()));
        }
    }
    Ok(Box::new(Spooled { file, name: input.name().to_owned(), len, stat: input.stat()?, fault }))
}

/// The bytes that this process may still write to the file system of `dir`; `None` if it does not say.
pub fn free_space(dir: &Path) -> Option<u64> {
    let found = nix::sys::statvfs::statvfs(dir).ok().filter(|found| found.blocks() > 0)?;
    Some((found.blocks_available() as u64).saturating_mul(found.fragment_size() as u64))
}

/// The limit of open files of this process.
pub fn descriptors() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX))
}

struct Spooled {
    file: File,
    name: String,
    len: u64,
    stat: Option<FileStat>,
    /// The damage that it ends at, if it does.
    fault: Option<Error>,
}

impl Input for Spooled {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> Option<u64> {
        Some(self.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if let Some(fault) = self.fault.as_ref().filter(|_| offset.saturating_add(buf.len() as u64) > self.len) {
            return Err(fault.clone());
        }
        self.file.read_exact_at(buf, offset).context("read temporary file").map_err(|e| e.in_input(&self.name))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Err(Error::bug("a spooled input is read by position").in_input(&self.name))
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        Ok(self.stat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::MemoryInput;

    #[test]
    fn the_scratch_limit_is_enforced() {
        let dir = tempfile::tempdir().unwrap();
        let (input, cancel) = (MemoryInput::new("a.tar.gz", vec![7; 3 << 20]), Cancel::default());
        let spooled = |scratch| spool(&input, dir.path(), &Limits { scratch, ..Limits::default() }, &cancel);
        let mut end = [0; 5];
        spooled(3 << 20).unwrap().read_at((3 << 20) - 5, &mut end).unwrap();
        assert_eq!(end, [7; 5]);
        let error = spooled((3 << 20) - 1).map(|_| ()).unwrap_err();
        assert_eq!((error.kind(), error.input()), (Kind::Limit, Some("a.tar.gz")));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
