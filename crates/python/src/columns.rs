//! Values of Python as columns of rows.

use crate::element::{ArrayElement, named};
use crate::error::Result;
use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, FixedSizeListArray, Int32Array, ListArray, StructArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{DataType, Field};
use packhorse::core::{Error, FieldType, array_of};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;

/// The field of labels.
const LABELS: &str = "cls";

/// The values of a field, one for each sample.
pub(crate) enum Column {
    /// Bytes, or nothing.
    Blob(Vec<Option<Vec<u8>>>),
    /// Text, or nothing.
    Text(Vec<Option<String>>),
    /// Numbers and arrays, little-endian; `shapes` for arrays whose shapes differ.
    Array { kind: FieldType, element: DataType, bytes: Vec<u8>, ends: Vec<usize>, shapes: Vec<Vec<usize>> },
}

/// A number or an array: NumPy's type, shape, bytes.
struct Value {
    element: DataType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Column {
    /// A column of this type: `bytes`, `str`, or NumPy's name of a number.
    pub(crate) fn declared(dtype: &str) -> Result<Self> {
        Ok(match dtype {
            "bytes" => Self::Blob(Vec::new()),
            "str" => Self::Text(Vec::new()),
            other => {
                let message = || Error::config(format!("{other:?} is not a type of columns"));
                let hint = "give bytes, str, or a number such as int64 or float32";
                Self::array(FieldType::Scalar(named(other).ok_or_else(|| message().hint(hint))?))
            }
        })
    }

    /// The column that takes `value` and others like it. In a container of bytes numbers become text, except for `labels`.
    pub(crate) fn of(
        name: &str,
        value: &Bound<'_, PyAny>,
        (bytes_only, labels, ragged): (bool, bool, bool),
    ) -> Result<Self> {
        if is_blob(value) {
            return Ok(Self::Blob(Vec::new()));
        }
        if bytes_only && !(labels && name == LABELS) && as_text(name, value)?.is_some() {
            return Ok(Self::Blob(Vec::new()));
        }
        if value.is_instance_of::<PyString>() {
            return Ok(Self::Text(Vec::new()));
        }
        let Value { element, shape, .. } = number(name, value)?;
        Ok(Self::array(match (shape.len(), ragged) {
            (0, _) => FieldType::Scalar(element),
            (rank, true) => FieldType::Ragged { element, rank },
            (_, false) => FieldType::Tensor { element, shape },
        }))
    }

    fn array(kind: FieldType) -> Self {
        let element = kind.element().cloned().unwrap_or(DataType::Null);
        Self::Array { kind, element, bytes: Vec::new(), ends: Vec::new(), shapes: Vec::new() }
    }

    /// Appends a value; returns its bytes.
    pub(crate) fn push(&mut self, name: &str, value: &Bound<'_, PyAny>, bytes_only: bool) -> Result<usize> {
        match self {
            Self::Blob(blobs) => {
                let bytes = match blob(value) {
                    Some(bytes) => bytes,
                    None => match as_text(name, value)?.filter(|_| bytes_only) {
                        Some(text) => text.into_bytes(),
                        None => return Err(unlike(name, value, "bytes").into()),
                    },
                };
                let len = bytes.len();
                blobs.push(Some(bytes));
                Ok(len)
            }
            Self::Text(texts) => {
                let text = value.cast::<PyString>().map_err(|_| unlike(name, value, "text"))?.to_str()?.to_owned();
                let len = text.len();
                texts.push(Some(text));
                Ok(len)
            }
            Self::Array { kind, element, bytes, ends, shapes } => {
                let value = number(name, value)?;
                let fits = match &*kind {
                    FieldType::Tensor { shape, .. } => *shape == value.shape,
                    FieldType::Ragged { rank, .. } => *rank == value.shape.len(),
                    _ => value.shape.is_empty(),
                };
                if !fits || value.element != *element {
                    let message = format!(
                        "field {name} is {}{:?}, and that of the first sample is {kind}",
                        value.element, value.shape
                    );
                    let hint = "give `ragged=True` where shapes differ";
                    return Err(Error::content(message).in_field(name).hint(hint).into());
                }
                bytes.extend_from_slice(&value.bytes);
                ends.push(bytes.len());
                shapes.push(value.shape);
                Ok(value.bytes.len())
            }
        }
    }

    /// Appends nothing.
    pub(crate) fn push_null(&mut self, name: &str) -> Result<()> {
        match self {
            Self::Blob(blobs) => blobs.push(None),
            Self::Text(texts) => texts.push(None),
            Self::Array { .. } => return Err(Error::content(format!("lacks the field {name}")).in_field(name).into()),
        }
        Ok(())
    }

    /// Takes back what was appended beyond `rows` rows.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match self {
            Self::Blob(blobs) => blobs.truncate(rows),
            Self::Text(texts) => texts.truncate(rows),
            Self::Array { bytes, ends, shapes, .. } => {
                ends.truncate(rows);
                shapes.truncate(rows);
                bytes.truncate(ends.last().copied().unwrap_or(0));
            }
        }
    }

    /// The field of rows that it becomes.
    pub(crate) fn field(&self, name: &str) -> Field {
        match self {
            Self::Blob(_) => FieldType::Blob.field(name, true),
            Self::Text(_) => FieldType::Text.field(name, true),
            Self::Array { kind, .. } => kind.field(name, false),
        }
    }

    /// The values so far, which it gives away.
    pub(crate) fn take(&mut self) -> Result<ArrayRef, Error> {
        let data_type = self.field("").data_type().clone();
        match self {
            Self::Blob(blobs) => {
                let mut builder = BinaryViewBuilder::with_capacity(blobs.len());
                for blob in std::mem::take(blobs) {
                    match blob {
                        // A whole block: no copy.
                        Some(bytes) if bytes.len() > 12 && u32::try_from(bytes.len()).is_ok() => {
                            let len = bytes.len() as u32;
                            let block = builder.append_block(Buffer::from_vec(bytes));
                            builder.try_append_view(block, 0, len).map_err(|error| Error::bug(error.to_string()))?;
                        }
                        other => builder.append_option(other),
                    }
                }
                Ok(Arc::new(builder.finish()))
            }
            Self::Text(texts) => {
                let mut builder = StringViewBuilder::with_capacity(texts.len());
                std::mem::take(texts).into_iter().for_each(|text| builder.append_option(text));
                Ok(Arc::new(builder.finish()))
            }
            Self::Array { kind, element, bytes, ends, shapes } => {
                let parts = (std::mem::take(bytes), std::mem::take(ends), std::mem::take(shapes));
                arrays(kind, element, data_type, parts)
            }
        }
    }
}

fn arrays(
    kind: &FieldType,
    element: &DataType,
    data_type: DataType,
    (bytes, ends, shapes): (Vec<u8>, Vec<usize>, Vec<Vec<usize>>),
) -> Result<ArrayRef, Error> {
    let broken = |error: arrow_schema::ArrowError| Error::bug(error.to_string());
    let width = ArrayElement::of(element).map_or(1, |element| element.width);
    let count = bytes.len() / width;
    let values = array_of(element, Buffer::from_vec(bytes), count)?;
    match (kind, data_type) {
        (FieldType::Tensor { .. }, DataType::FixedSizeList(item, size)) => {
            Ok(Arc::new(FixedSizeListArray::try_new(item, size, values, None).map_err(broken)?))
        }
        (FieldType::Ragged { .. }, DataType::Struct(fields)) => {
            let lens = ends.iter().scan(0, |before, end| Some((end - std::mem::replace(before, *end)) / width));
            let offsets = OffsetBuffer::from_lengths(lens);
            let sizes: Int32Array = shapes.iter().flatten().map(|size| *size as i32).collect();
            let mut columns: Vec<ArrayRef> = Vec::new();
            for field in &fields {
                columns.push(match field.data_type() {
                    DataType::List(item) => Arc::new(
                        ListArray::try_new(item.clone(), offsets.clone(), values.clone(), None).map_err(broken)?,
                    ),
                    DataType::FixedSizeList(item, rank) => Arc::new(
                        FixedSizeListArray::try_new(item.clone(), *rank, Arc::new(sizes.clone()), None)
                            .map_err(broken)?,
                    ),
                    _ => return Err(Error::bug("another ragged array")),
                });
            }
            Ok(Arc::new(StructArray::try_new(fields, columns, None).map_err(broken)?))
        }
        _ => Ok(values),
    }
}

fn unlike(name: &str, value: &Bound<'_, PyAny>, wanted: &str) -> Error {
    let kind = value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    Error::content(format!("field {name} is of type {kind}, and {wanted} is wanted")).in_field(name)
}

fn is_blob(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>()
}

fn blob(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Some(bytes.as_bytes().to_vec()),
        Err(_) => value.cast::<PyByteArray>().ok().map(|bytes| bytes.to_vec()),
    }
}

/// What containers of bytes hold for text, numbers and, in a field of JSON, dictionaries and lists.
fn as_text(name: &str, value: &Bound<'_, PyAny>) -> Result<Option<String>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(text.to_str()?.to_owned()));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Some(if value.is_truthy()? { "1" } else { "0" }.to_owned()));
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return Ok(Some(value.str()?.to_str()?.to_owned()));
    }
    let nested =
        value.is_instance_of::<PyDict>() || value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if nested && name.rsplit('.').next() == Some("json") {
        return Ok(Some(value.py().import("json")?.call_method1("dumps", (value,))?.extract()?));
    }
    Ok(None)
}

/// A number of Python, or whatever NumPy takes for an array.
fn number(name: &str, value: &Bound<'_, PyAny>) -> Result<Value> {
    if value.is_instance_of::<PyBool>() {
        let bytes = vec![u8::from(value.is_truthy()?)];
        return Ok(Value { element: DataType::Boolean, shape: Vec::new(), bytes });
    }
    if value.is_instance_of::<PyInt>() {
        let bytes = value.extract::<i64>()?.to_le_bytes().to_vec();
        return Ok(Value { element: DataType::Int64, shape: Vec::new(), bytes });
    }
    if value.is_instance_of::<PyFloat>() {
        let bytes = value.extract::<f64>()?.to_le_bytes().to_vec();
        return Ok(Value { element: DataType::Float64, shape: Vec::new(), bytes });
    }
    let numpy = value.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (value,))?;
    let dtype = array.getattr("dtype")?;
    let named: String = dtype.getattr("name")?.extract()?;
    let element = if named == "bool" { Some(DataType::Boolean) } else { number_type(&named) };
    let element = element.ok_or_else(|| {
        let message = format!("field {name} is of NumPy's type {named}, which is none of numbers");
        Error::content(message).in_field(name)
    })?;
    let little = dtype.call_method1("newbyteorder", ("<",))?;
    let shape = array.getattr("shape")?.extract()?;
    let bytes = array.call_method1("astype", (little,))?.call_method0("tobytes")?;
    Ok(Value { element, shape, bytes: bytes.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes().to_vec() })
}

fn number_type(name: &str) -> Option<DataType> {
    if name == "float16" { Some(DataType::Float16) } else { named(name) }
}
