//! `--trace FILE`: what each thread did and when, as [trace events](https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU),
//! which Perfetto and chrome://tracing show. Owns the file; the libraries make the spans with the crate `tracing`.
//!
//! ```text
//! [                                                                 FILE.pfw: the same without commas, one event a line
//! {"name":"process_name","ph":"M",…}
//! ,{"name":"read","cat":"pack","ph":"X","pid":1,"tid":2,"ts":3.000,"dur":4.000,"args":{"samples":10,"bytes":9000}}
//! ,{"name":"read_queue","cat":"pack","ph":"C",…,"args":{"blocks":3}}
//! ]
//! ```
//!
//! The crate `tracing-chrome` is not used: it writes neither counters nor spans that a GPU measured, and sends every event
//! through a channel to a thread. It needs `tracing-subscriber` and with it five more crates; a `Subscriber` of our own
//! needs none.

use crate::stages::Stages;
use crate::trace_lines::{Line, TraceArgs};
use packhorse_core::{Context, Error, Result};
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::{Metadata, span::Record};

/// A trace that is being written. It ends when it is [finished](Trace::finish) or dropped.
pub struct Trace(Arc<Recorder>);

/// The trace that the process writes. `tracing` has one subscriber in a process, which can't be taken off, so it asks here.
static CURRENT: RwLock<Option<Arc<Recorder>>> = RwLock::new(None);

/// The number of the current trace; 0 without one.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The number of traces that were begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// The number of the next span, of all traces.
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// What this thread adds its events to.
    static LOG: RefCell<Option<Joined>> = const { RefCell::new(None) };
}

/// The part of a thread in a trace.
struct Joined {
    number: u64,
    recorder: Arc<Recorder>,
    log: Arc<Mutex<ThreadLog>>,
}

/// A thread that ends, or joins another trace, leaves.
impl Drop for Joined {
    fn drop(&mut self) {
        self.recorder.leave(&self.log);
    }
}

/// Lines of a thread are written together when they are so long.
const BUFFER: usize = 64 << 10;

/// The thread numbers of tracks that are not threads, such as a GPU's copies, begin here. Those of Linux are smaller.
const TRACKS: u64 = 1 << 30;

/// Collects the lines of all threads.
pub(crate) struct Recorder {
    /// The process that began it. A forked child has a copy, and adds nothing to its parent's file.
    pid: u32,
    start: Instant,
    /// The time from 1970 to `start`, so that traces of several processes have one clock.
    epoch: Duration,
    line: Line,
    output: Mutex<Output>,
    /// Of the threads that have not ended.
    threads: Mutex<Vec<Arc<Mutex<ThreadLog>>>>,
    tracks: Mutex<Vec<Track>>,
    /// Whether there is a file; if not, only `stages` are kept.
    writes: bool,
    stages: Option<Arc<Stages>>,
}

struct Output {
    /// `None` once it is complete. Threads that still have the recorder keep no file open, and what they add late is not in it.
    file: Option<File>,
    failed: Option<Error>,
}

impl Output {
    fn write(&mut self, lines: &str) {
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.write_all(lines.as_bytes())) {
            self.failed.get_or_insert(Error::io("write the trace", error));
        }
    }
}

/// A row of spans that do not belong to a thread, such as a GPU's copies.
struct Track {
    name: String,
    /// The end of its last span.
    end: Duration,
}

/// What a thread did that is not yet in the file.
#[derive(Default)]
pub(crate) struct ThreadLog {
    tid: u64,
    lines: String,
    /// Its spans that are not over, the last one at the end. Those of the libraries stay on their thread.
    open: Vec<OpenSpan>,
}

/// A span that is not over.
struct OpenSpan {
    id: u64,
    metadata: &'static Metadata<'static>,
    args: TraceArgs,
    /// Set while a thread is in it.
    since: Option<Instant>,
    handles: usize,
}

impl Trace {
    /// Begins the trace of this process in the file `path`, which is replaced.
    ///
    /// Errors: a file that can't be written; another trace, or another subscriber of `tracing`, in this process (`Config`).
    pub fn start(path: &Path) -> Result<Self> {
        Self::begin(Some(path), None)
    }

    /// The same, where spans are also added up in `stages`; without a path they only are.
    pub(crate) fn begin(path: Option<&Path>, stages: Option<Arc<Stages>>) -> Result<Self> {
        let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| current.is_here()) {
            return Err(Error::config("a trace is written already: end it first"));
        }
        // Before the file loses what it had.
        crate::trace_subscriber::install()?;
        let create = |path: &Path| File::create(path).context("create").map_err(|error| error.in_input(path.display()));
        let file = path.map(create).transpose()?;
        let recorder = Arc::new(Recorder::new(file, path.unwrap_or(Path::new("")), stages));
        recorder.begin();
        *current = Some(Arc::clone(&recorder));
        drop(current);
        NUMBER.store(BEGUN.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tracing::callsite::rebuild_interest_cache();
        Ok(Self(recorder))
    }

    /// Ends the trace: the file is complete then. Spans that are still open are not in it.
    ///
    /// Errors: a file that could not be written.
    pub fn finish(&self) -> Result<()> {
        self.0.end()
    }

    /// Takes the current process out of the trace, without waiting for anything: for a child that was forked while its parent
    /// writes one. It may begin one of its own.
    pub fn leave() {
        NUMBER.store(0, Ordering::SeqCst);
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Errors are those of `finish`, for callers that want them.
        let _ = self.0.end();
    }
}

/// Whether a trace is written.
pub(crate) fn is_on() -> bool {
    NUMBER.load(Ordering::Relaxed) != 0
}

/// Calls `add` with the trace and the lines of this thread, if a trace is written.
pub(crate) fn with_log(add: impl FnOnce(&Recorder, &mut ThreadLog)) {
    let number = NUMBER.load(Ordering::Relaxed);
    if number == 0 {
        return;
    }
    // A thread that ends has no log any more.
    let _ = LOG.try_with(|joined| {
        let Ok(mut joined) = joined.try_borrow_mut() else { return };
        if joined.as_ref().is_none_or(|joined| joined.number != number) {
            let Some(recorder) = CURRENT.read().unwrap_or_else(PoisonError::into_inner).clone() else { return };
            let log = recorder.thread();
            *joined = Some(Joined { number, recorder, log });
        }
        if let Some(Joined { recorder, log, .. }) = &*joined {
            let mut mine = lock(log);
            add(recorder, &mut mine);
            if mine.lines.len() >= BUFFER {
                recorder.write(&mut mine);
            }
        }
    });
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ThreadLog {
    /// A new span.
    pub(crate) fn open(&mut self, metadata: &'static Metadata<'static>, args: TraceArgs) -> u64 {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.open.push(OpenSpan { id, metadata, args, since: None, handles: 1 });
        id
    }

    fn span(&mut self, id: u64) -> Option<&mut OpenSpan> {
        self.open.iter_mut().rfind(|span| span.id == id)
    }

    pub(crate) fn record(&mut self, id: u64, values: &Record<'_>) {
        if let Some(span) = self.span(id) {
            values.record(&mut span.args);
        }
    }

    pub(crate) fn enter(&mut self, id: u64) {
        if let Some(span) = self.span(id) {
            span.since = Some(Instant::now());
        }
    }

    pub(crate) fn share(&mut self, id: u64) {
        if let Some(span) = self.span(id) {
            span.handles += 1;
        }
    }

    pub(crate) fn close(&mut self, id: u64) {
        let Some(at) = self.open.iter().rposition(|span| span.id == id) else { return };
        let Some(span) = self.open.get_mut(at) else { return };
        span.handles -= 1;
        if span.handles == 0 {
            self.open.remove(at);
        }
    }
}

impl Recorder {
    fn new(file: Option<File>, path: &Path, stages: Option<Arc<Stages>>) -> Self {
        let is_pfw = path.extension().is_some_and(|end| end == "pfw");
        let pid = std::process::id();
        Self {
            pid,
            start: Instant::now(),
            epoch: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            line: Line::new(pid, is_pfw),
            writes: file.is_some(),
            output: Mutex::new(Output { file, failed: None }),
            threads: Mutex::default(),
            tracks: Mutex::default(),
            stages,
        }
    }

    /// Whether it writes a file, for which spans need their arguments.
    pub(crate) fn writes(&self) -> bool {
        self.writes
    }

    /// Whether this process began it.
    fn is_here(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Writes the head of the file.
    fn begin(&self) {
        let mut lines = String::from("[\n");
        self.line.name(&mut lines, "process_name", 0, "packhorse");
        lock(&self.output).write(&lines);
    }

    /// The log of the current thread, with its name.
    fn thread(&self) -> Arc<Mutex<ThreadLog>> {
        let tid = nix::unistd::gettid().as_raw().unsigned_abs().into();
        let mut mine = ThreadLog { tid, ..ThreadLog::default() };
        let thread = std::thread::current();
        self.line.next(&mut mine.lines);
        self.line.name(&mut mine.lines, "thread_name", mine.tid, thread.name().unwrap_or("packhorse"));
        let mine = Arc::new(Mutex::new(mine));
        lock(&self.threads).push(Arc::clone(&mine));
        mine
    }

    /// Writes what a thread did, and forgets the thread.
    fn leave(&self, log: &Arc<Mutex<ThreadLog>>) {
        // In a forked child a thread that is gone may hold a lock.
        if !self.is_here() {
            return;
        }
        self.write(&mut lock(log));
        lock(&self.threads).retain(|other| !Arc::ptr_eq(other, log));
    }

    fn write(&self, of: &mut ThreadLog) {
        lock(&self.output).write(&of.lines);
        of.lines.clear();
    }

    fn end(&self) -> Result<()> {
        // Ended, or in a forked child, where a thread that is gone may hold a lock.
        if !is_on() {
            return Ok(());
        }
        let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
        if !current.as_ref().is_some_and(|current| std::ptr::eq(&raw const **current, self)) {
            return Ok(());
        }
        NUMBER.store(0, Ordering::SeqCst);
        *current = None;
        drop(current);
        tracing::callsite::rebuild_interest_cache();
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads.iter().for_each(|log| self.write(&mut lock(log)));
        let mut output = lock(&self.output);
        output.write("]\n");
        output.file = None;
        output.failed.take().map_or(Ok(()), Err)
    }

    fn at(&self, at: Instant) -> Duration {
        self.epoch + at.saturating_duration_since(self.start)
    }

    /// The end of a thread's stay in a span is an event.
    pub(crate) fn exit(&self, id: u64, log: &mut ThreadLog) {
        let now = Instant::now();
        let ThreadLog { tid, lines, open } = log;
        let Some(span) = open.iter_mut().rfind(|span| span.id == id) else { return };
        let Some(since) = span.since.take() else { return };
        let (at, duration) = (self.at(since), now.saturating_duration_since(since));
        self.stages.iter().for_each(|stages| stages.add(span.metadata, duration));
        if !self.writes {
            return;
        }
        self.line.next(lines);
        self.line.span(lines, span.metadata, *tid, (at, duration), &span.args);
    }

    /// An event of `tracing`: counters, or a span of another track that is over.
    pub(crate) fn event(&self, metadata: &'static Metadata<'static>, args: &TraceArgs, log: &mut ThreadLog) {
        if !self.writes {
            return;
        }
        let now = self.at(Instant::now());
        self.line.next(&mut log.lines);
        let Some(name) = args.track() else {
            return self.line.counters(&mut log.lines, metadata, log.tid, now, args);
        };
        let mut tracks = lock(&self.tracks);
        let found = tracks.iter().position(|track| track.name == name);
        let number = found.unwrap_or(tracks.len());
        let tid = TRACKS + number as u64;
        if found.is_none() {
            tracks.push(Track { name: name.to_owned(), end: Duration::ZERO });
            self.line.name(&mut log.lines, "thread_name", tid, name);
            self.line.next(&mut log.lines);
        }
        let Some(track) = tracks.get_mut(number) else { return };
        // Each is told a little after its times were taken, and spans of a track may not overlap.
        let begin = now.saturating_sub(args.ago());
        let end = (begin + args.duration()).max(track.end);
        let begin = begin.max(track.end);
        track.end = end;
        self.line.span(&mut log.lines, metadata, tid, (begin, end.saturating_sub(begin)), args);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// In one test, since a process has one trace at a time.
    #[test]
    fn threads_that_end_leave_and_a_trace_that_ends_has_no_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let (path, of_parent) = (dir.path().join("trace.json"), dir.path().join("parent.json"));
        // A forked child finds the trace of its parent, and begins its own.
        let parent = Recorder { pid: 0, ..Recorder::new(Some(File::create(&of_parent).unwrap()), &of_parent, None) };
        *CURRENT.write().unwrap() = Some(Arc::new(parent));
        let trace = Trace::start(&path).unwrap();
        assert!(Trace::start(&path).is_err());
        let work = || {
            tracing::debug!(name: "worked", target: "packhorse::test", batches = 1_u64);
            u64::from(nix::unistd::gettid().as_raw().unsigned_abs())
        };
        let ended: Vec<u64> = (0..3).map(|_| std::thread::spawn(work).join().unwrap()).collect();
        work();
        assert!(lock(&trace.0.threads).iter().all(|log| !ended.contains(&lock(log).tid)));
        trace.finish().unwrap();
        assert!(lock(&trace.0.output).file.is_none());
        // This thread has the recorder still.
        work();
        let events: Vec<Value> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(events.iter().filter(|event| event["name"] == "worked").count(), 4);
        assert_eq!(std::fs::read(&of_parent).unwrap(), b"");
        Trace::start(&path).unwrap().finish().unwrap();
    }
}
