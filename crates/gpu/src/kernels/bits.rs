//! Unpacks bits to elements.

use super::Element;
use super::element::Tensor;
use super::launch::{Args, Launch, Module, address};
use packhorse_core::{Error, Result};

/// Unpacks Booleans of one bit each, lowest bit first, each row in whole bytes, to `[rows, count]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bits {
    /// Bits per row, at least 1; they take `count / 8` bytes, rounded up.
    pub count: u64,
    /// `U8`, `F16`, `Bf16` or `F32`.
    pub element: Element,
    /// The value for 0. As a byte it is rounded, halves up, and clamped.
    pub zero: f32,
    /// The value for 1.
    pub one: f32,
}

impl Bits {
    /// Zeros and ones.
    pub fn new(count: u64, element: Element) -> Self {
        Self { count, element, zero: 0.0, one: 1.0 }
    }

    /// The output of `rows` rows.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.entry()?;
        Tensor::new(self.element, &[rows.into(), self.count])
    }

    fn entry(&self) -> Result<&'static str> {
        match self.element {
            Element::U8 => Ok("bits_u8"),
            Element::F16 => Ok("bits_f16"),
            Element::Bf16 => Ok("bits_bf16"),
            Element::F32 => Ok("bits_f32"),
            other => Err(Error::config(format!("bits can't become {}: ask for u8, f16, bf16 or f32", other.name()))),
        }
    }

    /// The launch that reads `rows` rows at `input` and writes to `output`.
    pub fn launch(&self, input: u64, output: u64, rows: u32) -> Result<Launch> {
        self.output(rows)?;
        let width = self.element.width();
        let output = address("output", output, width)?;
        let vector = self.count.is_multiple_of(4) && output.is_multiple_of(4 * width as u64);
        let args = Args::new()
            .u64(address("input", input, 1)?)
            .u64(output)
            .u64(self.count)
            .u64(self.count.div_ceil(8))
            .f32(self.zero)
            .f32(self.one)
            .u32(rows)
            .flag(vector)
            .finish(48)?;
        Launch::rows(Module::Ragged, self.entry()?, self.count.div_ceil(4), rows, args)
    }
}
