//! Columns of any Arrow type that holds the same values, in the types that packhorse's own sources deliver.

use crate::{DataType, Error, Field, FieldType, Result, bytes_of};
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, FixedSizeBinaryArray, FixedSizeListArray, ListArray, StringViewArray,
    StructArray, UInt64Array, make_array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::ArrowError;
use std::sync::Arc;

/// Converts `array` to the column of `kind` ([`FieldType::field`]). Null values are kept. The values are shared where that is possible.
///
/// Errors: `Unsupported` for nulls inside values; `Content` for another type, and for tensors whose shape does not match their
/// elements.
pub fn canonical(kind: &FieldType, array: &ArrayRef) -> Result<ArrayRef> {
    match kind {
        FieldType::Blob => blobs(array),
        FieldType::Text => elements(array, &DataType::Utf8View),
        FieldType::Scalar(element) => elements(array, element),
        FieldType::Tensor { element, shape } => tensor(kind, array, element, shape),
        FieldType::Ragged { element, rank } => ragged(kind, array, element, *rank),
        FieldType::List { element, depth } => list(array, element, *depth),
    }
}

fn blobs(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::BinaryView => Ok(Arc::clone(array)),
        DataType::Binary => Ok(Arc::new(BinaryViewArray::from(array.as_binary::<i32>()))),
        DataType::LargeBinary => Ok(Arc::new(BinaryViewArray::from(array.as_binary::<i64>()))),
        DataType::Dictionary(..) => blobs(&unpacked(array)?),
        other => Err(mismatch(other, "bytes")),
    }
}

/// Converts elements to the type `wanted`, with their nulls.
fn elements(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, Duration,
        FixedSizeBinary, LargeBinary, LargeUtf8, Null, Time32, Time64, Timestamp, Utf8, Utf8View,
    };
    match (array.data_type(), wanted) {
        (Dictionary(..), _) => elements(&unpacked(array)?, wanted),
        (Null, _) => Ok(arrow_array::new_null_array(wanted, array.len())),
        (Utf8, Utf8 | Utf8View) => Ok(Arc::new(StringViewArray::from(array.as_string::<i32>()))),
        (LargeUtf8, Utf8 | Utf8View) => Ok(Arc::new(StringViewArray::from(array.as_string::<i64>()))),
        (Utf8View, Utf8) => Ok(Arc::clone(array)),
        (Binary | LargeBinary, BinaryView) => blobs(array),
        (Timestamp(..) | Date64 | Duration(_) | Time64(_), FixedSizeBinary(8)) => ticks(bytes_of(array)?, array),
        (Date32 | Time32(_), FixedSizeBinary(8)) => {
            let bytes = bytes_of(array)?;
            let (values, _) = bytes.as_slice().as_chunks::<4>();
            let wide: Vec<u8> = values.iter().flat_map(|v| i64::from(i32::from_le_bytes(*v)).to_le_bytes()).collect();
            ticks(wide.into(), array)
        }
        (Decimal32(..), Utf8View) => Ok(digits::<Decimal32Type>(array)),
        (Decimal64(..), Utf8View) => Ok(digits::<Decimal64Type>(array)),
        (Decimal128(..), Utf8View) => Ok(digits::<Decimal128Type>(array)),
        (Decimal256(..), Utf8View) => Ok(digits::<Decimal256Type>(array)),
        (found, wanted) if found == wanted => Ok(Arc::clone(array)),
        (found, wanted) => Err(mismatch(found, &wanted.to_string())),
    }
}

fn ticks(bytes: Buffer, array: &ArrayRef) -> Result<ArrayRef> {
    Ok(Arc::new(FixedSizeBinaryArray::try_new(8, bytes, array.nulls().cloned()).map_err(damaged)?))
}

fn digits<T: DecimalType>(array: &ArrayRef) -> ArrayRef {
    let decimals = array.as_primitive::<T>();
    let mut text = StringViewBuilder::with_capacity(decimals.len());
    for i in 0..decimals.len() {
        text.append_option(decimals.is_valid(i).then(|| decimals.value_as_string(i)));
    }
    Arc::new(text.finish())
}

/// The decoded values of a dictionary array.
fn unpacked(array: &ArrayRef) -> Result<ArrayRef> {
    let dictionary = array.as_any_dictionary_opt().ok_or_else(|| mismatch(array.data_type(), "a dictionary"))?;
    // Of many values only those that these rows have.
    let few = match array.len() < dictionary.values().len() {
        true => Some(arrow_select::dictionary::garbage_collect_any_dictionary(dictionary).map_err(damaged)?),
        false => None,
    };
    let dictionary = few.as_ref().and_then(|few| few.as_any_dictionary_opt()).unwrap_or(dictionary);
    // Views, so that a text is there once, however many rows have it.
    let values = match dictionary.values().data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => elements(dictionary.values(), &DataType::Utf8View)?,
        DataType::Binary | DataType::LargeBinary => blobs(dictionary.values())?,
        _ => Arc::clone(dictionary.values()),
    };
    arrow_select::take::take(&values, dictionary.keys(), None).map_err(damaged)
}

fn tensor(kind: &FieldType, array: &ArrayRef, element: &DataType, shape: &[usize]) -> Result<ArrayRef> {
    let size: usize = shape.iter().product();
    let mut flat = Arc::clone(array);
    let mut width = 1usize;
    loop {
        flat = match flat.data_type() {
            DataType::Dictionary(..) => unpacked(&flat)?,
            DataType::FixedSizeList(_, n) => {
                dense(&flat, array.nulls(), width)?;
                width = width.saturating_mul(usize::try_from(*n).unwrap_or(0));
                Arc::clone(flat.as_fixed_size_list().values())
            }
            // Parquet has no fixed-size lists of size 0, so they are written as lists.
            DataType::List(_) if size == 0 => {
                let lists = flat.as_list::<i32>();
                if lists.value_offsets().first() != lists.value_offsets().last() {
                    return Err(Error::content("holds elements, though its shape is empty"));
                }
                lists.values().slice(0, 0)
            }
            _ => break,
        };
    }
    let flat = elements(&flat, element)?;
    dense(&flat, array.nulls(), size)?;
    let flat = if flat.null_count() > 0 { with_nulls(&flat, None)? } else { flat };
    let DataType::FixedSizeList(item, len) = kind.field("", true).data_type().clone() else {
        return Err(Error::bug("a tensor is not a fixed-size list"));
    };
    let item = Arc::new(Field::clone(&item).with_data_type(flat.data_type().clone()));
    let nulls = array.nulls().cloned();
    let array = FixedSizeListArray::try_new_with_length(item, len, flat, nulls, array.len()).map_err(damaged)?;
    Ok(Arc::new(array))
}

/// Refuses nulls inside values: element `i` may only be null if the value `i / width` is null as a whole.
fn dense(flat: &ArrayRef, whole: Option<&NullBuffer>, width: usize) -> Result<()> {
    let Some(nulls) = flat.nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(()) };
    let stray = |i: usize| nulls.is_null(i) && !whole.is_some_and(|w| i / width < w.len() && w.is_null(i / width));
    match width > 0 && (0..flat.len()).any(stray) {
        true => Err(null_inside()),
        false => Ok(()),
    }
}

fn null_inside() -> Error {
    Error::unsupported("holds nulls inside its lists, which are not supported")
}

fn ragged(kind: &FieldType, array: &ArrayRef, element: &DataType, rank: usize) -> Result<ArrayRef> {
    let parts = array.as_struct_opt().ok_or_else(|| mismatch(array.data_type(), "a struct of data and shape"))?;
    let part = |name: &str| parts.column_by_name(name).ok_or_else(|| mismatch(array.data_type(), name));
    let (data, shape) = (part("data")?, part("shape")?);
    let beneath = |child: &ArrayRef| match parts.nulls() {
        None => Ok(Arc::clone(child)),
        // The data beneath a null struct may be null too; parts of a valid struct are not.
        Some(nulls) => with_nulls(child, NullBuffer::union(Some(nulls), child.nulls())),
    };
    let data = list(&beneath(data)?, element, 1)?;
    let dims = FieldType::Tensor { element: DataType::Int32, shape: vec![rank] };
    let shape = canonical(&dims, &fixed(&beneath(shape)?, rank)?)?;
    agree(&data, &shape, rank)?;
    let DataType::Struct(fields) = kind.field("", true).data_type().clone() else {
        return Err(Error::bug("a ragged tensor is not a struct"));
    };
    let whole = |child: &ArrayRef| match child.null_count() == parts.null_count() {
        true => with_nulls(child, None),
        false => Err(Error::content("holds a tensor without its data or shape")),
    };
    let children = vec![whole(&data)?, whole(&shape)?];
    Ok(Arc::new(StructArray::try_new(fields, children, parts.nulls().cloned()).map_err(damaged)?))
}

/// Checks that every shape matches its number of elements.
fn agree(data: &ArrayRef, shape: &ArrayRef, rank: usize) -> Result<()> {
    let (data, shape) = (data.as_list::<i32>(), shape.as_fixed_size_list());
    let dims = bytes_of(shape.values())?;
    let (dims, _) = dims.as_slice().as_chunks::<4>();
    let count = |row: usize| {
        let row = dims.get(row * rank..(row + 1) * rank)?;
        row.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(i32::from_le_bytes(*d)).ok()?))
    };
    let fits = |row: usize| data.is_null(row) || count(row) == usize::try_from(data.value_length(row)).ok();
    match (0..data.len()).all(fits) {
        true => Ok(()),
        false => Err(Error::content("holds a tensor whose shape doesn't match its elements")),
    }
}

/// Requires fixed-size lists.
fn fixed(array: &ArrayRef, size: usize) -> Result<ArrayRef> {
    if matches!(array.data_type(), DataType::FixedSizeList(..)) {
        return Ok(Arc::clone(array));
    }
    Err(mismatch(array.data_type(), &format!("a fixed list of {size}")))
}

/// Converts (nested) lists; null elements are refused.
fn list(array: &ArrayRef, element: &DataType, depth: usize) -> Result<ArrayRef> {
    let Some(inner) = depth.checked_sub(1) else { return elements(array, element) };
    let array =
        if matches!(array.data_type(), DataType::Dictionary(..)) { unpacked(array)? } else { Arc::clone(array) };
    let (offsets, values) = packed(&array)?;
    let values = list(&values, element, inner)?;
    if values.null_count() > 0 {
        return Err(null_inside());
    }
    let values = if values.nulls().is_some() { with_nulls(&values, None)? } else { values };
    let item = Arc::new(Field::new("item", values.data_type().clone(), false));
    Ok(Arc::new(ListArray::try_new(item, offsets, values, array.nulls().cloned()).map_err(damaged)?))
}

/// The offsets and values of lists, without unreferenced values.
fn packed(array: &ArrayRef) -> Result<(OffsetBuffer<i32>, ArrayRef)> {
    let (starts, values): (Vec<usize>, &ArrayRef) = match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let tight = lists.value_offsets().first() == Some(&0)
                && lists.value_offsets().last().is_some_and(|end| usize::try_from(*end) == Ok(lists.values().len()));
            if tight && lists.null_count() == 0 {
                return Ok((lists.offsets().clone(), Arc::clone(lists.values())));
            }
            (lists.value_offsets().iter().map(|o| usize::try_from(*o).unwrap_or(0)).collect(), lists.values())
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            (lists.value_offsets().iter().map(|o| usize::try_from(*o).unwrap_or(0)).collect(), lists.values())
        }
        DataType::FixedSizeList(_, n) => {
            let n = usize::try_from(*n).unwrap_or(0);
            ((0..=array.len()).map(|i| i.saturating_mul(n)).collect(), array.as_fixed_size_list().values())
        }
        other => return Err(mismatch(other, "lists")),
    };
    let shown =
        |i: usize| if array.is_null(i) { 0 } else { starts.get(i + 1).unwrap_or(&0) - starts.get(i).unwrap_or(&0) };
    let total: usize = (0..array.len()).map(shown).sum();
    i32::try_from(total).map_err(|_| Error::unsupported("holds over 2^31 elements in one block"))?;
    let first = starts.first().copied().unwrap_or(0);
    let all = starts.last().copied().unwrap_or(0) - first;
    let offsets = OffsetBuffer::from_lengths((0..array.len()).map(shown));
    if total == all {
        return Ok((offsets, values.slice(first, total)));
    }
    let from = |i: usize| starts.get(i).copied().unwrap_or(0);
    let indices: UInt64Array =
        (0..array.len()).flat_map(|i| from(i)..from(i) + shown(i)).map(|i| Some(i as u64)).collect();
    Ok((offsets, arrow_select::take::take(values, &indices, None).map_err(damaged)?))
}

/// The same values with the given nulls.
///
/// Errors: `Content` for nulls of another number.
pub fn with_nulls(array: &ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    array.to_data().into_builder().nulls(nulls).build().map(make_array).map_err(damaged)
}

fn mismatch(found: &DataType, wanted: &str) -> Error {
    Error::content(format!("holds {found} where {wanted} was expected"))
}

fn damaged(error: ArrowError) -> Error {
    Error::content(format!("is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{BinaryArray, DictionaryArray, Int32Array, StringArray};

    /// 4.8 GB of text, were it there for each row.
    #[test]
    fn long_texts_of_a_dictionary_are_not_copied_for_each_row() {
        let keys = Int32Array::from(vec![0; 16_384]);
        let text = "x".repeat(300_000);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
        let bytes: ArrayRef = Arc::new(BinaryArray::from_vec(vec![text.as_bytes()]));
        let of = |values: ArrayRef, kind: FieldType| {
            let array: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys.clone(), values));
            let found = canonical(&kind, &array).unwrap();
            assert_eq!((found.len(), found.data_type()), (16_384, kind.field("x", false).data_type()));
            assert!(found.get_array_memory_size() < 1 << 20);
            found
        };
        assert_eq!(of(texts, FieldType::Text).as_string_view().value(16_383), text);
        assert_eq!(of(bytes, FieldType::Blob).as_binary_view().value(16_383), text.as_bytes());
    }
}
