//! Arrays of integers: owned arrays, and views of them and of mapped files.

use crate::npy;
use packhorse_core::{Error, Kind, Result};
use std::io::Write;

/// An array of integers of one of the four types that indices use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Array {
    /// `<i2`
    I16(Vec<i16>),
    /// `<i4`
    I32(Vec<i32>),
    /// `<u4`
    U32(Vec<u32>),
    /// `<i8`
    I64(Vec<i64>),
}

impl Array {
    /// The number of integers, not of rows.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether the array is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same numbers, borrowed.
    pub(crate) fn view(&self) -> IntView<'_> {
        match self {
            Array::I16(values) => IntView::I16(values),
            Array::I32(values) => IntView::I32(values),
            Array::U32(values) => IntView::U32(values),
            Array::I64(values) => IntView::I64(values),
        }
    }

    /// Writes the `.npy` file that `numpy.save` writes for this array, `columns` numbers a row
    /// (1: one-dimensional).
    pub fn write_npy(&self, columns: usize, out: &mut dyn Write) -> Result<()> {
        match self {
            Array::I16(values) => npy::write("<i2", columns, values, |v| v.to_le_bytes(), out),
            Array::I32(values) => npy::write("<i4", columns, values, |v| v.to_le_bytes(), out),
            Array::U32(values) => npy::write("<u4", columns, values, |v| v.to_le_bytes(), out),
            Array::I64(values) => npy::write("<i8", columns, values, |v| v.to_le_bytes(), out),
        }
    }
}

/// An owner of an array of integers: a view, an [`Array`] or a mapped file.
pub trait Ints: Send + Sync {
    /// The numbers, borrowed.
    fn view(&self) -> IntView<'_>;
}

impl Ints for Array {
    fn view(&self) -> IntView<'_> {
        Array::view(self)
    }
}

impl Ints for IntView<'_> {
    fn view(&self) -> IntView<'_> {
        *self
    }
}

/// Borrowed integers: native ones in memory, or little-endian bytes of a mapped file at any alignment.
#[derive(Clone, Copy, Debug)]
pub enum IntView<'a> {
    /// In memory.
    I16(&'a [i16]),
    /// In memory.
    I32(&'a [i32]),
    /// In memory.
    U32(&'a [u32]),
    /// In memory.
    I64(&'a [i64]),
    /// Bytes, two a number.
    I16Bytes(&'a [[u8; 2]]),
    /// Bytes, four a number.
    I32Bytes(&'a [[u8; 4]]),
    /// Bytes, four a number.
    U32Bytes(&'a [[u8; 4]]),
    /// Bytes, eight a number.
    I64Bytes(&'a [[u8; 8]]),
}

impl<'a> IntView<'a> {
    /// The integers in `bytes` of numpy type `descr`: `<i2`, `<i4`, `<u4` or `<i8`.
    ///
    /// Errors: another type, or a length that is not a multiple of the element's size.
    pub fn from_bytes(descr: &str, bytes: &'a [u8]) -> Result<Self> {
        let (view, rest) = match descr {
            "<i2" => (IntView::I16Bytes(bytes.as_chunks().0), bytes.len() % 2),
            "<i4" => (IntView::I32Bytes(bytes.as_chunks().0), bytes.len() % 4),
            "<u4" => (IntView::U32Bytes(bytes.as_chunks().0), bytes.len() % 4),
            "<i8" => (IntView::I64Bytes(bytes.as_chunks().0), bytes.len() % 8),
            _ => {
                return Err(Error::unsupported(format!("an index of type '{descr}' is not one of <i2, <i4, <u4, <i8")));
            }
        };
        if rest > 0 {
            let message = format!("{} bytes are not a whole number of '{descr}': the file is truncated", bytes.len());
            return Err(Error::content(message));
        }
        Ok(view)
    }

    /// The number of integers.
    pub fn len(&self) -> usize {
        match self {
            IntView::I16(values) => values.len(),
            IntView::I32(values) => values.len(),
            IntView::U32(values) => values.len(),
            IntView::I64(values) => values.len(),
            IntView::I16Bytes(values) => values.len(),
            IntView::I32Bytes(values) | IntView::U32Bytes(values) => values.len(),
            IntView::I64Bytes(values) => values.len(),
        }
    }

    /// Whether the array is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<i64> {
        Some(match self {
            IntView::I16(values) => i64::from(*values.get(at)?),
            IntView::I32(values) => i64::from(*values.get(at)?),
            IntView::U32(values) => i64::from(*values.get(at)?),
            IntView::I64(values) => *values.get(at)?,
            IntView::I16Bytes(values) => i64::from(i16::from_le_bytes(*values.get(at)?)),
            IntView::I32Bytes(values) => i64::from(i32::from_le_bytes(*values.get(at)?)),
            IntView::U32Bytes(values) => i64::from(u32::from_le_bytes(*values.get(at)?)),
            IntView::I64Bytes(values) => i64::from_le_bytes(*values.get(at)?),
        })
    }

    /// The integer at `at`. A missing or negative one is an error that names the array `what`.
    #[inline]
    pub(crate) fn at(&self, at: u64, what: &str) -> Result<u64> {
        let value = usize::try_from(at).ok().and_then(|at| self.get(at));
        value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| wrong(at, what))
    }
}

#[cold]
fn wrong(at: u64, what: &str) -> Error {
    Error::content(format!("the {what} has no valid entry {at}: build it again"))
}

/// An empty vector with capacity `count`; an error names the size that could not be allocated.
pub(crate) fn room<T>(count: u64, what: &str) -> Result<Vec<T>> {
    let mut room = Vec::new();
    let fits = usize::try_from(count).is_ok_and(|count| room.try_reserve_exact(count).is_ok());
    if !fits {
        let message = format!("no memory for the {what}: {count} entries of {} bytes", size_of::<T>());
        return Err(Error::new(Kind::Limit, message));
    }
    Ok(room)
}
