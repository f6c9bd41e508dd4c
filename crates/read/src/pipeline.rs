//! Reads and fills batches ahead on threads, and returns them in order.

use crate::batch::Home;
use crate::batch_metadata::BatchMetadata;
use crate::device::slab;
use crate::prefetch_queue::PrefetchQueue;
use crate::ring::{Claim, Done, Outcome, Ring, Slab, Taken};
use crate::spans::TARGET;
use crate::work::Work;
use crate::{Batch, Device, LoaderCounters, Next};
use packhorse_core::{Error, Result};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The numbers of threads, and the limits of reading ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PipelineConfig {
    /// Threads that fill slabs; with 0 the caller does.
    pub(crate) fillers: usize,
    /// Threads that read ahead; with 0 the filling threads read.
    pub(crate) readers: usize,
    /// Batches that are filled or being filled, at least one for each thread that fills.
    pub(crate) ahead: usize,
    /// Bytes that may be read ahead, and the expected bytes per step.
    pub(crate) budget: usize,
    pub(crate) mean: usize,
    /// The initial size of a slab in bytes.
    pub(crate) slab: usize,
}

/// The batches of `steps` steps, in order. After an error the next call returns the next batch.
pub(crate) struct Pipeline<D: Device, W: Work> {
    device: D,
    ring: Arc<Ring<D::Host, W::Fetched>>,
    queue: Option<Arc<PrefetchQueue<Option<W::Fetched>>>>,
    work: Arc<W>,
    steps: u64,
    taken: u64,
    /// Samples and bytes of the last batch.
    last: (u64, u64),
    /// Whether another thread counts batches and waits.
    is_ahead: bool,
    threads: Vec<JoinHandle<()>>,
    scratch: W::Scratch,
}

impl<D: Device, W: Work> Pipeline<D, W> {
    /// `prepare` is called on each thread first (to bind it to a core).
    ///
    /// Errors: not enough memory or threads; fields that the device can't process.
    pub(crate) fn new(
        work: W,
        steps: u64,
        config: PipelineConfig,
        mut device: D,
        prepare: impl Fn() + Clone + Send + 'static,
    ) -> Result<Self> {
        let ahead = if config.fillers == 0 { 1 } else { config.ahead.max(config.fillers) };
        let counters = Arc::clone(work.counters());
        let ring = Arc::new(Ring::new(ahead, steps, config.slab, Arc::clone(&counters)));
        device.prepare(work.layout())?;
        // Not more threads than steps.
        for _ in 0..u64::min(ahead as u64, steps) {
            ring.give_back(Slab { host: slab(&mut device, config.slab)?, filled: BatchMetadata::default() });
        }
        let reads = config.readers > 0 && config.fillers > 0;
        // Each filling thread holds a step, and readers must not wait for those.
        let depth = ahead.max(config.readers).saturating_add(config.fillers);
        let queue = reads.then(|| Arc::new(PrefetchQueue::new(depth, steps, config.budget, config.mean, counters)));
        let (threads, scratch) = (Vec::new(), W::Scratch::default());
        let (work, last, is_ahead) = (Arc::new(work), (0, 0), false);
        let mut made = Self { device, ring, queue, work, steps, taken: 0, last, is_ahead, threads, scratch };
        made.start(&config, prepare)?;
        Ok(made)
    }

    fn start(&mut self, config: &PipelineConfig, prepare: impl Fn() + Clone + Send + 'static) -> Result<()> {
        for number in 0..config.fillers {
            let (ring, queue, work) = (Arc::clone(&self.ring), self.queue.clone(), Arc::clone(&self.work));
            let prepare = prepare.clone();
            self.spawn(format!("packhorse-fill-{number}"), move || {
                prepare();
                let mut scratch = W::Scratch::default();
                while let Some(claim) = ring.claim(true) {
                    fill(claim, &*work, queue.as_deref(), &mut scratch);
                }
            })?;
        }
        if self.work.reads_ahead() {
            let (work, prepare) = (Arc::clone(&self.work), prepare.clone());
            // Without it, reads are as slow as they are.
            let _ = self.spawn("packhorse-shards".to_owned(), move || {
                prepare();
                work.read_ahead();
            });
        }
        for number in 0..if self.queue.is_some() { config.readers } else { 0 } {
            let (Some(queue), work, prepare) = (self.queue.clone(), Arc::clone(&self.work), prepare.clone()) else {
                break;
            };
            self.spawn(format!("packhorse-read-{number}"), move || {
                prepare();
                let mut scratch = W::Scratch::default();
                while let Some(reading) = queue.claim() {
                    let (read, weight) = fetch(&*work, reading.step, &mut scratch);
                    reading.complete(read, weight);
                }
            })?;
        }
        Ok(())
    }

    fn spawn(&mut self, name: String, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let spawned = std::thread::Builder::new().name(name).spawn(run);
        self.threads.push(spawned.map_err(Error::thread)?);
        Ok(())
    }

    pub(crate) fn work(&self) -> &Arc<W> {
        &self.work
    }

    pub(crate) fn counters(&self) -> &Arc<LoaderCounters> {
        self.work.counters()
    }

    /// From now on a thread takes batches ahead for another one, which counts the waits.
    pub(crate) fn take_ahead(&mut self) {
        self.is_ahead = true;
        self.ring.take_ahead();
    }

    /// Samples and bytes of the last batch.
    pub(crate) fn last_size(&self) -> (u64, u64) {
        self.last
    }

    /// The number of remaining batches.
    pub(crate) fn remaining(&self) -> u64 {
        self.steps.saturating_sub(self.taken)
    }

    /// The number of batches taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// A function that ends the pipeline from any thread, and with it all waits for batches.
    pub(crate) fn stopper(&self) -> Box<dyn Fn() + Send + Sync> {
        let (ring, work, queue) = (Arc::clone(&self.ring), Arc::clone(&self.work), self.queue.clone());
        Box::new(move || {
            ring.stop();
            work.stop();
            if let Some(queue) = &queue {
                queue.stop();
            }
        })
    }

    /// The next batch; waits at most for `wait`, if given.
    pub(crate) fn next(&mut self, wait: Option<Duration>) -> Next<D::Batch> {
        if let Err(error) = self.supply() {
            return Next::Batch(Err(error));
        }
        // The thread of an `Ahead` counts no late batch and no wait: its caller does.
        let is_late = self.threads.is_empty() && self.fill_here() && !self.is_ahead;
        match self.ring.take(wait) {
            Taken::Step(step, outcome) => {
                self.taken += 1;
                self.counters().late.add(u64::from(is_late));
                let batch = self.finish(step, outcome);
                if !self.is_ahead {
                    self.counters().taken(batch.is_ok(), self.last);
                }
                Next::Batch(batch)
            }
            Taken::NotYet => Next::NotYet,
            Taken::Over => Next::End,
        }
    }

    /// Fills the next batch on this thread, which waits for it; false if there is none.
    fn fill_here(&mut self) -> bool {
        let Some(claim) = self.ring.claim(false) else { return false };
        let start = Instant::now();
        fill(claim, &*self.work, None, &mut self.scratch);
        if !self.is_ahead {
            self.work.counters().wait.add(start.elapsed());
        }
        true
    }

    /// Allocates the slabs for all batches ahead.
    fn supply(&mut self) -> Result<()> {
        let (missing, bytes) = self.ring.missing();
        for _ in 0..(missing as u64).min(self.remaining()) {
            self.ring.give_back(Slab { host: slab(&mut self.device, bytes)?, filled: BatchMetadata::default() });
        }
        Ok(())
    }

    fn finish(&mut self, step: u64, outcome: Outcome<D::Host, W::Fetched>) -> Result<D::Batch> {
        let slab = match outcome {
            Outcome::Failed(error) => return Err(error),
            Outcome::Filled(slab) => slab,
            Outcome::Room(bytes, fetched) => self.enlarge(step, bytes, fetched)?,
        };
        let home: Arc<dyn Home<D::Host>> = Arc::clone(&self.ring) as _;
        let batch = Batch::new(slab, Arc::clone(self.work.layout()), home);
        self.last = (batch.rows() as u64, batch.used() as u64);
        let (samples, bytes) = self.last;
        let _span = tracing::debug_span!(target: TARGET, "upload", step, samples, bytes).entered();
        self.work.counters().upload.of(|| self.device.upload(batch))
    }

    /// Fills a larger slab on this thread; from now on all slabs have that size.
    fn enlarge(&mut self, step: u64, bytes: usize, fetched: W::Fetched) -> Result<Slab<D::Host>> {
        let bytes = bytes.saturating_add(bytes / 8);
        self.ring.grow(bytes);
        let mut slab = Slab { host: slab(&mut self.device, bytes)?, filled: BatchMetadata::default() };
        let filled = decode(&*self.work, step, fetched, &mut slab, &mut self.scratch)?;
        match filled {
            None => Ok(slab),
            Some((more, _)) => Err(Error::bug(format!("a batch of {bytes} bytes has {more}"))),
        }
    }
}

/// Reads the data of a step, and their size in bytes.
pub(crate) fn fetch<W: Work>(work: &W, step: u64, scratch: &mut W::Scratch) -> (Result<Option<W::Fetched>>, usize) {
    let counters = work.counters();
    let span = tracing::debug_span!(target: TARGET, "read", step, bytes = tracing::field::Empty).entered();
    let read = counters.read.of(|| work.fetch(step, scratch));
    let fetched = read.as_ref().ok().and_then(Option::as_ref);
    let (weight, bytes) = fetched.map_or((0, 0), |fetched| (work.weight(fetched), work.read_bytes(fetched)));
    counters.read_bytes.add(bytes);
    span.record("bytes", bytes);
    (read, weight)
}

/// Decodes the data of a step into a slab.
fn decode<H: AsMut<[u8]>, W: Work>(
    work: &W,
    step: u64,
    fetched: W::Fetched,
    slab: &mut Slab<H>,
    scratch: &mut W::Scratch,
) -> Result<Option<(usize, W::Fetched)>> {
    let span = decode_span(step);
    let filled = work.counters().decode.of(|| work.fill(step, fetched, slab.host.as_mut(), &mut slab.filled, scratch));
    if !span.is_disabled() {
        span.record("samples", slab.filled.rows).record("bytes", slab.filled.used());
    }
    filled
}

/// The span of decoding a batch.
pub(crate) fn decode_span(step: u64) -> tracing::span::EnteredSpan {
    use tracing::field::Empty;
    tracing::debug_span!(target: TARGET, "decode", step, samples = Empty, bytes = Empty).entered()
}

fn fill<H: AsRef<[u8]> + AsMut<[u8]>, W: Work>(
    mut claim: Claim<'_, H, W::Fetched>,
    work: &W,
    queue: Option<&PrefetchQueue<Option<W::Fetched>>>,
    scratch: &mut W::Scratch,
) {
    let step = claim.step;
    let Some(slab) = claim.slab.as_mut() else { return };
    let fetched = match queue {
        Some(queue) => queue.take(step),
        None => fetch(work, step, scratch).0,
    };
    let done = match fetched {
        Ok(Some(fetched)) => Done::from(decode(work, step, fetched, slab, scratch)),
        Ok(None) => Done::Over,
        Err(error) => Done::Failed(error),
    };
    claim.complete(done);
}

impl<D: Device, W: Work> Drop for Pipeline<D, W> {
    fn drop(&mut self) {
        self.stopper()();
        for thread in self.threads.drain(..) {
            // The batch of a panicked thread is an error already.
            let _ = thread.join();
        }
        self.ring.clear();
    }
}
