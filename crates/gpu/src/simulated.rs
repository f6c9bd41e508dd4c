//! A GPU simulated by host threads, for machines without one and for tests.

#![expect(unsafe_code, reason = "its threads copy from memory that others lend them, as a GPU does")]

use crate::kernels::Launch;
use crate::{DlDevice, Gpu};
use packhorse_core::{Error, Result};
use packhorse_read::{Device as _, Host, HostSlab};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Streams are threads and memory is host memory: queued work runs asynchronously in order. With
/// [`jitter`](Simulated::with_jitter) it runs at random times, which reveals ordering bugs that a fast GPU hides.
///
/// It runs no kernels unless [`with_kernels`](Simulated::with_kernels) provides them.
#[derive(Clone)]
pub struct Simulated {
    inner: Arc<Inner>,
}

struct Inner {
    streams: Mutex<Vec<Weak<Worker>>>,
    jitter: Option<(u64, Duration)>,
    kernels: Option<Kernels>,
}

/// Runs a kernel, whose arguments point to memory of the process.
type Kernels = Arc<dyn Fn(&Launch) -> Result<()> + Send + Sync>;
type Work = Box<dyn FnOnce() + Send>;

/// A stream of a [`Simulated`] GPU: a thread, which ends after its work when the last clone is dropped.
#[derive(Clone)]
pub struct SimulatedStream(Arc<Worker>);

struct Worker {
    number: usize,
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    /// Whether any work panicked.
    faulty: Arc<AtomicBool>,
}

impl Worker {
    fn start(number: usize, jitter: Option<(u64, Duration)>) -> Result<Self> {
        let (work, queue) = channel::<Work>();
        let faulty = Arc::new(AtomicBool::new(false));
        let fault = Arc::clone(&faulty);
        let thread = std::thread::Builder::new().name(format!("packhorse-stream-{number}")).spawn(move || {
            for (at, work) in queue.into_iter().enumerate() {
                if let Some((seed, most)) = jitter {
                    let draw = packhorse_order::draw(seed, number as u64, at as u64, 0) >> 40;
                    std::thread::sleep(most.mul_f64(draw as f64 / (1u64 << 24) as f64));
                }
                // Later work still runs, because others wait for it.
                if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
                    fault.store(true, Ordering::SeqCst);
                }
            }
        });
        let thread = thread.map_err(Error::thread)?;
        Ok(Self { number, work: Some(work), thread: Some(thread), faulty })
    }

    fn push(&self, work: Work) -> Result<()> {
        let sent = self.work.as_ref().is_some_and(|to| to.send(work).is_ok());
        match sent && !self.faulty.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(Error::bug("work on a simulated stream panicked")),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.work = None;
        // The last clone may be dropped by the work itself.
        let others = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id());
        others.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl PartialEq for SimulatedStream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Debug for SimulatedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimulatedStream({})", self.0.number)
    }
}

/// An event of a [`Simulated`] GPU.
#[derive(Debug, Default)]
pub struct SimulatedEvent {
    marks: Arc<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    state: Mutex<(u64, u64)>,
    /// When the last mark passed.
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

/// Memory of a [`Simulated`] GPU.
#[derive(Debug)]
pub struct SimulatedMemory {
    at: *mut [u8],
}

// SAFETY: it is heap memory, which belongs to no thread.
unsafe impl Send for SimulatedMemory {}
// SAFETY: a shared reference gives only the address.
unsafe impl Sync for SimulatedMemory {}

impl Drop for SimulatedMemory {
    fn drop(&mut self) {
        // SAFETY: made from a box, and freed once.
        drop(unsafe { Box::from_raw(self.at) });
    }
}

impl Marks {
    fn lock(&self) -> MutexGuard<'_, (u64, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until mark `mark` has passed.
    fn wait(&self, mark: u64) {
        let mut state = self.lock();
        while state.1 < mark {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulated {
    /// A GPU whose threads work without delay.
    pub fn new() -> Self {
        Self::made(None, None)
    }

    /// A GPU whose threads sleep a random time below `most` before each piece of work.
    pub fn with_jitter(seed: u64, most: Duration) -> Self {
        Self::made(Some((seed, most)), None)
    }

    /// The same GPU with kernels: `run` executes a launch, on the thread of its stream.
    pub fn with_kernels(self, run: impl Fn(&Launch) -> Result<()> + Send + Sync + 'static) -> Self {
        Self::made(self.inner.jitter, Some(Arc::new(run)))
    }

    fn made(jitter: Option<(u64, Duration)>, kernels: Option<Kernels>) -> Self {
        Self { inner: Arc::new(Inner { streams: Mutex::default(), jitter, kernels }) }
    }

    /// Queues `work`, like a kernel.
    ///
    /// Errors: earlier work on the stream panicked (kind `Bug`).
    pub fn run(&self, stream: &SimulatedStream, work: impl FnOnce() + Send + 'static) -> Result<()> {
        stream.0.push(Box::new(work))
    }
}

// SAFETY: each piece of memory is a heap allocation of its own until it is dropped; streams run their work in order.
unsafe impl Gpu for Simulated {
    type Pinned = HostSlab;
    type Memory = SimulatedMemory;
    type Event = SimulatedEvent;
    type Stream = SimulatedStream;

    fn device(&self) -> DlDevice {
        DlDevice::CPU
    }

    fn pinned(&self, bytes: usize) -> Result<HostSlab> {
        Host::default().host(bytes)
    }

    fn memory(&self, bytes: usize) -> Result<SimulatedMemory> {
        let mut memory = Vec::new();
        let taken = memory.try_reserve_exact(bytes);
        taken.map_err(|_| Error::new(packhorse_core::Kind::Environment, format!("take {bytes} bytes: no memory")))?;
        memory.resize(bytes, 0u8);
        Ok(SimulatedMemory { at: Box::into_raw(memory.into_boxed_slice()) })
    }

    fn address(&self, memory: &SimulatedMemory) -> u64 {
        memory.at.cast::<u8>().expose_provenance() as u64
    }

    fn stream(&self) -> Result<SimulatedStream> {
        let mut streams = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|stream| stream.strong_count() > 0);
        let number = streams.iter().filter_map(Weak::upgrade).map(|worker| worker.number + 1).max().unwrap_or(0);
        let worker = Arc::new(Worker::start(number, self.inner.jitter)?);
        streams.push(Arc::downgrade(&worker));
        Ok(SimulatedStream(worker))
    }

    fn event(&self) -> Result<SimulatedEvent> {
        Ok(SimulatedEvent::default())
    }

    fn timer(&self) -> Result<Option<SimulatedEvent>> {
        self.event().map(Some)
    }

    fn elapsed(&self, from: &SimulatedEvent, to: &SimulatedEvent) -> Result<Duration> {
        let at = |event: &SimulatedEvent| *event.marks.at.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(at(from).zip(at(to)).map_or(Duration::ZERO, |(from, to)| to.saturating_duration_since(from)))
    }

    fn record(&self, event: &SimulatedEvent, stream: &SimulatedStream) -> Result<()> {
        let mark = event.marks.lock().0 + 1;
        let marks = Arc::clone(&event.marks);
        self.run(stream, move || {
            *marks.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            let mut state = marks.lock();
            state.1 = state.1.max(mark);
            marks.changed.notify_all();
        })?;
        event.marks.lock().0 = mark;
        Ok(())
    }

    fn wait(&self, stream: &SimulatedStream, event: &SimulatedEvent) -> Result<()> {
        let marks = Arc::clone(&event.marks);
        let mark = marks.lock().0;
        self.run(stream, move || marks.wait(mark))
    }

    fn over(&self, event: &SimulatedEvent) -> Result<bool> {
        let (marked, over) = *event.marks.lock();
        Ok(over >= marked)
    }

    fn synchronize(&self, event: &SimulatedEvent) -> Result<()> {
        let mark = event.marks.lock().0;
        event.marks.wait(mark);
        Ok(())
    }

    fn pause(&self, time: Duration, stream: &SimulatedStream) -> Result<()> {
        self.run(stream, move || std::thread::sleep(time))
    }

    fn drain(&self) -> Result<()> {
        let streams = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ends = streams.iter().filter_map(Weak::upgrade).map(|worker| {
            let end = self.event()?;
            self.record(&end, &SimulatedStream(worker)).map(|()| end)
        });
        let ends = ends.collect::<Result<Vec<_>>>()?;
        ends.iter().try_for_each(|end| self.synchronize(end))
    }

    unsafe fn upload(&self, from: &[u8], to: &SimulatedMemory, stream: &SimulatedStream) -> Result<()> {
        if from.len() > to.at.len() {
            return Err(Error::bug(format!("{} bytes into {}", from.len(), to.at.len())));
        }
        let (from, to, bytes) = (from.as_ptr().expose_provenance(), to.at.cast::<u8>().expose_provenance(), from.len());
        self.run(stream, move || {
            let (from, to) = (std::ptr::with_exposed_provenance::<u8>(from), std::ptr::with_exposed_provenance_mut(to));
            // SAFETY: both stay valid and have no other use until this is complete: this function's contract. The
            // lengths were checked.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
        })
    }

    unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<()> {
        // SAFETY: this function's contract.
        unsafe {
            std::ptr::with_exposed_provenance::<u8>(from as usize).copy_to_nonoverlapping(to.as_mut_ptr(), to.len());
        }
        Ok(())
    }

    unsafe fn launch(&self, launch: &Launch, stream: &SimulatedStream) -> Result<()> {
        let kernels = self.inner.kernels.clone();
        let kernels =
            kernels.ok_or_else(|| Error::unsupported("a simulated GPU runs no kernels: finish on the host"))?;
        let launch = launch.clone();
        self.run(stream, move || {
            // A failure shows in the result.
            let _ = kernels(&launch);
        })
    }
}

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulated").field("jitter", &self.inner.jitter).finish_non_exhaustive()
    }
}
