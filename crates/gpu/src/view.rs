//! An array in the memory of a GPU.

use crate::Element;

/// Where an array is on the GPU, and what is in it: dense, in C order.
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
