//! A stream laid down in a file without a name, so that it can be read at any place.

use packhorse_core::{Cancel, Context, Error, FileStat, Input, Result};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Copies all of `input` into an unnamed temporary file in `dir`; the space is free again when the
/// result is dropped, also after a crash.
pub fn spool(input: &dyn Input, dir: &Path, cancel: &Cancel) -> Result<Box<dyn Input>> {
    let mut file =
        tempfile::tempfile_in(dir).map_err(|e| Error::io("create temporary file", e).in_input(dir.display()))?;
    let mut stream = input.stream()?;
    let mut buf = packhorse_core::aligned(1 << 20);
    let mut len = 0u64;
    loop {
        cancel.check()?;
        let n = match stream.read(&mut buf) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            n => n.doing("read").map_err(|e| e.in_input(input.name()))?,
        };
        let Some(bytes) = buf.get(..n).filter(|b| !b.is_empty()) else { break };
        file.write_all(bytes).doing("write temporary file").map_err(|e| e.in_input(dir.display()))?;
        len += n as u64;
    }
    Ok(Box::new(Spooled { file, name: input.name().to_owned(), len, stat: input.stat()? }))
}

struct Spooled {
    file: File,
    name: String,
    len: u64,
    stat: Option<FileStat>,
}

impl Input for Spooled {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> Option<u64> {
        Some(self.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buf, offset).doing("read temporary file").map_err(|e| e.in_input(&self.name))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Err(Error::bug("a spooled input is read by position").in_input(&self.name))
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        Ok(self.stat)
    }
}
