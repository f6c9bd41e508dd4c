//! An input that can be read in order only.

use packhorse_core::{Input, MemoryInput, Result};
use std::io::Read;

/// The bytes of an input in memory, without a known length.
pub(crate) struct Stream(pub(crate) MemoryInput);

impl Input for Stream {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn len(&self) -> Option<u64> {
        None
    }
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        unreachable!("a stream is read in order")
    }
    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        self.0.stream()
    }
}
