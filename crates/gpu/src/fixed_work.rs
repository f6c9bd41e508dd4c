//! Training steps for measurements: a fixed amount of work each, as much as takes a given time on the idle GPU.

#![expect(unsafe_code, reason = "a kernel reads memory that is kept beside it")]

use crate::Gpu;
use crate::kernels::{Exercise, Launch, Motif, Origin, Pixels, SyntheticPictures};
use packhorse_core::{Error, Result};
use std::time::Duration;

/// Bytes that the work reads, more than the caches of GPUs hold; the larger part of a step's reads goes to memory.
const BYTES: usize = 256 << 20;

/// Pictures that these bytes are filled with: numbers like any other.
const PICTURES: (u32, u32) = (1024, 256);

/// Multiplications for each number read: about 16 operations a byte, as in training.
const SWEEPS: u32 = 32;

/// About the time of a kernel. A step is many of them, as in training: the kernels of other streams begin where one ends.
const KERNEL: Duration = Duration::from_micros(100);

/// Kernels of a step, at most: a driver queues about a thousand.
const MOST_KERNELS: f64 = 256.0;

/// Reads of a kernel in the first measurement.
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
    /// Launches of a step.
    kernels: u32,
    /// What the kernels read and write; `None` once it is dropped.
    memory: Option<[G::Memory; 2]>,
}

impl<G: Gpu + Clone> FixedSteps<G> {
    /// Steps on `stream` that take `time` each on a GPU that has nothing else to do.
    ///
    /// Errors: the GPU is out of memory (260 MB), or can't measure time.
    pub fn new(gpu: &G, time: Duration, stream: &G::Stream) -> Result<Self> {
        let memory = [gpu.memory(BYTES)?, gpu.memory(Exercise::SUMS)?];
        let [data, sums] = [0, 1].map(|i: usize| memory.get(i).map_or(0, |memory| gpu.address(memory)));
        let exercise = |reads| Exercise { reads, sweeps: SWEEPS }.launch(data, BYTES as u64, sums);
        let kernels = (time.as_secs_f64() / KERNEL.as_secs_f64()).round().clamp(1.0, MOST_KERNELS) as u32;
        let mut made =
            Self { gpu: gpu.clone(), stream: stream.clone(), launch: exercise(FIRST)?, kernels, memory: Some(memory) };
        let ((pictures, side), motif) = (PICTURES, Motif::Noise);
        let noise = SyntheticPictures { motif, size: (side, side), channels: 4, output: Pixels::BYTES };
        // SAFETY: the pictures have the bytes of the memory, which is kept until all work has finished, by `drop`.
        unsafe { gpu.launch(&noise.launch(&Origin::default(), data, pictures)?, stream) }?;
        let timers = [gpu.timer()?, gpu.timer()?];
        let [Some(from), Some(to)] = timers else { return Err(Error::unsupported("the GPU can't measure time")) };
        let mut reads = FIRST;
        for _ in 0..ROUNDS {
            made.launch = exercise(reads)?;
            // The first step loads the kernel.
            for _ in 0..2 {
                gpu.record(&from, stream)?;
                made.queue()?;
                gpu.record(&to, stream)?;
                gpu.drain()?;
            }
            let took = gpu.elapsed(&from, &to)?.as_secs_f64().max(1e-6);
            // From a short measurement to a long one in steps: clocks rise under load.
            let factor = (time.as_secs_f64() / took).clamp(0.01, 64.0);
            if (factor - 1.0).abs() < NEAR {
                break;
            }
            reads = ((reads as f64 * factor) as u64).max(1);
        }
        Ok(made)
    }
}

impl<G: Gpu> FixedSteps<G> {
    /// Queues one step.
    ///
    /// Errors: those of the GPU.
    pub fn queue(&self) -> Result<()> {
        // SAFETY: the memory is kept until all work has finished, by `drop`.
        (0..self.kernels).try_for_each(|_| unsafe { self.gpu.launch(&self.launch, &self.stream) })
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
