//! Values of Python as columns of rows.

use crate::element::ArrayElement;
use crate::error::Result;
use crate::nested_lists::{NestedLists, of_items};
use crate::numbers::{ArrayValue, is_numpy_float, list_of, number, number_of_numpy};
use arrow_array::builder::{BinaryViewBuilder, ListBuilder, StringViewBuilder};
use arrow_array::{Array as _, ArrayRef, FixedSizeListArray, Int32Array, ListArray, StructArray, make_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};
use packhorse::core::{Error, FieldType, Kind, NUMPY, array_of, named_number, with_metadata};
use pyo3::prelude::*;
use pyo3::types::{
    IntoPyDict, PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};
use std::sync::Arc;

/// The field of labels.
const LABELS: &str = "cls";
/// Extensions of fields that hold encoded pictures.
const PICTURES: [&str; 4] = ["jpg", "jpeg", "png", "webp"];
/// The most elements of an array, and of the arrays of a group together: Arrow counts them by 32 bits with a sign.
pub(crate) const MOST_ELEMENTS: usize = i32::MAX as usize;
/// The most bytes of a blob or text.
const MOST_BYTES: usize = u32::MAX as usize;

/// The values of a field, one for each sample.
pub(crate) enum Column {
    /// Bytes, or nothing.
    Blob(Vec<Option<Vec<u8>>>),
    /// Text, or nothing.
    Text(Vec<Option<String>>),
    /// Lists of text, or nothing.
    Texts(Vec<Option<Vec<String>>>),
    /// Lists of bytes, or nothing.
    Blobs(Vec<Option<Vec<Vec<u8>>>>),
    /// Lists of numbers, also in lists, or nothing.
    Lists(NestedLists),
    /// Numbers and arrays, little-endian; `shapes` for arrays whose shapes differ. Numbers that were declared may be
    /// missing: `nulls` says which are there.
    Array {
        kind: FieldType,
        element: DataType,
        bytes: Vec<u8>,
        ends: Vec<usize>,
        shapes: Vec<Vec<usize>>,
        /// The dimensions behind the first of the first array with elements: those of the boxes of pictures without one.
        inner: Vec<usize>,
        nulls: Option<Vec<bool>>,
        /// NumPy's name of an element type that Arrow has as bytes: complex numbers and times.
        numpy: Option<String>,
    },
}

impl Column {
    /// A column of this type, whose values may be missing: `bytes`, `str`, or NumPy's name of a number. In a container of
    /// bytes numbers are text. Behind a name, `[]` for each dimension says arrays of differing shapes, none of which is
    /// missing; `list<list<float32>>` says lists of any lengths.
    pub(crate) fn declared(dtype: &str, bytes_only: bool) -> Result<Self> {
        let of = dtype.trim_end_matches("[]");
        let rank = (dtype.len() - of.len()) / 2;
        if rank > 0
            && let Some(element) = named_number(of).or((of == "bool").then_some(DataType::Boolean))
        {
            let kind = FieldType::Ragged { element: element.clone(), rank };
            let (bytes, ends, shapes) = (Vec::new(), Vec::new(), Vec::new());
            let inner = Vec::new();
            return Ok(Self::Array { kind, element, bytes, ends, shapes, inner, nulls: None, numpy: None });
        }
        let element = match dtype {
            "str[]" => return Ok(Self::Texts(Vec::new())),
            "bytes[]" => return Ok(Self::Blobs(Vec::new())),
            dtype if dtype.starts_with("list<") => {
                return NestedLists::declared(dtype).map(Self::Lists).ok_or_else(|| unknown(dtype).into());
            }
            "bytes" => return Ok(Self::Blob(Vec::new())),
            "str" if bytes_only => return Ok(Self::Blob(Vec::new())),
            "str" => return Ok(Self::Text(Vec::new())),
            "bool" => DataType::Boolean,
            other => named_number(other).ok_or_else(|| unknown(other))?,
        };
        if bytes_only {
            return Ok(Self::Blob(Vec::new()));
        }
        let (bytes, ends, shapes, nulls) = (Vec::new(), Vec::new(), Vec::new(), Some(Vec::new()));
        let (kind, inner) = (FieldType::Scalar(element.clone()), Vec::new());
        Ok(Self::Array { kind, element, bytes, ends, shapes, inner, nulls, numpy: None })
    }

    /// The column that takes `value` and others like it. In a container of bytes numbers become text, except for `labels`.
    pub(crate) fn of(
        name: &str,
        value: &Bound<'_, PyAny>,
        (bytes_only, labels, ragged): (bool, bool, bool),
    ) -> Result<Self> {
        if value.is_none() {
            let error =
                Error::content(format!("field {name} is None in the first sample, which says the types of fields"));
            return Err(error
                .in_field(name)
                .hint("name its type with `columns`, as in columns={\"x\": \"float32\"}")
                .into());
        }
        if is_blob(value) {
            return Ok(Self::Blob(Vec::new()));
        }
        if bytes_only && !(labels && name == LABELS) && as_text(name, value)?.is_some() {
            return Ok(Self::Blob(Vec::new()));
        }
        if value.is_instance_of::<PyString>() {
            return Ok(Self::Text(Vec::new()));
        }
        if texts_of(value).is_some_and(|texts| !texts.is_empty()) {
            return Ok(Self::Texts(Vec::new()));
        }
        if blobs_of(value).is_some_and(|blobs| !blobs.is_empty()) {
            return Ok(Self::Blobs(Vec::new()));
        }
        let ArrayValue { element, shape, numpy, bytes } = number(name, value, None)?;
        if bytes.is_empty() && is_list(value) {
            let message = format!("field {name} is an empty list in the first sample, which says the types of fields");
            let hint = format!(
                "name its type with `columns`, as in columns={{{name:?}: \"float32[]\"}}; lists of text are \"str[]\", of bytes \"bytes[]\", lists of lists \"list<list<float32>>\""
            );
            return Err(Error::content(message).in_field(name).hint(hint).into());
        }
        if bytes_only && name.rsplit('.').next().is_some_and(|end| PICTURES.contains(&end)) {
            let error = Error::content(format!("field {name} is named as a picture's file, and is an array"));
            let hint = "encode it first (Pillow: picture.save(buffer, \"JPEG\")), or give the array another name";
            return Err(error.in_field(name).hint(hint).into());
        }
        let kind = match (shape.len(), ragged) {
            (0, _) => FieldType::Scalar(element.clone()),
            (rank, true) => FieldType::Ragged { element: element.clone(), rank },
            (_, false) => FieldType::Tensor { element: element.clone(), shape },
        };
        let (bytes, ends, shapes, inner) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self::Array { kind, element, bytes, ends, shapes, inner, nulls: None, numpy })
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
                check_length(name, len, MOST_BYTES)?;
                blobs.push(Some(bytes));
                Ok(len)
            }
            Self::Text(texts) => {
                let text = value.cast::<PyString>().map_err(|_| unlike(name, value, "text"))?.to_str()?.to_owned();
                let len = text.len();
                check_length(name, len, MOST_BYTES)?;
                texts.push(Some(text));
                Ok(len)
            }
            Self::Texts(lists) => {
                let texts = texts_of(value).ok_or_else(|| unlike(name, value, "a list of text"))?;
                let len = texts.iter().map(String::len).sum();
                check_length(name, len, MOST_BYTES)?;
                lists.push(Some(texts));
                Ok(len)
            }
            Self::Lists(lists) => lists.push(name, value),
            Self::Blobs(lists) => {
                let blobs = blobs_of(value).ok_or_else(|| unlike(name, value, "a list of bytes"))?;
                let len = blobs.iter().map(Vec::len).sum();
                check_length(name, len, MOST_BYTES)?;
                lists.push(Some(blobs));
                Ok(len)
            }
            Self::Array { kind, element, bytes, ends, shapes, inner, nulls, numpy } => {
                // A number of NumPy has a type of its own, which gives way to a declared one alone.
                let gives_way = nulls.is_some() || !is_numpy_float(value);
                let wanted = matches!(kind, FieldType::Scalar(_)) && gives_way;
                // NumPy takes an empty list for one of floats.
                let is_list = is_list(value);
                let given = value;
                let mut value = number(name, value, Some(&*element).filter(|_| wanted))?;
                if is_list && matches!(kind, FieldType::Ragged { .. }) && numpy.is_none() && value.element != *element {
                    value = list_of(name, given, element, value)?;
                }
                if let FieldType::Ragged { rank, .. } = kind {
                    // Without elements a list does not tell how deep it is.
                    if value.bytes.is_empty() && value.shape.len() < *rank {
                        inner.resize(*rank - 1, 0);
                        value.shape.resize(value.shape.len().max(1), 0);
                        value.shape.extend(inner.iter().skip(value.shape.len() - 1));
                    } else if !value.bytes.is_empty() && inner.iter().all(|size| *size == 0) {
                        *inner = value.shape.iter().skip(1).copied().collect();
                    }
                }
                let fits = match &*kind {
                    FieldType::Tensor { shape, .. } => *shape == value.shape,
                    FieldType::Ragged { rank, .. } => *rank == value.shape.len(),
                    _ => value.shape.is_empty(),
                };
                let same = value.element == *element && value.numpy == *numpy || is_list && value.bytes.is_empty();
                if !fits || !same {
                    let found = match (&value.numpy, numpy) {
                        (None, None) => format!("{}, and was {kind}", described(&value.element, &value.shape)),
                        (found, before) => {
                            let type_of =
                                |numpy: &Option<String>, kind| numpy.clone().unwrap_or_else(|| format!("{kind}"));
                            format!(
                                "{} {:?}, and was {}",
                                type_of(found, &value.element),
                                value.shape,
                                type_of(before, element)
                            )
                        }
                    };
                    let error = Error::content(format!("field {name} is {found} before")).in_field(name);
                    let hint = match (same, &*kind) {
                        (true, FieldType::Ragged { .. }) => "arrays of a field have the same number of dimensions",
                        (true, _) => "give `ragged=true` where shapes differ",
                        (false, _) => {
                            "convert it, or name its type with `columns`, as in columns={\"x\": \"float64\", \"lists\": \"int64[]\"}"
                        }
                    };
                    return Err(error.hint(hint).into());
                }
                check_length(name, (bytes.len() + value.bytes.len()) / width(element), MOST_ELEMENTS)?;
                bytes.extend_from_slice(&value.bytes);
                ends.push(bytes.len());
                shapes.push(value.shape);
                nulls.iter_mut().for_each(|nulls| nulls.push(true));
                Ok(value.bytes.len())
            }
        }
    }

    /// Appends nothing.
    pub(crate) fn push_null(&mut self, name: &str) -> Result<()> {
        match self {
            Self::Blob(blobs) => blobs.push(None),
            Self::Text(texts) => texts.push(None),
            Self::Texts(lists) => lists.push(None),
            Self::Blobs(lists) => lists.push(None),
            Self::Lists(lists) => lists.push_null(),
            Self::Array { kind: FieldType::Ragged { .. }, .. } => {
                let error = Error::content(format!("lacks the field {name}")).in_field(name);
                return Err(error.hint("give an empty array, since arrays can't be missing").into());
            }
            Self::Array { element, bytes, ends, shapes, nulls: Some(nulls), .. } => {
                let width = width(element);
                bytes.resize(bytes.len() + width, 0);
                ends.push(bytes.len());
                shapes.push(Vec::new());
                nulls.push(false);
            }
            Self::Array { .. } => {
                let error = Error::content(format!("lacks the field {name}")).in_field(name);
                let hint =
                    "numbers may be missing where `columns` names their type, as in columns={\"x\": \"float32\"}";
                return Err(error.hint(hint).into());
            }
        }
        Ok(())
    }

    /// Takes back what was appended beyond `rows` rows.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match self {
            Self::Blob(blobs) => blobs.truncate(rows),
            Self::Text(texts) => texts.truncate(rows),
            Self::Texts(lists) => lists.truncate(rows),
            Self::Blobs(lists) => lists.truncate(rows),
            Self::Lists(lists) => lists.truncate(rows),
            Self::Array { bytes, ends, shapes, nulls, .. } => {
                nulls.iter_mut().for_each(|nulls| nulls.truncate(rows));
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
            Self::Texts(_) => FieldType::List { element: DataType::Utf8View, depth: 1 }.field(name, true),
            Self::Blobs(_) => FieldType::List { element: DataType::BinaryView, depth: 1 }.field(name, true),
            Self::Lists(lists) => lists.kind().field(name, true),
            Self::Array { kind, nulls, numpy, .. } => {
                let field = kind.field(name, nulls.is_some());
                numpy.as_ref().map_or(field.clone(), |numpy| with_metadata(field, NUMPY, numpy))
            }
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
                        Some(bytes) => append(&mut builder, bytes)?,
                        None => builder.append_null(),
                    }
                }
                Ok(Arc::new(builder.finish()))
            }
            Self::Text(texts) => {
                let mut builder = StringViewBuilder::with_capacity(texts.len());
                std::mem::take(texts).into_iter().for_each(|text| builder.append_option(text));
                Ok(Arc::new(builder.finish()))
            }
            Self::Texts(lists) => {
                let mut builder = ListBuilder::new(StringViewBuilder::new());
                for list in std::mem::take(lists) {
                    let has = list.is_some();
                    list.into_iter().flatten().for_each(|text| builder.values().append_value(text));
                    builder.append(has);
                }
                of_items(builder.finish(), data_type)
            }
            Self::Lists(lists) => lists.take(),
            Self::Blobs(lists) => {
                let mut builder = ListBuilder::new(BinaryViewBuilder::new());
                for list in std::mem::take(lists) {
                    let has = list.is_some();
                    list.into_iter().flatten().try_for_each(|bytes| append(builder.values(), bytes))?;
                    builder.append(has);
                }
                of_items(builder.finish(), data_type)
            }
            Self::Array { kind, element, bytes, ends, shapes, nulls, .. } => {
                let parts = (std::mem::take(bytes), std::mem::take(ends), std::mem::take(shapes));
                let array = arrays(kind, element, data_type, parts)?;
                let Some(nulls) = nulls.as_mut().map(std::mem::take) else { return Ok(array) };
                let data = array.to_data().into_builder().nulls(Some(NullBuffer::from(nulls))).build();
                Ok(make_array(data.map_err(|error| Error::bug(error.to_string()))?))
            }
        }
    }
}

fn unknown(dtype: &str) -> Error {
    let error = Error::config(format!("{dtype:?} is not a type of columns"));
    error.hint(
        "give bytes, str, bool, a number such as int64 or float32, or lists of one, such as int64[], str[] and bytes[], or list<list<float32>>",
    )
}

/// Appends bytes, long ones as a block of their own and without a copy.
fn append(to: &mut BinaryViewBuilder, bytes: Vec<u8>) -> Result<(), Error> {
    match u32::try_from(bytes.len()) {
        Ok(len @ 13..) => {
            let block = to.append_block(Buffer::from_vec(bytes));
            to.try_append_view(block, 0, len).map_err(|error| Error::bug(error.to_string()))
        }
        _ => {
            to.append_value(bytes);
            Ok(())
        }
    }
}

/// Refuses a value of more elements or bytes than a column counts.
pub(crate) fn check_length(name: &str, len: usize, most: usize) -> Result<(), Error> {
    if len <= most {
        return Ok(());
    }
    let message = format!("field {name} has a length of {len}, and a column holds {most} at most");
    Err(Error::new(Kind::Limit, message).in_field(name).hint("divide it into several samples"))
}

pub(crate) fn is_list(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()
}

fn arrays(
    kind: &FieldType,
    element: &DataType,
    data_type: DataType,
    (bytes, ends, shapes): (Vec<u8>, Vec<usize>, Vec<Vec<usize>>),
) -> Result<ArrayRef, Error> {
    let broken = |error: arrow_schema::ArrowError| Error::bug(error.to_string());
    let width = width(element);
    let count = bytes.len() / width;
    let values = array_of(element, Buffer::from_vec(bytes), count)?;
    match (kind, data_type) {
        (FieldType::Tensor { .. }, DataType::FixedSizeList(item, size)) => {
            // Without elements only the ends tell how many rows there are.
            let rows = FixedSizeListArray::try_new_with_length(item, size, values, None, ends.len());
            Ok(Arc::new(rows.map_err(broken)?))
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

/// The texts of a list or tuple that holds nothing else.
fn texts_of(value: &Bound<'_, PyAny>) -> Option<Vec<String>> {
    is_list(value).then(|| value.extract().ok()).flatten()
}

/// The bytes of a list or tuple that holds nothing else.
fn blobs_of(value: &Bound<'_, PyAny>) -> Option<Vec<Vec<u8>>> {
    is_list(value).then(|| value.try_iter().ok()?.map(|item| blob(&item.ok()?)).collect()).flatten()
}

/// Bytes of an element.
fn width(element: &DataType) -> usize {
    match element {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(1),
        other => ArrayElement::of(other).map_or(1, |element| element.width),
    }
}

pub(crate) fn unlike(name: &str, value: &Bound<'_, PyAny>, wanted: &str) -> Error {
    Error::content(format!("field {name} is of type {}, and {wanted} is wanted", type_name(value))).in_field(name)
}

/// The name of a value's type.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

fn described(element: &DataType, shape: &[usize]) -> String {
    if shape.is_empty() { element.to_string() } else { format!("{element}{shape:?}") }
}

fn is_blob(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() || bytes_of_view(value).is_some()
}

fn blob(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Some(bytes.as_bytes().to_vec()),
        Err(_) => value.cast::<PyByteArray>().map(|bytes| bytes.to_vec()).ok().or_else(|| bytes_of_view(value)),
    }
}

/// The bytes of a `memoryview` of bytes, such as that of `io.BytesIO`.
fn bytes_of_view(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    let view = value.cast::<PyMemoryView>().ok()?;
    let (format, rank): (String, usize) =
        (view.getattr("format").ok()?.extract().ok()?, view.getattr("ndim").ok()?.extract().ok()?);
    let is_bytes = rank == 1 && ["B", "b", "c"].contains(&&*format);
    is_bytes.then(|| view.call_method0("tobytes").ok()?.extract().ok()).flatten()
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
        // By default it writes NaN, which JSON lacks.
        let strict = [("allow_nan", false)].into_py_dict(value.py())?;
        let text = value.py().import("json")?.call_method("dumps", (value,), Some(&strict));
        let refused = |error: PyErr| Error::content(format!("field {name} can't be JSON: {error}")).in_field(name);
        return Ok(Some(text.map_err(refused)?.extract()?));
    }
    match number_of_numpy(value)? {
        Some(number) => as_text(name, &number),
        None => Ok(None),
    }
}
