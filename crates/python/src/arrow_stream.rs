//! Datasets as streams of [Arrow's C interface](https://arrow.apache.org/docs/format/CStreamInterface.html).

use crate::dataset::{PyDataset, at_once};
use crate::error::Raised;
use crate::fork::{self, Owned};
use crate::watch::abandonable;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use packhorse::core::{Error, FieldType, KEY};
use packhorse::read::{Reader, SampleBlock, Wants};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// The most samples in a record batch; fewer large ones.
const ROWS: u64 = 256;

/// A capsule of a stream of all samples of a dataset.
pub(crate) fn capsule<'py>(py: Python<'py>, dataset: &PyDataset) -> PyResult<Bound<'py, PyAny>> {
    let key = Field::new(KEY, DataType::Utf8View, false);
    let stored = dataset.ours.schema();
    let fields = std::iter::once(Arc::new(key)).chain(stored.fields().iter().map(shown)).collect::<Vec<_>>();
    let schema = Arc::new(Schema::new_with_metadata(fields, stored.metadata().clone()));
    let asked = thread::current().id();
    let batches = Batches {
        reader: dataset.reader(),
        schema,
        next: 0,
        samples: dataset.ours.len(),
        stored: dataset.ours.mean(),
        held: 0,
        remote: dataset.remote,
        asked,
    };
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    Ok(PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?.into_any())
}

/// Without the extension of tensors where elements are text, which pyarrow refuses.
fn shown(field: &Arc<Field>) -> Arc<Field> {
    let element = FieldType::of(field).ok().and_then(|kind| kind.element().cloned());
    match element.is_some_and(|element| !element.is_numeric() && element != DataType::Boolean) {
        true => {
            let own = field.metadata().iter().filter(|(name, _)| !name.starts_with("ARROW:extension:"));
            let own: HashMap<String, String> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
            Arc::new(field.as_ref().clone().with_metadata(own))
        }
        false => Arc::clone(field),
    }
}

struct Batches {
    reader: Arc<Owned<Reader>>,
    schema: SchemaRef,
    next: u64,
    samples: u64,
    /// The bytes of a sample in the shards, and in memory as samples were read last.
    stored: u64,
    held: u64,
    remote: bool,
    /// The thread that asked for the stream, on which signals are looked at. Others don't wait for the interpreter: its holder may
    /// wait for a batch of them.
    asked: ThreadId,
}

impl Batches {
    fn read(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = at_once(self.stored, self.held, ROWS);
        let numbers = self.next..self.samples.min(self.next + rows);
        self.next = numbers.end;
        let (reader, schema) = (Arc::clone(&self.reader), Arc::clone(&self.schema));
        let read = move || {
            let mut block = SampleBlock::default();
            reader.read(numbers, &mut Wants::default(), &mut block)?;
            Ok((block.mean(), block.rows(&schema)?))
        };
        let external = |error: Error| ArrowError::ExternalError(Box::new(error));
        if thread::current().id() != self.asked {
            return self.sized(fork::run(read).map_err(external));
        }
        let read = |py: Python<'_>| match self.remote {
            true => abandonable(py, read),
            false => {
                py.check_signals()?;
                Ok(py.detach(|| fork::run(read))?)
            }
        };
        let read = Python::attach(|py| {
            read(py).map_err(|raised| match raised {
                Raised::Ours(error, _) => external(error),
                Raised::Python(raised) => interrupted(py, &raised),
            })
        });
        self.sized(read)
    }

    /// Takes the rows, and notes their size, which decides how many come next.
    fn sized(&mut self, read: Result<(u64, RecordBatch), ArrowError>) -> Result<RecordBatch, ArrowError> {
        let (held, rows) = read?;
        self.held = held;
        Ok(rows)
    }
}

/// What the handler of a signal raised ends the stream. The stream can't pass a `KeyboardInterrupt` on: it is raised again after
/// the error of the stream's reader.
fn interrupted(py: Python<'_>, raised: &PyErr) -> ArrowError {
    let error = ArrowError::ComputeError(format!("interrupted: {raised}"));
    if raised.is_instance_of::<PyKeyboardInterrupt>(py) {
        // Without it the error of the reader is all that is raised.
        let _ = py.import("_thread").and_then(|module| module.call_method0("interrupt_main"));
    }
    error
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.next < self.samples).then(|| self.read())
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
