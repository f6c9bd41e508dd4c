//! How fast batches come to a GPU, and how much of that a training step sees: each figure beside its limit, in one run.

#![expect(unsafe_code, reason = "memory is copied without a batch, for comparison")]

use crate::driver::Driver;
use crate::line::Line;
use crate::ring::Sender;
use crate::{DeviceBatch, Finish, Gpu};
use packhorse_core::{Error, Result};
use packhorse_read::{Ahead, Batch, Batches, Device};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a while of work came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UploadMeasured {
    /// Batches, or copies.
    pub steps: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes that were copied to the GPU.
    pub bytes: u64,
    /// Steps whose batch was not there when it was asked for.
    pub waits: u64,
    /// From the first step's begin to the last one's end, on the GPU too.
    pub seconds: f64,
}

impl UploadMeasured {
    /// Steps a second.
    pub fn steps_per_s(&self) -> f64 {
        self.steps as f64 / self.seconds.max(1e-9)
    }

    /// Samples a second.
    pub fn samples_per_s(&self) -> f64 {
        self.samples as f64 / self.seconds.max(1e-9)
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }
}

/// A GPU with a training step that computes nothing.
pub struct UploadBench<G: Gpu> {
    gpu: G,
    /// How long a training step takes.
    step: Duration,
    /// How long each measurement takes, about.
    time: Duration,
    compute: G::Stream,
}

/// Steps that may be queued and not over: as a loop has them that looks at its loss now and then.
const QUEUED: usize = 2;

/// Steps before the clock starts: memory is taken then, and kernels are compiled.
const WARM: u64 = 4;

/// Batches that are taken ahead.
const AHEAD: usize = 2;

impl<G: Gpu + Clone> UploadBench<G> {
    /// Measurements on `gpu` of about `time` each, with training steps of `step`.
    ///
    /// Errors: a stream that the GPU does not give.
    pub fn new(gpu: G, step: Duration, time: Duration) -> Result<Self> {
        Ok(Self { compute: gpu.stream()?, gpu, step, time })
    }

    /// Copies of `bytes` bytes from pinned memory, one after another and nothing else: the limit.
    pub fn copies(&self, bytes: usize) -> Result<UploadMeasured> {
        let stream = self.gpu.stream()?;
        let from = self.gpu.pinned(bytes)?;
        let slots = (0..=AHEAD).map(|_| self.gpu.memory(bytes)).collect::<Result<Vec<_>>>()?;
        let mut slots = slots.iter().cycle();
        let measured = self.clocked(stream, || {
            let Some(to) = slots.next() else { return Ok(None) };
            // SAFETY: the clock stops when all copies are over, and nobody uses the memory meanwhile.
            unsafe { self.gpu.upload(from.as_ref(), to, stream) }?;
            Ok(Some((0, bytes as u64)))
        });
        // Also after an error the memory goes only when nothing uses it.
        self.gpu.drain()?;
        measured
    }

    /// One batch that lies in pinned memory ([`Staged`]), sent again and again: the loader's part is nothing. With `steps` each is used by a
    /// training step.
    pub fn cached(
        &self,
        batch: &Arc<Batch<G::Pinned>>,
        finish: Vec<Arc<dyn Finish>>,
        steps: bool,
    ) -> Result<UploadMeasured> {
        let line = Line::<G, Arc<Batch<G::Pinned>>>::new(self.gpu.clone(), finish)?;
        line.prepare(batch.layout())?;
        let (samples, bytes) = (batch.rows() as u64, batch.used() as u64);
        let mut sender = Sender::new(Arc::new(line), AHEAD);
        let mut ahead = VecDeque::new();
        let stream = if steps { self.compute } else { sender.driver().copies() };
        self.clocked(stream, || {
            while ahead.len() <= AHEAD {
                ahead.push_back(sender.send(Arc::clone(batch))?);
            }
            if let Some(mut lease) = ahead.pop_front() {
                lease.wait(self.compute)?;
                self.train(steps)?;
            }
            Ok(Some((samples, bytes)))
        })
    }

    /// Training steps on one batch that lies on the GPU: the limit for all others.
    pub fn resident(&self, batch: &DeviceBatch<G>) -> Result<UploadMeasured> {
        batch.wait(self.compute)?;
        let samples = batch.rows() as u64;
        self.clocked(self.compute, || self.train(true).map(|()| Some((samples, 0))))
    }

    /// The batches of a loader, for as long as the measurement takes. With `steps` each is used by a training step.
    pub fn batches<L>(&self, loader: L, steps: bool) -> Result<UploadMeasured>
    where
        L: Batches<Batch = DeviceBatch<G>> + Send + 'static,
        L::State: Send,
    {
        let mut loader = Ahead::new(loader, AHEAD)?;
        let mut warm = None;
        let mut count = 0;
        let mut measured = self.clocked(self.compute, || {
            let Some(batch) = loader.next() else { return Ok(None) };
            count += 1;
            if count == WARM {
                warm = Some(loader.waited().0);
            }
            let batch = batch?;
            batch.wait(self.compute)?;
            self.train(steps)?;
            Ok(Some((batch.rows() as u64, batch.used()? as u64)))
        })?;
        measured.waits = loader.waited().0.saturating_sub(warm.unwrap_or(0));
        Ok(measured)
    }

    fn train(&self, steps: bool) -> Result<()> {
        if steps { self.gpu.pause(self.step, self.compute) } else { Ok(()) }
    }

    /// Calls `step`, which queues work on `stream` and says how many samples and bytes that is, until time or samples are over.
    fn clocked(
        &self,
        stream: G::Stream,
        mut step: impl FnMut() -> Result<Option<(u64, u64)>>,
    ) -> Result<UploadMeasured> {
        let events = (0..=QUEUED).map(|_| self.gpu.event()).collect::<Result<Vec<_>>>()?;
        let mut measured = UploadMeasured::default();
        let mut start = Instant::now();
        for number in 0.. {
            if number == WARM {
                self.gpu.drain()?;
                (measured, start) = (UploadMeasured::default(), Instant::now());
            }
            if number > WARM && start.elapsed() >= self.time {
                break;
            }
            let Some((samples, bytes)) = step()? else { break };
            measured.steps += 1;
            measured.samples += samples;
            measured.bytes += bytes;
            let at = |number: u64| events.get((number % events.len() as u64) as usize);
            if let (Some(now), Some(before)) = (at(number), at(number + 1)) {
                self.gpu.record(now, stream)?;
                // The one that is used next is the oldest: one that was never recorded is over.
                self.gpu.synchronize(before)?;
            }
        }
        self.gpu.drain()?;
        measured.seconds = start.elapsed().as_secs_f64();
        match measured.steps {
            0 => Err(Error::config("there are too few samples for a batch")),
            _ => Ok(measured),
        }
    }
}

/// Leaves batches in pinned memory, for [`UploadBench::cached`].
#[derive(Debug)]
pub struct Staged<G>(pub G);

impl<G: Gpu> Device for Staged<G> {
    type Host = G::Pinned;
    type Batch = Batch<G::Pinned>;

    fn host(&mut self, bytes: usize) -> Result<G::Pinned> {
        self.0.pinned(bytes)
    }

    fn upload(&mut self, batch: Batch<G::Pinned>) -> Result<Batch<G::Pinned>> {
        Ok(batch)
    }
}
