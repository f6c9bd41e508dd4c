//! Writes the `.idx` of a shard.

use super::spool::Spool;
use crate::dtype::Dtype;
use crate::index_header::IndexHeader;
use packhorse_core::{Context, Error, Outlet, Result};
use std::io::Write;

pub(super) struct Megatron {
    out: Box<dyn Write + Send>,
    dtype: Dtype,
    /// The length of each sequence.
    lengths: Spool,
    /// The number of sequences of each document.
    counts: Spool,
}

impl Megatron {
    pub(super) fn create(dtype: Dtype, out: &mut dyn Outlet) -> Result<Self> {
        let (lengths, counts) = (Spool::new(out.scratch()?), Spool::new(out.scratch()?));
        Ok(Self { out: out.stream(".idx")?, dtype, lengths, counts })
    }

    /// Adds a document. Without the lengths of its sequences it is one sequence, or none if it is empty.
    pub(super) fn document(&mut self, tokens: u64, sequence_lengths: Option<&[[u8; 4]]>) -> Result<()> {
        let count = match sequence_lengths {
            Some(lengths) => {
                lengths.iter().try_for_each(|length| self.lengths.push(*length))?;
                u32::try_from(lengths.len()).map_err(|_| Error::content("has over 2^32 sequences: split it"))?
            }
            None if tokens == 0 => 0,
            None => {
                let length = i32::try_from(tokens).map_err(|_| {
                    Error::content(format!("has {tokens} tokens, over the {} of a sequence: split it", i32::MAX))
                })?;
                self.lengths.push(length.to_le_bytes())?;
                1
            }
        };
        self.counts.push(count.to_le_bytes())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        let header = IndexHeader { dtype: self.dtype, sequences: self.lengths.count(), documents: self.counts.count() };
        let out = &mut self.out;
        out.write_all(&header.encode()?).context("write")?;
        self.lengths.each(&mut |lengths| out.write_all(lengths.as_flattened()).context("write"))?;
        let size = self.dtype.size();
        scan(&mut self.lengths, size, false, out)?;
        scan(&mut self.counts, 1, true, out)?;
        out.flush().context("write")
    }
}

/// Writes the exclusive scan of the numbers, times `size`; with `total`, also the sum of all.
fn scan(numbers: &mut Spool, size: u64, total: bool, out: &mut dyn Write) -> Result<()> {
    let mut sum = 0u64;
    let mut bytes = Vec::new();
    numbers.each(&mut |piece| {
        bytes.clear();
        for number in piece {
            bytes.extend_from_slice(&sum.to_le_bytes());
            let more = u64::from(u32::from_le_bytes(*number)) * size;
            sum =
                sum.checked_add(more).ok_or_else(|| Error::content("the shard has more bytes than a file can hold"))?;
        }
        out.write_all(&bytes).context("write")
    })?;
    match total {
        true => out.write_all(&sum.to_le_bytes()).context("write"),
        false => Ok(()),
    }
}
