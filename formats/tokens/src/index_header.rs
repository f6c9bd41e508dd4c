//! The 34-byte header of an `.idx`, and the offsets of its arrays.

use crate::dtype::Dtype;
use packhorse_core::{Error, Input, Result};

/// Bytes of the header; the arrays follow, unaligned.
pub(crate) const HEADER: u64 = 34;
const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
const VERSION: u64 = 1;

/// The header of an `.idx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexHeader {
    /// The type of a token.
    pub dtype: Dtype,
    /// The number of sequences.
    pub sequences: u64,
    /// The number of documents: one less than the entries of the document index.
    pub documents: u64,
}

impl IndexHeader {
    /// Reads the header of the `.idx` `input` and checks it against the length of the file.
    ///
    /// Errors: `Content` for damage, `Unsupported` for other versions and formats.
    pub fn open(input: &dyn Input) -> Result<Self> {
        Self::read(input).map(|(header, _)| header).map_err(|error| error.in_input(input.name()))
    }

    /// Like [`open`](Self::open), without the name of the input in errors. Also returns whether the array of modes
    /// follows.
    pub(crate) fn read(input: &dyn Input) -> Result<(Self, bool)> {
        let len = input.len().ok_or_else(|| Error::unsupported("can't be read as a stream; decompress it first"))?;
        let mut head = [0; HEADER as usize];
        let there = head.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        input.read_at(0, head.get_mut(..there).unwrap_or_default())?;
        if !head.starts_with(MAGIC) {
            return Err(Error::content(foreign(&head)));
        }
        if len < HEADER {
            return Err(Error::cut_short(format!("{len} bytes are less than a header")));
        }
        let (header, entries) = Self::parse(&head)?;
        let modes = header.settle(entries, len)?;
        Ok((header, modes))
    }

    fn parse(head: &[u8; HEADER as usize]) -> Result<(Self, u64)> {
        let u64_at = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(head.get(at..at + 8).unwrap_or(&[0; 8]));
            u64::from_le_bytes(bytes)
        };
        if u64_at(9) != VERSION {
            return Err(Error::unsupported(format!(
                "is an index of version {}; only version {VERSION} is supported",
                u64_at(9)
            )));
        }
        let code = head.get(17).copied().unwrap_or_default();
        let dtype = Dtype::of_code(code)
            .ok_or_else(|| Error::content(format!("has tokens of type {code}; known are 1 to 8")))?;
        let entries = u64_at(26);
        let documents = entries
            .checked_sub(1)
            .ok_or_else(|| Error::content("has an empty document index, which must have at least one entry"))?;
        Ok((Self { dtype, sequences: u64_at(18), documents }, entries))
    }

    /// Whether the array of modes follows: the length of the file decides.
    fn settle(&self, entries: u64, len: u64) -> Result<bool> {
        let arrays =
            |each: u64| self.sequences.checked_mul(each)?.checked_add(HEADER)?.checked_add(entries.checked_mul(8)?);
        match (arrays(12), arrays(13)) {
            (Some(plain), _) if plain == len => Ok(false),
            (_, Some(moded)) if moded == len => Ok(true),
            (plain, _) => Err(Error::content(format!(
                "is {len} bytes long, but {} sequences and {entries} entries of the document index take {}",
                self.sequences,
                plain.map_or("more than any file can have".to_owned(), |plain| plain.to_string())
            ))),
        }
    }

    /// The bytes of the header; an `Unsupported` error for a type without a code.
    pub(crate) fn encode(&self) -> Result<[u8; HEADER as usize]> {
        let code = self.dtype.code().ok_or_else(|| {
            Error::unsupported(format!("Megatron has no type {}; cast the tokens to Int32", self.dtype.name()))
        })?;
        let mut head = [0; HEADER as usize];
        let parts: [&[u8]; 5] = [
            MAGIC,
            &VERSION.to_le_bytes(),
            &[code],
            &self.sequences.to_le_bytes(),
            &self.documents.saturating_add(1).to_le_bytes(),
        ];
        for (to, from) in head.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        Ok(head)
    }

    /// The offset of the length of sequence `i`: an `i32`, in tokens.
    pub fn length_at(&self, i: u64) -> u64 {
        HEADER + 4 * i
    }

    /// The offset of the pointer of sequence `i`: an `i64`, the byte in the `.bin` where it starts.
    pub fn pointer_at(&self, i: u64) -> u64 {
        HEADER + 4 * self.sequences + 8 * i
    }

    /// The offset of entry `i` of the document index.
    pub(crate) fn entry_at(&self, i: u64) -> u64 {
        HEADER + 12 * self.sequences + 8 * i
    }

    /// The offset of the modes; without modes, the length of the file.
    pub(crate) fn end(&self) -> u64 {
        self.entry_at(self.documents + 1)
    }
}

/// The error for a file without Megatron's magic.
fn foreign(head: &[u8]) -> &'static str {
    if head.starts_with(b"TNTIDX\0\0") {
        "is an index of fairseq or of old Megatron versions (TNTIDX); convert it with their tools"
    } else if head.starts_with(b"v1.") {
        "is DALI's index of a tar, not of tokens; leave it out with `exclude`"
    } else {
        "is not an index of Megatron: it doesn't begin with MMIDIDX; leave it out with `exclude`"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, MemoryInput};

    fn read(bytes: &[u8]) -> Result<(IndexHeader, bool)> {
        IndexHeader::read(&MemoryInput::new("a.idx", bytes.to_vec()))
    }

    #[test]
    fn a_header_round_trips_and_the_length_decides_on_modes() {
        let header = IndexHeader { dtype: Dtype::U16, sequences: 2, documents: 1 };
        let mut bytes = header.encode().unwrap().to_vec();
        bytes.resize(34 + 24 + 16, 0);
        assert_eq!(read(&bytes).unwrap(), (header, false));
        assert_eq!((header.pointer_at(0), header.entry_at(0), header.end()), (42, 58, 74));
        bytes.resize(34 + 26 + 16, 0);
        assert_eq!(read(&bytes).unwrap(), (header, true));
        for len in (0..78).filter(|len| ![74, 76].contains(len)) {
            let mut cut = bytes.clone();
            cut.resize(len, 0);
            assert_eq!(read(&cut).unwrap_err().kind(), Kind::Content, "{len}");
        }
    }

    #[test]
    fn huge_counts_do_not_overflow() {
        let header = IndexHeader { dtype: Dtype::U16, sequences: u64::MAX, documents: u64::MAX - 1 };
        assert_eq!(read(&header.encode().unwrap()).unwrap_err().kind(), Kind::Content);
        assert!(IndexHeader { dtype: Dtype::U32, sequences: 0, documents: 0 }.encode().is_err());
    }
}
