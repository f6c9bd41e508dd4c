//! Bytes by position, from a file or from memory. It knows nothing of NumPy or zip.

use crate::npy_header::cut;
use packhorse_core::{Error, Input, Result};
use std::borrow::Cow;

/// The bytes of an `.npy` or `.npz` file.
#[derive(Clone, Copy)]
pub(crate) enum Bytes<'a> {
    Memory(&'a [u8]),
    File { input: &'a dyn Input, len: u64 },
}

impl<'a> Bytes<'a> {
    /// The bytes of `input`; `Unsupported` if its length is unknown.
    pub(crate) fn of(input: &'a dyn Input) -> Result<Self> {
        let len = input.len().ok_or_else(|| {
            Error::unsupported("is a stream, but NumPy files are read by position; decompress it first")
                .in_input(input.name())
        })?;
        Ok(Bytes::File { input, len })
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Bytes::Memory(bytes) => bytes.len() as u64,
            Bytes::File { len, .. } => *len,
        }
    }

    /// Up to `len` bytes from `at`, fewer at the end of the file. Callers must bound `len`.
    pub(crate) fn read(&self, at: u64, len: usize) -> Result<Cow<'a, [u8]>> {
        let left = usize::try_from(self.len().saturating_sub(at)).unwrap_or(usize::MAX);
        let len = len.min(left);
        match self {
            Bytes::Memory(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX);
                Ok(Cow::Borrowed(bytes.get(from..).and_then(|rest| rest.get(..len)).unwrap_or_default()))
            }
            Bytes::File { input, .. } => {
                let mut bytes = vec![0; len];
                input.read_at(at, &mut bytes)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// Fails if the file has fewer than `len` bytes from `at` on.
    pub(crate) fn holds(&self, at: u64, len: usize) -> Result<()> {
        match at.checked_add(len as u64).is_some_and(|end| end <= self.len()) {
            true => Ok(()),
            false => Err(cut()),
        }
    }

    /// Fills `buf` from `at`.
    pub(crate) fn fill(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        match self {
            Bytes::File { input, .. } => input.read_at(at, buf),
            Bytes::Memory(_) => {
                let found = self.read(at, buf.len())?;
                buf.get_mut(..found.len()).filter(|b| b.len() == found.len()).ok_or_else(cut)?.copy_from_slice(&found);
                self.holds(at, buf.len())
            }
        }
    }
}
