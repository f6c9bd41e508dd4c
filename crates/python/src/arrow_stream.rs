//! Datasets as streams of [Arrow's C interface](https://arrow.apache.org/docs/format/CStreamInterface.html).

use crate::dataset::PyDataset;
use crate::fork::{self, Owned};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use packhorse::core::{Error, FieldType, KEY};
use packhorse::read::{Reader, SampleBlock, Wants};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::HashMap;
use std::sync::Arc;

/// Samples in a record batch.
const ROWS: u64 = 256;

/// A capsule of a stream of all samples of a dataset.
pub(crate) fn capsule<'py>(py: Python<'py>, dataset: &PyDataset) -> PyResult<Bound<'py, PyAny>> {
    let key = Field::new(KEY, DataType::Utf8View, false);
    let stored = dataset.ours.schema();
    let fields = std::iter::once(Arc::new(key)).chain(stored.fields().iter().map(shown)).collect::<Vec<_>>();
    let schema = Arc::new(Schema::new_with_metadata(fields, stored.metadata().clone()));
    let batches = Batches { reader: dataset.reader(), schema, next: 0, samples: dataset.ours.len() };
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
}

impl Batches {
    fn read(&mut self) -> Result<RecordBatch, Error> {
        let numbers = self.next..self.samples.min(self.next + ROWS);
        self.next = numbers.end;
        let mut block = SampleBlock::default();
        fork::run(|| self.reader.read(numbers, &mut Wants::default(), &mut block))?;
        block.rows(&self.schema)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.next < self.samples).then(|| self.read().map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
