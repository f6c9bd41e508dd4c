//! Ragged rows to padded ones.

use super::Element;
use super::element::Tensor;
use super::launch::{Args, Launch, Module, address, optional};
use packhorse_core::{Error, Result};

/// Ragged values (entries of `inner` elements, row after row) to `[rows, length, inner]`: rows that are longer are cut, the rest
/// of shorter ones is padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad {
    /// Bytes an element: 1, 2, 4 or 8. Of what type they are does not matter.
    pub width: usize,
    /// Elements an entry, at least 1.
    pub inner: u64,
    /// Entries of each row that goes out, at least 1.
    pub length: u64,
    /// What fills the rest: `width` bytes, little-endian, zeros above.
    pub pad: u64,
    /// `I32` or `I64`: what lengths are.
    pub lengths: Element,
}

/// Addresses of ragged values, as a loader leaves them in a slab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaggedValues {
    /// The elements.
    pub values: u64,
    /// How many entries they are.
    pub entries: u64,
    /// `Int64 [rows + 1]`: where each row begins, in entries, and where the last one ends.
    pub offsets: u64,
}

impl Pad {
    /// Elements of `width` bytes, one an entry, padded with zeros.
    pub fn new(width: usize, length: u64) -> Self {
        Self { width, inner: 1, length, pad: 0, lengths: Element::I64 }
    }

    fn entry(&self) -> Result<(&'static str, Element)> {
        let found = match self.width {
            1 => ("pad_1", Element::U8),
            2 => ("pad_2", Element::U16),
            4 => ("pad_4", Element::I32),
            8 => ("pad_8", Element::I64),
            other => {
                return Err(Error::config(format!("elements of {other} bytes can't be padded: give 1, 2, 4 or 8")));
            }
        };
        if self.width < 8 && self.pad >> (8 * self.width) != 0 {
            let message = format!("padding of {:#x} does not fit {} bytes: give less", self.pad, self.width);
            return Err(Error::config(message));
        }
        match self.lengths {
            Element::I32 if i32::try_from(self.length).is_err() => {
                Err(Error::config(format!("rows of {} entries: ask for lengths of i64", self.length)))
            }
            Element::I32 | Element::I64 => Ok(found),
            other => Err(Error::config(format!("lengths can't be {}: ask for i32 or i64", other.name()))),
        }
    }

    /// What comes out of so many rows; elements of any type of that width.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        Tensor::new(self.entry()?.1, &[rows.into(), self.length, self.inner])
    }

    /// The launch for `rows` rows. `lengths` gets how many entries of each row there are, cut ones not counted; 0 if not wanted.
    pub fn launch(&self, from: &RaggedValues, output: u64, lengths: u64, rows: u32) -> Result<Launch> {
        self.output(rows)?;
        Tensor::new(self.entry()?.1, &[from.entries, self.inner])?;
        let output = address("output", output, self.width)?;
        let row = self.length * self.inner;
        let vector = row.is_multiple_of(4) && output.is_multiple_of(4 * self.width as u64);
        // Of no entries at all there need be no values.
        let values = if from.entries == 0 { 0 } else { address("values", from.values, self.width)? };
        let args = Args::new()
            .u64(values)
            .u64(address("offsets", from.offsets, 8)?)
            .u64(output)
            .u64(optional("lengths", lengths, self.lengths.width())?)
            .u64(from.entries)
            .u64(self.inner)
            .u64(self.length)
            .u64(self.pad)
            .u32(rows)
            .flag(self.lengths == Element::I64)
            .flag(vector)
            .u32(0)
            .finish(80)?;
        Launch::rows(Module::Ragged, self.entry()?.0, row.div_ceil(4), rows, args)
    }
}
