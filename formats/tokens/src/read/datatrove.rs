//! Documents of a `.ds`.

use super::flat::FlatTokens;
use super::{DocumentRun, TokenFile};
use crate::dtype::Dtype;
use crate::numbers;
use crate::pair::{base, known_len};
use packhorse_core::{Error, Input, Result};
use std::sync::Arc;

struct Datatrove<'a> {
    input: Arc<dyn Input + 'a>,
    index: Box<dyn Input>,
    dtype: Dtype,
    documents: u64,
    tokens: u64,
}

/// Opens the documents of `input`; without an index, rows of `length` tokens.
pub(super) fn open<'a>(input: Arc<dyn Input + 'a>, length: u64) -> Result<Box<dyn TokenFile + 'a>> {
    let len = known_len(&*input)?;
    let Some(index) = input.sibling(&format!("{}.index", base(input.name())))? else {
        let dtype = declared_dtype(&*input)?.unwrap_or(Dtype::U16);
        return Ok(Box::new(FlatTokens::bare(input, dtype, length)?));
    };
    let index_len = known_len(&*index)?;
    if !index_len.is_multiple_of(8) {
        let message = format!("is {index_len} bytes long, not a multiple of 8");
        return Err(Error::content(message).in_input(index.name()));
    }
    let documents = index_len / 8;
    let tokens = match documents.checked_sub(1) {
        None => 0,
        Some(last) => {
            u64::from_le_bytes(numbers::read_array(&*index, 8 * last, 1)?.first().copied().unwrap_or_default())
        }
    };
    let dtype = [Dtype::U16, Dtype::U32].into_iter().find(|dtype| tokens.checked_mul(dtype.size()) == Some(len));
    let dtype = match (dtype, len) {
        (_, 0) if tokens == 0 => declared_dtype(&*input)?.unwrap_or(Dtype::U16),
        (Some(dtype), _) => dtype,
        (None, _) => {
            return Err(Error::content(format!(
                "is {len} bytes long where its index ends at token {tokens}; tokens have 2 or 4 bytes"
            )));
        }
    };
    Ok(Box::new(Datatrove { input, index, dtype, documents, tokens }))
}

/// The type in `.metadata`, if any: its first line is `TOKENIZER|BYTES`.
fn declared_dtype(input: &dyn Input) -> Result<Option<Dtype>> {
    let Some(metadata) = input.sibling(&format!("{}.metadata", base(input.name())))? else { return Ok(None) };
    let text = metadata.read_all(1 << 16)?;
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(match first {
        [.., b'|', b'4'] => Some(Dtype::U32),
        [.., b'|', b'2'] => Some(Dtype::U16),
        _ => None,
    })
}

impl TokenFile for Datatrove<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn documents(&self) -> u64 {
        self.documents
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
        let n = self.documents.saturating_sub(first).min(most);
        // One entry before, the start of the first document.
        let before = first.min(1);
        let ends = numbers::read_array(&*self.index, 8 * (first - before), (n + before) as usize)?;
        let mut ends: Vec<u64> = ends.into_iter().map(u64::from_le_bytes).collect();
        let begin = if before == 1 { ends.remove(0) } else { 0 };
        if !ends.is_sorted() || ends.first().is_some_and(|end| *end < begin) || ends.last() > Some(&self.tokens) {
            let message = format!("has ends of documents that are not ascending, from document {first} on");
            return Err(Error::content(message).in_input(self.index.name()));
        }
        ends.iter_mut().for_each(|end| *end -= begin);
        Ok(DocumentRun { start: begin * self.dtype.size(), ends, ..DocumentRun::default() })
    }
}
