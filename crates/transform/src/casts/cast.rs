//! Casts of element types.
//!
//! Numbers that overflow, and floats with a fraction cast to an integer, are errors. Floats round to nearest, ties
//! to even (IEEE 754). Bytes are parsed as decimal text for numbers and as UTF-8 for text.

use super::{bytes, of_row, times};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait, PrimitiveArray,
    StringViewArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::ArrowError;
use packhorse_core::{
    DataType, Error, Field, FieldType, NUMPY, Result, Rows, Sample, named_number, nearest_half, numpy_type,
    shortest_half,
};
use std::sync::Arc;

/// The Arrow type for the setting's type `name`.
pub(super) fn element(field: &str, name: &str) -> Result<DataType> {
    let number = || {
        let words = [("i", "int"), ("u", "uint"), ("f", "float")];
        words.iter().find_map(|(short, long)| named_number(&format!("{long}{}", name.strip_prefix(short)?)))
    };
    Ok(match name {
        "bool" => DataType::Boolean,
        "text" => DataType::Utf8View,
        "bytes" => bytes::TARGET,
        other => match number().or_else(|| times::target(other)) {
            Some(known) => known,
            None => {
                return Err(Error::config(format!(
                    "`cast={field}={other}`: types are bool, i8 to i64, u8 to u64, f16, f32, f64, text, bytes, date, timestamp[s] to \
                     timestamp[ns] (text with offsets: timestamp[us,UTC]) and duration[s] to duration[ns]"
                )));
            }
        },
    })
}

/// The type of `field` after the cast.
pub(super) fn field(field: &Field, to: &DataType) -> Result<Field> {
    let refused = || Error::config(format!("field {} ({}) can't be cast to {to}", field.name(), field.data_type()));
    let from = FieldType::of(field).map_err(|_| refused())?;
    let numeric = |t: &DataType| t.is_numeric() || *t == DataType::Boolean;
    if to.is_temporal() {
        return times::field(field, to).ok_or_else(refused);
    }
    if *to == bytes::TARGET {
        let refused = || refused().hint("bytes are made of text, and of `uint8` of one dimension");
        return bytes::field(field).ok_or_else(refused);
    }
    if *to == DataType::Utf8View && from.element().is_some_and(|element| numeric(element) || is_bytes(field, element)) {
        let kind = match from {
            FieldType::Tensor { shape, .. } => FieldType::Tensor { element: to.clone(), shape },
            FieldType::Ragged { rank, .. } => FieldType::Ragged { element: to.clone(), rank },
            FieldType::List { depth, .. } => FieldType::List { element: to.clone(), depth },
            _ => FieldType::Text,
        };
        return Ok(kind.field(field.name(), field.is_nullable()));
    }
    if *to == DataType::Utf8View && from.element() == Some(to) {
        return Ok(field.clone());
    }
    let kind = match from {
        FieldType::Blob | FieldType::Text if *to == DataType::Utf8View => FieldType::Text,
        FieldType::Blob | FieldType::Text if *to != DataType::Boolean => FieldType::Scalar(to.clone()),
        _ if !from.element().is_some_and(numeric) || !numeric(to) => return Err(refused()),
        FieldType::Scalar(_) => FieldType::Scalar(to.clone()),
        FieldType::Tensor { shape, .. } => FieldType::Tensor { element: to.clone(), shape },
        FieldType::Ragged { rank, .. } => FieldType::Ragged { element: to.clone(), rank },
        FieldType::List { depth, .. } => FieldType::List { element: to.clone(), depth },
        FieldType::Blob | FieldType::Text => return Err(refused()),
    };
    let mut metadata: std::collections::HashMap<String, String> = field.metadata().clone().into();
    metadata.remove(NUMPY);
    let plain = kind.field(field.name(), field.is_nullable());
    metadata.extend(plain.metadata().iter().map(|(k, v)| (k.clone(), v.clone())));
    Ok(plain.with_metadata(metadata))
}

/// Casts the elements of `column`, which is field `from` of `rows`.
pub(super) fn apply(rows: &Rows, from: &Field, column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    match FieldType::of(from)? {
        _ if *to == bytes::TARGET => {
            bytes::blobs(column).map_err(|message| Error::content(message).in_field(from.name()))
        }
        FieldType::Blob | FieldType::Text => parsed(rows, from, to),
        _ => {
            let cast = |column: &ArrayRef| nested(column, &|values| elements_of(from, values, to));
            cast(column).map_err(|message| {
                // Slow path: find the first row that fails alone.
                let row = (0..column.len()).find(|row| cast(&column.slice(*row, 1)).is_err()).unwrap_or(0);
                of_row(rows, row, from.name(), format!("{}: {message}", from.name()))
            })
        }
    }
}

/// Casts the elements of a column that is the field `from`.
fn elements_of(from: &Field, values: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    match to {
        to if to.is_temporal() => times::flat(from, values, to),
        DataType::Utf8View => texts(values),
        _ => flat(values, to),
    }
}

/// Whether the elements are NumPy's bytes of a fixed length, which end before their zeros.
fn is_bytes(field: &Field, element: &DataType) -> bool {
    matches!(element, DataType::FixedSizeBinary(_)) && numpy_type(field).is_some_and(|name| name.starts_with("|S"))
}

/// The shortest texts that read as the same numbers (of half precision: in single precision); of bytes, their UTF-8.
fn texts(values: &ArrayRef) -> Result<ArrayRef, String> {
    if let Some(bytes) = values.as_fixed_size_binary_opt() {
        let text = |bytes: &[u8]| {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let text = std::str::from_utf8(bytes.get(..end).unwrap_or_default());
            text.map(str::to_owned).map_err(|_| "is not UTF-8".to_owned())
        };
        let texts = bytes.iter().map(|bytes| bytes.map(text).transpose()).collect::<Result<Vec<_>, _>>()?;
        return Ok(Arc::new(StringViewArray::from_iter(texts)));
    }
    fn each<T: ArrowPrimitiveType>(values: &ArrayRef, shown: impl Fn(T::Native) -> String) -> ArrayRef {
        Arc::new(StringViewArray::from_iter(values.as_primitive::<T>().iter().map(|value| value.map(&shown))))
    }
    Ok(match values.data_type() {
        DataType::Utf8View => values.clone(),
        DataType::Boolean => {
            let bits = values.as_boolean().iter();
            Arc::new(StringViewArray::from_iter(bits.map(|bit| bit.map(|bit| bit.to_string()))))
        }
        DataType::UInt64 => each::<UInt64Type>(values, |value| value.to_string()),
        DataType::Float16 => each::<Float16Type>(values, |value| format!("{:?}", shortest_half(value))),
        DataType::Float32 => each::<Float32Type>(values, |value| format!("{value:?}")),
        DataType::Float64 => each::<Float64Type>(values, |value| format!("{value:?}")),
        _ => each::<Int64Type>(&flat(values, &DataType::Int64)?, |value| value.to_string()),
    })
}

/// Numbers or text from bytes.
fn parsed(rows: &Rows, from: &Field, to: &DataType) -> Result<ArrayRef> {
    let mut texts = Vec::with_capacity(rows.num_rows());
    for row in 0..rows.num_rows() {
        let bytes = Sample::new(rows, row).and_then(|sample| sample.bytes(from.name()));
        let text = bytes.map(std::str::from_utf8).transpose();
        texts.push(text.map_err(|_| of_row(rows, row, from.name(), format!("{} is not UTF-8", from.name())))?);
    }
    if *to == DataType::Utf8View {
        return Ok(Arc::new(texts.into_iter().collect::<StringViewArray>()));
    }
    if to.is_temporal() {
        let fault = |(row, why)| of_row(rows, row, from.name(), format!("{}: {why}", from.name()));
        return times::parsed(&texts, to).map_err(fault);
    }
    digits(&texts, to).map_err(|row| {
        let text: String = texts.get(row).copied().flatten().unwrap_or_default().chars().take(40).collect();
        of_row(rows, row, from.name(), format!("{}: \"{text}\" is not a valid {to}", from.name()))
    })
}

/// Parses decimal numbers; the error is the first row that does not parse.
fn digits(texts: &[Option<&str>], to: &DataType) -> Result<ArrayRef, usize> {
    fn all<T: Value>(texts: &[Option<&str>]) -> Result<ArrayRef, usize> {
        let one = |(row, text): (usize, &Option<&str>)| match text {
            None => Ok(None),
            Some(text) => T::parse(text.trim()).map(Some).ok_or(row),
        };
        let values = texts.iter().enumerate().map(one).collect::<Result<Vec<_>, usize>>()?;
        Ok(Arc::new(PrimitiveArray::<T>::from_iter(values)))
    }
    match to {
        DataType::Int8 => all::<Int8Type>(texts),
        DataType::Int16 => all::<Int16Type>(texts),
        DataType::Int32 => all::<Int32Type>(texts),
        DataType::Int64 => all::<Int64Type>(texts),
        DataType::UInt8 => all::<UInt8Type>(texts),
        DataType::UInt16 => all::<UInt16Type>(texts),
        DataType::UInt32 => all::<UInt32Type>(texts),
        DataType::UInt64 => all::<UInt64Type>(texts),
        DataType::Float16 => all::<Float16Type>(texts),
        DataType::Float32 => all::<Float32Type>(texts),
        _ => all::<Float64Type>(texts),
    }
}

/// The cast of flat elements.
type Leaf<'f> = &'f dyn Fn(&ArrayRef) -> Result<ArrayRef, String>;

/// Casts the innermost elements of nested lists and tensors; the error says which value does not fit.
fn nested(column: &ArrayRef, leaf: Leaf<'_>) -> Result<ArrayRef, String> {
    let bug = |e: ArrowError| e.to_string();
    let item = |field: &Arc<Field>, values: &ArrayRef| {
        Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
    };
    if let Some(list) = column.as_fixed_size_list_opt() {
        let DataType::FixedSizeList(field, size) = list.data_type() else { return Err("is not a list".to_owned()) };
        let values = nested(list.values(), leaf)?;
        let nulls = list.nulls().cloned();
        let list = FixedSizeListArray::try_new_with_length(item(field, &values), *size, values, nulls, list.len());
        return Ok(Arc::new(list.map_err(bug)?));
    }
    if let Some(list) = column.as_list_opt::<i32>() {
        return elements(list, leaf).map(|list| Arc::new(list) as ArrayRef);
    }
    if let Some(list) = column.as_list_opt::<i64>() {
        return elements(list, leaf).map(|list| Arc::new(list) as ArrayRef);
    }
    // A ragged tensor: cast its data, keep its shape.
    if let Some(parts) = column.as_struct_opt() {
        let mut columns = parts.columns().to_vec();
        let Some(at) = parts.column_names().iter().position(|name| *name == "data") else {
            return Err("is not a tensor".to_owned());
        };
        let data = nested(parts.column(at), leaf)?;
        let mut fields: Vec<_> = parts.fields().iter().cloned().collect();
        if let (Some(field), Some(column)) = (fields.get_mut(at), columns.get_mut(at)) {
            *field = item(field, &data);
            *column = data;
        }
        let array = StructArray::try_new(fields.into(), columns, parts.nulls().cloned());
        return Ok(Arc::new(array.map_err(bug)?));
    }
    leaf(column)
}

fn elements<O: OffsetSizeTrait>(list: &GenericListArray<O>, leaf: Leaf<'_>) -> Result<GenericListArray<O>, String> {
    // Part of a column has the values of all of it.
    let offsets = list.offsets();
    let (from, to) = (offsets.first(), offsets.last());
    let values = nested(&list.values().slice(from.as_usize(), (to - from).as_usize()), leaf)?;
    let offsets = OffsetBuffer::from_lengths(offsets.windows(2).map(|pair| match pair {
        [start, end] => (*end - *start).as_usize(),
        _ => 0,
    }));
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        return Err("is not a list".to_owned());
    };
    let field = Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()));
    GenericListArray::try_new(field, offsets, values, list.nulls().cloned()).map_err(|e| e.to_string())
}

/// Casts a flat array of numbers. Small types take the way of the largest one of their kind: a way for each pair of types
/// was 8 % of this crate's code (in lines of LLVM).
fn flat(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    match column.data_type() {
        same if same == to => Ok(column.clone()),
        DataType::Boolean => {
            let bits = column.as_boolean().iter().map(|bit| bit.map(i64::from));
            narrow(&PrimitiveArray::<Int64Type>::from_iter(bits), to)
        }
        DataType::Int8 => narrow(&wide::<Int8Type, Int64Type>(column), to),
        DataType::Int16 => narrow(&wide::<Int16Type, Int64Type>(column), to),
        DataType::Int32 => narrow(&wide::<Int32Type, Int64Type>(column), to),
        DataType::Int64 => narrow(column.as_primitive::<Int64Type>(), to),
        DataType::UInt8 => narrow(&wide::<UInt8Type, Int64Type>(column), to),
        DataType::UInt16 => narrow(&wide::<UInt16Type, Int64Type>(column), to),
        DataType::UInt32 => narrow(&wide::<UInt32Type, Int64Type>(column), to),
        DataType::UInt64 => narrow(column.as_primitive::<UInt64Type>(), to),
        DataType::Float16 => narrow(&wide::<Float16Type, Float64Type>(column), to),
        DataType::Float32 => narrow(&wide::<Float32Type, Float64Type>(column), to),
        DataType::Float64 => narrow(column.as_primitive::<Float64Type>(), to),
        other => Err(format!("{other} can't become {to}")),
    }
}

fn wide<S: ArrowPrimitiveType, W: ArrowPrimitiveType>(column: &ArrayRef) -> PrimitiveArray<W>
where
    S::Native: Into<W::Native>,
{
    column.as_primitive::<S>().unary(Into::into)
}

fn narrow<S: Value>(array: &PrimitiveArray<S>, to: &DataType) -> Result<ArrayRef, String> {
    match to {
        DataType::Boolean => Ok(Arc::new(BooleanArray::from_unary(array, |v| {
            S::number(v) != Number::Int(0) && S::number(v) != Number::Float(0.0)
        }))),
        DataType::Int8 => each::<S, Int8Type>(array),
        DataType::Int16 => each::<S, Int16Type>(array),
        DataType::Int32 => each::<S, Int32Type>(array),
        DataType::Int64 => each::<S, Int64Type>(array),
        DataType::UInt8 => each::<S, UInt8Type>(array),
        DataType::UInt16 => each::<S, UInt16Type>(array),
        DataType::UInt32 => each::<S, UInt32Type>(array),
        DataType::UInt64 => each::<S, UInt64Type>(array),
        DataType::Float16 => each::<S, Float16Type>(array),
        DataType::Float32 => each::<S, Float32Type>(array),
        DataType::Float64 => each::<S, Float64Type>(array),
        other => Err(format!("can't become {other}")),
    }
}

fn each<S: Value, T: Value>(array: &PrimitiveArray<S>) -> Result<ArrayRef, String> {
    let one = |v: S::Native| {
        T::of(S::number(v)).ok_or_else(|| ArrowError::CastError(format!("{v:?} does not fit into {}", T::DATA_TYPE)))
    };
    let done: PrimitiveArray<T> = array.try_unary(one).map_err(|e| match e {
        ArrowError::CastError(message) => message,
        other => other.to_string(),
    })?;
    Ok(Arc::new(done))
}

/// A number without loss.
#[derive(Clone, Copy, PartialEq)]
enum Number {
    Int(i128),
    Float(f64),
}

trait Value: ArrowPrimitiveType {
    fn number(value: Self::Native) -> Number;
    /// The nearest value; `None` if an integer type can't hold it, or if it is finite and beyond the range of a float.
    fn of(number: Number) -> Option<Self::Native>;
    fn parse(text: &str) -> Option<Self::Native>;
}

macro_rules! integers {
    ($($arrow:ty),*) => {
        $(impl Value for $arrow {
            fn number(value: Self::Native) -> Number {
                Number::Int(i128::from(value))
            }

            fn of(number: Number) -> Option<Self::Native> {
                match number {
                    Number::Int(n) => n.try_into().ok(),
                    // `as` saturates, and no saturated i128 fits any integer type here.
                    Number::Float(f) if f.fract() == 0.0 => (f as i128).try_into().ok(),
                    Number::Float(_) => None,
                }
            }

            fn parse(text: &str) -> Option<Self::Native> {
                text.parse().ok()
            }
        })*
    };
}

integers!(Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type);

macro_rules! floats {
    ($($arrow:ty, $to:expr, $of_float:expr, $of_integer:expr, $parse:expr);*) => {
        $(impl Value for $arrow {
            fn number(value: Self::Native) -> Number {
                Number::Float($to(value))
            }

            fn of(number: Number) -> Option<Self::Native> {
                let (value, finite): (Self::Native, bool) = match number {
                    Number::Int(n) => ($of_integer(n), true),
                    Number::Float(f) => ($of_float(f), f.is_finite()),
                };
                (value.is_finite() || !finite).then_some(value)
            }

            fn parse(text: &str) -> Option<Self::Native> {
                let value: Option<Self::Native> = $parse(text);
                // Of digits, an infinite one is beyond the range.
                value.filter(|value| !value.is_infinite() || !text.bytes().any(|byte| byte.is_ascii_digit()))
            }
        })*
    };
}

floats!(
    Float16Type, half::f16::to_f64, nearest_half, |n| nearest_half(n as f64), |text: &str| text.parse().ok().map(nearest_half);
    Float32Type, f64::from, |f| f as f32, |n| n as f32, |text: &str| text.parse().ok();
    Float64Type, f64::from, |f| f, |n| n as f64, |text: &str| text.parse().ok()
);

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int64Array, ListArray};
    use half::f16;
    use packhorse_core::Schema;

    #[test]
    fn floats_beyond_the_range_are_refused() {
        let array = |value: f64| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
        for (to, fits, beyond) in [(DataType::Float16, 65_504.0, 65_520.0), (DataType::Float32, 3.4e38, 3.5e38)] {
            assert!(
                flat(&array(fits), &to).is_ok() && flat(&array(-beyond), &to).unwrap_err().contains("does not fit")
            );
            assert!([f64::INFINITY, f64::NAN].iter().all(|odd| flat(&array(*odd), &to).is_ok()));
        }
        let large = Arc::new(Int64Array::from(vec![70_000])) as ArrayRef;
        assert!(flat(&large, &DataType::Float16).is_err() && flat(&large, &DataType::Float32).is_ok());
    }

    #[test]
    fn numbers_become_the_nearest_ones() {
        let tie = 1.0 + 2f64.powi(-11);
        for (wide, wanted) in [
            (tie, 0x3c00),
            (tie + 2f64.powi(-40), 0x3c01),
            (tie - 2f64.powi(-40), 0x3c00),
            (tie + 2f64.powi(-10) - 2f64.powi(-50), 0x3c01),
            (65_519.999, 0x7bff),
            (-65_519.999, 0xfbff),
            (65_520.0, 0x7c00),
            (2f64.powi(-25), 0),
            (2f64.powi(-25) * 1.000_000_001, 1),
            (5e-324, 0),
            (-0.0, 0x8000),
        ] {
            assert_eq!(nearest_half(wide).to_bits(), wanted, "{wide}");
        }
        assert!(nearest_half(f64::NAN).is_nan() && nearest_half(1e300).is_infinite());
        // Every half, and the numbers beside the ties between it and the next.
        for bits in 0..0x7bff_u16 {
            let [below, above] = [bits, bits + 1].map(|bits| f16::from_bits(bits).to_f64());
            let tie = below + (above - below) / 2.0;
            let even = if bits & 1 == 0 { bits } else { bits + 1 };
            let beside = [(below, bits), (tie.next_down(), bits), (tie, even), (tie.next_up(), bits + 1)];
            for (wide, wanted) in beside {
                assert_eq!(
                    (nearest_half(wide).to_bits(), nearest_half(-wide).to_bits()),
                    (wanted, wanted | 0x8000),
                    "{wide}"
                );
            }
        }
        let large: ArrayRef = Arc::new(Int64Array::from(vec![(1 << 60) + (1 << 36) + 1]));
        let cast = flat(&large, &DataType::Float32).unwrap();
        assert_eq!(cast.as_primitive::<Float32Type>().value(0), 1_152_921_642_045_800_448i64 as f32);
        assert_eq!(
            digits(&[Some("65519.999")], &DataType::Float16).unwrap().as_primitive::<Float16Type>().value(0).to_bits(),
            0x7bff
        );
    }

    #[test]
    fn integer_overflow_is_refused() {
        let array = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        assert!(flat(&array(vec![255.0, -0.0]), &DataType::UInt8).is_ok());
        for bad in [256.0, -1.0, 0.5, f64::NAN, f64::INFINITY] {
            assert!(flat(&array(vec![bad]), &DataType::UInt8).is_err(), "{bad}");
        }
        let large: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX]));
        assert!(flat(&large, &DataType::Int32).is_err());
        assert_eq!(flat(&large, &DataType::Float64).unwrap().as_primitive::<Float64Type>().value(0), 2f64.powi(63));
    }

    #[test]
    fn casting_a_list_keeps_its_structure() {
        let list = FieldType::List { element: DataType::Int64, depth: 1 }.field("x", true);
        let DataType::List(item) = list.data_type() else { unreachable!() };
        let values = Arc::new(Int64Array::from(vec![1, 2, 300]));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths([2, 0, 1]);
        let array: ArrayRef = Arc::new(GenericListArray::<i32>::try_new(item.clone(), offsets, values, None).unwrap());
        let found = nested(&array, &|values| flat(values, &DataType::UInt16)).unwrap();
        assert_eq!(found.data_type(), field(&list, &DataType::UInt16).unwrap().data_type());
        assert_eq!(found.as_list::<i32>().value(2).as_primitive::<UInt16Type>().value(0), 300);
        assert!(nested(&array, &|values| flat(values, &DataType::UInt8)).unwrap_err().contains("300"));
        let found = nested(&array, &texts).unwrap();
        assert_eq!(found.data_type(), field(&list, &DataType::Utf8View).unwrap().data_type());
        assert_eq!(found.as_list::<i32>().value(2).as_string_view().value(0), "300");
    }

    #[test]
    fn the_list_with_a_value_that_does_not_fit_is_named() {
        let lists =
            [Some(vec![Some(1), Some(2)]), None, Some(vec![]), Some(vec![Some(5), Some(300)]), Some(vec![Some(7)])];
        let column: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let field = Field::new("h", column.data_type().clone(), true);
        let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "c", "d", "e"]));
        let schema = Schema::new(vec![Field::new(packhorse_core::KEY, DataType::Utf8View, false), field.clone()]);
        let rows = Rows::try_new(Arc::new(schema), vec![keys, Arc::clone(&column)]).unwrap();
        let error = apply(&rows, &field, &column, &DataType::UInt8).unwrap_err();
        assert_eq!((error.sample(), error.message()), (Some("d"), "h: 300 does not fit into UInt8"));
        for (from, len) in [(0, 3), (4, 1)] {
            let part = apply(&rows.slice(from, len), &field, &column.slice(from, len), &DataType::UInt8).unwrap();
            assert_eq!(part.len(), len);
            assert_eq!(part.as_list::<i32>().values().len(), if from == 0 { 2 } else { 1 });
        }
    }

    #[test]
    fn digits_beyond_the_range_are_refused() {
        for (text, to, fits) in [
            ("1e400", DataType::Float64, false),
            ("-3.5e38", DataType::Float32, false),
            ("-3.5e38", DataType::Float64, true),
            ("70000", DataType::Float16, false),
            ("65504", DataType::Float16, true),
            ("-inf", DataType::Float16, true),
            ("Infinity", DataType::Float64, true),
        ] {
            assert_eq!(digits(&[Some(text)], &to).is_ok(), fits, "{text} as {to}");
        }
    }

    #[test]
    fn numbers_become_the_shortest_text() {
        let shown = |array: ArrayRef| {
            texts(&array).unwrap().as_string_view().iter().map(|t| t.unwrap_or("-").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(0)]))),
            ["-9223372036854775808", "-", "0"]
        );
        assert_eq!(
            shown(Arc::new(Float64Array::from(vec![0.1, 2.0, 1e300, -0.0, f64::NAN]))),
            ["0.1", "2.0", "1e300", "-0.0", "NaN"]
        );
        assert_eq!(shown(Arc::new(BooleanArray::from(vec![true, false]))), ["true", "false"]);
        let bytes = arrow_array::FixedSizeBinaryArray::try_from_iter([*b"ab\0", *b"c\0\0", *b"\0\0\0"].iter()).unwrap();
        assert_eq!(shown(Arc::new(bytes)), ["ab", "c", ""]);
    }
}
