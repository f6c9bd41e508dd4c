//! Measures how fast batches reach a GPU and how much of that a training step sees, with the limit of each figure, in
//! one run.

#![expect(unsafe_code, reason = "memory is copied without a batch, for comparison")]

use crate::driver::Driver;
use crate::ring::Sender;
use crate::upload_stream::UploadStream;
use crate::{DeviceBatch, DeviceTransform, FixedSteps, Gpu};
use packhorse_core::{Error, Result};
use packhorse_read::{Ahead, Batch, Batches, Device};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The results of one measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UploadMeasured {
    /// Batches or copies.
    pub steps: u64,
    /// Samples in the batches.
    pub samples: u64,
    /// Bytes copied to the GPU.
    pub bytes: u64,
    /// Late steps: the GPU was idle before them.
    pub idle: u64,
    /// Seconds from the start of the first step to the end of the last, on the GPU too.
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

/// A GPU with a training step.
pub struct UploadBench<G: Gpu> {
    gpu: G,
    step: TrainingStep<G>,
    /// The approximate duration of each measurement.
    time: Duration,
    compute: G::Stream,
}

/// What stands for a training step.
enum TrainingStep<G: Gpu> {
    /// Time passes.
    Pause(Duration),
    /// A fixed amount of work.
    Work(Box<FixedSteps<G>>),
}

/// Steps that may be queued and unfinished, as in a loop that reads its loss now and then.
const QUEUED: usize = 2;

/// Warm-up steps, in which memory is allocated and kernels are compiled.
const WARM: u64 = 8;

/// Batches taken ahead.
const AHEAD: usize = 2;

impl<G: Gpu + Clone> UploadBench<G> {
    /// Measurements on `gpu` of about `time` each, with training steps of which each does as much work as the idle GPU does in
    /// `step`: all of its processors read memory and compute. What copies and kernels take from them shows as longer steps.
    ///
    /// Errors: the GPU can't create a stream, lacks 260 MB of memory, or runs no kernels.
    pub fn new(gpu: G, step: Duration, time: Duration) -> Result<Self> {
        let compute = gpu.stream()?;
        let step = TrainingStep::Work(Box::new(FixedSteps::new(&gpu, step, &compute)?));
        Ok(Self { gpu, step, time, compute })
    }

    /// The same with steps that only last `step`, for a GPU without processors: [`Simulated`](crate::Simulated).
    ///
    /// Errors: the GPU can't create a stream.
    pub fn pausing(gpu: G, step: Duration, time: Duration) -> Result<Self> {
        Ok(Self { compute: gpu.stream()?, gpu, step: TrainingStep::Pause(step), time })
    }

    /// Only copies of `bytes` bytes from pinned memory, one after another: the upper limit.
    pub fn copies(&self, bytes: usize) -> Result<UploadMeasured> {
        let stream = self.gpu.stream()?;
        let from = self.gpu.pinned(bytes)?;
        let slots = (0..=AHEAD).map(|_| self.gpu.memory(bytes)).collect::<Result<Vec<_>>>()?;
        let mut slots = slots.iter().cycle();
        let measured = self.clocked(&stream, WARM, || {
            let Some(to) = slots.next() else { return Ok(None) };
            // SAFETY: the clock stops when all copies are complete, and the memory has no other use until then.
            unsafe { self.gpu.upload(from.as_ref(), to, &stream) }?;
            Ok(Some((0, bytes as u64)))
        });
        // Even after an error, memory is freed only when nothing uses it.
        self.gpu.drain()?;
        measured
    }

    /// Only copies of `bytes` bytes back, from the GPU to pinned memory, one after another. Each is waited for.
    pub fn downloads(&self, bytes: usize) -> Result<UploadMeasured> {
        let stream = self.gpu.stream()?;
        let (mut to, from) = (self.gpu.pinned(bytes)?, self.gpu.memory(bytes)?);
        // SAFETY: both live until the GPU is done, also after an error, and have no other use.
        let written = unsafe { self.gpu.upload(to.as_ref(), &from, &stream) };
        self.gpu.drain()?;
        written?;
        let address = self.gpu.address(&from);
        self.clocked(&stream, WARM, || {
            // SAFETY: `from` has that many bytes, which were written before the wait above, and nothing writes them.
            unsafe { self.gpu.download(address, to.as_mut()) }?;
            Ok(Some((0, bytes as u64)))
        })
    }

    /// One batch in pinned memory ([`Staged`]), sent repeatedly, so the loader has no work. With `steps` each is used
    /// by a training step.
    pub fn cached(
        &self,
        batch: &Arc<Batch<G::Pinned>>,
        transforms: Vec<Arc<dyn DeviceTransform>>,
        steps: bool,
    ) -> Result<UploadMeasured> {
        let upload = UploadStream::<G, Arc<Batch<G::Pinned>>>::new(self.gpu.clone(), transforms)?;
        upload.prepare(batch.layout())?;
        let upload = Arc::new(upload);
        let (samples, bytes) = (batch.rows() as u64, batch.used() as u64);
        let mut sender = Sender::new(Arc::clone(&upload), AHEAD, AHEAD + 1);
        let mut ahead = VecDeque::new();
        self.clocked(if steps { &self.compute } else { upload.transforms() }, WARM, || {
            while ahead.len() < AHEAD {
                ahead.push_back(sender.send(Arc::clone(batch))?);
            }
            if let Some(mut lease) = ahead.pop_front() {
                lease.wait(&self.compute)?;
                self.train(steps)?;
            }
            Ok(Some((samples, bytes)))
        })
    }

    /// Training steps on one batch that stays on the GPU: the limit for all other measurements.
    pub fn resident(&self, batch: &DeviceBatch<G>) -> Result<UploadMeasured> {
        batch.wait(&self.compute)?;
        let samples = batch.rows() as u64;
        self.clocked(&self.compute, WARM, || self.train(true).map(|()| Some((samples, 0))))
    }

    /// The batches of a loader, for as long as the measurement takes. With `steps` each is used by a training step.
    ///
    /// The clock starts after `stock` batches, as many as a loader may have ready before the first call.
    pub fn batches<L>(&self, loader: L, stock: u64, steps: bool) -> Result<UploadMeasured>
    where
        L: Batches<Batch = DeviceBatch<G>> + Send + 'static,
        L::State: Send,
    {
        let mut loader = Ahead::new(loader, AHEAD)?;
        self.clocked(&self.compute, WARM + AHEAD as u64 + stock, || {
            let Some(batch) = loader.next() else { return Ok(None) };
            let batch = batch?;
            batch.wait(&self.compute)?;
            self.train(steps)?;
            Ok(Some((batch.rows() as u64, batch.used()? as u64)))
        })
    }

    fn train(&self, steps: bool) -> Result<()> {
        match &self.step {
            _ if !steps => Ok(()),
            TrainingStep::Pause(time) => self.gpu.pause(*time, &self.compute),
            TrainingStep::Work(work) => work.queue(),
        }
    }

    /// Calls `step`, which queues work on `stream` and returns its samples and bytes, until time or samples run out.
    /// The first `warm` calls don't count.
    fn clocked(
        &self,
        stream: &G::Stream,
        warm: u64,
        mut step: impl FnMut() -> Result<Option<(u64, u64)>>,
    ) -> Result<UploadMeasured> {
        let events = (0..=QUEUED).map(|_| self.gpu.event()).collect::<Result<Vec<_>>>()?;
        let at = |number: u64| events.get((number % events.len() as u64) as usize);
        let mut measured = UploadMeasured::default();
        let mut start = Instant::now();
        for number in 0.. {
            if number == warm {
                self.gpu.drain()?;
                (measured, start) = (UploadMeasured::default(), Instant::now());
            }
            if number > warm && start.elapsed() >= self.time {
                break;
            }
            let Some((samples, bytes)) = step()? else { break };
            measured.steps += 1;
            measured.samples += samples;
            measured.bytes += bytes;
            if let Some((before, now)) = at(number + QUEUED as u64).zip(at(number)) {
                // The previous step had finished when this one was queued: the GPU was idle.
                measured.idle += u64::from(number > warm && self.gpu.over(before)?);
                self.gpu.record(now, stream)?;
            }
            // Limits the queued steps. An event that was never recorded counts as past.
            at(number + 1).map_or(Ok(()), |oldest| self.gpu.synchronize(oldest))?;
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
