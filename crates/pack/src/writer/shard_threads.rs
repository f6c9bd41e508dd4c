//! The threads that fill shards, and the bytes that wait for them.

use super::WriterContext;
use super::filling::{FilledShard, OpenShard, Piece, fill};
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use packhorse_core::{ByteBudget, Cancel, Error, HeldBytes, Observer, Result, Rows, SchemaRef, Sink};
use packhorse_storage::Stage;
use packhorse_transform::Transform;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What all threads of a writer use.
pub(super) struct WriterState {
    sink: Box<dyn Sink>,
    /// The schema of the rows that the sink gets.
    schema: SchemaRef,
    /// Conversions of rows before the sink.
    steps: Vec<Box<dyn Transform>>,
    observer: Arc<dyn Observer>,
    cancel: Cancel,
    /// The memory of rows that threads have not yet written.
    budget: Arc<ByteBudget>,
    failed: Mutex<Option<Error>>,
}

/// The memory of rows beside their values.
const ROWS: u64 = 1 << 10;

/// How often a waiting thread looks whether it should stop.
const LOOK: Duration = Duration::from_millis(50);

impl WriterState {
    pub(super) fn new(
        sink: Box<dyn Sink>,
        schema: SchemaRef,
        steps: Vec<Box<dyn Transform>>,
        context: &WriterContext,
    ) -> Arc<Self> {
        let (observer, cancel) = (context.observer.clone(), context.cancel.clone());
        let (budget, failed) = (Arc::new(ByteBudget::new(context.memory)), Mutex::default());
        Arc::new(Self { sink, schema, steps, observer, cancel, budget, failed })
    }

    pub(super) fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    /// The rows that the sink gets.
    pub(super) fn converted(&self, rows: Rows) -> Result<Rows> {
        self.steps.iter().try_fold(rows, |rows, step| step.apply(rows))
    }

    /// The first error of a thread, or that of a request to stop.
    pub(super) fn check(&self) -> Result<()> {
        self.cancel.check()?;
        self.failed().clone().map_or(Ok(()), Err)
    }

    /// The error of a thread that ended early.
    pub(super) fn failure(&self) -> Error {
        self.check().err().unwrap_or_else(|| Error::bug("a thread of the writer ended early"))
    }

    fn fail(&self, error: Error) {
        self.failed().get_or_insert(error);
    }

    /// Waits until rows of `bytes` fit beside those that wait. Rows of more than the whole memory wait until they are
    /// alone.
    pub(super) fn hold(&self, bytes: u64) -> Result<HeldBytes> {
        ByteBudget::hold(&self.budget, bytes.saturating_add(ROWS), LOOK, || self.check())
    }

    fn failed(&self) -> MutexGuard<'_, Option<Error>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Task {
    name: String,
    stage: Stage,
    pieces: Receiver<Piece>,
    done: Sender<Result<FilledShard>>,
}

/// A shard that a thread fills, or will.
pub(super) struct Filling(Receiver<Result<FilledShard>>);

impl Filling {
    /// The shard, if it is complete.
    pub(super) fn poll(&self) -> Option<Result<FilledShard>> {
        match self.0.try_recv() {
            Ok(done) => Some(done),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Error::bug("a thread of the writer ended early"))),
        }
    }

    /// Waits for the shard; `None` if its thread ended early.
    pub(super) fn wait(&self) -> Option<Result<FilledShard>> {
        self.0.recv().ok()
    }
}

/// The threads. Dropping gives up shards that are not complete.
pub(super) struct ShardThreads {
    shared: Arc<WriterState>,
    tasks: Option<Sender<Task>>,
    waiting: Receiver<Task>,
    threads: Vec<JoinHandle<()>>,
    most: usize,
}

impl ShardThreads {
    pub(super) fn new(shared: Arc<WriterState>, most: usize) -> Self {
        let (tasks, waiting) = crossbeam_channel::unbounded();
        Self { shared, tasks: Some(tasks), waiting, threads: Vec::new(), most: most.max(1) }
    }

    pub(super) fn shared(&self) -> &Arc<WriterState> {
        &self.shared
    }

    /// Starts a shard.
    pub(super) fn start(&mut self, name: String, stage: Stage) -> (OpenShard, Filling) {
        let (sender, pieces) = crossbeam_channel::unbounded();
        let (done, filling) = crossbeam_channel::bounded(1);
        if let Some(tasks) = &self.tasks {
            // Fails only without a receiver, and this has one.
            let _ = tasks.send(Task { name, stage, pieces, done });
        }
        if self.threads.len() < self.most {
            let (shared, waiting) = (self.shared.clone(), self.waiting.clone());
            let thread = std::thread::Builder::new().name("packhorse-writer".to_owned());
            match thread.spawn(move || work(&shared, &waiting)) {
                Ok(thread) => self.threads.push(thread),
                Err(error) if self.threads.is_empty() => self.shared.fail(Error::thread(error)),
                // Those that there are do the work.
                Err(_) => self.most = self.threads.len(),
            }
        }
        (OpenShard(sender), Filling(filling))
    }
}

fn work(shared: &WriterState, waiting: &Receiver<Task>) {
    /// Tells the calling thread of a panic, which would wait for ever.
    struct Alarm<'a>(&'a WriterState);
    impl Drop for Alarm<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.fail(Error::bug("a thread of the writer panicked"));
            }
        }
    }
    let _alarm = Alarm(shared);
    while let Ok(Task { name, stage, pieces, done }) = waiting.recv() {
        let filled = shared.check().and_then(|()| fill(shared, name, stage, &pieces));
        if let Err(e) = &filled {
            shared.fail(e.clone());
        }
        // The calling thread may have given up.
        let _ = done.send(filled);
    }
}

impl Drop for ShardThreads {
    fn drop(&mut self) {
        self.shared.fail(Error::cancelled());
        self.tasks = None;
        for thread in self.threads.drain(..) {
            // A panic was told to the calling thread.
            let _ = thread.join();
        }
    }
}
