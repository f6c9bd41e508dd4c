//! Samples of a Python program into a dataset.

use crate::columns::{Column, type_name};
use crate::error::{Raised, Result};
use crate::fork::{self, Owned};
use crate::pack::{RecipeSettings, recipe, session};
use crate::watch::{Totals, ended_well, for_a_while, watched};
use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use packhorse::core::{CLASSES, Cancel, Code, Error, KEY, Kind, counted};
use packhorse::{Recipe, Session};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyString};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The format where nothing says one.
const DEFAULT: &str = "webdataset";
/// Samples and bytes that are handed over at a time.
const SAMPLES: usize = 256;
const BYTES: usize = 4 << 20;

/// Writes samples in their order: see `packhorse/_writer.py`, which owns the words for Python.
#[pyclass(frozen, module = "packhorse._packhorse")]
pub(crate) struct Writer {
    /// The process that opened it. In a forked child another thread may hold the lock for good.
    process: u32,
    state: Arc<Mutex<State>>,
    totals: Arc<Totals>,
    cancel: Cancel,
}

struct State {
    session: Session,
    recipe: Recipe,
    /// Whether the container holds only bytes, so that other values become text or files.
    bytes_only: bool,
    ragged: bool,
    classes: Vec<String>,
    /// The writer and its columns, once the first sample told them.
    started: Option<Owned<(packhorse::Writer, SchemaRef)>>,
    columns: Vec<(String, Column)>,
    keys: Vec<String>,
    held: usize,
    /// Samples taken, and how many of them turned out not to be storable.
    samples: u64,
    lost: u64,
    closed: bool,
    /// The folder of the dataset, if it was not there before.
    made: Option<PathBuf>,
}

#[pymethods]
impl Writer {
    /// `columns` names the fields that samples may have beyond those of the first sample, with NumPy's names of types,
    /// `bytes` or `str`.
    #[new]
    fn new(
        settings: RecipeSettings,
        how: &Bound<'_, PyDict>,
        columns: Vec<(String, String)>,
        classes: Vec<String>,
        ragged: bool,
    ) -> Result<Self> {
        fork::may_pack()?;
        let mut recipe = recipe(settings)?;
        let out = recipe.out.clone().unwrap_or_default();
        // A name such as `photos.parquet` says the format; other names do not.
        let to = match (&recipe.to, recipe.format(&packhorse::registry())) {
            (_, Ok(to)) => to,
            (Some(_), Err(error)) => return Err(Raised::packing(error)),
            (None, Err(_)) => DEFAULT.to_owned(),
        };
        recipe.to = Some(to.clone());
        let (totals, cancel) = (Arc::<Totals>::default(), Cancel::default());
        let session = session(how, &totals, &cancel)?;
        session.check_output(&recipe).map_err(Raised::packing)?;
        let bytes_only = !packhorse::registry().named(&to)?.sink(&packhorse::core::Options::new())?.typed();
        let declared = |(name, dtype): (String, String)| Ok((name, Column::declared(&dtype, bytes_only)?));
        let columns = columns.into_iter().map(declared).collect::<Result<_>>()?;
        let state = State {
            session,
            recipe,
            bytes_only,
            ragged,
            classes,
            started: None,
            columns,
            keys: Vec::new(),
            held: 0,
            samples: 0,
            lost: 0,
            closed: false,
            made: (!out.exists()).then_some(out),
        };
        Ok(Self { process: std::process::id(), state: Arc::new(Mutex::new(state)), totals, cancel })
    }

    /// Adds a sample. Nothing of it is kept if it raises.
    fn write(&self, py: Python<'_>, sample: &Bound<'_, PyDict>) -> Result<()> {
        // Another thread may write meanwhile, and need the interpreter to go on.
        self.check_process()?;
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        state.check_open()?;
        let key = state.key(sample)?;
        state.add(sample).map_err(|raised| named(raised, &key))?;
        state.keys.push(key);
        state.samples += 1;
        if state.keys.len() < SAMPLES && state.held < BYTES {
            return Ok(());
        }
        drop(state);
        // It may wait for threads that write, and these for a server.
        let state = Arc::clone(&self.state);
        let flush = move || {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.closed || state.keys.is_empty() { Ok(()) } else { state.flush() }
        };
        ended_well(py, &self.cancel, flush).map_err(Raised::packing)
    }

    /// Samples so far.
    #[getter]
    fn samples(&self, py: Python<'_>) -> Result<u64> {
        self.check_process()?;
        Ok(self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).kept())
    }

    /// What was written so far, as a dictionary.
    fn totals<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        self.check_process()?;
        let state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let totals = self.totals.show(py)?;
        totals.set_item("samples", state.kept())?;
        Ok(totals)
    }

    /// Publishes and seals; returns the totals and the root digest as JSON.
    fn finish(&self, py: Python<'_>) -> Result<String> {
        self.check_process()?;
        let state = Arc::clone(&self.state);
        let finish = move || {
            let (writer, out) = state.lock().unwrap_or_else(PoisonError::into_inner).end()?;
            Ok((writer.finish()?, out))
        };
        let (manifest, out) = watched(py, None, &self.totals, &self.cancel, finish).map_err(Raised::packing)?;
        let value = serde_json::json!({
            "out": out, "samples": manifest.samples, "shards": manifest.shards.len(),
            "bytes": manifest.bytes, "skipped": manifest.skipped, "classes": manifest.classes,
            "root": manifest.root.to_string(), "counts": manifest.counts,
        });
        Ok(value.to_string())
    }

    /// Ends without a dataset: what was written is removed. In a forked child it is left to the parent.
    fn abort(&self, py: Python<'_>) {
        if self.check_process().is_err() {
            return;
        }
        self.cancel.cancel();
        let state = Arc::clone(&self.state);
        for_a_while(py, move || {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.closed = true;
            state.started = None;
            if let Some(made) = state.made.take() {
                // One that is not empty holds what others wrote.
                let _ = std::fs::remove_dir(made);
            }
        });
    }
}

impl Writer {
    fn check_process(&self) -> Result<(), Error> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => {
                Err(Error::config("the writer belongs to the process that opened it, and this one was forked from it")
                    .hint("open a writer in each process, with an `out` of its own"))
            }
        }
    }
}

/// Whether a sample has a value beside its key.
fn has_values(sample: &Bound<'_, PyDict>) -> Result<bool> {
    for (name, value) in sample.iter() {
        if !value.is_none() && !is_internal(&name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether it is the key, or what webdataset's reader adds to samples: `__url__`, `__local_path__`.
fn is_internal(name: &Bound<'_, PyAny>) -> Result<bool> {
    Ok(name.extract::<&str>()?.starts_with("__"))
}

/// The error with the sample it is of.
fn named(raised: Raised, key: &str) -> Raised {
    match raised {
        Raised::Ours(error, _) => Raised::packing(error.in_sample(key)),
        other => other,
    }
}

/// Whether an error is that of a sample, beside which others can be stored.
fn is_of_sample(error: &Error) -> bool {
    matches!(error.kind(), Kind::Content | Kind::Limit)
}

impl State {
    fn kept(&self) -> u64 {
        self.samples - self.lost
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closed { Err(Error::config("the writer was closed, or ended by an error before")) } else { Ok(()) }
    }

    /// Whether there is a class list, so that labels are numbers.
    fn labels(&self) -> bool {
        !self.classes.is_empty() || self.recipe.classes.is_some() || self.recipe.classes_from.is_some()
    }

    /// The key of a sample, `__key__`; its number if it has none.
    fn key(&self, sample: &Bound<'_, PyDict>) -> Result<String> {
        match sample.get_item(KEY)? {
            Some(key) => {
                let wrong = || {
                    Error::content(format!(
                        "the key of sample {} is of type {}, and text is wanted",
                        self.samples,
                        type_name(&key)
                    ))
                };
                Ok(key.cast::<PyString>().map_err(|_| wrong().in_field(KEY))?.to_str()?.to_owned())
            }
            None => Ok(format!("{:09}", self.samples)),
        }
    }

    /// Appends the values of a sample to the columns.
    fn add(&mut self, sample: &Bound<'_, PyDict>) -> Result<()> {
        let (rows, columns) = (self.keys.len(), self.columns.len());
        let added = self.append(sample);
        if added.is_err() {
            self.columns.truncate(columns);
            self.columns.iter_mut().for_each(|(_, column)| column.truncate(rows));
        }
        self.held += added?;
        Ok(())
    }

    fn append(&mut self, sample: &Bound<'_, PyDict>) -> Result<usize> {
        let (mut bytes, mut known) = (0, 0);
        for at in 0..self.columns.len() {
            let Some((name, column)) = self.columns.get_mut(at) else { continue };
            match sample.get_item(&*name)? {
                Some(value) if !value.is_none() => {
                    known += 1;
                    bytes += column.push(name, &value, self.bytes_only)?;
                }
                Some(_) => {
                    known += 1;
                    column.push_null(name)?;
                }
                None => column.push_null(name)?,
            }
        }
        let mut fields = 0;
        for (name, _) in sample.iter() {
            fields += usize::from(!is_internal(&name)?);
        }
        if !has_values(sample)? && self.recipe.to.as_deref() == Some(DEFAULT) {
            let message = "has no field that is not None, and a tar can't hold a sample without a member";
            return Err(Error::content(message).hint("leave it out, or write into a format of columns").into());
        }
        if known == fields {
            return Ok(bytes);
        }
        for (name, value) in sample.iter() {
            if is_internal(&name)? {
                continue;
            }
            let name: String = name.extract()?;
            if self.columns.iter().any(|(known, _)| *known == name) {
                continue;
            }
            if self.samples > 0 {
                let message = format!("has a field {name} that the first sample lacks");
                let hint = "name such fields with `columns`, as in columns={\"png\": \"bytes\"}";
                return Err(Error::content(message).in_field(name).with_code(Code::ColumnsDiffer).hint(hint).into());
            }
            let mut column = Column::of(&name, &value, (self.bytes_only, self.labels(), self.ragged))?;
            bytes += column.push(&name, &value, self.bytes_only)?;
            self.columns.push((name, column));
        }
        Ok(bytes)
    }

    /// Takes no more samples: the writer that has them all, and the folder of the dataset.
    fn end(&mut self) -> Result<(packhorse::Writer, Option<PathBuf>), Error> {
        self.check_open()?;
        if self.started.is_none() && self.columns.is_empty() {
            let message = "no sample was written, so nothing says what its fields would be";
            return Err(Error::config(message).hint("write a sample, or name the `columns`"));
        }
        self.flush()?;
        self.closed = true;
        let started = self.started.take().and_then(Owned::into_inner);
        let (writer, _) = started.ok_or_else(|| Error::bug("a writer that did not start"))?;
        Ok((writer, self.recipe.out.clone()))
    }

    /// Hands the samples over to the writer, which ends by an error that is not of a sample: it has lost those that it was given.
    fn flush(&mut self) -> Result<(), Error> {
        let done = self.hand_over();
        self.closed |= done.as_ref().is_err_and(|error| self.started.is_none() || !is_of_sample(error));
        done
    }

    fn hand_over(&mut self) -> Result<(), Error> {
        let (mut fields, mut arrays) = (vec![Field::new(KEY, DataType::Utf8View, false)], Vec::<ArrayRef>::new());
        arrays.push(Arc::new(StringViewArray::from_iter_values(self.keys.drain(..))));
        for (name, column) in &mut self.columns {
            fields.push(column.field(name));
            arrays.push(column.take()?);
        }
        self.held = 0;
        if self.started.is_none() {
            let classes = serde_json::to_string(&self.classes).unwrap_or_default();
            let metadata = (!self.classes.is_empty()).then(|| (CLASSES.to_owned(), classes));
            let metadata: HashMap<String, String> = metadata.into_iter().collect();
            let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
            self.started = Some(Owned::new((self.session.writer(&self.recipe, &schema)?, schema)));
        }
        let (writer, schema) = self.started.as_deref_mut().ok_or_else(|| Error::bug("a writer that did not start"))?;
        let rows = RecordBatch::try_new(Arc::clone(schema), arrays);
        let rows = rows.map_err(|error| Error::bug(error.to_string()))?;
        match writer.push(&rows) {
            Err(error) if is_of_sample(&error) => {}
            done => return done,
        }
        // The bad samples are left out, and those beside them are not.
        let mut bad = Vec::new();
        for row in 0..rows.num_rows() {
            match writer.push(&rows.slice(row, 1)) {
                Err(error) if is_of_sample(&error) => bad.push(error),
                done => done?,
            }
        }
        let many = bad.len() as u64;
        self.lost += many;
        match bad.into_iter().next() {
            None => Ok(()),
            Some(error) if many == 1 => Err(error),
            Some(error) => {
                Err(error.remark(format!("{} of the last {} are left out", counted(many, "sample"), rows.num_rows())))
            }
        }
    }
}
