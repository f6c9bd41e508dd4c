//! Pads ragged rows.

use super::Element;
use super::element::Tensor;
use super::launch::{Args, Launch, Module, address, optional};
use packhorse_core::{Error, Result};

/// Converts ragged values (entries of `inner` elements, row after row) to `[rows, length, inner]`. Longer rows are
/// truncated, shorter ones padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad {
    /// Bytes per element: 1, 2, 4 or 8. The type does not matter.
    pub width: usize,
    /// Elements per entry, at least 1.
    pub inner: u64,
    /// Entries per output row, at least 1.
    pub length: u64,
    /// The padding value: `width` bytes, little-endian, zero-extended.
    pub pad: u64,
    /// The type of lengths: `I32` or `I64`.
    pub lengths: Element,
}

/// Bytes that a thread writes.
const BYTES: u64 = 16;

/// Addresses of ragged values in a slab of the loader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaggedValues {
    /// The elements.
    pub values: u64,
    /// The number of entries.
    pub entries: u64,
    /// `Int64 [rows + 1]`: the start of each row, in entries, and the end of the last.
    pub offsets: u64,
}

impl Pad {
    /// Elements of `width` bytes, one per entry, padded with zeros.
    pub fn new(width: usize, length: u64) -> Self {
        Self { width, inner: 1, length, pad: 0, lengths: Element::I64 }
    }

    /// Any element of this width.
    fn element(&self) -> Result<Element> {
        let found = match self.width {
            1 => Element::U8,
            2 => Element::U16,
            4 => Element::I32,
            8 => Element::I64,
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

    /// The output of `rows` rows. Its element stands for any type of that width.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        Tensor::new(self.element()?, &[rows.into(), self.length, self.inner])
    }

    /// The launch for `rows` rows. Whole aligned words of eight bytes are read, so memory of values ends
    /// at a multiple of eight. `lengths` receives the number of entries in each output row; 0 if not wanted.
    pub fn launch(&self, from: &RaggedValues, output: u64, lengths: u64, rows: u32) -> Result<Launch> {
        self.output(rows)?;
        Tensor::new(self.element()?, &[from.entries, self.inner])?;
        let output = address("output", output, self.width)?;
        let size = self.inner * self.width as u64;
        let pad = (0..8 / self.width).fold(0, |pad, at| pad | self.pad << (8 * self.width * at));
        // Without entries, values need no address.
        let values = if from.entries == 0 { 0 } else { address("values", from.values, self.width)? };
        let args = Args::new()
            .u64(values)
            .u64(address("offsets", from.offsets, 8)?)
            .u64(output)
            .u64(optional("lengths", lengths, self.lengths.width())?)
            .u64(from.entries)
            .u64(size)
            .u64(self.length)
            .u64(pad)
            .u32(rows)
            .flag(self.lengths == Element::I64)
            .finish(72)?;
        // A row may begin and end within the bytes of a thread.
        Launch::rows(Module::Ragged, "pad", self.length * size / BYTES + 2, rows, args)
    }
}
