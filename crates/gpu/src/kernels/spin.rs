//! Busy waiting on the device.

use super::launch::{Args, Launch, Module};
use packhorse_core::{Error, Result};

/// Simulates a training step: keeps threads busy for this long by the device's clock. If not all blocks fit at once,
/// the time multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    /// The duration.
    pub nanoseconds: u64,
    /// The number of blocks; one leaves the rest of the device to others.
    pub blocks: u32,
    /// Threads per block, up to 256.
    pub threads: u32,
}

impl Spin {
    /// One thread, which leaves the rest of the device to others.
    pub fn new(nanoseconds: u64) -> Self {
        Self { nanoseconds, blocks: 1, threads: 1 }
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
