//! A fixed amount of work, done by all of the device.

use super::launch::{Args, Launch, Module, address};
use packhorse_core::{Error, Result};

/// Works like a training step: all threads read memory in order, and compute with it. The amount is fixed, so it takes
/// longer where copies or other kernels use the same memory and processors; [`Spin`](super::Spin) would not show that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exercise {
    /// Reads of 16 bytes, by all threads together.
    pub reads: u64,
    /// Fused multiplications and additions for each of the four numbers of a read.
    pub sweeps: u32,
}

impl Exercise {
    /// Sums, one for each thread: enough for several blocks on each multiprocessor of a large device.
    const COUNT: u32 = 1 << 19;

    /// Bytes of the sums that [`Exercise::launch`] writes: `Float32 [524288]`.
    pub const SUMS: usize = 4 * Self::COUNT as usize;

    /// The launch. `data` has `bytes` bytes, a power of two from 16 on, and is read again from its start where the reads go past
    /// its end; `sums` has [`Exercise::SUMS`] bytes.
    pub fn launch(&self, data: u64, bytes: u64, sums: u64) -> Result<Launch> {
        if !bytes.is_power_of_two() || bytes < 16 {
            return Err(Error::config(format!("{bytes} bytes to read: give a power of two, from 16 on")));
        }
        let (data, sums) = (address("data", data, 16)?, address("sums", sums, 4)?);
        let args =
            Args::new().u64(data).u64(sums).u64(self.reads).u64(bytes / 16 - 1).u32(self.sweeps).u32(Self::COUNT);
        Launch::flat(Module::Check, "exercise", Self::COUNT.into(), args.finish(40)?)
    }
}
