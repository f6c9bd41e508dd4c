//! An array in the memory of a GPU.

use crate::Element;

/// The address, type and shape of an array on the GPU: dense, in C order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The address of its first byte.
    pub address: u64,
    /// What its elements are.
    pub element: Element,
    /// Elements in each dimension: rows that hold samples first; of ragged values as many entries as there are.
    pub shape: Vec<usize>,
}

impl View {
    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element.width()
    }
}
