//! Datasets for Python.

use crate::batch::Batch;
use crate::error::{Raised, Result};
use crate::fields::Asked;
use crate::fork::{self, Owned};
use crate::values::sample;
use crate::watch::abandonable;
use packhorse::core::{FieldType, Options, counted};
use packhorse::pack::JoinTable;
use packhorse::read::{BatchDecoder, Column, LoaderOptions, OnError, OpenOptions, Reader, SampleBlock, Verify, Wants};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A dataset: see `packhorse/_dataset.py`, which owns the words for Python.
#[pyclass(frozen, module = "packhorse._packhorse", name = "Dataset")]
pub(crate) struct PyDataset {
    pub(crate) ours: Owned<packhorse::read::Dataset>,
    reader: OnceLock<Arc<Owned<Reader>>>,
    /// Whether a read may wait for a network.
    pub(crate) remote: bool,
    /// The bytes of a sample in the shards, and in memory as samples were read last.
    stored: OnceLock<u64>,
    held: AtomicU64,
}

impl PyDataset {
    fn of(ours: packhorse::read::Dataset, remote: bool) -> Self {
        let (reader, stored, held) = (OnceLock::new(), OnceLock::new(), AtomicU64::new(0));
        Self { ours: Owned::new(ours), reader, remote, stored, held }
    }

    /// Reads all fields, in the order of the schema.
    pub(crate) fn reader(&self) -> Arc<Owned<Reader>> {
        let make = || {
            let columns = self.ours.schema().fields().iter().map(|field| Column(vec![field.name().clone()]));
            Arc::new(Owned::new(Reader::new(self.ours.clone(), columns.collect(), fork::read_options())))
        };
        Arc::clone(self.reader.get_or_init(make))
    }
}

#[pymethods]
impl PyDataset {
    /// Opens the dataset at `place`.
    #[staticmethod]
    #[pyo3(signature = (place, format, options, indexes))]
    fn open(
        py: Python<'_>,
        place: &str,
        format: Option<String>,
        options: BTreeMap<String, String>,
        indexes: Option<std::path::PathBuf>,
    ) -> Result<Self> {
        let mut all = Options::new();
        for (name, value) in options {
            all.set(&name, value);
        }
        let threads = if fork::forked() { 1 } else { OpenOptions::default().threads };
        let options = OpenOptions { format, options: all, indexes, threads, ..OpenOptions::default() };
        let remote = place.contains("://");
        let place = place.to_owned();
        let open = move || {
            let opened = packhorse::read::open_with(&place, &packhorse::storage::Stores::default(), &options);
            opened.map_err(packhorse::pack::as_request_error)
        };
        let opened = abandonable(py, open)?;
        // The shards of a view may be elsewhere.
        let remote = remote || opened.is_remote();
        Ok(Self::of(opened, remote))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.ours.len()).unwrap_or(usize::MAX)
    }

    /// Name and type of each field.
    fn fields(&self) -> Vec<(String, String)> {
        let kind = |field: &Arc<arrow_schema::Field>| match FieldType::of(field) {
            Ok(kind) => kind.to_string(),
            Err(_) => field.data_type().to_string(),
        };
        self.ours.schema().fields().iter().map(|field| (field.name().clone(), kind(field))).collect()
    }

    /// What tells these samples from others: a mark of their shards, places and joined columns, and their number.
    fn known(&self) -> (u64, u64) {
        (self.ours.fingerprint(), self.ours.len())
    }

    /// The fields of third-party shards that can't be read, and why not.
    fn omitted(&self) -> Vec<(String, String)> {
        self.ours.omitted().into_iter().map(|omission| (omission.field, omission.reason)).collect()
    }

    fn classes(&self) -> Vec<String> {
        self.ours.classes().to_vec()
    }

    fn splits(&self) -> Vec<String> {
        self.ours.splits()
    }

    fn bytes(&self) -> u64 {
        self.ours.bytes()
    }

    fn split(&self, name: &str) -> Result<Self> {
        Ok(Self::of(self.ours.split(name)?, self.remote))
    }

    fn slice(&self, from: u64, to: u64) -> Result<Self> {
        Ok(Self::of(self.ours.slice(from..to)?, self.remote))
    }

    /// The samples of these numbers, each of 8 bytes.
    fn subset(&self, py: Python<'_>, numbers: &[u8]) -> Result<Self> {
        let numbers = numbers.as_chunks().0.iter().map(|number| u64::from_ne_bytes(*number));
        Ok(Self::of(py.detach(|| self.ours.subset(numbers))?, self.remote))
    }

    fn select(&self, fields: Vec<String>) -> Result<Self> {
        Ok(Self::of(self.ours.select(&fields)?, self.remote))
    }

    /// The numbers of the samples that meet a condition, each of 8 bytes.
    fn matching<'py>(&self, py: Python<'py>, condition: &str) -> Result<Bound<'py, PyBytes>> {
        let (dataset, condition) = (self.ours.clone(), condition.parse()?);
        Ok(packed(py, &abandonable(py, move || dataset.filter_numbers(&condition))?))
    }

    /// The numbers of the samples in a fold, or with `others` of those in all other folds, each of 8 bytes.
    fn fold<'py>(&self, py: Python<'py>, i: u32, folds: u32, seed: u64, others: bool) -> Result<Bound<'py, PyBytes>> {
        let dataset = self.ours.clone();
        let find = move || match others {
            true => dataset.without_fold_numbers(i, folds, seed),
            false => dataset.fold_numbers(i, folds, seed),
        };
        Ok(packed(py, &abandonable(py, find)?))
    }

    /// The same samples with the columns of a table, by their keys; rows that no sample has are warned of.
    fn join(
        &self,
        py: Python<'_>,
        table: std::path::PathBuf,
        key: String,
        columns: Option<Vec<String>>,
        fill_missing: bool,
    ) -> Result<Self> {
        let dataset = self.ours.clone();
        let join = move || {
            let registry = packhorse::registry();
            let mut join = JoinTable::read(&registry, &table, &key, columns.as_deref(), fill_missing)?;
            dataset.distinct()?.each_key(|_, key| {
                join.push(key);
                Ok(())
            })?;
            let unused = match join.unused() {
                (rows, Some(first)) => {
                    let belong = if rows == 1 { "belongs" } else { "belong" };
                    let (rows, table) = (counted(rows, "row"), table.display());
                    Some(format!("{rows} of {table} {belong} to no sample, such as that of {first}"))
                }
                _ => None,
            };
            let (schema, rows) = join.finish().map_err(|e| e.in_input(table.display()))?;
            Ok((dataset.with_columns(&schema, rows.into_iter().map(Ok))?, unused))
        };
        let (joined, unused) = abandonable(py, join).map_err(Raised::joining)?;
        if let Some(text) = unused {
            py.import("warnings")?.call_method1("warn", (text,))?;
        }
        Ok(Self::of(joined, self.remote))
    }

    /// Writes a view of these samples and fields; returns its root digest.
    fn write_view(&self, py: Python<'_>, out: std::path::PathBuf) -> Result<String> {
        let dataset = self.ours.clone();
        Ok(abandonable(py, move || dataset.write_view(out))?.root.to_string())
    }

    #[staticmethod]
    fn concat(datasets: Vec<PyRef<'_, Self>>) -> Result<Self> {
        let all: Vec<_> = datasets.iter().map(|dataset| dataset.ours.clone()).collect();
        let remote = datasets.iter().any(|dataset| dataset.remote);
        Ok(Self::of(packhorse::read::Dataset::concat(&all)?, remote))
    }

    /// The numbers of the samples with these keys, ascending, and the keys that no sample has.
    fn find(&self, py: Python<'_>, keys: Vec<String>) -> Result<(Vec<u64>, Vec<String>)> {
        let dataset = self.ours.clone();
        let find = move || {
            let (numbers, missing) = dataset.find_keys(&keys)?;
            Ok((numbers, missing.into_iter().map(str::to_owned).collect()))
        };
        abandonable(py, find)
    }

    /// The keys of all samples.
    fn keys<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        let dataset = self.ours.clone();
        let (all, ends) = abandonable(py, move || {
            let (mut all, mut ends) = (String::new(), Vec::new());
            dataset.each_key(|_, key| {
                all.push_str(key);
                ends.push(all.len());
                Ok(())
            })?;
            Ok((all, ends))
        })?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let keys = starts.zip(&ends).map(|(start, end)| PyString::new(py, all.get(start..*end).unwrap_or_default()));
        Ok(PyList::new(py, keys.collect::<Vec<_>>())?)
    }

    /// The samples of these numbers as dictionaries, their values as they are stored.
    fn samples<'py>(&self, py: Python<'py>, numbers: Vec<u64>) -> Result<Vec<Bound<'py, PyDict>>> {
        let reader = self.reader();
        let read = move || {
            let mut block = SampleBlock::default();
            reader.read(numbers.into_iter(), &mut Wants::default(), &mut block)?;
            Ok(block)
        };
        // A thread of its own costs more than a sample of a local shard.
        let block = if self.remote { abandonable(py, read)? } else { py.detach(|| fork::run(read))? };
        self.held.store(block.mean(), Ordering::Relaxed);
        (0..block.len()).map(|row| sample(py, self.ours.schema(), &block, row)).collect()
    }

    /// How many samples are read together where all are: about 64 MiB of them, by those that were read last.
    fn at_once(&self) -> u64 {
        at_once(*self.stored.get_or_init(|| self.ours.mean()), self.held.load(Ordering::Relaxed), 64)
    }

    /// A capsule with a stream of Arrow record batches.
    fn arrow_stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::arrow_stream::capsule(py, self)
    }
}

/// Bytes of samples that are read together.
const AT_ONCE: u64 = 64 << 20;

/// Samples that are read together before their size in memory is known.
const FIRST: u64 = 8;

/// How many samples to read together, `most` at most, by the bytes of one in the shards and in memory; the latter are 0 before one was
/// read.
pub(crate) fn at_once(stored: u64, held: u64, most: u64) -> u64 {
    let most = if held == 0 { most.min(FIRST) } else { most };
    (AT_ONCE / stored.max(held).max(1)).clamp(1, most)
}

/// Numbers as Python's `array("Q")` has them.
fn packed<'py>(py: Python<'py>, numbers: &[u64]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>())
}

/// So many samples may take long to decode: signals are looked for meanwhile. A thread costs as much as decoding a small picture.
pub(crate) const LONG: usize = 32;

/// Decodes chosen samples into batches.
#[pyclass(frozen, module = "packhorse._packhorse")]
pub(crate) struct Decoder {
    ours: Arc<Owned<BatchDecoder>>,
    remote: bool,
}

#[pymethods]
impl Decoder {
    #[new]
    fn new(
        py: Python<'_>,
        dataset: &PyDataset,
        described: Vec<(String, String, String, bool, Bound<'_, PyAny>)>,
        seed: u64,
        verify: bool,
        skip: bool,
    ) -> Result<Self> {
        let chosen = Asked::of(described)?.fields;
        let mut options = LoaderOptions::new(1);
        options.seed = seed;
        options.read = fork::read_options();
        options.read.verify = if verify { Verify::Full } else { Verify::Header };
        options.on_error = if skip { OnError::Skip } else { OnError::Fail };
        let (dataset, remote) = (dataset.ours.clone(), dataset.remote);
        let decoder = abandonable(py, move || BatchDecoder::new(&dataset, &chosen, &options))?;
        Ok(Self { ours: Arc::new(Owned::new(decoder)), remote })
    }

    /// The batch of these samples.
    fn decode(&self, py: Python<'_>, numbers: Vec<u64>, epoch: u64) -> Result<Batch> {
        let ours = Arc::clone(&self.ours);
        let (is_long, decode) = (self.remote || numbers.len() >= LONG, move || ours.decode(&numbers, epoch));
        Ok(Batch::new(if is_long { abandonable(py, decode)? } else { py.detach(decode)? }))
    }
}
