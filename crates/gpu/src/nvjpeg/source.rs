//! The JPEGs of a batch in host memory.

use crate::transforms::Fields;
use packhorse_core::{Error, Result};
use std::ops::Range;

/// The bytes and offsets of a field in a batch.
pub(super) struct Source<'b> {
    name: &'b str,
    pub(super) fields: &'b Fields<'b>,
    values: &'b [u8],
    offsets: &'b [[u8; 8]],
}

impl<'b> Source<'b> {
    pub(super) fn new(name: &'b str, fields: &'b Fields<'b>) -> Result<Self> {
        let both = fields.host(name).zip(fields.host(&format!("{name}.offsets")));
        let (values, offsets) = both.ok_or_else(|| {
            let message = format!(
                "field {name}: nvJPEG reads JPEGs in the host's memory, which samples that the GPU keeps have none of"
            );
            Error::unsupported(message).hint("keep decoded pictures, or load batches as they are needed")
        })?;
        Ok(Self { name, fields, values, offsets: offsets.as_chunks().0 })
    }

    /// The range of a row's bytes.
    pub(super) fn place(&self, row: usize) -> Result<Range<usize>> {
        let offset = |row: usize| usize::try_from(i64::from_le_bytes(*self.offsets.get(row)?)).ok();
        let place = offset(row).zip(offset(row + 1)).map(|(from, to)| from..to);
        let place = place.filter(|place| self.values.get(place.clone()).is_some());
        place.ok_or_else(|| Error::bug(format!("row {row} lies behind its field")))
    }

    pub(super) fn bytes(&self, place: Range<usize>) -> &'b [u8] {
        self.values.get(place).unwrap_or_default()
    }

    /// Adds field and sample to the error of a row.
    pub(super) fn named(&self, error: Error, row: usize) -> Error {
        let named = error.subject(format_args!("field {}", self.name)).in_field(self.name);
        let key = self.fields.metadata().key(row).filter(|key| !key.is_empty());
        key.into_iter().fold(named, |named, key| named.in_sample(key))
    }
}
