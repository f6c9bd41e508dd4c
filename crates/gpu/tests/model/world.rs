//! A host and a GPU of four threads: one that fills and sends batches, one that consumes them, and two streams of the GPU. Every
//! piece of memory knows who reads and writes it, and fails when two do that at once, or when a kernel finds another batch
//! than its own.

use super::driver::Driver;
use super::ring::{Lease, Sender};
use super::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, PoisonError, thread};
use packhorse_core::Result;
use std::collections::VecDeque;

/// A mistake in what the ring asks of the GPU: as if it had not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    None,
    /// A slot is written while a kernel reads it: the copy does not wait for the consumer.
    CopyDoesNotWait,
    /// The consumer's last use is not marked.
    UseIsNotMarked,
    /// A kernel reads a slot before the copy is over.
    ConsumerDoesNotWait,
    /// The host's memory is filled again while it is copied from.
    CopyCountsAsOver,
}

impl Plant {
    pub(crate) const ALL: [Self; 4] =
        [Self::CopyDoesNotWait, Self::UseIsNotMarked, Self::ConsumerDoesNotWait, Self::CopyCountsAsOver];
}

/// Memory of the size of one number. Who uses it is written down behind the checkers' backs, so that a use is one step
/// for them: `turn`, at which another thread may come in.
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

/// Memory of the GPU. Nobody may use it when it goes.
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

/// Memory of the host that no batch is in.
type Pool = Arc<std::sync::Mutex<Vec<Arc<Cell>>>>;

/// A filled batch of the host. Its memory goes back to be filled again.
pub(crate) struct HostBatch {
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
    /// Marks that were set, and the last that is over.
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
            // The run has failed, and nobody comes any more.
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

    /// What a stream is.
    fn run(&self) {
        loop {
            match self.pop() {
                Work::Copy(from, to) => to.write(from.read()),
                Work::Kernel(cell, batch) => assert_eq!(cell.read(), batch, "a kernel finds another batch"),
                Work::Mark(event, mark) => event.reach(mark),
                Work::Wait(event, mark) => event.wait(mark),
                Work::End => return,
            }
        }
    }
}

const COPIES: usize = 0;
const COMPUTE: usize = 1;

pub(crate) struct World {
    streams: [Arc<Queue>; 2],
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

    fn slot(&self, _: &HostBatch) -> Result<Slot> {
        Ok(Slot { cell: Arc::default() })
    }

    fn fits(&self, _: &Slot, _: &HostBatch) -> bool {
        true
    }

    fn event(&self) -> Result<Event> {
        Ok(Event::default())
    }

    fn send(&self, host: &HostBatch, slot: &mut Slot) -> Result<()> {
        self.push(COPIES, Work::Copy(Arc::clone(&host.cell), Arc::clone(&slot.cell)));
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
        for stream in [COPIES, COMPUTE] {
            let end = Event::default();
            self.push(stream, Work::Mark(end.clone(), end.set()));
            end.wait(1);
        }
        Ok(())
    }
}

/// Batches on their way from the thread that sends them to the one that consumes them.
#[derive(Default)]
struct Hand {
    sent: Mutex<VecDeque<(u64, Lease<World>)>>,
    some: Condvar,
}

/// `batches` batches from one end to the other. Leases outlive their sender.
pub(crate) fn run(plant: Plant, batches: u64) {
    within(plant, |world| {
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

/// The same by one thread of the host, which has `kept` batches in its hands.
pub(crate) fn run_alone(plant: Plant, batches: u64, kept: usize) {
    within(plant, |world| {
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

/// Does `work` in a world whose streams run until all is done.
fn within(plant: Plant, work: impl FnOnce(Arc<World>)) {
    let streams = [Arc::new(Queue::default()), Arc::new(Queue::default())];
    let threads = streams.clone().map(|stream| thread::spawn(move || stream.run()));
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
        match self.sender.send(HostBatch { cell, pool: Arc::clone(&self.pool) }) {
            Ok(lease) => lease,
            Err(error) => panic!("a batch was not sent: {error}"),
        }
    }
}

impl World {
    /// A kernel that reads the batch, whose lease ends when it is queued.
    fn consume(&self, batch: u64, mut lease: Lease<World>) {
        assert!(lease.wait(&COMPUTE).is_ok());
        let Some(slot) = lease.slot() else { panic!("a lease without a slot") };
        self.push(COMPUTE, Work::Kernel(Arc::clone(&slot.cell), batch));
    }
}
