//! The loader's threads and their batches, for Python. Epochs, states and forks belong to `packhorse/_loader.py`.

use crate::batch::Batch;
use crate::dataset::{LONG, PyDataset};
use crate::error::Result;
use crate::fields::Asked;
use crate::fork;
use crate::gpu::{PyGpu, PyResident};
use crate::handover::Handover;
use crate::running::{LayoutField, Running, Target};
use crate::watch::abandonable;
use packhorse::core::{Event, Observer};
use packhorse::read::cache::DirOptions;
use packhorse::read::order::{OrderState, Rank};
use packhorse::read::{CacheOptions, LoaderCounters, LoaderOptions, LoaderStats, Metric, OnError, Remainder, Verify};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

/// Most messages that are kept until Python takes them.
const MESSAGES: usize = 1000;

/// The most shards that are remembered as told.
const TOLD: usize = 1 << 20;

/// A running loader, from a state on without an end.
#[pyclass(frozen, module = "packhorse._packhorse", name = "Pipeline")]
pub(crate) struct PyPipeline {
    handover: Handover<Running>,
    counters: Arc<LoaderCounters>,
    messages: Arc<Messages>,
    /// Whether making a batch may take long.
    is_long: bool,
}

/// What a loader says: skipped samples and warnings.
#[derive(Default)]
pub(crate) struct Messages {
    kept: Mutex<Vec<(bool, String)>>,
    /// Hashes of what was said of whole shards.
    told: Mutex<HashSet<u64>>,
    hasher: RandomState,
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
        if kept.len() >= MESSAGES {
            return;
        }
        // Each sample of a lost shard has the same, which is told once.
        if let Event::Skipped(error) = event
            && error.sample().is_none()
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let hash = self.hasher.hash_one(&message.1);
            if told.contains(&hash) {
                return;
            }
            if told.len() < TOLD {
                told.insert(hash);
            }
        }
        kept.push(message);
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
        let (dataset, is_long) = (dataset.ours.clone(), dataset.remote || options.batch as usize >= LONG);
        let target = match (resident, gpu) {
            (Some(resident), _) => Target::Resident(resident.samples()),
            (None, Some(gpu)) => Target::Gpu(gpu.cuda()),
            (None, None) => Target::Host,
        };
        let running = abandonable(py, move || Running::start(dataset, asked, &options, target))?;
        Ok(Self { handover: Handover::new(running), counters, messages, is_long })
    }

    /// The next batch; `None` after [`PyPipeline::stop`].
    fn next(&self, py: Python<'_>) -> Result<Option<Py<Batch>>> {
        self.handover.next(py)
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
        Ok(self.handover.progress(py)?.0.to_json())
    }

    /// The steps of a whole epoch, and those left of the current one.
    fn steps(&self, py: Python<'_>) -> Result<(u64, u64)> {
        Ok(self.handover.progress(py)?.1)
    }

    /// The batch of any step and rank.
    fn at(&self, py: Python<'_>, step: u64, rank: u32, world_size: u32) -> Result<Batch> {
        let access = self.handover.with(py, |loader| loader.access())?;
        let at = move || access.at(step, Rank { rank, world_size });
        // A thread of its own costs more than a small batch of local shards.
        if self.is_long { abandonable(py, at) } else { Ok(py.detach(|| fork::run(at))?) }
    }

    /// Name, type and shape of each array of a batch; the first dimension of ragged values is 0.
    fn layout(&self, py: Python<'_>) -> Result<Vec<LayoutField>> {
        Ok(self.handover.with(py, |loader| loader.layout())??)
    }

    /// Of a loader for a GPU: the fields that are finished there, and the bytes of a batch, as it is sent and of those
    /// fields.
    fn on_gpu(&self, py: Python<'_>) -> Result<Option<(Vec<String>, usize, usize)>> {
        Ok(self.handover.with(py, |loader| loader.on_gpu())??)
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
        self.handover.stop(py);
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
