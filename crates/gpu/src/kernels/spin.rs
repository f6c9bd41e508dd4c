//! Time that passes on the device.

use super::launch::{Args, Launch, Module};
use packhorse_core::{Error, Result};

/// A step of a training that computes nothing: keeps threads busy for about so long by the device's clock. Where all blocks don't
/// fit at once, as often as they take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    /// How long.
    pub nanoseconds: u64,
    /// Blocks; one leaves the rest of the device to others.
    pub blocks: u32,
    /// Threads a block, up to 256.
    pub threads: u32,
}

impl Spin {
    /// One warp, which leaves the rest of the device to others.
    pub fn new(nanoseconds: u64) -> Self {
        Self { nanoseconds, blocks: 1, threads: 32 }
    }

    /// The launch.
    pub fn launch(&self) -> Result<Launch> {
        let Self { nanoseconds, blocks, threads } = *self;
        if blocks == 0 || i32::try_from(blocks).is_err() || !(1..=256).contains(&threads) {
            let message = format!("{blocks} blocks of {threads} threads can't spin: give 1 to 2^31 - 1 of 1 to 256");
            return Err(Error::config(message));
        }
        let args = Args::new().u64(nanoseconds).finish(8)?;
        Ok(Launch { module: Module::Check, entry: "spin", grid: [blocks, 1, 1], block: [threads, 1, 1], args })
    }
}
