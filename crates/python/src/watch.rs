//! Long work that Python can follow and stop: progress, warnings, Ctrl-C.

use crate::error::Result;
use crate::fork;
use packhorse::core::{Cancel, Error, Event, Observer};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Progress is told, and signals are looked at, this often.
const EVERY: Duration = Duration::from_millis(100);

/// Counts what happens. Python reads it from its own thread, so no other thread waits for the interpreter.
#[derive(Default)]
pub(crate) struct Totals {
    files: AtomicU64,
    planned: Mutex<(Option<u64>, u64, u64)>,
    samples: AtomicU64,
    bytes: AtomicU64,
    shards: AtomicU64,
    skipped: AtomicU64,
    warnings: Mutex<Vec<String>>,
}

impl Observer for Totals {
    fn event(&self, event: &Event<'_>) {
        let add = |to: &AtomicU64, count: u64| to.fetch_add(count, Ordering::Relaxed);
        match event {
            Event::Scanned { files } => add(&self.files, *files),
            Event::Planned { samples, bytes, shards } => {
                *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = (*samples, *bytes, *shards);
                0
            }
            Event::Packed { samples, bytes } => {
                add(&self.samples, *samples);
                add(&self.bytes, *bytes)
            }
            Event::Shard { samples, input_bytes, reused, .. } => {
                if *reused {
                    add(&self.samples, *samples);
                    add(&self.bytes, *input_bytes);
                }
                add(&self.shards, 1)
            }
            Event::Skipped(_) => add(&self.skipped, 1),
            Event::Verified { bytes } => add(&self.bytes, *bytes),
            Event::Warning(text) => {
                self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push((*text).to_owned());
                0
            }
            _ => 0,
        };
    }
}

impl Totals {
    /// The totals so far, as a dictionary.
    pub(crate) fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let get = |from: &AtomicU64| from.load(Ordering::Relaxed);
        let (all_samples, all_bytes, all_shards) = *self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = PyDict::new(py);
        shown.set_item("files", get(&self.files))?;
        shown.set_item("samples", get(&self.samples))?;
        shown.set_item("all_samples", all_samples)?;
        shown.set_item("bytes", get(&self.bytes))?;
        shown.set_item("all_bytes", all_bytes)?;
        shown.set_item("shards", get(&self.shards))?;
        shown.set_item("all_shards", all_shards)?;
        shown.set_item("skipped", get(&self.skipped))?;
        Ok(shown)
    }

    /// Warnings become Python's.
    fn warn(&self, py: Python<'_>) -> PyResult<()> {
        let warnings = std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        if warnings.is_empty() {
            return Ok(());
        }
        let module = py.import("warnings")?;
        warnings.iter().try_for_each(|text| module.call_method1("warn", (text.as_str(),)).map(drop))
    }
}

/// How long work may take to stop. Then it is left alone: it may wait for a server that never answers.
const STOPPING: Duration = Duration::from_secs(2);

/// Runs `work` on a thread of its own. Meanwhile this one calls `progress` with the totals and looks for signals; an
/// exception of either stops the work, and is raised when it has stopped, or after two seconds.
pub(crate) fn watched<R: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    totals: &Arc<Totals>,
    cancel: &Cancel,
    work: impl FnOnce() -> Result<R, Error> + Send + 'static,
) -> Result<R> {
    let tell = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        totals.warn(py)?;
        progress.map_or(Ok(()), |progress| progress.call1((totals.show(py)?,)).map(drop))
    };
    let result = received(
        py,
        begin("packhorse-work", work)?,
        || tell(py),
        |ended| {
            cancel.cancel();
            drop(wait(py, ended, STOPPING));
        },
    )?;
    tell(py)?;
    Ok(result)
}

/// Runs `work` on a thread of its own while this one looks for signals. After the exception of one the work has two seconds to end, and
/// is cancelled then.
pub(crate) fn ended_well<R: Send + 'static>(
    py: Python<'_>,
    cancel: &Cancel,
    work: impl FnOnce() -> Result<R, Error> + Send + 'static,
) -> Result<R> {
    received(
        py,
        begin("packhorse-work", work)?,
        || py.check_signals(),
        |ended| {
            if wait(py, ended, STOPPING).1.is_err() {
                cancel.cancel();
            }
        },
    )
}

/// Runs `work` on a thread of its own, which is left alone after two seconds.
pub(crate) fn for_a_while(py: Python<'_>, work: impl FnOnce() + Send + 'static) {
    let work = move || {
        work();
        Ok(())
    };
    if let Ok(ended) = begin("packhorse-end", work) {
        drop(wait(py, ended, STOPPING));
    }
}

type Ended<R> = Receiver<Result<R, Error>>;

/// Waits for a thread, and calls `look` meanwhile. Its exception is raised once `raised` got the other end of the thread.
fn received<R: Send>(
    py: Python<'_>,
    mut ended: Ended<R>,
    look: impl Fn() -> PyResult<()>,
    raised: impl FnOnce(Ended<R>),
) -> Result<R> {
    loop {
        let (back, waited) = wait(py, ended, EVERY);
        ended = back;
        match waited {
            Ok(result) => return Ok(result?),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::bug("a thread panicked").into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(exception) = look() {
            raised(ended);
            return Err(exception.into());
        }
    }
}

/// Starts `work` on a thread, which sends its result.
fn begin<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<R, Error> + Send + 'static,
) -> Result<Ended<R>, Error> {
    let (done, ended) = channel();
    let run = move || {
        // What was abandoned is not received.
        let _ = done.send(fork::run(work));
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(Error::thread)?;
    Ok(ended)
}

/// Waits for a result without the interpreter. Only the receiver crosses to the detached section, and nothing else uses it.
fn wait<R: Send>(
    py: Python<'_>,
    ended: Ended<R>,
    time: Duration,
) -> (Ended<R>, Result<Result<R, Error>, RecvTimeoutError>) {
    py.detach(move || {
        let waited = ended.recv_timeout(time);
        (ended, waited)
    })
}

/// Runs `work` on a thread of its own while this one looks for signals. After one the thread is left alone: it may wait for
/// a server that never answers.
pub(crate) fn abandonable<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R, Error> + Send + 'static,
) -> Result<R> {
    received(py, begin("packhorse-open", work)?, || py.check_signals(), drop)
}
