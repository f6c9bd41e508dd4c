//! Documents gathered into rows.

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use packhorse_core::{DataType, Error, Field, FieldType, KEY, Kind, Result, Rows, Schema, SchemaRef};
use std::sync::Arc;

/// The texts and ids of a block, in bytes; a longer document is a block alone. So much stays in a core's cache until it
/// is used.
const BYTES: usize = 512 << 10;

/// The documents of a block.
const DOCUMENTS: usize = 16 << 10;

/// The columns of all rows of this format; `text` is the name of the one that holds the text.
pub(crate) fn schema(text: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(KEY, DataType::Utf8View, false), FieldType::Text.field(text, false)]))
}

/// A key: the document's own, or the place of its first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key<'a> {
    Id(&'a str),
    Offset(u64),
}

impl Key<'_> {
    /// The bytes that it takes outside the view.
    fn bytes(self) -> usize {
        match self {
            Key::Id(id) => id.len(),
            Key::Offset(_) => 0,
        }
    }
}

/// The block that is being filled. All its text lies in one buffer.
pub(crate) struct Block {
    schema: SchemaRef,
    keys: StringViewBuilder,
    texts: StringViewBuilder,
    bytes: usize,
    documents: usize,
}

impl Block {
    /// An empty block for documents of about `bytes` bytes in all.
    pub(crate) fn new(schema: SchemaRef, bytes: u64) -> Self {
        let buffer = bytes.clamp(1 << 10, BYTES as u64);
        let texts = StringViewBuilder::new().with_fixed_block_size(u32::try_from(buffer).unwrap_or(u32::MAX));
        Self { schema, keys: StringViewBuilder::new(), texts, bytes: 0, documents: 0 }
    }

    /// Whether this document is one too many.
    pub(crate) fn is_full(&self, key: Key<'_>, text: &str) -> bool {
        let bytes = self.bytes.saturating_add(key.bytes()).saturating_add(text.len());
        self.documents == DOCUMENTS || (self.documents > 0 && bytes > BYTES)
    }

    /// Appends a document.
    pub(crate) fn push(&mut self, key: Key<'_>, text: &str) -> Result<()> {
        self.texts.try_append_value(text).map_err(|e| Error::new(Kind::Limit, e.to_string()))?;
        match key {
            Key::Id(id) => self.keys.append_value(id),
            Key::Offset(offset) => append_offset(&mut self.keys, offset),
        }
        self.bytes += key.bytes() + text.len();
        self.documents += 1;
        Ok(())
    }

    /// The rows so far, if there are any; the block is empty then.
    pub(crate) fn take(&mut self) -> Option<Result<Rows>> {
        if self.documents == 0 {
            return None;
        }
        (self.bytes, self.documents) = (0, 0);
        let columns: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), Arc::new(self.texts.finish())];
        Some(RecordBatch::try_new(self.schema.clone(), columns).map_err(|e| Error::bug(e.to_string())))
    }
}

/// The key of a document without one: twelve digits lie in the view itself.
pub(crate) fn offset_key(offset: u64) -> String {
    format!("{offset:012}")
}

/// Appends [`offset_key`], without the detour over a string.
fn append_offset(keys: &mut StringViewBuilder, offset: u64) {
    let mut digits = [b'0'; 12];
    let mut rest = offset;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    match str::from_utf8(&digits) {
        Ok(digits) if rest == 0 => keys.append_value(digits),
        _ => keys.append_value(offset_key(offset)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_twelve_digits_or_as_many_as_it_takes() {
        let offsets = [0, 7, 1_234_567_890, 999_999_999_999, 1_000_000_000_000, u64::MAX];
        let mut keys = StringViewBuilder::new();
        offsets.iter().for_each(|offset| append_offset(&mut keys, *offset));
        let keys = keys.finish();
        assert!(keys.iter().flatten().eq(offsets.map(offset_key)));
    }
}
