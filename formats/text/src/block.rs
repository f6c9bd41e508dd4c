//! Collects documents into blocks of rows.

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use packhorse_core::{DataType, Error, Field, FieldType, KEY, Kind, Result, Rows, Schema, SchemaRef};
use std::sync::Arc;

/// The most bytes of texts and ids in a block; a longer document gets a block of its own. This much stays in a core's
/// cache until it is used.
const BYTES: usize = 512 << 10;

/// The most documents in a block.
const DOCUMENTS: usize = 16 << 10;

/// The schema of this format's rows; `text` names the text column.
pub(crate) fn schema(text: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(KEY, DataType::Utf8View, false), FieldType::Text.field(text, false)]))
}

/// A document's key: its id, or the offset of its first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DocumentKey<'a> {
    Id(&'a str),
    Offset(u64),
}

impl DocumentKey<'_> {
    /// The bytes that it takes outside the view array.
    fn bytes(self) -> usize {
        match self {
            DocumentKey::Id(id) => id.len(),
            DocumentKey::Offset(_) => 0,
        }
    }
}

/// A block being filled. All its text is in one buffer.
pub(crate) struct DocumentBlock {
    schema: SchemaRef,
    keys: StringViewBuilder,
    texts: StringViewBuilder,
    bytes: usize,
    documents: usize,
}

impl DocumentBlock {
    /// An empty block with room for about `bytes` bytes of documents.
    pub(crate) fn new(schema: SchemaRef, bytes: u64) -> Self {
        let buffer = bytes.clamp(1 << 10, BYTES as u64);
        let texts = StringViewBuilder::new().with_fixed_block_size(u32::try_from(buffer).unwrap_or(u32::MAX));
        Self { schema, keys: StringViewBuilder::new(), texts, bytes: 0, documents: 0 }
    }

    /// Whether this document does not fit any more.
    pub(crate) fn is_full(&self, key: DocumentKey<'_>, text: &str) -> bool {
        let bytes = self.bytes.saturating_add(key.bytes()).saturating_add(text.len());
        self.documents == DOCUMENTS || (self.documents > 0 && bytes > BYTES)
    }

    /// Appends a document.
    pub(crate) fn push(&mut self, key: DocumentKey<'_>, text: &str) -> Result<()> {
        self.texts.try_append_value(text).map_err(|e| Error::new(Kind::Limit, e.to_string()))?;
        match key {
            DocumentKey::Id(id) => self.keys.append_value(id),
            DocumentKey::Offset(offset) => append_offset(&mut self.keys, offset),
        }
        self.bytes += key.bytes() + text.len();
        self.documents += 1;
        Ok(())
    }

    /// Takes the rows so far, if any, and empties the block.
    pub(crate) fn take(&mut self) -> Option<Result<Rows>> {
        if self.documents == 0 {
            return None;
        }
        (self.bytes, self.documents) = (0, 0);
        let columns: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), Arc::new(self.texts.finish())];
        Some(RecordBatch::try_new(self.schema.clone(), columns).map_err(|e| Error::bug(e.to_string())))
    }
}

/// The key of a document without an id. Twelve digits fit into the view itself.
pub(crate) fn offset_key(offset: u64) -> String {
    format!("{offset:012}")
}

/// Appends [`offset_key`] without allocating a string.
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
