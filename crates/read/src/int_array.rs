//! Shared arrays of integers: in memory, mapped from a file, or read from one.

use crate::Access;
use crate::mapping::Mapping;
use packhorse_core::{Error, Input, Kind, Result};
use packhorse_order::{Array, IntView, Ints, read_npy};
use std::sync::Arc;

/// The integers of an order or a list of sequences. Clones share them.
#[derive(Clone, Debug)]
pub struct IntArray(Arc<Held>);

#[derive(Debug)]
enum Held {
    Array(Array),
    /// `bytes` of the file from `from` on, of the type `descr`.
    File {
        file: Bytes,
        from: usize,
        bytes: usize,
        descr: &'static str,
    },
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mapping),
    Read(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map.bytes(),
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl IntArray {
    /// `count` numbers of the type that numpy calls `descr` (`<i2`, `<i4`, `<u4`, `<i8`), from byte `offset`
    /// of `input` on: mapped, or read as a whole if `input` is not a local file.
    ///
    /// Errors: an input that is too short, another type, not enough memory.
    pub fn read(input: &dyn Input, descr: &str, offset: u64, count: u64, access: Access) -> Result<Self> {
        let named = |error: Error| error.in_input(input.name());
        let (descr, width) = known(descr).map_err(named)?;
        let bytes = count
            .checked_mul(width as u64)
            .filter(|bytes| offset.checked_add(*bytes).is_some_and(|end| input.len().is_some_and(|len| end <= len)));
        let sizes = bytes.and_then(|bytes| Some((usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?)));
        let (from, bytes) = sizes.ok_or_else(|| {
            let len = input.len().unwrap_or_default();
            named(Error::cut_short(format!("{count} numbers wanted at offset {offset} of {len}")))
        })?;
        let map = if access.maps() { Mapping::of(input)? } else { None };
        let (file, from) = match map {
            Some(map) => (Bytes::Mapped(map), from),
            None => (Bytes::Read(read(input, offset, bytes)?), 0),
        };
        Ok(Self(Arc::new(Held::File { file, from, bytes, descr })))
    }

    /// The integers of a `.npy` file, such as in Megatron's cache, and how many a row has.
    pub fn npy(input: &dyn Input, access: Access) -> Result<(Self, usize)> {
        let map = if access.maps() { Mapping::of(input)? } else { None };
        let file = match map {
            Some(map) => Bytes::Mapped(map),
            None => {
                let len = input.len().and_then(|len| usize::try_from(len).ok());
                let len = len.ok_or_else(|| Error::unsupported("can't be read as a stream").in_input(input.name()))?;
                Bytes::Read(read(input, 0, len)?)
            }
        };
        let (view, columns) = read_npy(file.get()).map_err(|error| error.in_input(input.name()))?;
        let (descr, width) = match view {
            IntView::I16(_) | IntView::I16Bytes(_) => ("<i2", 2),
            IntView::I32(_) | IntView::I32Bytes(_) => ("<i4", 4),
            IntView::U32(_) | IntView::U32Bytes(_) => ("<u4", 4),
            IntView::I64(_) | IntView::I64Bytes(_) => ("<i8", 8),
        };
        let bytes = view.len() * width;
        let from = file.get().len() - bytes;
        Ok((Self(Arc::new(Held::File { file, from, bytes, descr })), columns))
    }

    /// The numbers, borrowed.
    pub(crate) fn view(&self) -> IntView<'_> {
        match &*self.0 {
            Held::Array(array) => array.view(),
            Held::File { file, from, bytes, descr } => {
                let numbers = file.get().get(*from..).and_then(|rest| rest.get(..*bytes)).unwrap_or_default();
                // The constructor checked type and length.
                IntView::from_bytes(descr, numbers).unwrap_or(IntView::I32(&[]))
            }
        }
    }

    /// A copy in memory, for building an index.
    ///
    /// Errors: a number that does not fit 32 bits, not enough memory.
    pub fn to_i32s(&self) -> Result<Vec<i32>> {
        let view = self.view();
        let mut numbers = Vec::new();
        if numbers.try_reserve_exact(view.len()).is_err() {
            return Err(Error::new(Kind::Limit, format!("no memory for {} numbers", view.len())));
        }
        for at in 0..view.len() {
            let number = view.get(at).unwrap_or_default();
            let wrong = |_| Error::content(format!("number {at} is {number}, which 32 bits don't hold"));
            numbers.push(i32::try_from(number).map_err(wrong)?);
        }
        Ok(numbers)
    }
}

impl Ints for IntArray {
    fn view(&self) -> IntView<'_> {
        IntArray::view(self)
    }
}

impl From<Array> for IntArray {
    fn from(array: Array) -> Self {
        Self(Arc::new(Held::Array(array)))
    }
}

impl From<Vec<i32>> for IntArray {
    fn from(numbers: Vec<i32>) -> Self {
        Array::I32(numbers).into()
    }
}

/// The static name of the type, and its size in bytes.
fn known(descr: &str) -> Result<(&'static str, usize)> {
    match [("<i2", 2), ("<i4", 4), ("<u4", 4), ("<i8", 8)].into_iter().find(|(name, _)| *name == descr) {
        Some(known) => Ok(known),
        None => Err(Error::unsupported(format!("numbers of type '{descr}' are not one of <i2, <i4, <u4, <i8"))),
    }
}

/// Reads `len` bytes, which the input is known to have.
fn read(input: &dyn Input, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(len).is_err() {
        let message = format!("no memory for {len} bytes of numbers");
        return Err(Error::new(Kind::Limit, message).in_input(input.name()));
    }
    bytes.resize(len, 0);
    input.read_at(offset, &mut bytes).map_err(|error| error.in_input(input.name()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::MemoryInput;

    #[test]
    fn numbers_of_a_file_and_of_a_cache() {
        let bytes: Vec<u8> = [0u8; 3].into_iter().chain((0..5i32).flat_map(i32::to_le_bytes)).collect();
        let input = MemoryInput::new("a.idx", bytes);
        let numbers = IntArray::read(&input, "<i4", 3, 5, Access::Map).unwrap();
        assert_eq!(
            (0..6).map(|at| numbers.view().get(at)).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, -1].map(|n| (n >= 0).then_some(n))
        );
        assert!(IntArray::read(&input, "<i4", 4, 5, Access::Map).is_err());
        assert!(IntArray::read(&input, "<i4", u64::MAX, 1, Access::Map).is_err());
        assert!(IntArray::read(&input, "<i4", 0, u64::MAX, Access::Map).is_err());
        assert!(IntArray::read(&input, "<f4", 0, 1, Access::Map).is_err());
        let mut npy = Vec::new();
        Array::I64(vec![7, 8, 9, 10]).write_npy(2, &mut npy).unwrap();
        let (numbers, columns) = IntArray::npy(&MemoryInput::new("a.npy", npy), Access::Map).unwrap();
        assert_eq!((numbers.view().len(), numbers.view().get(3), columns), (4, Some(10), 2));
        assert_eq!(numbers.to_i32s().unwrap(), [7, 8, 9, 10]);
        assert!(IntArray::from(Array::I64(vec![1 << 31])).to_i32s().is_err());
    }
}
