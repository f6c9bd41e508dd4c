//! Values of samples as Python's own.

use crate::array::{ArrayMemory, PyArray};
use crate::element::ArrayElement;
use crate::error::Result;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array as _, ArrayRef, BooleanArray};
use arrow_schema::{DataType, Field, Schema};
use packhorse::core::{Error, FieldType, KEY, bytes_of, numpy_type};
use packhorse::read::{SampleBlock, Value};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::sync::Arc;

/// A sample as a dictionary: its key as `__key__`, then the fields that it has.
pub(crate) fn sample<'py>(
    py: Python<'py>,
    schema: &Schema,
    block: &SampleBlock,
    row: usize,
) -> Result<Bound<'py, PyDict>> {
    if let Some(fault) = block.fault(row) {
        return Err(fault.clone().into());
    }
    let found = PyDict::new(py);
    found.set_item(KEY, block.key(row).unwrap_or_default())?;
    for (column, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        match block.value(row, column) {
            None => {}
            Some(Value::Bytes(bytes)) => found.set_item(name, PyBytes::new(py, bytes))?,
            Some(Value::Row(array, at)) if array.is_null(at) => found.set_item(name, py.None())?,
            Some(Value::Row(array, at)) => found.set_item(name, value(py, field, array, at)?)?,
        }
    }
    Ok(found)
}

fn value<'py>(py: Python<'py>, field: &Field, array: &ArrayRef, row: usize) -> Result<Bound<'py, PyAny>> {
    Ok(match array.data_type() {
        DataType::BinaryView => PyBytes::new(py, array.as_binary_view().value(row)).into_any(),
        DataType::Binary => PyBytes::new(py, array.as_binary::<i32>().value(row)).into_any(),
        DataType::LargeBinary => PyBytes::new(py, array.as_binary::<i64>().value(row)).into_any(),
        DataType::Utf8View => PyString::new(py, array.as_string_view().value(row)).into_any(),
        DataType::Utf8 => PyString::new(py, array.as_string::<i32>().value(row)).into_any(),
        DataType::LargeUtf8 => PyString::new(py, array.as_string::<i64>().value(row)).into_any(),
        DataType::FixedSizeList(..) => match FieldType::of(field) {
            Ok(FieldType::Tensor { shape, .. }) => elements(py, field, &array.as_fixed_size_list().value(row), &shape)?,
            _ => list(py, field, &array.as_fixed_size_list().value(row))?,
        },
        DataType::List(_) => list(py, field, &array.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => list(py, field, &array.as_list::<i64>().value(row))?,
        DataType::Struct(_) => ragged(py, field, array, row)?,
        DataType::FixedSizeBinary(_) => {
            let bytes = PyBytes::new(py, array.as_fixed_size_binary().value(row));
            match numpy_type(field) {
                Some(dtype) => {
                    let numpy = py.import("numpy")?;
                    numpy.call_method1("frombuffer", (bytes, dtype))?.get_item(0)?
                }
                None => bytes.into_any(),
            }
        }
        _ => elements(py, field, &array.slice(row, 1), &[])?,
    })
}

/// Lists inside of lists are lists of arrays.
fn list<'py>(py: Python<'py>, field: &Field, inner: &ArrayRef) -> Result<Bound<'py, PyAny>> {
    // Opaque bytes stay bytes.
    let is_number = || numpy_type(field).is_some_and(|name| !name.starts_with("|V"));
    let is_array =
        ArrayElement::of(inner.data_type()).is_some() || inner.as_fixed_size_binary_opt().is_some_and(|_| is_number());
    if is_array && inner.null_count() == 0 {
        return elements(py, field, inner, &[inner.len()]);
    }
    let item = Field::new(field.name(), inner.data_type().clone(), true).with_metadata(field.metadata().clone());
    let values = (0..inner.len()).map(|row| match inner.is_null(row) {
        true => Ok(py.None().into_bound(py)),
        false => value(py, &item, inner, row),
    });
    Ok(PyList::new(py, values.collect::<Result<Vec<_>>>()?)?.into_any())
}

/// An array with a shape of its own: a struct of its elements and its shape.
fn ragged<'py>(py: Python<'py>, field: &Field, array: &ArrayRef, row: usize) -> Result<Bound<'py, PyAny>> {
    let parts = array.as_struct();
    let no_shape = || Error::unsupported("a struct that is not an array can't be shown");
    let data = parts.columns().first().and_then(|data| data.as_list_opt::<i32>()).ok_or_else(no_shape)?;
    let shape = parts.columns().get(1).and_then(|shape| shape.as_fixed_size_list_opt()).ok_or_else(no_shape)?;
    let shape = shape.value(row);
    let shape: Vec<usize> = shape.as_primitive::<Int32Type>().values().iter().map(|size| *size as usize).collect();
    elements(py, field, &data.value(row), &shape)
}

/// The elements of an array as one of this shape; a single one as a number. Those of which Python's buffers have none, such as complex numbers, times
/// and text, are an array of NumPy.
fn elements<'py>(py: Python<'py>, field: &Field, inner: &ArrayRef, shape: &[usize]) -> Result<Bound<'py, PyAny>> {
    let unknown = || {
        let message = format!("values of type {} can't be shown", inner.data_type());
        Error::unsupported(message).in_field(field.name())
    };
    if let Some(values) = inner.as_fixed_size_binary_opt() {
        let dtype = numpy_type(field).map_or_else(|| format!("V{}", values.value_length()), str::to_owned);
        let bytes = PyBytes::new(py, &bytes_of(&**inner)?);
        return Ok(py
            .import("numpy")?
            .call_method1("frombuffer", (bytes, dtype))?
            .call_method1("reshape", (shape,))?);
    }
    if let Some(texts) = inner.as_string_view_opt() {
        let texts = PyList::new(py, texts.iter())?;
        let kwargs = PyDict::new(py);
        kwargs.set_item("dtype", "object")?;
        return Ok(py
            .import("numpy")?
            .call_method("array", (texts,), Some(&kwargs))?
            .call_method1("reshape", (shape,))?);
    }
    let element = ArrayElement::of(inner.data_type()).ok_or_else(unknown)?;
    // A copy: through DLPack it can be written, and the decoded rows are kept for others.
    let memory: Arc<dyn ArrayMemory> = match inner.as_boolean_opt() {
        Some(values) => Arc::new(booleans(values)),
        None => Arc::new(bytes_of(&**inner)?.to_vec()),
    };
    let len = memory.bytes().len();
    let array = PyArray::new(memory, 0..len, element, shape).ok_or_else(unknown)?;
    if shape.is_empty() {
        return Ok(array.item(py)?);
    }
    Ok(array.into_bound_py_any(py)?)
}

fn booleans(values: &BooleanArray) -> Vec<u8> {
    values.values().iter().map(u8::from).collect()
}
