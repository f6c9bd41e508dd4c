//! Unpacks bits.

use super::Fields;
use super::{Commands, DeviceTransform, Output, batch, field, made, rows, view};
use crate::kernels::{Bits, Tensor};
use packhorse_core::{DataType, Error, Result};
use packhorse_read::Layout;

/// Unpacks Booleans of eight per byte ([`FieldKind::Bits`](packhorse_read::FieldKind::Bits)) to numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpacked {
    /// The field to read.
    pub from: String,
    /// The field to make.
    pub into: String,
    /// The shape of a row's Booleans, whose product is the number of bits.
    pub shape: Vec<usize>,
    /// The output values. The count is the product of `shape`.
    pub bits: Bits,
}

impl Unpacked {
    /// Unpacks the bits of the field `from` to this element type and shape, under the same name.
    pub fn new(from: impl Into<String>, shape: &[usize], element: crate::Element) -> Self {
        let from = from.into();
        let bits = Bits::new(shape.iter().product::<usize>() as u64, element);
        Self { into: from.clone(), from, shape: shape.to_vec(), bits }
    }
}

// SAFETY: the kernel accesses only the arrays whose addresses and sizes it is given, which are those of the fields.
unsafe impl DeviceTransform for Unpacked {
    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>> {
        let from = field(layout, &self.from, &[DataType::UInt8])?;
        let count = self.shape.iter().product::<usize>();
        if from.shape.get(1..) != Some(&[count.div_ceil(8)]) || self.bits.count != count as u64 {
            let message =
                format!("field {} has rows of {:?} bytes, not of {count} bits", self.from, from.shape.get(1..));
            return Err(Error::config(message));
        }
        let rows = batch(from)?;
        let made = self.bits.output(rows)?;
        let shape = [&[rows as usize], &self.shape[..]].concat();
        Ok(vec![Output::rows(&self.into, Tensor { shape, ..made })])
    }

    fn run(&self, fields: &Fields<'_>, _: u64, commands: &mut dyn Commands) -> Result<()> {
        let (from, to) = (view(fields, &self.from)?.address, made(fields, &self.into)?.address);
        commands.launch(&self.bits.launch(from, to, rows(fields))?)
    }
}
