//! Numbers and arrays of Python: their types, shapes and bytes.

use crate::columns::{MOST_ELEMENTS, check_length, type_name, unlike};
use crate::element::ArrayElement;
use crate::error::Result;
use arrow_schema::DataType;
use packhorse::core::{Error, named_number};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyTuple};

/// A number or an array: its type, NumPy's name of it where Arrow's does not tell, shape, bytes.
pub(crate) struct ArrayValue {
    pub(crate) element: DataType,
    pub(crate) numpy: Option<String>,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// Whether it is a `numpy.float64`, which is a `float` too.
pub(crate) fn is_numpy_float(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyFloat>() && !value.is_exact_instance_of::<PyFloat>()
}

/// A number of NumPy, or a tensor without dimensions, as Python's own; `None` for others, such as times and masked values.
pub(crate) fn number_of_numpy<'py>(value: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>> {
    let is_scalar = value.getattr("shape").is_ok_and(|shape| shape.len().is_ok_and(|rank| rank == 0));
    if !is_scalar || !value.hasattr("item")? || type_name(value).starts_with("Masked") {
        return Ok(None);
    }
    let kind = value.getattr("dtype").and_then(|dtype| dtype.getattr("kind"));
    if kind.is_ok_and(|kind| kind.extract::<char>().is_ok_and(|kind| kind.eq_ignore_ascii_case(&'m'))) {
        return Ok(None);
    }
    let number = value.call_method0("item")?;
    let is_plain = number.is_instance_of::<PyBool>()
        || number.is_exact_instance_of::<PyInt>()
        || number.is_exact_instance_of::<PyFloat>();
    Ok(is_plain.then_some(number))
}

/// A number of Python, or whatever NumPy takes for an array. Numbers of Python become `wanted`, if they can.
pub(crate) fn number(name: &str, value: &Bound<'_, PyAny>, wanted: Option<&DataType>) -> Result<ArrayValue> {
    if value.is_instance_of::<PyBool>() {
        let bytes = vec![u8::from(value.is_truthy()?)];
        return Ok(ArrayValue { element: DataType::Boolean, numpy: None, shape: Vec::new(), bytes });
    }
    // Most numbers are of these types, and need no NumPy.
    if matches!(wanted, None | Some(DataType::Int64))
        && let Ok(number) = value.cast::<PyInt>().map_err(PyErr::from).and_then(|number| number.extract::<i64>())
    {
        let bytes = number.to_le_bytes().to_vec();
        return Ok(ArrayValue { element: DataType::Int64, numpy: None, shape: Vec::new(), bytes });
    }
    if matches!(wanted, None | Some(DataType::Float64))
        && let Ok(number) = value.cast::<PyFloat>()
    {
        return Ok(ArrayValue {
            element: DataType::Float64,
            numpy: None,
            shape: Vec::new(),
            bytes: number.value().to_le_bytes().to_vec(),
        });
    }
    let whole = value.is_instance_of::<PyInt>();
    let numpy = value.py().import("numpy")?;
    if type_name(value).starts_with("Masked")
        && numpy.getattr("ma")?.call_method1("is_masked", (value,))?.is_truthy()?
    {
        let error = Error::content(format!("field {name} has masked values, which a column can't hold")).in_field(name);
        return Err(error.hint("say what they are: `.filled(numpy.nan)`, or None for a number that is masked").into());
    }
    let asarray = |dtype: Option<&str>| {
        numpy.call_method1("asarray", (value, dtype)).map_err(|error| {
            let message = format!("field {name} is of type {}, which NumPy can't take: {error}", type_name(value));
            let error = Error::content(message).in_field(name);
            match type_name(value).as_str() {
                "Tensor" => error.hint("tensor.detach().cpu().float() has numbers that it takes"),
                "list" | "tuple" => error.hint(format!(
                    "lists of lists of several lengths are columns={{{name:?}: \"list<list<float32>>\"}}"
                )),
                _ => error,
            }
        })
    };
    let array = if whole || value.is_instance_of::<PyFloat>() {
        let exact = |wanted: &&DataType| if whole { wanted.is_numeric() } else { wanted.is_floating() };
        let own = match whole {
            true if value.extract::<u64>().is_ok() && value.extract::<i64>().is_err() => DataType::UInt64,
            true => DataType::Int64,
            false => DataType::Float64,
        };
        let element = wanted.filter(exact).unwrap_or(&own);
        asarray(ArrayElement::of(element).map(|element| element.name))?
    } else {
        whole_list(name, value, asarray(None)?)?
    };
    refuse_lost(name, value, &array)?;
    let dtype = array.getattr("dtype")?;
    let named: String = dtype.getattr("name")?.extract()?;
    let little = dtype.call_method1("newbyteorder", ("<",))?;
    let numpy_name: String = little.getattr("str")?.extract()?;
    // Of lists NumPy makes bytes of one length, and drops zeros at their ends.
    let is_list = numpy_name.starts_with("|S") && !value.hasattr("dtype")?;
    let as_bytes = bytes_of(&numpy_name).filter(|_| !is_list).map(DataType::FixedSizeBinary);
    let numpy = as_bytes.as_ref().map(|_| numpy_name);
    let element = if named == "bool" { Some(DataType::Boolean) } else { named_number(&named).or(as_bytes) };
    let element = element.ok_or_else(|| match wanted {
        Some(wanted) => unlike(name, value, &format!("a number, {wanted},")),
        None => {
            let of = if named == "object" { String::new() } else { format!(" of {named}") };
            let message = format!("field {name} is of type {}{of}, which no column holds", type_name(value));
            let hint = match (named.as_str(), type_name(value).as_str()) {
                ("object", "datetime" | "date" | "time" | "timedelta") => "numpy.datetime64 and numpy.timedelta64 hold times",
                ("object", "ndarray") => "json.dumps(value.tolist()) makes text of it",
                ("object", "Decimal") => "give str(value), or float(value)",
                ("object", "UUID" | "PosixPath") => "give str(value)",
                ("object", _) => "give bytes, text, or a number, a time or an array of them; json.dumps makes text of lists and dictionaries",
                (kind, _) if kind.starts_with("bytes") => "numpy.array(value) is taken; it has no zeros at the ends of its bytes",
                (kind, _) if kind.starts_with("str") => "json.dumps(value.tolist()) makes text of it",
                ("bfloat16", _) => "value.view('uint16') keeps the bits, value.astype('float32') the numbers",
                _ => "give bytes, text, or a number, a time or an array of them",
            };
            Error::content(message).in_field(name).hint(hint)
        }
    })?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    // Before they are copied. Without elements a dimension may be larger.
    let longest = shape.iter().copied().chain([shape.iter().product()]).max().unwrap_or(0);
    check_length(name, longest, MOST_ELEMENTS)?;
    let bytes = array.call_method1("astype", (little,))?.call_method0("tobytes")?;
    Ok(ArrayValue { element, numpy, shape, bytes: bytes.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes().to_vec() })
}

/// What NumPy made of a list of Python: whole numbers of which some are beyond `int64` are `uint64` and no floats. What would be
/// rounded is refused.
fn whole_list<'py>(name: &str, value: &Bound<'py, PyAny>, array: Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    /// The largest whole number up to which doubles have all.
    const EXACT: f64 = (1u64 << 53) as f64;
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if !is_list || array.getattr("dtype")?.getattr("kind")?.extract::<char>()? != 'f' {
        return Ok(array);
    }
    let numpy = value.py().import("numpy")?;
    let large = numpy.call_method1("abs", (&array,))?.call_method1("__ge__", (EXACT,))?;
    if !large.call_method0("any")?.is_truthy()? {
        return Ok(array);
    }
    // Fractions among them would be cut, and then differ.
    let unsigned = numpy.call_method1("asarray", (value, "uint64"));
    if let Some(unsigned) = unsigned.ok().filter(|unsigned| is_same(value, unsigned).unwrap_or(false)) {
        return Ok(unsigned);
    }
    if is_same(value, &array)? {
        return Ok(array);
    }
    let text = format!("field {name} has whole numbers that would be rounded, since no type holds all of its values");
    let hint = "keep whole numbers beyond 2^53 apart from fractions, and those beyond 2^63 from negative ones";
    Err(Error::content(text).in_field(name).hint(hint).into())
}

/// Whether an array has the very numbers of a list of Python, and NaN where that has it.
fn is_same(list: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> Result<bool> {
    let numpy = list.py().import("numpy")?;
    let given = numpy.call_method1("asarray", (list, "object"))?;
    let objects = array.call_method1("astype", ("object",))?;
    let other = numpy.call_method1("not_equal", (given, &objects))?.call_method1("astype", ("bool",))?;
    // NaN is no other number than NaN.
    let lost = other.call_method1("__and__", (numpy.call_method1("equal", (array, array))?,))?;
    Ok(!lost.call_method0("any")?.is_truthy()?)
}

/// A list of Python, which was `found`, as an array of `wanted`, if that loses no more than a number of Python would: whole numbers
/// stay as they are, fractions are rounded to the nearest, and none becomes infinite.
pub(crate) fn list_of(
    name: &str,
    given: &Bound<'_, PyAny>,
    wanted: &DataType,
    found: ArrayValue,
) -> Result<ArrayValue> {
    let (from, whole) = (&found.element, found.element.is_integer());
    let converts = wanted.is_floating() && (whole || from.is_floating()) || wanted.is_integer() && whole;
    let Some(element) = ArrayElement::of(wanted).filter(|_| converts && found.numpy.is_none()) else {
        return Ok(found);
    };
    let numpy = given.py().import("numpy")?;
    let before = numpy.call_method1("asarray", (given,))?;
    let after = numpy.call_method1("asarray", (given, element.name));
    let lost = || {
        let message = format!("field {name} has a number that does not fit {}", element.name);
        Error::content(message).in_field(name).hint("name a wider type with `columns`")
    };
    let after = after.map_err(|_| lost())?;
    let infinite =
        |array: &Bound<'_, PyAny>| numpy.call_method1("isinf", (array,))?.call_method0("sum")?.extract::<u64>();
    let kept = match whole {
        true => is_same(given, &after)?,
        false => infinite(&before)? == infinite(&after)?,
    };
    if !kept {
        return Err(lost().into());
    }
    let little = after.getattr("dtype")?.call_method1("newbyteorder", ("<",))?;
    let bytes = after.call_method1("astype", (little,))?.call_method0("tobytes")?;
    let bytes = bytes.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes().to_vec();
    Ok(ArrayValue { element: wanted.clone(), bytes, ..found })
}

/// Refuses a number of Python that its column can't hold: a whole number that would be rounded, and one that becomes infinite.
fn refuse_lost(name: &str, value: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> Result<()> {
    let whole = value.is_instance_of::<PyInt>();
    if !whole && !value.is_instance_of::<PyFloat>() {
        return Ok(());
    }
    let kept = array.call_method0("item")?;
    let infinite = |number: &Bound<'_, PyAny>| number.extract::<f64>().is_ok_and(f64::is_infinite);
    let lost = if whole { !kept.eq(value)? } else { infinite(&kept) && !infinite(value) };
    if !lost {
        return Ok(());
    }
    let dtype: String = array.getattr("dtype")?.str()?.extract()?;
    let message = format!("field {name} is {value}, which does not fit {dtype}");
    Err(Error::content(message).in_field(name).hint("name a wider type with `columns`").into())
}

/// The bytes of an element of NumPy's type `name`, if it is a complex number, a time with a unit or bytes of a fixed length.
fn bytes_of(name: &str) -> Option<i32> {
    match name {
        "<c8" => Some(8),
        "<c16" => Some(16),
        time if (time.starts_with("<M8[") || time.starts_with("<m8[")) && time.ends_with(']') => Some(8),
        bytes => bytes.strip_prefix("|S")?.parse().ok().filter(|length| *length > 0),
    }
}
