//! Tokens of Megatron's files, for Python.

use crate::array::PyArray;
use crate::batch::Batch;
use crate::device::Arrays;
use crate::element::{ArrayElement, INT32, INT64};
use crate::error::Result;
use crate::fork::{self, Owned};
use crate::gpu::PyGpu;
use crate::handover::{Handover, RunningLoader};
use crate::loader::{named, remainder, setting};
use crate::running::AHEAD;
use crate::watch::abandonable;
use arrow_schema::DataType;
use packhorse::core::Error;
use packhorse::gpu::{Cuda, Upload};
use packhorse::read::order::{Rank, Segment};
use packhorse::read::{
    Ahead, Companions, Host, LoaderCounters, LossMask, Next, TokenLoader, TokenLoaderBuilder, TokenState, TokenType,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use std::time::Duration;

/// One pair of `.bin` and `.idx`: see `packhorse/_tokens.py`, which owns the words for Python.
#[pyclass(frozen, module = "packhorse._packhorse", name = "Tokens")]
pub(crate) struct PyTokens {
    tokens: Owned<Arc<packhorse::read::Tokens>>,
    /// Whether a server is asked for them, which may not answer.
    remote: bool,
}

impl PyTokens {
    fn element(&self) -> Option<ArrayElement> {
        match self.tokens.token_type() {
            TokenType::U16 => ArrayElement::of(&DataType::UInt16),
            TokenType::I32 => Some(INT32),
            TokenType::I64 => Some(INT64),
        }
    }
}

#[pymethods]
impl PyTokens {
    #[staticmethod]
    fn open(py: Python<'_>, place: &str) -> Result<Self> {
        let (place, remote) = (place.to_owned(), place.contains("://"));
        let open = move || packhorse::open_tokens(&place).map_err(packhorse::pack::as_request_error);
        Ok(Self { tokens: Owned::new(abandonable(py, open)?), remote })
    }

    /// The number of documents.
    fn __len__(&self) -> usize {
        self.tokens.files().iter().map(|file| file.sequences() as usize).sum()
    }

    /// The number of tokens of each document.
    fn lengths(&self) -> Result<Vec<i32>> {
        let files = self.tokens.files().iter();
        Ok(files.map(|file| file.lengths().to_i32s()).collect::<Result<Vec<_>, Error>>()?.concat())
    }

    fn dtype(&self) -> &'static str {
        self.element().map_or("", |element| element.name)
    }

    /// The tokens of document `number`, which has `length`.
    fn document(&self, py: Python<'_>, number: u32, length: u32) -> Result<PyArray> {
        let element = self.element().ok_or_else(|| Error::bug("tokens of no type"))?;
        let mut bytes = vec![0; length as usize * element.width];
        if length > 0 {
            let (tokens, segment) =
                (Arc::clone(&*self.tokens), Segment { dataset: 0, sequence: number, offset: 0, length });
            let read = move || tokens.read(&[segment], &mut bytes).map(|_| bytes);
            // A thread of its own costs more than a document of a local file.
            bytes = if self.remote { abandonable(py, read)? } else { py.detach(read)? };
        }
        let whole = 0..bytes.len();
        let array = PyArray::new(Arc::new(bytes), whole, element, &[length as usize]);
        Ok(array.ok_or_else(|| Error::bug("a document of another length"))?)
    }

    /// Starts a loader. `settings` has every key that is read here; batches go to `gpu`, or stay in host memory.
    #[pyo3(signature = (settings, gpu=None))]
    fn loader(&self, py: Python<'_>, settings: &Bound<'_, PyDict>, gpu: Option<&PyGpu>) -> Result<TokenPipeline> {
        let get = |name: &str| setting(settings, name);
        let mut builder = Arc::clone(&*self.tokens).loader(get("batch")?.extract()?, get("length")?.extract()?);
        let (rank, world_size) = get("place")?.extract()?;
        builder = builder.rank(Rank { rank, world_size }).seed(get("seed")?.extract()?);
        if let Some(samples) = get("samples")?.extract::<Option<u64>>()? {
            builder = builder.samples(samples);
        }
        if let Some(pad) = get("pad")?.extract::<Option<i64>>()? {
            builder = builder.pad(pad);
        }
        if let Some(threads) = get("threads")?.extract::<Option<usize>>()? {
            builder = builder.threads(threads);
        }
        builder = builder.remainder(remainder(&get("remainder")?)?);
        let with: Vec<String> = get("with")?.extract()?;
        let has = |name: &str| with.iter().any(|with| with == name);
        builder = builder.companions(Companions {
            position_ids: has("position_ids"),
            segment_ids: has("segment_ids"),
            loss_mask: if has("loss_mask") { LossMask::Documents } else { LossMask::Off },
            cu_seqlens: has("cu_seqlens"),
        });
        if let Some(state) = get("state")?.extract::<Option<String>>()? {
            let state = TokenState::from_json(&state).map_err(|error| error.in_input("the state"));
            builder = builder.resume(&state?);
        }
        let gpu = gpu.map(PyGpu::cuda);
        let (running, counters) = py.detach(|| fork::run(|| Running::start(builder, gpu)))?;
        Ok(TokenPipeline { handover: Handover::new(running), counters })
    }
}

/// A running loader, its batches in host memory or on a GPU.
enum Running {
    Host(TokenLoader<Host>),
    /// With the arrays of a batch and the number of batches left.
    Device(Ahead<TokenLoader<Upload<Cuda>>>, Arc<Arrays>, u64),
}

impl Running {
    fn start(builder: TokenLoaderBuilder, gpu: Option<Cuda>) -> Result<(Self, Arc<LoaderCounters>), Error> {
        let Some(gpu) = gpu else {
            let loader = builder.build()?;
            let counters = loader.counters();
            return Ok((Self::Host(loader), counters));
        };
        let loader = builder.on(Upload::new(gpu)?).build()?;
        let (arrays, left, counters) = (Arrays::sent(loader.layout()), loader.remaining(), loader.counters());
        Ok((Self::Device(Ahead::new(loader, AHEAD)?, arrays, left), counters))
    }

    fn state(&self) -> TokenState {
        match self {
            Self::Host(loader) => loader.state(),
            Self::Device(ahead, ..) => ahead.state(),
        }
    }

    fn remaining(&self) -> u64 {
        match self {
            Self::Host(loader) => loader.remaining(),
            Self::Device(.., left) => *left,
        }
    }
}

impl RunningLoader for Running {
    /// The state, and the number of batches left.
    type Progress = (TokenState, u64);

    fn progress(&self) -> Self::Progress {
        (self.state(), self.remaining())
    }

    fn next_within(&mut self, wait: Duration) -> Next<Batch> {
        match self {
            Self::Host(loader) => loader.next_within(wait).map(|batch| Ok(Batch::new(batch))),
            Self::Device(ahead, arrays, left) => {
                let next = ahead.next_within(wait);
                *left -= u64::from(matches!(next, Next::Batch(_)));
                next.map(|batch| Batch::on_device(batch, arrays))
            }
        }
    }
}

/// A running loader of tokens.
#[pyclass(frozen, module = "packhorse._packhorse")]
pub(crate) struct TokenPipeline {
    handover: Handover<Running>,
    counters: Arc<LoaderCounters>,
}

#[pymethods]
impl TokenPipeline {
    /// The next batch; `None` at the end of the order.
    fn next(&self, py: Python<'_>) -> Result<Option<Py<Batch>>> {
        self.handover.next(py)
    }

    /// The state after the batches taken so far, as JSON.
    fn state(&self, py: Python<'_>) -> Result<String> {
        Ok(self.handover.progress(py)?.0.to_json())
    }

    /// What the threads have done so far, and who waited for whom, by name.
    fn stats(&self) -> Vec<(&'static str, f64)> {
        named(&self.counters.stats())
    }

    fn remaining(&self, py: Python<'_>) -> Result<u64> {
        Ok(self.handover.progress(py)?.1)
    }
}
