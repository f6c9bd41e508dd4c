//! A training step for measurements: a fixed amount of work, as much as takes a given time on the idle GPU.

#![expect(unsafe_code, reason = "a kernel reads memory that is kept beside it")]

use crate::Gpu;
use crate::kernels::{Exercise, Launch};
use packhorse_core::{Error, Result};
use std::time::Duration;

/// Bytes that the work reads, more than the caches of GPUs hold; the larger part of a step's reads goes to memory.
const BYTES: usize = 256 << 20;

/// Multiplications for each number read: about 16 operations a byte, as in training.
const SWEEPS: u32 = 32;

/// Reads of the first measurement.
const FIRST: u64 = 1 << 18;

/// The most measurements, and how near to the wanted time is near enough.
const ROUNDS: usize = 8;
const NEAR: f64 = 0.02;

pub(crate) struct FixedWork<G: Gpu> {
    launch: Launch,
    /// What the kernel reads and writes.
    _memory: [G::Memory; 2],
}

impl<G: Gpu> FixedWork<G> {
    /// As much work as takes `time` on `stream`, on a GPU that has nothing else to do.
    ///
    /// Errors: the GPU is out of memory, or can't measure time.
    pub(crate) fn of(gpu: &G, time: Duration, stream: &G::Stream) -> Result<Self> {
        let memory = [gpu.memory(BYTES)?, gpu.memory(Exercise::SUMS)?];
        let [data, sums] = [0, 1].map(|i: usize| memory.get(i).map_or(0, |memory| gpu.address(memory)));
        let timers = [gpu.timer()?, gpu.timer()?];
        let [Some(from), Some(to)] = timers else { return Err(Error::unsupported("the GPU can't measure time")) };
        let mut reads = FIRST;
        for _ in 0..ROUNDS {
            let launch = Exercise { reads, sweeps: SWEEPS }.launch(data, BYTES as u64, sums)?;
            // The first launch loads the kernel.
            for _ in 0..2 {
                gpu.record(&from, stream)?;
                // SAFETY: the memory lives until the GPU is done, below.
                let launched = unsafe { gpu.launch(&launch, stream) };
                let marked = gpu.record(&to, stream);
                if let Err(e) = gpu.drain() {
                    // The GPU may still use it.
                    std::mem::forget(memory);
                    return Err(e);
                }
                launched.and(marked)?;
            }
            let took = gpu.elapsed(&from, &to)?.as_secs_f64().max(1e-6);
            // From a short measurement to a long one in steps: clocks rise under load.
            let factor = (time.as_secs_f64() / took).clamp(0.01, 64.0);
            if (factor - 1.0).abs() < NEAR {
                break;
            }
            reads = ((reads as f64 * factor) as u64).max(1);
        }
        let launch = Exercise { reads, sweeps: SWEEPS }.launch(data, BYTES as u64, sums)?;
        Ok(Self { launch, _memory: memory })
    }

    /// Queues one step.
    ///
    /// # Safety
    ///
    /// It must be dropped only when the GPU has finished the step.
    pub(crate) unsafe fn queue(&self, gpu: &G, stream: &G::Stream) -> Result<()> {
        // SAFETY: the memory is kept beside the launch; the rest is this function's contract.
        unsafe { gpu.launch(&self.launch, stream) }
    }
}
