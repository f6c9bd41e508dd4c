//! Copies large samples into their shard in pieces.

use crate::block_buffer::BlockBuffer;
use crate::block_reader::BlockReader;
use crate::inputs::Inputs;
use crate::sample_block::Skip;
use packhorse_core::{Error, Input, InputRange, Result, ShardWriter};
use packhorse_dataset::{FieldSource, PlanEntry};
use std::io::Read;
use std::path::PathBuf;

/// Samples of more bytes are copied in pieces if their shard stores them unchanged.
const LARGE: u64 = 16 << 20;

/// Fields of up to this many bytes are read whole.
pub(crate) const SMALL: u64 = 1 << 20;

/// Whether a sample (not a run of rows) is large.
pub(crate) fn is_large(entry: &PlanEntry) -> bool {
    entry.bytes() > LARGE
}

impl BlockReader<'_> {
    /// Appends the sample `entry` to its shard, its large fields in pieces. Returns a skipped sample, of which nothing
    /// was written: all errors that may be skipped occur when its fields are opened.
    pub(crate) fn copy(&self, entry: &PlanEntry, writer: &mut dyn ShardWriter) -> Result<Option<Skip>> {
        let (large, small): (Vec<FieldSource>, Vec<FieldSource>) =
            entry.fields.iter().cloned().partition(|piece| piece.len() > SMALL);
        let small = PlanEntry { fields: small, ..entry.clone() };
        let mut space = BlockBuffer::of(&self.memory, 0, small.bytes());
        let opened = large.iter().map(|piece| {
            let copied = LargeField::open(&self.inputs, piece, &entry.key);
            copied.map_err(|e| (piece, e.in_sample(&entry.key)))
        });
        let opened = opened.collect::<Result<Vec<_>, _>>();
        let read = opened.and_then(|opened| Ok((opened, self.read_sample(&small, &mut space)?)));
        let (opened, ends) = match read {
            Ok(read) => read,
            Err((piece, e)) if self.skips(&e) => {
                return Ok(Some(self.skip(Some(piece), e)));
            }
            Err((_, e)) => return Err(e),
        };
        let rows = self.batch(&[(small.clone(), 0, ends)], &space.into_buffer(), true)?;
        let parts: Vec<(&str, InputRange<'_>)> = opened.iter().map(LargeField::part).collect();
        writer.push_parts(&rows, &parts)?;
        opened.iter().try_for_each(LargeField::check)?;
        Ok(None)
    }
}

/// A field that is read in pieces. Its errors name the input and the sample.
pub(crate) struct LargeField<'a> {
    inputs: &'a Inputs<'a>,
    piece: &'a FieldSource,
    key: &'a str,
    path: PathBuf,
    input: Box<dyn Input>,
}

impl<'a> LargeField<'a> {
    pub(crate) fn open(inputs: &'a Inputs<'a>, piece: &'a FieldSource, key: &'a str) -> Result<Self> {
        let input = inputs.view(piece)?;
        let copied = Self { inputs, piece, key, path: inputs.path(piece), input };
        copied.check()?;
        Ok(copied)
    }

    fn part(&self) -> (&str, InputRange<'_>) {
        (&self.piece.field, InputRange { input: self, offset: 0, len: self.piece.len() })
    }

    /// `Changed` unless it is still the file that was planned.
    pub(crate) fn check(&self) -> Result<()> {
        self.inputs.unchanged(&*self.input, self.piece).map_err(|e| self.about(e))
    }

    fn about(&self, error: Error) -> Error {
        self.inputs.as_planned(error, &self.path).in_input(self.path.display()).in_sample(self.key)
    }
}

impl Input for LargeField<'_> {
    fn name(&self) -> &str {
        self.input.name()
    }

    fn len(&self) -> Option<u64> {
        Some(self.piece.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inputs.check_cancel()?;
        self.input.read_at(offset, buf).map_err(|e| self.about(e))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        self.input.stream()
    }
}
