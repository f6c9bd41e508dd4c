//! When a GPU copied and transformed batches, by its own clock, as events of the crate `tracing` (target `packhorse::gpu`).
//!
//! A GPU runs behind the host, so what it did is told when it is over: with its begin (`ago_ns`, before the event) and its duration
//! (`duration_ns`), on a track of its own. Its clock is tied to the host's once, and then from copy to copy. Nothing is recorded
//! while no subscriber wants it.

use crate::Gpu;
use packhorse_core::Result;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::Level;

/// The target of all events of this crate.
const TARGET: &str = "packhorse::gpu";

/// The times of the batches of an upload.
pub(crate) struct Timeline<G: Gpu>(Mutex<Times<G::Event>>);

struct Times<E> {
    /// A timer and the host's time when it passed.
    known: Option<(E, Instant)>,
    running: VecDeque<Running<E>>,
    /// The timers of the batch that is being queued; empty if it is not timed.
    queued: Vec<E>,
    /// Timers for reuse.
    spare: Vec<E>,
}

/// A batch on its way.
struct Running<E> {
    begin: E,
    copied: E,
    /// When its transforms began.
    transforms: E,
    finished: E,
    batch: Sent,
}

/// A batch on its way, as it is told.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    /// Whether kernels follow its copy.
    pub(crate) transforms: bool,
}

impl<G: Gpu> Default for Timeline<G> {
    fn default() -> Self {
        Self(Mutex::new(Times { known: None, running: VecDeque::new(), queued: Vec::new(), spare: Vec::new() }))
    }
}

impl<G: Gpu> Timeline<G> {
    /// Marks the begin of a batch. It is not timed without a subscriber, or where the GPU takes no times.
    pub(crate) fn begin(&self, gpu: &G, stream: &G::Stream) {
        let wanted = tracing::enabled!(target: TARGET, Level::DEBUG);
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Of a batch that could not be sent.
        let left = std::mem::take(&mut times.queued);
        times.spare.extend(left);
        // Times that can't be taken are left out: the batch matters more.
        if wanted && times.tell(gpu, false).and_then(|()| times.tie(gpu, stream)).is_ok() {
            times.push(gpu, stream);
        }
    }

    /// Marks that all work queued so far on `stream` is over.
    pub(crate) fn mark(&self, gpu: &G, stream: &G::Stream) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !times.queued.is_empty() {
            times.push(gpu, stream);
        }
    }

    /// The batch is queued: it is told when it is over.
    pub(crate) fn queued(&self, batch: Sent) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match <[_; 4]>::try_from(std::mem::take(&mut times.queued)) {
            Ok([begin, copied, transforms, finished]) => {
                times.running.push_back(Running { begin, copied, transforms, finished, batch });
            }
            Err(few) => times.spare.extend(few),
        }
    }

    /// Waits for the batches on their way, and tells them.
    pub(crate) fn finish(&self, gpu: &G) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Times that can't be taken are left out.
        let _ = times.tell(gpu, true);
    }
}

impl<E: Send + Sync> Times<E> {
    fn mark<G: Gpu<Event = E>>(&mut self, gpu: &G, stream: &G::Stream) -> Result<Option<E>> {
        let timer = match self.spare.pop() {
            Some(timer) => Some(timer),
            None => gpu.timer()?,
        };
        timer.map(|timer| gpu.record(&timer, stream).map(|()| timer)).transpose()
    }

    /// Adds a mark to those of the batch that is being queued; without it the batch is not timed.
    fn push<G: Gpu<Event = E>>(&mut self, gpu: &G, stream: &G::Stream) {
        match self.mark(gpu, stream) {
            Ok(Some(mark)) => self.queued.push(mark),
            _ => self.queued.clear(),
        }
    }

    /// Ties the GPU's clock to the host's, the first time.
    fn tie<G: Gpu<Event = E>>(&mut self, gpu: &G, stream: &G::Stream) -> Result<()> {
        if self.known.is_none()
            && let Some(timer) = self.mark(gpu, stream)?
        {
            gpu.synchronize(&timer)?;
            self.known = Some((timer, Instant::now()));
        }
        Ok(())
    }

    /// Tells the batches that are over; with `wait`, all.
    fn tell<G: Gpu<Event = E>>(&mut self, gpu: &G, wait: bool) -> Result<()> {
        while let Some(next) = self.running.front() {
            if wait {
                gpu.synchronize(&next.finished)?;
            } else if !gpu.over(&next.finished)? {
                break;
            }
            let Some(Running { begin, copied, transforms: from, finished, batch }) = self.running.pop_front() else {
                break;
            };
            let Sent { samples, bytes, transforms } = batch;
            let Some((known, at)) = self.known.take() else { break };
            let start = at + gpu.elapsed(&known, &begin)?;
            let (copy, transform) = (gpu.elapsed(&begin, &copied)?, gpu.elapsed(&from, &finished)?);
            let transformed = start + gpu.elapsed(&begin, &from)?;
            let ago = |of: Instant| nanos(of.elapsed());
            tracing::debug!(
                name: "copy", target: TARGET, track = "GPU: copies", ago_ns = ago(start), duration_ns = nanos(copy), samples, bytes
            );
            if transforms {
                tracing::debug!(
                    name: "transform", target: TARGET, track = "GPU: transforms", ago_ns = ago(transformed),
                    duration_ns = nanos(transform), samples
                );
            }
            self.known = Some((begin, start));
            self.spare.extend([known, copied, from, finished]);
        }
        Ok(())
    }
}

fn nanos(of: Duration) -> u64 {
    u64::try_from(of.as_nanos()).unwrap_or(u64::MAX)
}
