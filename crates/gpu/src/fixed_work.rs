//! Training steps for measurements: a fixed amount of work each, as much as takes a given time on the idle GPU.

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

/// Training steps for measurements: each does a fixed amount of work, as much as the idle GPU does in a given time. All of its
/// multiprocessors read memory and compute, so what copies and kernels take from them shows as longer steps.
pub struct FixedSteps<G: Gpu> {
    gpu: G,
    stream: G::Stream,
    launch: Launch,
    /// What the kernel reads and writes; `None` once it is dropped.
    memory: Option<[G::Memory; 2]>,
}

impl<G: Gpu + Clone> FixedSteps<G> {
    /// Steps on `stream` that take `time` each on a GPU that has nothing else to do.
    ///
    /// Errors: the GPU is out of memory (260 MB), or can't measure time.
    pub fn new(gpu: &G, time: Duration, stream: &G::Stream) -> Result<Self> {
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
        Ok(Self { gpu: gpu.clone(), stream: stream.clone(), launch, memory: Some(memory) })
    }
}

impl<G: Gpu> FixedSteps<G> {
    /// Queues one step.
    ///
    /// Errors: those of the GPU.
    pub fn queue(&self) -> Result<()> {
        // SAFETY: the memory is kept until all work has finished, by `drop`.
        unsafe { self.gpu.launch(&self.launch, &self.stream) }
    }
}

impl<G: Gpu> Drop for FixedSteps<G> {
    fn drop(&mut self) {
        if self.gpu.drain().is_err() {
            // The GPU may still use it.
            std::mem::forget(self.memory.take());
        }
    }
}
