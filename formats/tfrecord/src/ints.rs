//! Encodes integers of any width as the varints of an `int64_list`, and decodes them.

use crate::wire::{Message, WireValue, varint_len};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_buffer::ScalarBuffer;
use packhorse_core::{DataType, Error, Result, bytes_of};
use std::ops::Range;

/// The integers of a column.
pub(crate) enum Ints {
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    /// Also Booleans, one byte each.
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
}

/// Runs `$body` with `$values`, the numbers of `$range`, and `$wide`, which converts one to the value of its varint:
/// signed numbers are sign-extended to 64 bits, as protocol buffers require.
macro_rules! with_values {
    ($ints:expr, $range:expr, |$values:ident, $wide:ident| $body:expr) => {
        match $ints {
            Ints::I8(v) => {
                let ($values, $wide) = (cut(v, $range), |x: i8| i64::from(x) as u64);
                $body
            }
            Ints::I16(v) => {
                let ($values, $wide) = (cut(v, $range), |x: i16| i64::from(x) as u64);
                $body
            }
            Ints::I32(v) => {
                let ($values, $wide) = (cut(v, $range), |x: i32| i64::from(x) as u64);
                $body
            }
            Ints::I64(v) => {
                let ($values, $wide) = (cut(v, $range), |x: i64| x as u64);
                $body
            }
            Ints::U8(v) => {
                let ($values, $wide) = (cut(v, $range), |x: u8| u64::from(x));
                $body
            }
            Ints::U16(v) => {
                let ($values, $wide) = (cut(v, $range), |x: u16| u64::from(x));
                $body
            }
            Ints::U32(v) => {
                let ($values, $wide) = (cut(v, $range), |x: u32| u64::from(x));
                $body
            }
            Ints::U64(v) => {
                let ($values, $wide) = (cut(v, $range), |x: u64| x);
                $body
            }
        }
    };
}

impl Ints {
    /// The numbers of `array`, which must hold Booleans or integers.
    pub(crate) fn of(array: &dyn Array) -> Result<Self> {
        fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> ScalarBuffer<T::Native> {
            array.as_primitive::<T>().values().clone()
        }
        Ok(match array.data_type() {
            DataType::Int8 => Ints::I8(values::<Int8Type>(array)),
            DataType::Int16 => Ints::I16(values::<Int16Type>(array)),
            DataType::Int32 => Ints::I32(values::<Int32Type>(array)),
            DataType::Int64 => Ints::I64(values::<Int64Type>(array)),
            DataType::UInt8 => Ints::U8(values::<UInt8Type>(array)),
            DataType::UInt16 => Ints::U16(values::<UInt16Type>(array)),
            DataType::UInt32 => Ints::U32(values::<UInt32Type>(array)),
            DataType::UInt64 => Ints::U64(values::<UInt64Type>(array)),
            DataType::Boolean => Ints::U8(bytes_of(array)?.into()),
            other => return Err(Error::bug(format!("{other} is not an integer type"))),
        })
    }

    /// The encoded size of the numbers of `range`.
    pub(crate) fn size(&self, range: Range<usize>) -> usize {
        match self {
            // Pixels are common enough for their own loop.
            Ints::U8(v) => cut(v, range).iter().map(|x| 1 + usize::from(x >> 7)).sum(),
            _ => with_values!(self, range, |values, wide| values.iter().map(|x| varint_len(wide(*x))).sum()),
        }
    }

    /// Appends the numbers of `range`, whose encoded size is `size`.
    pub(crate) fn put(&self, range: Range<usize>, size: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let single = size == range.len();
        if let (Ints::U8(v), false) = (self, single) {
            pixels(cut(v, range), size, out);
            return;
        }
        out.resize(start + size, 0);
        let to = out.get_mut(start..).unwrap_or_default();
        with_values!(self, range, |values, wide| match single {
            true => to.iter_mut().zip(values).for_each(|(to, x)| *to = wide(*x) as u8),
            false => varints(values.iter().map(|x| wide(*x)), to),
        });
    }
}

/// Appends bytes as varints of `size` bytes in total, without branches: two bytes are always written, one or both kept.
fn pixels(values: &[u8], size: usize, out: &mut Vec<u8>) {
    let mut at = out.len();
    out.resize(at + size + 1, 0);
    for x in values {
        if let Some([first, second]) = out.get_mut(at..at + 2) {
            (*first, *second) = (*x, 1);
        }
        at += 1 + usize::from(x >> 7);
    }
    out.truncate(at);
}

fn cut<T: arrow_buffer::ArrowNativeType>(values: &ScalarBuffer<T>, range: Range<usize>) -> &[T] {
    values.get(range).unwrap_or_default()
}

/// Fills `to` with varints.
fn varints(values: impl Iterator<Item = u64>, to: &mut [u8]) {
    let mut to = to.iter_mut();
    for mut value in values {
        while value >= 0x80 {
            if let Some(to) = to.next() {
                *to = value as u8 | 0x80;
            }
            value >>= 7;
        }
        if let Some(to) = to.next() {
            *to = value as u8;
        }
    }
}

/// Calls `each` for every number of the `Int64List` in `body`, packed or not.
pub(crate) fn each_int(body: &[u8], mut each: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let mut list = Message(body);
    while let Some((number, value)) = list.next()? {
        match (number, value) {
            (1, WireValue::Varint(value)) => each(value)?,
            (1, WireValue::Bytes(packed)) => {
                let mut packed = Message(packed);
                while !packed.0.is_empty() {
                    each(packed.varint()?)?;
                }
            }
            (1, _) => return Err(Error::content("holds numbers that are not integers")),
            _ => {}
        }
    }
    Ok(())
}

/// Appends the numbers of an `Int64List` as packed elements of type `element`. A number that does not fit is an error.
pub(crate) fn read(body: &[u8], element: &DataType, out: &mut Vec<u8>) -> Result<()> {
    macro_rules! narrow {
        ($t:ty) => {
            read_as(body, element, out, |x| <$t>::try_from(x as i64).ok().map(<$t>::to_le_bytes))
        };
    }
    match element {
        DataType::Int8 => narrow!(i8),
        DataType::Int16 => narrow!(i16),
        DataType::Int32 => narrow!(i32),
        DataType::UInt8 => narrow!(u8),
        DataType::UInt16 => narrow!(u16),
        DataType::UInt32 => narrow!(u32),
        DataType::Boolean => read_as(body, element, out, |x| (x <= 1).then_some([x as u8])),
        _ => read_as(body, element, out, |x| Some(x.to_le_bytes())),
    }
}

/// Appends the bytes that `narrow` makes of each number; `None` refuses the number.
fn read_as<const W: usize>(
    body: &[u8],
    element: &DataType,
    out: &mut Vec<u8>,
    narrow: impl Fn(u64) -> Option<[u8; W]>,
) -> Result<()> {
    let mut list = Message(body);
    while let Some((number, value)) = list.next()? {
        match (number, value) {
            (1, WireValue::Bytes(packed)) => unpack(packed, element, out, &narrow)?,
            (1, WireValue::Varint(value)) => {
                out.extend_from_slice(&narrow(value).ok_or_else(|| unfit(value, element))?);
            }
            (1, _) => return Err(Error::content("holds numbers that are not integers")),
            _ => {}
        }
    }
    Ok(())
}

/// The same for packed numbers. Each ends with a byte below 128, which gives their number in advance.
fn unpack<const W: usize>(
    packed: &[u8],
    element: &DataType,
    out: &mut Vec<u8>,
    narrow: &impl Fn(u64) -> Option<[u8; W]>,
) -> Result<()> {
    let count = packed.iter().filter(|byte| **byte < 0x80).count();
    let start = out.len();
    out.resize(start + count * W, 0);
    let (to, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut();
    let mut rest = packed;
    for to in to {
        let value = match rest {
            [a @ 0..=0x7f, tail @ ..] => {
                rest = tail;
                u64::from(*a)
            }
            [a, b @ 0..=0x7f, tail @ ..] => {
                rest = tail;
                u64::from(a & 0x7f) | u64::from(*b) << 7
            }
            [a, b, c @ 0..=0x7f, tail @ ..] => {
                rest = tail;
                u64::from(a & 0x7f) | u64::from(b & 0x7f) << 7 | u64::from(*c) << 14
            }
            _ => {
                let mut message = Message(rest);
                let value = message.varint()?;
                rest = message.0;
                value
            }
        };
        *to = narrow(value).ok_or_else(|| unfit(value, element))?;
    }
    match rest {
        [] => Ok(()),
        _ => Err(Error::content("ends within a number")),
    }
}

fn unfit(value: u64, element: &DataType) -> Error {
    Error::content(format!("{} does not fit into {element}", value as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::put_head;
    use arrow_array::{BooleanArray, Int8Array, Int64Array, UInt8Array, UInt64Array};

    fn back(array: &dyn Array) {
        let ints = Ints::of(array).unwrap();
        for range in [0..array.len(), 1..2, 2..2] {
            let (mut body, mut packed) = (Vec::new(), Vec::new());
            let size = ints.size(range.clone());
            ints.put(range.clone(), size, &mut packed);
            assert_eq!(packed.len(), size);
            put_head(&mut body, 0x0a, size);
            body.extend(packed);
            let mut found = Vec::new();
            read(&body, array.data_type(), &mut found).unwrap();
            assert_eq!(found, bytes_of(&array.slice(range.start, range.len())).unwrap().as_slice());
        }
    }

    #[test]
    fn integers_round_trip() {
        back(&Int8Array::from(vec![0, -1, i8::MIN, i8::MAX]));
        back(&Int64Array::from(vec![i64::MIN, i64::MAX, 0, 300]));
        back(&UInt8Array::from(vec![0, 127, 128, 255]));
        back(&UInt64Array::from(vec![u64::MAX, 1 << 63, 1, 0]));
        back(&BooleanArray::from(vec![true, false, true]));
    }

    #[test]
    fn unpacked_numbers_are_read_and_others_refused() {
        let mut out = Vec::new();
        read(&[0x08, 5, 0x0a, 2, 6, 7, 0x08, 8, 0x10, 9], &DataType::UInt8, &mut out).unwrap();
        assert_eq!(out, [5, 6, 7, 8]);
        let error = read(&[0x08, 0x80, 2], &DataType::UInt8, &mut out).unwrap_err();
        assert_eq!(error.to_string(), "256 does not fit into UInt8");
        assert!(read(&[0x08, 2], &DataType::Boolean, &mut out).is_err());
        assert!(read(&[0x0d, 0, 0, 0, 0], &DataType::Int64, &mut out).is_err());
    }
}
