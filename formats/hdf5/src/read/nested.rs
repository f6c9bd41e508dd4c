//! Assembles Arrow arrays of lists, and adds nulls.

use super::values::length;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, ListArray, make_array};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use packhorse_core::{DataType, Error, Kind, Result};
use std::sync::Arc;

/// Arrow offsets of the lists that end at `ends`; the first entry is the start.
pub(crate) fn relative(ends: &[u64]) -> Result<OffsetBuffer<i32>> {
    offsets_of(ends.windows(2).map(|ends| usize::try_from(length(ends)).unwrap_or(usize::MAX)))
}

/// Arrow offsets of lists of these lengths; a `Limit` error if they overflow.
pub(crate) fn offsets_of(lens: impl Iterator<Item = usize>) -> Result<OffsetBuffer<i32>> {
    let mut ends = vec![0i32];
    let mut end = 0i32;
    for len in lens {
        let next = i32::try_from(len).ok().and_then(|len| end.checked_add(len));
        end = next.ok_or_else(|| Error::new(Kind::Limit, "has a sample of over 2,147,483,647 elements"))?;
        ends.push(end);
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(ends)))
}

pub(crate) fn list(
    of: &DataType,
    offsets: OffsetBuffer<i32>,
    inside: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::List(item) = of else { return Err(Error::bug("not a list column")) };
    let array = ListArray::try_new(item.clone(), offsets, inside, nulls);
    Ok(Arc::new(array.map_err(|e| Error::bug(e.to_string()))?))
}

pub(crate) fn fixed_list(of: &DataType, flat: ArrayRef, count: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, size) = of else { return Err(Error::bug("not a tensor column")) };
    let array = FixedSizeListArray::try_new_with_length(item.clone(), *size, flat, nulls, count);
    Ok(Arc::new(array.map_err(|e| Error::bug(e.to_string()))?))
}

pub(crate) fn with_nulls(array: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let Some(nulls) = nulls else { return Ok(array) };
    if nulls.len() != array.len() {
        return Err(Error::content("has samples and present flags of different numbers: the file is damaged"));
    }
    let data = array.to_data().into_builder().nulls(Some(nulls)).build();
    Ok(make_array(data.map_err(|e| Error::bug(e.to_string()))?))
}
