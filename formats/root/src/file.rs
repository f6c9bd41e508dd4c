//! The file structure: header, keys, directories. Knows nothing of the classes of objects.

use crate::bytes::Bytes;
use crate::compression::Coders;
use arrow_buffer::Buffer;
use packhorse_core::{Error, Input, Limits, Pool, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An open file.
pub(crate) struct RootFile<'a> {
    input: Arc<dyn Input + 'a>,
    len: u64,
    limits: Limits,
    buffers: Pool,
    coders: Arc<Coders>,
    begin: u64,
    name_bytes: u64,
    info: (u64, u64),
}

/// A `TKey`: location, class and name of an object.
#[derive(Clone, Debug)]
pub(crate) struct TKey {
    /// Size of the record in bytes: key and object.
    pub(crate) bytes: u64,
    /// Uncompressed size of the object in bytes.
    pub(crate) object_bytes: u64,
    /// Size of the key in bytes.
    pub(crate) key_bytes: u64,
    pub(crate) cycle: u16,
    pub(crate) seek: u64,
    pub(crate) class: String,
    pub(crate) name: String,
}

/// An object in a directory of the file.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Directories and name, separated by slashes.
    pub(crate) path: String,
    pub(crate) key: TKey,
}

/// An object's uncompressed bytes, and the size of its key, which references include.
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    pub(crate) key_bytes: usize,
}

const DEPTH: usize = 64;
/// Bytes read for headers; all are shorter.
const HEAD: usize = 100;

impl<'a> RootFile<'a> {
    pub(crate) fn open(input: Arc<dyn Input + 'a>, limits: Limits) -> Result<Self> {
        let len = input.len().ok_or_else(|| {
            Error::unsupported("is a stream, but ROOT files are read by position; decompress it first")
        })?;
        let mut head = vec![0; usize::try_from(len).unwrap_or(HEAD).min(HEAD)];
        input.read_at(0, &mut head)?;
        let mut bytes = Bytes::new(&head);
        if bytes.take(4)? != b"root" {
            return Err(Error::content("is not a ROOT file: it does not start with \"root\""));
        }
        let large = bytes.u32()? >= 1_000_000;
        let begin = bytes.place(false)?;
        bytes.place(large)?;
        bytes.place(large)?;
        bytes.take(4 + 4)?;
        let name_bytes = bytes.place(false)?;
        bytes.take(1 + 4)?;
        let info = (bytes.place(large)?, bytes.place(false)?);
        let (buffers, coders) = (Pool::default(), Arc::default());
        Ok(Self { input, len, limits, buffers, coders, begin, name_bytes, info })
    }

    pub(crate) fn input(&self) -> &dyn Input {
        &*self.input
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Uses `buffers` and `coders`, which other files may share.
    pub(crate) fn with(mut self, buffers: &Pool, coders: &Arc<Coders>) -> Self {
        (self.buffers, self.coders) = (buffers.clone(), Arc::clone(coders));
        self
    }

    /// Memory for reading and decoding.
    pub(crate) fn buffers(&self) -> &Pool {
        &self.buffers
    }

    /// The decompressors for its baskets and pages.
    pub(crate) fn coders(&self) -> &Coders {
        &self.coders
    }

    /// `len` bytes from `at`, checked against the file's size before anything is allocated.
    pub(crate) fn read(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.size(at, len)?];
        self.input.read_at(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Like [`RootFile::read`], in memory from [`RootFile::buffers`].
    pub(crate) fn stretch(&self, at: u64, len: u64) -> Result<Buffer> {
        self.buffers.filled(self.size(at, len)?, |bytes| self.input.read_at(at, bytes))
    }

    fn size(&self, at: u64, len: u64) -> Result<usize> {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::past_end(len, at, self.len));
        }
        self.limits.blob(len)
    }

    /// Up to `len` bytes from `at`, fewer at the end of the file.
    fn read_some(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        self.read(at, len.min(self.len.saturating_sub(at)))
    }

    /// The object of `key`.
    pub(crate) fn payload(&self, key: &TKey) -> Result<Payload> {
        let packed =
            key.bytes.checked_sub(key.key_bytes).ok_or_else(|| Error::content("a key longer than its record"))?;
        let at = key.seek.checked_add(key.key_bytes).ok_or_else(|| Error::content("a key outside the file"))?;
        let bytes = self.read(at, packed)?;
        let bytes = match key.object_bytes > packed {
            true => self.coders.unpack(&bytes, self.limits.blob(key.object_bytes)?)?,
            false => bytes,
        };
        Ok(Payload { bytes, key_bytes: usize::try_from(key.key_bytes).unwrap_or(usize::MAX) })
    }

    /// The record of streamer infos, if the file has one.
    pub(crate) fn streamer_info(&self) -> Result<Option<Payload>> {
        let (at, len) = self.info;
        if at == 0 || len == 0 {
            return Ok(None);
        }
        let bytes = self.read(at, len)?;
        let mut key = read_key(&mut Bytes::new(&bytes))?;
        key.seek = at;
        self.payload(&key).map(Some)
    }

    /// All objects in all directories, in file order.
    pub(crate) fn items(&self) -> Result<Vec<Item>> {
        let at =
            self.begin.checked_add(self.name_bytes).ok_or_else(|| Error::content("a directory outside the file"))?;
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        self.folder(at, "", &mut seen, &mut found)?;
        Ok(found)
    }

    fn folder(&self, at: u64, path: &str, seen: &mut BTreeSet<u64>, found: &mut Vec<Item>) -> Result<()> {
        let head = self.read_some(at, HEAD as u64)?;
        let mut bytes = Bytes::new(&head);
        let large = bytes.u16()? > 1000;
        bytes.take(4 + 4)?;
        let list_bytes = bytes.place(false)?;
        bytes.place(false)?;
        bytes.place(large)?;
        bytes.place(large)?;
        let list = bytes.place(large)?;
        // A directory without a list is empty. Each list is read once, so cycles end.
        if list == 0 || !seen.insert(list) {
            return Ok(());
        }
        for key in self.keys(list, list_bytes)? {
            let inner = if path.is_empty() { key.name.clone() } else { format!("{path}/{}", key.name) };
            if key.class == "TDirectory" || key.class == "TDirectoryFile" {
                if inner.matches('/').count() >= DEPTH {
                    return Err(Error::content(format!("directories nested more than {DEPTH} deep")));
                }
                self.folder(key.seek.saturating_add(key.key_bytes), &inner, seen, found)?;
            } else {
                found.push(Item { path: inner, key });
            }
        }
        Ok(())
    }

    fn keys(&self, at: u64, len: u64) -> Result<Vec<TKey>> {
        let bytes = self.read(at, len)?;
        let mut bytes = Bytes::new(&bytes);
        let list = read_key(&mut bytes)?;
        bytes.advance_to(usize::try_from(list.key_bytes).unwrap_or(usize::MAX))?;
        let count = bytes.count(1)?;
        (0..count).map(|_| read_key(&mut bytes)).collect()
    }
}

/// Reads a key, from a list or before its object.
pub(crate) fn read_key(bytes: &mut Bytes<'_>) -> Result<TKey> {
    let size = bytes.place(false)?;
    let large = bytes.u16()? > 1000;
    let object_bytes = bytes.place(false)?;
    bytes.u32()?;
    let key_bytes = u64::from(bytes.u16()?);
    let cycle = bytes.u16()?;
    let seek = bytes.place(large)?;
    bytes.take(if large { 8 } else { 4 })?;
    let (class, name) = (bytes.string()?, bytes.string()?);
    bytes.raw_string()?;
    Ok(TKey { bytes: size, object_bytes, key_bytes, cycle, seek, class, name })
}
