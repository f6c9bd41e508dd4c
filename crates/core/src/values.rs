//! Between packed little-endian values, as files hold them, and Arrow arrays.

use crate::{DataType, Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, downcast_primitive, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use std::ops::Range;
use std::sync::Arc;

/// The number type of a kind and its bytes in NumPy's notation (`i` and 4 of `<i4`), `b1` for Booleans.
pub fn numpy_number(kind: char, size: usize) -> Option<DataType> {
    Some(match (kind, size) {
        ('b', 1) => DataType::Boolean,
        ('i', 1) => DataType::Int8,
        ('i', 2) => DataType::Int16,
        ('i', 4) => DataType::Int32,
        ('i', 8) => DataType::Int64,
        ('u', 1) => DataType::UInt8,
        ('u', 2) => DataType::UInt16,
        ('u', 4) => DataType::UInt32,
        ('u', 8) => DataType::UInt64,
        ('f', 2) => DataType::Float16,
        ('f', 4) => DataType::Float32,
        ('f', 8) => DataType::Float64,
        _ => return None,
    })
}

/// The kind and bytes of a number type, as [`numpy_number`] takes them.
pub fn number_kind(element: &DataType) -> Option<(char, usize)> {
    let kind = match element {
        DataType::Boolean => 'b',
        number if number.is_signed_integer() => 'i',
        number if number.is_unsigned_integer() => 'u',
        number if number.is_floating() => 'f',
        _ => return None,
    };
    element_width(element).map(|size| (kind, size))
}

/// The smallest type that holds the numbers of both exactly; floats of 64 bits where integers of over 16 bits meet floats, as in NumPy.
/// `None` for other types, and where integers need more than 64 bits.
pub fn common_number(one: &DataType, other: &DataType) -> Option<DataType> {
    let (one, other) = (number_kind(one)?, number_kind(other)?);
    let (kind, size) = match (one.max(other), one.min(other)) {
        ((a, size), (b, less)) if a == b => (a, size.max(less)),
        (_, ('b', _)) => return None,
        (('u', unsigned), ('i', signed)) => ('i', signed.max(2 * unsigned)),
        ((_, whole), (_, float)) => ('f', if float == 8 || whole > 2 { 8 } else { 4 }),
    };
    numpy_number(kind, size)
}

/// The number type of a name with its bits, as `uint16`: Arrow's name in lower case.
pub fn named_number(name: &str) -> Option<DataType> {
    let (word, bits) = name.split_at_checked(name.find(|c: char| c.is_ascii_digit())?)?;
    let size = [("8", 1), ("16", 2), ("32", 4), ("64", 8)].into_iter().find(|(known, _)| *known == bits)?.1;
    match word {
        "int" => numpy_number('i', size),
        "uint" => numpy_number('u', size),
        "float" => numpy_number('f', size),
        _ => None,
    }
}

/// The bytes of one element as files hold it: a Boolean is one byte. `None` for text.
pub fn element_width(element: &DataType) -> Option<usize> {
    match element {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(n) => usize::try_from(*n).ok(),
        other => other.primitive_width(),
    }
}

/// An array of `len` elements from their packed little-endian bytes, without a copy where the machine
/// is little-endian and `bytes` is aligned. A Boolean is a byte that is not 0.
///
/// Fewer bytes than that, or an element without a width, is a `Bug` error.
pub fn array_of(element: &DataType, bytes: Buffer, len: usize) -> Result<ArrayRef> {
    let bug = || Error::bug(format!("{} bytes are not {len} elements of type {element}", bytes.len()));
    let width = element_width(element).ok_or_else(bug)?;
    if len.checked_mul(width).is_none_or(|wanted| wanted > bytes.len()) {
        return Err(bug());
    }
    if *element == DataType::Boolean {
        let values = bytes.as_slice().iter().take(len).map(|byte| *byte != 0);
        return Ok(Arc::new(BooleanArray::new(values.collect(), None)));
    }
    let bytes = host_order(element, bytes.clone());
    let data = ArrayData::builder(element.clone()).len(len).add_buffer(bytes).align_buffers(true);
    data.build().map(make_array).map_err(|e| Error::bug(e.to_string()))
}

/// The elements of `array` as packed little-endian bytes, without a copy where there is none to make.
/// Elements that are null are zero or whatever the array holds there. An element without a width is a
/// `Bug` error.
pub fn bytes_of(array: &dyn Array) -> Result<Buffer> {
    let element = array.data_type();
    let bug = || Error::bug(format!("values of type {element} have no fixed width"));
    let width = element_width(element).ok_or_else(bug)?;
    if let Some(values) = array.as_boolean_opt() {
        return Ok(values.values().iter().map(u8::from).collect::<Vec<u8>>().into());
    }
    let data = array.to_data();
    let buffer = data.buffers().first().ok_or_else(bug)?;
    Ok(host_order(element, buffer.slice_with_length(data.offset() * width, data.len() * width)))
}

/// The little-endian bytes of the values `range` of an array of numbers, where they lie; `None` for other arrays, past the end, and where
/// the machine is big-endian.
pub fn number_bytes(array: &dyn Array, range: Range<usize>) -> Option<&[u8]> {
    macro_rules! values {
        ($number:ty) => {
            array.as_primitive_opt::<$number>()?.values().inner().as_slice()
        };
    }
    let bytes = downcast_primitive! { array.data_type() => (values), _ => return None };
    let width = array.data_type().primitive_width().filter(|_| cfg!(target_endian = "little"))?;
    bytes.get(range.start.checked_mul(width)?..range.end.checked_mul(width)?)
}

/// Turns the bytes of numbers around where the machine is big-endian: the same step both ways.
fn host_order(element: &DataType, bytes: Buffer) -> Buffer {
    match element.primitive_width() {
        Some(width) if cfg!(target_endian = "big") && width > 1 => {
            let mut bytes = bytes.to_vec();
            bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
            bytes.into()
        }
        _ => bytes,
    }
}

/// Reverses the bytes of every unit of `unit` bytes, to change their byte order; units of 0 or 1 stay the same.
pub fn swap_bytes(bytes: &mut [u8], unit: usize) {
    match unit {
        0 | 1 => {}
        2 => bytes.as_chunks_mut().0.iter_mut().for_each(|c| *c = u16::from_be_bytes(*c).to_le_bytes()),
        4 => bytes.as_chunks_mut().0.iter_mut().for_each(|c| *c = u32::from_be_bytes(*c).to_le_bytes()),
        8 => bytes.as_chunks_mut().0.iter_mut().for_each(|c| *c = u64::from_be_bytes(*c).to_le_bytes()),
        _ => bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Float64Type;

    #[test]
    fn values_come_back() {
        let bytes: Vec<u8> = (0..64).collect();
        for element in
            [DataType::UInt8, DataType::Int16, DataType::Float16, DataType::Float64, DataType::FixedSizeBinary(4)]
        {
            let width = element_width(&element).unwrap();
            let array = array_of(&element, Buffer::from(bytes.clone()), 64 / width).unwrap();
            assert_eq!(bytes_of(&array).unwrap().as_slice(), bytes);
            assert_eq!(bytes_of(&array.slice(1, 2)).unwrap().as_slice(), &bytes[width..3 * width]);
        }
        let array = array_of(&DataType::Boolean, Buffer::from(vec![0u8, 1, 7, 0]), 4).unwrap();
        assert_eq!(bytes_of(&array.slice(1, 3)).unwrap().as_slice(), [1, 1, 0]);
    }

    #[test]
    fn an_odd_address_is_no_obstacle() {
        let bytes = Buffer::from([&[0u8][..], &1.5f64.to_le_bytes()].concat());
        let array = array_of(&DataType::Float64, bytes.slice(1), 1).unwrap();
        assert_eq!(array.as_primitive::<Float64Type>().value(0), 1.5);
    }

    #[test]
    fn too_few_bytes_are_refused() {
        assert!(array_of(&DataType::Int32, Buffer::from(vec![0u8; 7]), 2).is_err());
        assert!(array_of(&DataType::Int32, Buffer::from(vec![0u8; 7]), usize::MAX).is_err());
        assert!(array_of(&DataType::Utf8View, Buffer::from(vec![0u8; 7]), 0).is_err());
    }

    #[test]
    fn units_are_reversed() {
        for unit in [1, 2, 3, 4, 8] {
            let mut bytes: Vec<u8> = (0..24).collect();
            swap_bytes(&mut bytes, unit);
            let wanted: Vec<u8> = (0..24usize).map(|i| (i / unit * unit + unit - 1 - i % unit) as u8).collect();
            assert_eq!(bytes, wanted);
        }
    }

    #[test]
    fn bytes_of_numbers_lie_where_they_are() {
        let numbers: [ArrayRef; 3] = [
            Arc::new(arrow_array::Int16Array::from(vec![Some(1), None, Some(-3), Some(4)])),
            Arc::new(arrow_array::Float64Array::from(vec![0.5, -0.0, f64::NAN, 7.0])),
            Arc::new(arrow_array::Decimal128Array::from(vec![1, 2, 3, 4])),
        ];
        for array in numbers {
            for array in [Arc::clone(&array), array.slice(1, 3)] {
                for row in 0..array.len() {
                    assert_eq!(number_bytes(&array, row..row + 1).unwrap(), &*bytes_of(&array.slice(row, 1)).unwrap());
                }
                assert_eq!(number_bytes(&array, 0..array.len()).unwrap(), &*bytes_of(&array).unwrap());
                assert!(number_bytes(&array, array.len()..array.len() + 1).is_none());
            }
        }
        let others: [ArrayRef; 2] =
            [Arc::new(BooleanArray::from(vec![true])), Arc::new(arrow_array::StringArray::from(vec!["a"]))];
        assert!(others.iter().all(|array| number_bytes(array, 0..1).is_none()));
    }

    #[test]
    fn the_common_type_holds_the_numbers_of_both() {
        use DataType::{Boolean, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        for (one, other, wanted) in [
            (Int32, Int64, Some(Int64)),
            (UInt8, UInt16, Some(UInt16)),
            (UInt8, Int8, Some(Int16)),
            (UInt32, Int8, Some(Int64)),
            (UInt64, UInt8, Some(UInt64)),
            (UInt64, Int64, None),
            (Float16, Float32, Some(Float32)),
            (Float32, Float64, Some(Float64)),
            (Int16, Float16, Some(Float32)),
            (Int32, Float32, Some(Float64)),
            (Int64, Float64, Some(Float64)),
            (Boolean, Int8, None),
            (Int8, Int8, Some(Int8)),
        ] {
            assert_eq!(common_number(&one, &other), wanted, "{one} {other}");
            assert_eq!(common_number(&other, &one), wanted, "{other} {one}");
        }
    }
}
