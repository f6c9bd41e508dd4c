//! A model of host and GPU: one thread fills and sends batches, one consumes them, and the others are streams of
//! the GPU, two or, where transforms have one of their own, three. Each piece of memory tracks its readers and writers, and fails on concurrent use or when a kernel finds
//! another batch than its own.

use super::driver::Driver;
use super::ring::{Lease, Sender};
use super::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, PoisonError, thread};
use packhorse_core::Result;
use std::collections::VecDeque;

/// A planted mistake: one request of the ring to the GPU is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    None,
    /// A slot is written while a kernel reads it: the copy does not wait for the consumer.
    CopyDoesNotWait,
    /// The consumer's last use is not recorded.
    UseIsNotMarked,
    /// A kernel reads a slot before the copy is complete.
    ConsumerDoesNotWait,
    /// Host memory is refilled while it is being copied.
    CopyCountsAsOver,
    /// Transforms read a slot before the copy is complete; where they have a stream of their own.
    TransformsDoNotWait,
}

impl Plant {
    pub(crate) const ALL: [Self; 5] = [
        Self::CopyDoesNotWait,
        Self::UseIsNotMarked,
        Self::ConsumerDoesNotWait,
        Self::CopyCountsAsOver,
        Self::TransformsDoNotWait,
    ];
}

/// Memory for one number. Its uses are tracked with types that the model checkers don't see, so a use is one step for
/// them: `turn`, at which another thread may run.
#[derive(Default)]
struct Cell {
    uses: std::sync::Mutex<Uses>,
    turn: AtomicBool,
}

#[derive(Default)]
struct Uses {
    readers: u32,
    written: bool,
    value: u64,
}

impl Cell {
    fn with<R>(&self, work: impl FnOnce(&mut Uses) -> R) -> R {
        work(&mut self.uses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, value: u64) {
        self.with(|uses| {
            assert!(uses.readers == 0 && !uses.written, "memory is written while it is used");
            uses.written = true;
        });
        self.turn.store(true, Ordering::SeqCst);
        self.with(|uses| (uses.written, uses.value) = (false, value));
    }

    fn read(&self) -> u64 {
        self.with(|uses| {
            assert!(!uses.written, "memory is read while it is written");
            uses.readers += 1;
        });
        self.turn.store(true, Ordering::SeqCst);
        self.with(|uses| {
            uses.readers -= 1;
            uses.value
        })
    }
}

/// GPU memory. It must be unused when it is freed.
pub(crate) struct Slot {
    cell: Arc<Cell>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.cell.write(u64::MAX);
        }
    }
}

/// Free host memory.
type Pool = Arc<std::sync::Mutex<Vec<Arc<Cell>>>>;

/// A filled host batch. Dropping it returns its memory to the pool.
pub(crate) struct HostBatch {
    batch: u64,
    cell: Arc<Cell>,
    pool: Pool,
}

impl Drop for HostBatch {
    fn drop(&mut self) {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&self.cell));
    }
}

#[derive(Clone, Default)]
pub(crate) struct Event {
    /// The number of recorded marks, and the last that has passed.
    marks: Arc<(Mutex<(u64, u64)>, Condvar)>,
}

impl Event {
    fn set(&self) -> u64 {
        let mut marks = self.marks.0.lock().unwrap_or_else(PoisonError::into_inner);
        marks.0 += 1;
        marks.0
    }

    fn last(&self) -> (u64, u64) {
        *self.marks.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self, mark: u64) {
        let mut marks = self.marks.0.lock().unwrap_or_else(PoisonError::into_inner);
        marks.1 = marks.1.max(mark);
        self.marks.1.notify_all();
    }

    fn wait(&self, mark: u64) {
        if std::thread::panicking() {
            // The run has failed: no more work will come.
            return;
        }
        let mut marks = self.marks.0.lock().unwrap_or_else(PoisonError::into_inner);
        while marks.1 < mark {
            marks = self.marks.1.wait(marks).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

enum Work {
    Copy(Arc<Cell>, Arc<Cell>),
    /// Reads memory that must hold this batch.
    Kernel(Arc<Cell>, u64),
    /// Reads memory that must hold this batch, and writes it.
    Transform(Arc<Cell>, u64),
    Mark(Event, u64),
    Wait(Event, u64),
    End,
}

#[derive(Default)]
struct Queue {
    work: Mutex<VecDeque<Work>>,
    some: Condvar,
}

impl Queue {
    fn push(&self, work: Work) {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).push_back(work);
        self.some.notify_one();
    }

    fn pop(&self) -> Work {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match work.pop_front() {
                Some(first) => return first,
                None => work = self.some.wait(work).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// The loop of a stream's thread.
    fn run(&self) {
        loop {
            match self.pop() {
                Work::Copy(from, to) => to.write(from.read()),
                Work::Kernel(cell, batch) => assert_eq!(cell.read(), batch, "a kernel finds another batch"),
                Work::Transform(cell, batch) => {
                    assert_eq!(cell.read(), batch, "a transform finds another batch");
                    cell.write(batch);
                }
                Work::Mark(event, mark) => event.reach(mark),
                Work::Wait(event, mark) => event.wait(mark),
                Work::End => return,
            }
        }
    }
}

const COPIES: usize = 0;
const COMPUTE: usize = 1;
const TRANSFORMS: usize = 2;

pub(crate) struct World {
    streams: Vec<Arc<Queue>>,
    plant: Plant,
}

impl World {
    fn push(&self, stream: usize, work: Work) {
        if let Some(stream) = self.streams.get(stream) {
            stream.push(work);
        }
    }
}

impl Driver for World {
    type Host = HostBatch;
    type Slot = Slot;
    type Event = Event;
    type Stream = usize;

    fn copies(&self) -> &usize {
        &COPIES
    }

    fn transforms(&self) -> &usize {
        if self.streams.len() > TRANSFORMS { &TRANSFORMS } else { &COPIES }
    }

    fn transforms_read_host(&self) -> bool {
        false
    }

    fn is_capturing(&self, _: &usize) -> Result<bool> {
        Ok(false)
    }

    fn slot(&self, _: &HostBatch) -> Result<Slot> {
        Ok(Slot { cell: Arc::default() })
    }

    fn fits(&self, _: &Slot, _: &HostBatch) -> bool {
        true
    }

    fn event(&self) -> Result<Event> {
        Ok(Event::default())
    }

    fn copy(&self, host: &HostBatch, slot: &mut Slot) -> Result<()> {
        self.push(COPIES, Work::Copy(Arc::clone(&host.cell), Arc::clone(&slot.cell)));
        Ok(())
    }

    fn transform(&self, host: &HostBatch, slot: &mut Slot) -> Result<()> {
        if *self.transforms() == TRANSFORMS {
            self.push(TRANSFORMS, Work::Transform(Arc::clone(&slot.cell), host.batch));
        }
        Ok(())
    }

    fn record(&self, event: &Event, stream: &usize) -> Result<()> {
        if !(self.plant == Plant::UseIsNotMarked && *stream == COMPUTE) {
            self.push(*stream, Work::Mark(event.clone(), event.set()));
        }
        Ok(())
    }

    fn wait(&self, stream: &usize, event: &Event) -> Result<()> {
        let forgotten = match *stream {
            COPIES => self.plant == Plant::CopyDoesNotWait,
            TRANSFORMS => self.plant == Plant::TransformsDoNotWait,
            _ => self.plant == Plant::ConsumerDoesNotWait,
        };
        if !forgotten {
            self.push(*stream, Work::Wait(event.clone(), event.last().0));
        }
        Ok(())
    }

    fn over(&self, event: &Event) -> Result<bool> {
        let (set, over) = event.last();
        Ok(self.plant == Plant::CopyCountsAsOver || over >= set)
    }

    fn synchronize(&self, event: &Event) -> Result<()> {
        event.wait(event.last().0);
        Ok(())
    }

    fn drain(&self) -> Result<()> {
        for stream in 0..self.streams.len() {
            let end = Event::default();
            self.push(stream, Work::Mark(end.clone(), end.set()));
            end.wait(1);
        }
        Ok(())
    }
}

/// The queue from the sending thread to the consuming one.
#[derive(Default)]
struct Hand {
    sent: Mutex<VecDeque<(u64, Lease<World>)>>,
    some: Condvar,
}

/// Sends `batches` batches between two threads, over so many streams. Leases outlive their sender.
pub(crate) fn run(plant: Plant, streams: usize, batches: u64) {
    within(plant, streams, |world| {
        let hand = Arc::new(Hand::default());
        let sends = {
            let (world, hand) = (Arc::clone(&world), Arc::clone(&hand));
            thread::spawn(move || {
                let mut host = Filler::new(world);
                (0..batches).for_each(|batch| hand.give((batch, host.send(batch))));
            })
        };
        for wanted in 0..batches {
            let (batch, lease) = hand.take();
            assert_eq!(batch, wanted, "batches are out of order");
            world.consume(batch, lease);
        }
        assert!(sends.join().is_ok());
    });
}

/// The same with one host thread, which keeps `kept` batches.
pub(crate) fn run_alone(plant: Plant, streams: usize, batches: u64, kept: usize) {
    within(plant, streams, |world| {
        let mut host = Filler::new(Arc::clone(&world));
        let mut leases = VecDeque::new();
        for batch in 0..batches {
            leases.push_back((batch, host.send(batch)));
            if leases.len() > kept {
                leases.pop_front().into_iter().for_each(|(batch, lease)| world.consume(batch, lease));
            }
        }
        drop(host);
        leases.into_iter().for_each(|(batch, lease)| world.consume(batch, lease));
    });
}

/// Runs `work` in a world whose streams run until all work is done.
fn within(plant: Plant, streams: usize, work: impl FnOnce(Arc<World>)) {
    let streams: Vec<Arc<Queue>> = (0..streams).map(|_| Arc::default()).collect();
    let threads: Vec<_> = streams.iter().cloned().map(|stream| thread::spawn(move || stream.run())).collect();
    work(Arc::new(World { streams: streams.clone(), plant }));
    streams.iter().for_each(|stream| stream.push(Work::End));
    for thread in threads {
        assert!(thread.join().is_ok());
    }
}

impl Hand {
    fn give(&self, next: (u64, Lease<World>)) {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push_back(next);
        self.some.notify_one();
    }

    fn take(&self) -> (u64, Lease<World>) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match sent.pop_front() {
                Some(next) => return next,
                None => sent = self.some.wait(sent).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// The host's side: fills memory and sends it.
struct Filler {
    pool: Pool,
    sender: Sender<World>,
}

impl Filler {
    fn new(world: Arc<World>) -> Self {
        Self { pool: Pool::default(), sender: Sender::new(world, 1, 1) }
    }

    fn send(&mut self, batch: u64) -> Lease<World> {
        let free = self.pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let cell = free.unwrap_or_default();
        cell.write(batch);
        match self.sender.send(HostBatch { batch, cell, pool: Arc::clone(&self.pool) }) {
            Ok(lease) => lease,
            Err(error) => panic!("a batch was not sent: {error}"),
        }
    }
}

impl World {
    /// Queues a kernel that reads the batch, then drops the lease. With a stream of transforms every other batch is dropped
    /// unused.
    fn consume(&self, batch: u64, mut lease: Lease<World>) {
        if self.streams.len() > TRANSFORMS && batch % 2 == 1 {
            return;
        }
        assert!(lease.wait(&COMPUTE).is_ok());
        let Some(slot) = lease.slot() else { panic!("a lease without a slot") };
        self.push(COMPUTE, Work::Kernel(Arc::clone(&slot.cell), batch));
    }
}
