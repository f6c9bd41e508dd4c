//! A remote file as an [`Input`].

use super::fetch::OpenFile;
use super::link::Link;
use super::object::{QueryResult, RemoteObject};
use super::pieces::Pieces;
use bytes::{Buf, Bytes};
use packhorse_core::{BegunRead, Error, FileStat, Input, Result, found};
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

/// An open file pinned to one version; never returns bytes of another.
pub(crate) struct RemoteFile {
    link: Arc<Link>,
    opened: Arc<OpenFile>,
}

impl RemoteFile {
    /// Queries the server. A folder is a `Content` error, as in a local store.
    pub(crate) fn open(link: Arc<Link>, object: RemoteObject) -> Result<Self> {
        let (asked, name) = (object.clone(), object.name());
        match link.wait(async move { asked.look().await })? {
            QueryResult::File(version) => Ok(Self { opened: Arc::new(OpenFile::new(object, version)), link }),
            QueryResult::Folder => Err(Error::content("is not a regular file").in_input(name)),
        }
    }

    /// The stat of the version that is read.
    pub(crate) fn as_opened(&self) -> FileStat {
        self.opened.version.stat(&self.opened.name)
    }

    fn pieces(&self, range: Range<u64>) -> Pieces {
        Pieces::new(self.link.clone(), self.opened.clone(), range)
    }

    /// Fills `buf` with all of a range.
    fn fill(&self, mut pieces: Pieces, buf: &mut [u8]) -> Result<()> {
        let mut rest = buf;
        while let Some(chunk) = pieces.next()? {
            let (to, after) = rest.split_at_mut_checked(chunk.len()).ok_or_else(|| Error::bug("more than a range"))?;
            to.copy_from_slice(&chunk);
            rest = after;
        }
        match rest.is_empty() {
            true => Ok(()),
            false => Err(Error::bug("less than a range").in_input(&self.opened.name)),
        }
    }

    fn short(&self, offset: u64, wanted: usize) -> Error {
        let len = self.opened.version.len;
        Error::past_end(wanted as u64, offset, len).in_input(&self.opened.name)
    }
}

impl Input for RemoteFile {
    fn name(&self) -> &str {
        &self.opened.name
    }

    fn len(&self) -> Option<u64> {
        Some(self.opened.version.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.opened.version.len);
        let end = end.ok_or_else(|| self.short(offset, buf.len()))?;
        self.fill(self.pieces(offset..end), buf)
    }

    fn begin_read(&self, range: Range<u64>) -> Option<BegunRead<'_>> {
        if range.end > self.opened.version.len {
            return None;
        }
        let mut pieces = self.pieces(range);
        pieces.ask();
        Some(Box::new(move |buf| self.fill(pieces, buf)))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        let pieces = self.pieces(0..self.opened.version.len);
        Ok(Box::new(Stream { pieces, chunk: Bytes::new() }))
    }

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        let key = match self.opened.object.key.rsplit_once('/') {
            None | Some(("", _)) => name.to_owned(),
            Some((folder, _)) => format!("{folder}/{name}"),
        };
        let file = found(Self::open(self.link.clone(), RemoteObject { key, ..self.opened.object.clone() }))?;
        Ok(file.map(|file| -> Box<dyn Input> { Box::new(file) }))
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        let object = self.opened.object.clone();
        self.link.wait(async move { object.stat().await }).map(Some)
    }

    fn pinned(&self) -> bool {
        true
    }
}

struct Stream {
    pieces: Pieces,
    chunk: Bytes,
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !buf.is_empty() {
            match self.pieces.next()? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let n = self.chunk.len().min(buf.len());
        let to = buf.get_mut(..n).unwrap_or_default();
        self.chunk.copy_to_slice(to);
        Ok(n)
    }
}
