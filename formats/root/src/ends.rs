//! Offsets of the lists of a column under construction.

use crate::decode::BasketSlice;
use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use packhorse_core::{DataType, Error, FieldType, Result};
use std::sync::Arc;

/// Offsets of lists, starting with 0. A block of rows has at most `i32::MAX` values.
#[derive(Clone)]
pub(crate) struct Ends(Vec<i32>);

impl Ends {
    pub(crate) fn new() -> Self {
        Self(vec![0])
    }

    /// Reserves room for all entries of `pieces`.
    pub(crate) fn of(pieces: &[BasketSlice]) -> Self {
        let entries: usize = pieces.iter().map(|(_, entries)| entries.len()).sum();
        let mut ends = Vec::with_capacity(entries.saturating_add(1));
        ends.push(0);
        Self(ends)
    }

    /// Appends a list for each pair of neighbors in `offsets`, which are sorted byte offsets of values of `size` bytes.
    pub(crate) fn extend(&mut self, offsets: &[u32], size: usize) -> Result<()> {
        let (Some((first, offsets)), Ok(size)) = (offsets.split_first(), u32::try_from(size)) else { return Ok(()) };
        let last = self.0.last().copied().unwrap_or(0);
        let values = offsets.last().map_or(0, |end| end.wrapping_sub(*first)).checked_div(size).unwrap_or(0);
        i32::try_from(values).ok().and_then(|values| last.checked_add(values)).ok_or_else(too_long)?;
        let bytes = offsets.iter().map(|end| end.wrapping_sub(*first));
        let odd = if size.is_power_of_two() {
            let shift = size.trailing_zeros();
            self.0.extend(bytes.clone().map(|bytes| last.wrapping_add((bytes >> shift).cast_signed())));
            bytes.fold(0, |odd, bytes| odd | bytes) & (size - 1) != 0
        } else {
            let values = |bytes: u32| bytes.checked_div(size).unwrap_or(0).cast_signed();
            self.0.extend(bytes.clone().map(|bytes| last.wrapping_add(values(bytes))));
            bytes.into_iter().any(|bytes| !bytes.is_multiple_of(size))
        };
        if odd { Err(Error::content(format!("an entry whose size is not a multiple of {size} bytes"))) } else { Ok(()) }
    }

    /// Appends a list of length `len`.
    pub(crate) fn push(&mut self, len: usize) -> Result<()> {
        let last = self.0.last().copied().unwrap_or(0);
        let end = i32::try_from(len).ok().and_then(|len| last.checked_add(len));
        self.0.push(end.ok_or_else(too_long)?);
        Ok(())
    }

    /// The lists over `values`.
    pub(crate) fn wrap(self, values: ArrayRef) -> Result<ArrayRef> {
        let item = FieldType::List { element: values.data_type().clone(), depth: 1 }.field("", false);
        let DataType::List(item) = item.data_type() else { return Err(Error::bug("not a list type")) };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.0));
        let list = ListArray::try_new(item.clone(), offsets, values, None);
        list.map(|list| Arc::new(list) as ArrayRef).map_err(|e| Error::bug(e.to_string()))
    }
}

pub(crate) fn too_long() -> Error {
    Error::new(packhorse_core::Kind::Limit, "more than 2^31 values in one block of rows")
}

/// Lists of equal length `len` over `values`.
pub(crate) fn regular(values: ArrayRef, len: usize) -> Result<ArrayRef> {
    let mut ends = Ends::new();
    for _ in 0..values.len().checked_div(len).unwrap_or(0) {
        ends.push(len)?;
    }
    ends.wrap(values)
}
