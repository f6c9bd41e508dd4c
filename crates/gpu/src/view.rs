//! An array in the memory of a GPU.

use crate::Element;

/// The address, type and shape of an array on the GPU: dense, in C order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The address of its first byte.
    pub address: u64,
    /// The type of its elements.
    pub element: Element,
    /// The size of each dimension. The first is the number of rows that hold samples, or of entries of ragged values.
    pub shape: Vec<usize>,
}

impl View {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element.width()
    }
}
