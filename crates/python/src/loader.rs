//! The loader's threads and their batches, for Python. Epochs, states and forks belong to `packhorse/_loader.py`.

use crate::batch::Batch;
use crate::dataset::PyDataset;
use crate::error::Result;
use crate::fields::Asked;
use crate::fork::{self, Owned};
use crate::gpu::{PyGpu, PyResident};
use crate::handover::Handover;
use crate::running::{LayoutField, Running, Target};
use crate::watch::abandonable;
use packhorse::core::{Error, Event, Observer};
use packhorse::read::cache::DirOptions;
use packhorse::read::order::{OrderState, Rank};
use packhorse::read::{
    CacheOptions, LoaderCounters, LoaderOptions, LoaderStats, Metric, Next, OnError, Remainder, Verify,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// Signals, such as Ctrl-C, are looked at this often while a batch is awaited.
pub(crate) const SIGNALS: Duration = Duration::from_millis(100);

/// How long the end of threads is awaited.
const ENDING: Duration = Duration::from_secs(1);

/// Most messages that are kept until Python takes them.
const MESSAGES: usize = 1000;

/// A running loader, from a state on without an end.
#[pyclass(frozen, module = "packhorse._packhorse", name = "Pipeline")]
pub(crate) struct PyPipeline {
    /// The process that made it. In a forked child another thread may hold the lock of `running` for good.
    process: u32,
    /// The state when the last wait for a batch began.
    waiting: Mutex<Option<OrderState>>,
    running: Mutex<Option<Owned<Running>>>,
    /// With the state, the steps of an epoch and those left.
    handover: Handover<(OrderState, (u64, u64))>,
    counters: Arc<LoaderCounters>,
    messages: Arc<Messages>,
    /// Whether a read may wait for a network.
    remote: bool,
}

/// What a loader says: skipped samples and warnings.
#[derive(Default)]
pub(crate) struct Messages {
    kept: Mutex<Vec<(bool, String)>>,
    /// What was said of whole shards.
    told: Mutex<HashSet<String>>,
}

impl Messages {
    /// Those so far: whether each is of a skipped sample, and its text.
    pub(crate) fn take(&self) -> Vec<(bool, String)> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Messages {
    fn event(&self, event: &Event<'_>) {
        let message = match event {
            Event::Skipped(error) => (true, error.to_string()),
            Event::Warning(text) => (false, (*text).to_owned()),
            _ => return,
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Each sample of a lost shard has the same, which is told once.
        if let Event::Skipped(error) = event
            && error.sample().is_none()
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() < MESSAGES && !told.insert(message.1.clone()) {
                return;
            }
        }
        if kept.len() < MESSAGES {
            kept.push(message);
        }
    }
}

#[pymethods]
impl PyPipeline {
    /// Starts the threads. `settings` has every key that is read here; batches go to `gpu`, are made there of the samples that
    /// `resident` has, or stay in host memory.
    #[new]
    #[pyo3(signature = (dataset, described, settings, gpu=None, resident=None))]
    fn new(
        py: Python<'_>,
        dataset: &PyDataset,
        described: Vec<(String, String, String, bool, Bound<'_, PyAny>)>,
        settings: &Bound<'_, PyDict>,
        gpu: Option<&PyGpu>,
        resident: Option<&PyResident>,
    ) -> Result<Self> {
        let messages = Arc::new(Messages::default());
        let asked = Asked::of(described)?;
        let mut options = options(settings)?;
        options.observer = Arc::clone(&messages) as _;
        let counters = Arc::clone(options.counters.get_or_insert_default());
        let (dataset, remote) = (dataset.ours.clone(), dataset.remote);
        let target = match (resident, gpu) {
            (Some(resident), _) => Target::Resident(resident.samples()),
            (None, Some(gpu)) => Target::Gpu(gpu.cuda()),
            (None, None) => Target::Host,
        };
        let running = abandonable(py, move || Running::start(dataset, asked, &options, target))?;
        let running = Mutex::new(Some(Owned::new(running)));
        let (process, waiting) = (std::process::id(), Mutex::default());
        Ok(Self { process, waiting, running, handover: Handover::default(), counters, messages, remote })
    }

    /// The next batch; `None` after [`PyPipeline::stop`].
    fn next(&self, py: Python<'_>) -> Result<Option<Py<Batch>>> {
        self.handover.next(py, || {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(loader) = running.as_mut() else { return Ok((Next::End, None)) };
            let before = (loader.state(), loader.steps());
            *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(before.0);
            Ok((loader.next_within(SIGNALS), Some(before)))
        })
    }

    /// Takes back the batch that [`PyPipeline::next`] returned last.
    fn put_back(&self, batch: Py<Batch>) {
        self.handover.put_back(batch);
    }

    /// The batches that were handed over so far, with those that could not be made.
    fn handed(&self) -> u64 {
        self.handover.count()
    }

    /// The state after the batches taken so far, as JSON.
    fn state(&self, py: Python<'_>) -> Result<String> {
        match self.handover.progress() {
            Some((state, _)) => Ok(state.to_json()),
            None => match self.waited_at_fork() {
                Some(state) => Ok(state.to_json()),
                None => Ok(self.with(py, |loader| loader.state().to_json())?),
            },
        }
    }

    /// The steps of a whole epoch, and those left of the current one.
    fn steps(&self, py: Python<'_>) -> Result<(u64, u64)> {
        match self.handover.progress() {
            Some((_, steps)) => Ok(steps),
            None => Ok(self.with(py, |loader| loader.steps())?),
        }
    }

    /// The batch of any step and rank.
    fn at(&self, py: Python<'_>, step: u64, rank: u32, world_size: u32) -> Result<Batch> {
        let access = self.with(py, |loader| loader.access())?;
        let at = move || access.at(step, Rank { rank, world_size });
        // A thread of its own costs more than a small batch of local shards.
        if self.remote { abandonable(py, at) } else { Ok(py.detach(|| fork::run(at))?) }
    }

    /// Name, type and shape of each array of a batch; the first dimension of ragged values is 0.
    fn layout(&self, py: Python<'_>) -> Result<Vec<LayoutField>> {
        Ok(self.with(py, |loader| loader.layout())??)
    }

    /// Of a loader for a GPU: the fields that are finished there, and the bytes of a batch, as it is sent and of those
    /// fields.
    fn on_gpu(&self, py: Python<'_>) -> Result<Option<(Vec<String>, usize, usize)>> {
        Ok(self.with(py, |loader| loader.on_gpu())??)
    }

    /// What the threads have done so far, and who waited for whom, by name; also after their end.
    fn stats(&self) -> Vec<(&'static str, f64)> {
        named(&self.counters.stats())
    }

    /// Takes the messages so far: whether each is of a skipped sample, and its text.
    fn messages(&self) -> Vec<(bool, String)> {
        self.messages.take()
    }

    /// Ends the threads.
    fn stop(&self, py: Python<'_>) {
        self.handover.clear();
        let running = py.detach(|| self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
        end(running);
    }
}

/// Ends the threads, while other threads may use the interpreter: what a thread waits for may need it.
impl Drop for PyPipeline {
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        end(running);
    }
}

/// Drops a loader on another thread, and waits for that a second without holding the interpreter: its threads may wait for a
/// server that never answers.
pub(crate) fn end<T: Send + 'static>(loader: T) {
    let (done, ended) = std::sync::mpsc::channel();
    let drops = move || {
        drop(loader);
        // Nothing waits for what took longer.
        let _ = done.send(());
    };
    // Where no thread can be started, the loader is dropped here.
    let _ = std::thread::Builder::new().name("packhorse-end".to_owned()).spawn(drops);
    let mut ended = Some(ended);
    let mut wait = || ended.take().map(|ended| ended.recv_timeout(ENDING));
    if Python::try_attach(|py| py.detach(&mut wait)).is_none() {
        wait();
    }
}

impl PyPipeline {
    /// In a forked child whose parent waited for a batch: the state before that batch.
    fn waited_at_fork(&self) -> Option<OrderState> {
        let is_held =
            self.process != std::process::id() && matches!(self.running.try_lock(), Err(TryLockError::WouldBlock));
        let waiting = self.waiting.try_lock().ok().filter(|_| is_held)?;
        *waiting
    }

    /// Other threads may use the interpreter meanwhile: one that reads a batch may hold the loader for long.
    fn with<R: Send>(&self, py: Python<'_>, look: impl FnOnce(&mut Running) -> R + Send) -> Result<R, Error> {
        py.detach(|| {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.as_deref_mut().map(look).ok_or_else(|| Error::config("the loader was closed"))
        })
    }
}

/// The values of statistics with their names.
pub(crate) fn named(stats: &LoaderStats) -> Vec<(&'static str, f64)> {
    stats.metrics().map(|metric| (metric.key, metric.value)).collect()
}

/// The statistics of a loader that has done nothing.
#[pyfunction]
pub(crate) fn no_stats() -> Vec<(&'static str, f64)> {
    named(&LoaderStats::default())
}

/// The statistics of a loader (`loader.stats()`) as Prometheus reads them: text, version 0.0.4.
#[pyfunction]
pub(crate) fn prometheus(stats: HashMap<String, f64>) -> String {
    let metrics = LoaderStats::default();
    let given = metrics.metrics().filter_map(|metric| Some(Metric { value: *stats.get(metric.key)?, ..metric }));
    Metric::prometheus(given)
}

/// The settings of a loader.
pub(crate) fn options(settings: &Bound<'_, PyDict>) -> Result<LoaderOptions> {
    let get = |name: &str| setting(settings, name);
    let mut options = LoaderOptions::new(get("batch")?.extract()?);
    let (rank, world_size) = get("place")?.extract()?;
    options.rank = Rank { rank, world_size };
    options.shuffle = get("shuffle")?.extract::<Option<String>>()?.map(|text| text.parse()).transpose()?;
    options.seed = get("seed")?.extract()?;
    options.epochs = None;
    let state = |text: String| OrderState::from_json(&text).map_err(|error| error.in_input("the state"));
    options.state = get("state")?.extract::<Option<String>>()?.map(state).transpose()?;
    options.remainder = remainder(&get("remainder")?)?;
    options.on_error = match get("on_error")?.extract::<String>()?.as_str() {
        "skip" => OnError::Skip,
        _ => OnError::Fail,
    };
    options.skip = get("skip")?.extract::<Vec<u64>>()?.into();
    if let Some(threads) = get("threads")?.extract::<Option<usize>>()? {
        options.threads = threads;
        options.ahead = threads.saturating_add(2);
    }
    if let Some(ahead) = get("ahead")?.extract::<Option<usize>>()? {
        options.ahead = ahead;
    }
    if let Some(readers) = get("readers")?.extract::<Option<usize>>()? {
        options.readers = readers;
    }
    options.readahead = get("readahead")?.extract()?;
    options.read = fork::read_options();
    options.read.verify = if get("verify")?.extract()? { Verify::Full } else { Verify::Header };
    options.cache = CacheOptions {
        ram: get("ram")?.extract()?,
        dir: get("dir")?.extract::<Option<std::path::PathBuf>>()?.map(DirOptions::new),
    };
    Ok(options)
}

/// A setting that is there.
pub(crate) fn setting<'py>(settings: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    settings.get_item(name)?.ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(name.to_owned()))
}

/// What becomes of samples that fill no step, by its name.
pub(crate) fn remainder(name: &Bound<'_, PyAny>) -> Result<Remainder> {
    Ok(match name.extract::<String>()?.as_str() {
        "pad" => Remainder::Pad,
        "uneven" => Remainder::Uneven,
        _ => Remainder::Drop,
    })
}
