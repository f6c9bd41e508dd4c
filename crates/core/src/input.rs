//! Where bytes come from.

use crate::{Context, Error, FileStat, Kind, Result};
use bytes::Bytes;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;

/// Bytes of one read where an input is read piece by piece.
const PIECE: u64 = 1 << 20;

/// A read that goes on by itself: waits for it, and fills a buffer as long as its range.
pub type BegunRead<'a> = Box<dyn FnOnce(&mut [u8]) -> Result<()> + Send + 'a>;

/// A file, an object's ranges, or a member held in memory. Cheap to share between threads.
pub trait Input: Send + Sync {
    /// The name by which the user knows it; used in errors and for its extension.
    fn name(&self) -> &str;

    /// Its length in bytes, where that is known without reading it.
    fn len(&self) -> Option<u64>;

    /// Whether it is known to hold no byte.
    fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Fills `buf` from `offset`. Fewer bytes than that is a `Content` error that says so.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Begins to read `range`, where reads that wait for each other pay a round trip each: over a network. `None`
    /// elsewhere, and for a range past the end: [`read_at`](Self::read_at) is as good there, or gives the error.
    fn begin_read(&self, range: Range<u64>) -> Option<BegunRead<'_>> {
        let _ = range;
        None
    }

    /// All bytes in order, decompressed where the input is a compressed one.
    fn stream(&self) -> Result<Box<dyn Read + Send + '_>>;

    /// The file called `name` beside this one (`.idx` beside `.bin`), if there is one.
    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        let _ = name;
        Ok(None)
    }

    /// Its current metadata, to detect changes later; `None` where it can't change.
    fn stat(&self) -> Result<Option<FileStat>> {
        Ok(None)
    }

    /// Whether reads fail with `Changed` once it is not the version that was opened; then its stat need not be compared.
    fn pinned(&self) -> bool {
        false
    }

    /// The path on this machine, for C libraries; `None` where there is none.
    fn local_path(&self) -> Option<&Path> {
        None
    }
}

/// The methods of [`Input`] that a wrapper leaves to the input in its field, such as `forward_input!(inner: name len stream)`.
#[macro_export]
macro_rules! forward_input {
    ($field:tt: $($method:ident)+) => { $($crate::forward_input!(@ $method $field);)+ };
    (@ name $field:tt) => {
        fn name(&self) -> &str {
            self.$field.name()
        }
    };
    (@ len $field:tt) => {
        fn len(&self) -> Option<u64> {
            self.$field.len()
        }
    };
    (@ read_at $field:tt) => {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> $crate::Result<()> {
            self.$field.read_at(offset, buf)
        }
    };
    (@ stream $field:tt) => {
        fn stream(&self) -> $crate::Result<Box<dyn std::io::Read + Send + '_>> {
            self.$field.stream()
        }
    };
    (@ sibling $field:tt) => {
        fn sibling(&self, name: &str) -> $crate::Result<Option<Box<dyn $crate::Input>>> {
            self.$field.sibling(name)
        }
    };
    (@ stat $field:tt) => {
        fn stat(&self) -> $crate::Result<Option<$crate::FileStat>> {
            self.$field.stat()
        }
    };
    (@ pinned $field:tt) => {
        fn pinned(&self) -> bool {
            self.$field.pinned()
        }
    };
    (@ local_path $field:tt) => {
        fn local_path(&self) -> Option<&std::path::Path> {
            self.$field.local_path()
        }
    };
}

impl<I: Input + ?Sized> Input for &I {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn len(&self) -> Option<u64> {
        (**self).len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        (**self).read_at(offset, buf)
    }

    fn begin_read(&self, range: Range<u64>) -> Option<BegunRead<'_>> {
        (**self).begin_read(range)
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        (**self).stream()
    }

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        (**self).sibling(name)
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        (**self).stat()
    }

    fn pinned(&self) -> bool {
        (**self).pinned()
    }

    fn local_path(&self) -> Option<&Path> {
        (**self).local_path()
    }
}

/// An input that is already in memory, such as a member of an archive.
#[derive(Clone, Debug)]
pub struct MemoryInput {
    name: String,
    bytes: Bytes,
}

impl MemoryInput {
    /// `bytes`, known to the user as `name`.
    pub fn new(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { name: name.into(), bytes: bytes.into() }
    }
}

impl Input for MemoryInput {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> Option<u64> {
        Some(self.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let slice = usize::try_from(offset).ok().and_then(|from| self.bytes.get(from..)?.get(..buf.len()));
        match slice {
            Some(slice) => {
                buf.copy_from_slice(slice);
                Ok(())
            }
            None => Err(Error::past_end(buf.len() as u64, offset, self.bytes.len() as u64).in_input(&self.name)),
        }
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(&self.bytes[..]))
    }
}

impl dyn Input + '_ {
    /// Calls `each` with the bytes of `range` in order, in pieces of 1 MiB; the last one may be shorter.
    pub fn each_piece(&self, range: Range<u64>, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut buf = crate::aligned(range.end.saturating_sub(range.start).min(PIECE) as usize);
        for at in range.clone().step_by(PIECE as usize) {
            let piece = buf.get_mut(..(range.end - at).min(PIECE) as usize).unwrap_or_default();
            self.read_at(at, piece)?;
            each(piece)?;
        }
        Ok(())
    }

    /// Everything in memory, at most `limit` bytes.
    pub fn read_all(&self, limit: u64) -> Result<Vec<u8>> {
        let most = limit.saturating_add(1);
        // One byte more shows the end of the file without another allocation.
        let room = self.len().map_or(0, |len| len.saturating_add(1).min(most));
        let mut bytes = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
        let read = self.stream()?.take(most).read_to_end(&mut bytes).context("read");
        read.map_err(|e| e.in_input(self.name()))?;
        if bytes.len() as u64 > limit {
            return Err(
                Error::new(Kind::Limit, format!("is larger than the limit of {limit} bytes")).in_input(self.name())
            );
        }
        Ok(bytes)
    }
}

/// Reads until `buf` is full or `stream` ends; returns the number of bytes.
pub fn read_full(stream: &mut dyn Read, buf: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e).context("read"),
        }
    }
    Ok(filled)
}
