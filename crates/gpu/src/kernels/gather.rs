//! Copies pieces of memory to where a batch has them.

use super::launch::{Args, Launch, Module, address};
use packhorse_core::Result;
use packhorse_read::Gather;

/// Addresses of the memory that pieces are copied from and to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// The pieces, three numbers of 64 bits each, as [`Gather`] has them; at the beginning of the bytes that the first of them
    /// copy from. At a multiple of 16 bytes.
    pub pieces: u64,
    /// What they are copied to. At a multiple of 16 bytes.
    pub data: u64,
}

/// Bytes that a thread writes.
const BYTES: u64 = 16;

impl Gathered {
    /// The launch that copies all pieces. It reads all aligned 16 bytes of which a piece has one at least, so memory of pieces
    /// ends at a multiple of 16 bytes.
    pub fn launch(&self, gather: &Gather) -> Result<Launch> {
        let args = Args::new()
            .u64(address("pieces", self.pieces, 16)?)
            .u64(address("data", self.data, 16)?)
            .u32(gather.pieces)
            .u32(gather.here)
            .finish(24)?;
        // A piece may begin and end within the bytes of a thread.
        Launch::rows(Module::Ragged, "gather", gather.longest / BYTES + 2, gather.pieces, args)
    }
}
