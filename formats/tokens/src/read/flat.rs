//! Tokens of files that do not list documents, a fixed number per row.

use super::{DocumentRun, TokenFile};
use crate::dtype::Dtype;
use crate::pair::known_len;
use packhorse_core::{Error, Input, Result};
use std::sync::Arc;

/// The bytes of llm.c's header.
pub(crate) const LLMC_HEADER: u64 = 1024;
/// Its magic number and version, for each type.
pub(crate) const LLMC: [(Dtype, i32, i32); 2] = [(Dtype::U16, 20_240_520, 1), (Dtype::U32, 20_240_801, 7)];

pub(super) struct FlatTokens<'a> {
    input: Arc<dyn Input + 'a>,
    dtype: Dtype,
    /// The offset of the first token.
    start: u64,
    tokens: u64,
    /// Tokens per row.
    length: u64,
}

impl<'a> FlatTokens<'a> {
    /// A file of tokens only.
    pub(super) fn bare(input: Arc<dyn Input + 'a>, dtype: Dtype, length: u64) -> Result<Self> {
        let len = known_len(&*input)?;
        if Self::llmc(Arc::clone(&input), length).is_ok() {
            return Err(
                Error::config("is a file of llm.c, which begins with a header").hint("read it with `read=layout=llmc`")
            );
        }
        match len.is_multiple_of(dtype.size()) {
            true => Ok(Self { input, dtype, start: 0, tokens: len / dtype.size(), length }),
            false => Err(Error::content(format!(
                "is {len} bytes long, not a whole number of tokens of type {}",
                dtype.name()
            ))),
        }
    }

    /// A file with llm.c's header.
    pub(super) fn llmc(input: Arc<dyn Input + 'a>, length: u64) -> Result<Self> {
        let len = known_len(&*input)?;
        if len < LLMC_HEADER {
            return Err(Error::content(format!("is {len} bytes long, shorter than llm.c's header of {LLMC_HEADER}")));
        }
        let mut head = [0; 12];
        input.read_at(0, &mut head)?;
        let number =
            |at: usize| i32::from_le_bytes(head.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or([0; 4]));
        let (magic, version, count) = (number(0), number(4), number(8));
        let known = LLMC.iter().find(|(_, m, v)| (*m, *v) == (magic, version));
        let Some((dtype, ..)) = known else {
            return Err(Error::content(format!(
                "begins with {magic} and {version}, but files of llm.c begin with 20240520 and 1, or 20240801 and 7"
            )));
        };
        let tokens = u64::try_from(count).unwrap_or(u64::MAX);
        match tokens.checked_mul(dtype.size()).and_then(|bytes| bytes.checked_add(LLMC_HEADER)) == Some(len) {
            true => Ok(Self { input, dtype: *dtype, start: LLMC_HEADER, tokens, length }),
            false => Err(Error::content(format!("is {len} bytes long, but its header says {count} tokens"))),
        }
    }
}

impl TokenFile for FlatTokens<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn documents(&self) -> u64 {
        self.tokens.div_ceil(self.length)
    }

    fn tokens(&self) -> u64 {
        self.tokens
    }

    fn lengths(&self) -> bool {
        false
    }

    fn data(&self) -> &dyn Input {
        &*self.input
    }

    fn stretch(&self, first: u64, most: u64) -> Result<DocumentRun> {
        let begin = first.saturating_mul(self.length).min(self.tokens);
        let left = self.tokens - begin;
        let n = left.div_ceil(self.length).min(most);
        let ends = (1..=n).map(|i| (i * self.length).min(left)).collect();
        Ok(DocumentRun { start: self.start + begin * self.dtype.size(), ends, ..DocumentRun::default() })
    }
}
