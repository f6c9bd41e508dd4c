//! Host memory as a device.

use crate::layout::ALIGN;
use crate::{Batch, Device};
use packhorse_core::{Memory, Result};

/// Leaves batches in host memory; large slabs use huge pages, if the system has them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Host {}

impl Device for Host {
    type Host = HostSlab;
    type Batch = Batch<HostSlab>;

    fn host(&mut self, bytes: usize) -> Result<HostSlab> {
        let memory = Memory::zeros(bytes.saturating_add(ALIGN))?;
        let from = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Ok(HostSlab { memory, from, bytes })
    }

    fn upload(&mut self, batch: Batch<HostSlab>) -> Result<Batch<HostSlab>> {
        Ok(batch)
    }
}

/// Memory of fixed length, aligned to [`ALIGN`].
#[derive(Debug)]
pub struct HostSlab {
    memory: Memory,
    from: usize,
    bytes: usize,
}

impl AsRef<[u8]> for HostSlab {
    fn as_ref(&self) -> &[u8] {
        self.memory.get(self.from..self.from + self.bytes).unwrap_or_default()
    }
}

impl AsMut<[u8]> for HostSlab {
    fn as_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.from..self.from + self.bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_aligned() {
        for bytes in [0, 1, 5000, 3 << 20] {
            let mut slab = Host::default().host(bytes).unwrap();
            assert_eq!((slab.as_ref().len(), slab.as_mut().len()), (bytes, bytes));
            assert_eq!(slab.as_ref().as_ptr().addr() % ALIGN, 0);
        }
    }
}
