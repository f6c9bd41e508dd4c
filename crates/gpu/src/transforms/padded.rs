//! Pads ragged values.

use super::Fields;
use super::{Commands, DeviceTransform, Output, batch, element, field, made, rows, view};
use crate::kernels::{Element, Pad, RaggedValues, Tensor};
use packhorse_core::{DataType, Error, Result};
use packhorse_read::Layout;

/// The ragged values of a field as `[batch, length]`, padded at the end, and the number of values in each row as
/// `INTO.lengths` (`Int64 [batch]`). Longer rows are truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Padded {
    /// The field to read.
    pub from: String,
    /// The field to make.
    pub into: String,
    /// Values per row of the output.
    pub length: usize,
    /// The padding value: its bytes, little-endian, zero-extended.
    pub pad: u64,
}

impl Padded {
    /// Values of the field `from`, padded with zeros, as the field `into`.
    pub fn new(from: impl Into<String>, into: impl Into<String>, length: usize) -> Self {
        Self { from: from.into(), into: into.into(), length, pad: 0 }
    }

    fn lengths(&self) -> String {
        format!("{}.lengths", self.into)
    }

    fn kernel(&self, layout: &Layout) -> Result<(Pad, Element, u32)> {
        let from = layout.field(&self.from).filter(|field| field.ragged && field.shape.len() == 1);
        let from =
            from.ok_or_else(|| Error::config(format!("batches have no ragged field {} of single numbers", self.from)))?;
        let offsets = field(layout, &format!("{}.offsets", self.from), &[DataType::Int64])?;
        let element = element(from)?;
        let pad = Pad { pad: self.pad, ..Pad::new(element.width(), self.length as u64) };
        Ok((pad, element, batch(offsets)?.saturating_sub(1)))
    }
}

// SAFETY: the kernel accesses only the arrays whose addresses and sizes it is given, which are those of the fields.
unsafe impl DeviceTransform for Padded {
    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>> {
        let (pad, element, rows) = self.kernel(layout)?;
        if self.length == 0 {
            return Err(Error::config(format!("field {} padded to no values: give a length", self.into)));
        }
        let values = pad.output(rows)?;
        let values = Tensor { element, shape: values.shape.into_iter().take(2).collect() };
        let lengths = Tensor { element: Element::I64, shape: vec![rows as usize] };
        Ok(vec![Output::rows(&self.into, values), Output::rows(self.lengths(), lengths)])
    }

    fn run(&self, fields: &Fields<'_>, _: u64, commands: &mut dyn Commands) -> Result<()> {
        let (pad, ..) = self.kernel(fields.layout())?;
        let values = view(fields, &self.from)?;
        let from = RaggedValues {
            values: values.address,
            entries: values.shape.first().copied().unwrap_or_default() as u64,
            offsets: view(fields, &format!("{}.offsets", self.from))?.address,
        };
        let (to, lengths) = (made(fields, &self.into)?.address, made(fields, &self.lengths())?.address);
        commands.launch(&pad.launch(&from, to, lengths, rows(fields))?)
    }
}
