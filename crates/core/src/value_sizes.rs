//! The sizes of values of a column, and the memory that they keep.

use crate::{DataType, Error, Result, element_width};
use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericByteArray, GenericListArray, LargeListArray, ListArray,
    OffsetSizeTrait, RecordBatch, RecordBatchOptions, StructArray, make_array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::ArrowError;
use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::Arc;

/// The bytes of the values of rows: of parts of a larger array only these parts, and of memory that arrays share what each has of it.
pub fn rows_bytes(rows: &RecordBatch) -> usize {
    rows.columns().iter().map(array_bytes).sum()
}

/// The bytes of the memory that rows keep: of parts of a larger array all of it, and of memory that arrays share once.
pub fn held_bytes<'a>(rows: impl IntoIterator<Item = &'a RecordBatch>) -> usize {
    fn add(data: &ArrayData, seen: &mut HashSet<NonNull<u8>>) -> usize {
        let buffers = data.buffers().iter().chain(data.nulls().map(NullBuffer::buffer));
        let mut own =
            |buffer: &Buffer| if seen.insert(buffer.data_ptr()) { buffer.capacity().max(buffer.len()) } else { 0 };
        let bytes: usize = buffers.map(&mut own).sum();
        bytes + data.child_data().iter().map(|child| add(child, seen)).sum::<usize>()
    }
    let mut seen = HashSet::new();
    let columns = rows.into_iter().flat_map(RecordBatch::columns);
    columns.map(|column| add(&column.to_data(), &mut seen)).sum()
}

/// Bytes that are kept in vain without a copy.
const SMALL: usize = 64 << 10;

/// The same rows, copied if they keep far more memory than they fill: parts of what was read at once.
pub fn owned(rows: RecordBatch) -> Result<RecordBatch> {
    if held_bytes([&rows]) <= 2 * rows_bytes(&rows) + SMALL {
        return Ok(rows);
    }
    let copy = |column: &ArrayRef| {
        let data = column.to_data();
        let mut copied = MutableArrayData::new(vec![&data], false, data.len());
        copied.try_extend(0, 0, data.len()).map_err(bug)?;
        compacted(&make_array(copied.freeze()))
    };
    let columns = rows.columns().iter().map(copy).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(rows.schema(), columns, &options).map_err(bug)
}

/// The same values, in whose buffers there are no others: a view of text or bytes keeps all that it was read with.
pub fn compacted(array: &ArrayRef) -> Result<ArrayRef> {
    if let Some(text) = array.as_string_view_opt() {
        return Ok(Arc::new(text.gc()));
    }
    if let Some(bytes) = array.as_binary_view_opt() {
        return Ok(Arc::new(bytes.gc()));
    }
    if let Some(list) = array.as_list_opt::<i32>() {
        let (item, offsets, values, nulls) = list.clone().into_parts();
        return Ok(Arc::new(ListArray::try_new(item, offsets, compacted(&values)?, nulls).map_err(bug)?));
    }
    if let Some(list) = array.as_list_opt::<i64>() {
        let (item, offsets, values, nulls) = list.clone().into_parts();
        return Ok(Arc::new(LargeListArray::try_new(item, offsets, compacted(&values)?, nulls).map_err(bug)?));
    }
    if let Some(list) = array.as_fixed_size_list_opt() {
        let (item, size, values, nulls) = list.clone().into_parts();
        let list = FixedSizeListArray::try_new_with_length(item, size, compacted(&values)?, nulls, list.len());
        return Ok(Arc::new(list.map_err(bug)?));
    }
    if let Some(parts) = array.as_struct_opt() {
        let len = parts.len();
        let (fields, columns, nulls) = parts.clone().into_parts();
        let columns = columns.iter().map(compacted).collect::<Result<_>>()?;
        return Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, len).map_err(bug)?));
    }
    Ok(Arc::clone(array))
}

fn bug(error: ArrowError) -> Error {
    Error::bug(error.to_string())
}

/// The bytes of the values of an array, with their offsets.
fn array_bytes(array: &ArrayRef) -> usize {
    fn of_ends<O: OffsetSizeTrait>(ends: &[O]) -> (usize, usize) {
        let at = |end: Option<&O>| end.map_or(0, |end| end.as_usize());
        (at(ends.first()), at(ends.last()))
    }
    fn flat<T: ByteArrayType>(array: &GenericByteArray<T>) -> usize {
        let (from, to) = of_ends(array.value_offsets());
        to - from + size_of_val(array.value_offsets())
    }
    fn nested<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> usize {
        let (from, to) = of_ends(list.value_offsets());
        array_bytes(&list.values().slice(from, to - from)) + size_of_val(list.value_offsets())
    }
    let views =
        |lengths: &mut dyn Iterator<Item = u32>| lengths.map(|length| length as usize + size_of::<u128>()).sum();
    match array.data_type() {
        DataType::Utf8View => views(&mut array.as_string_view().lengths()),
        DataType::BinaryView => views(&mut array.as_binary_view().lengths()),
        DataType::Utf8 => flat(array.as_string::<i32>()),
        DataType::LargeUtf8 => flat(array.as_string::<i64>()),
        DataType::Binary => flat(array.as_binary::<i32>()),
        DataType::LargeBinary => flat(array.as_binary::<i64>()),
        DataType::List(_) => nested(array.as_list::<i32>()),
        DataType::LargeList(_) => nested(array.as_list::<i64>()),
        DataType::FixedSizeList(..) => array_bytes(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(array_bytes).sum(),
        DataType::Boolean => array.len().div_ceil(8),
        other => match element_width(other) {
            Some(width) => width * array.len(),
            None => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
        },
    }
}

/// Adds the size in bytes of each value of `array` to the corresponding entry of `sizes`: the bytes of its elements, without
/// offsets and lengths.
pub fn add_sizes(array: &ArrayRef, sizes: &mut [u64]) {
    match array.data_type() {
        DataType::Utf8View => add_lens(array.as_string_view().lengths(), sizes),
        DataType::BinaryView => add_lens(array.as_binary_view().lengths(), sizes),
        DataType::Utf8 => add_ends(array.as_string::<i32>(), sizes),
        DataType::LargeUtf8 => add_ends(array.as_string::<i64>(), sizes),
        DataType::Binary => add_ends(array.as_binary::<i32>(), sizes),
        DataType::LargeBinary => add_ends(array.as_binary::<i64>(), sizes),
        DataType::List(_) => add_inner(array.as_list::<i32>().values(), array.as_list::<i32>().value_offsets(), sizes),
        DataType::LargeList(_) => {
            add_inner(array.as_list::<i64>().values(), array.as_list::<i64>().value_offsets(), sizes);
        }
        DataType::FixedSizeList(_, n) => {
            let n = usize::try_from(*n).unwrap_or(0);
            let offsets: Vec<i64> = (0..=array.len()).map(|i| (i * n) as i64).collect();
            add_inner(array.as_fixed_size_list().values(), &offsets, sizes);
        }
        DataType::Struct(_) => array.as_struct().columns().iter().for_each(|part| add_sizes(part, sizes)),
        other => {
            let width = element_width(other).unwrap_or(0) as u64;
            sizes.iter_mut().for_each(|size| *size = size.saturating_add(width));
        }
    }
}

fn add_lens(lens: impl Iterator<Item = u32>, sizes: &mut [u64]) {
    sizes.iter_mut().zip(lens).for_each(|(size, len)| *size = size.saturating_add(len.into()));
}

fn add_ends<T: ByteArrayType>(array: &GenericByteArray<T>, sizes: &mut [u64]) {
    for (size, ends) in sizes.iter_mut().zip(array.value_offsets().windows(2)) {
        *size = size.saturating_add(between(ends));
    }
}

fn between<O: OffsetSizeTrait>(ends: &[O]) -> u64 {
    match ends {
        [from, to] => (to.as_usize() - from.as_usize()) as u64,
        _ => 0,
    }
}

fn add_inner<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &[O], sizes: &mut [u64]) {
    let fixed = element_width(values.data_type()).map(|width| width as u64);
    let mut inner = if fixed.is_some() { Vec::new() } else { vec![0; values.len()] };
    if fixed.is_none() {
        add_sizes(values, &mut inner);
    }
    for (size, ends) in sizes.iter_mut().zip(offsets.windows(2)) {
        let bytes = match (fixed, ends) {
            (Some(width), ends) => between(ends).saturating_mul(width),
            (None, [from, to]) => inner.get(from.as_usize()..to.as_usize()).unwrap_or_default().iter().sum(),
            _ => 0,
        };
        *size = size.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int8Type, Int16Type};
    use arrow_array::{BinaryViewArray, DictionaryArray, FixedSizeListArray, Int64Array, ListArray, StringArray};
    use std::sync::Arc;

    #[test]
    fn sizes_add_up_over_columns_and_follow_slices() {
        let blobs: ArrayRef =
            Arc::new(BinaryViewArray::from_iter_values([&b"abc"[..], b"", b"a value of 21 bytes .."]));
        let lists = [Some(vec![Some(1), Some(2)]), None, Some(vec![Some(3)])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int16Type, _, _>(lists));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let mut sizes = [0; 3];
        for column in [&blobs, &lists, &numbers] {
            add_sizes(column, &mut sizes);
        }
        assert_eq!(sizes, [3 + 4 + 8, 8, 22 + 2 + 8]);
        let mut tail = [0; 2];
        for column in [&blobs, &lists, &numbers] {
            add_sizes(&column.slice(1, 2), &mut tail);
        }
        assert_eq!(tail, [8, 32]);
    }

    #[test]
    fn memory_that_is_shared_is_held_once() {
        let all = Buffer::from_vec((0..4000i64).collect::<Vec<_>>());
        let column = |at: usize| -> ArrayRef {
            Arc::new(Int64Array::new(arrow_buffer::ScalarBuffer::new(all.clone(), 100 * at, 100), None))
        };
        let rows = RecordBatch::try_from_iter((0..40).map(|at| (format!("c{at}"), column(at)))).unwrap();
        assert_eq!((rows_bytes(&rows), held_bytes([&rows])), (32_000, all.capacity()));
        // One column, or a part of it, keeps all of the memory.
        let one = rows.project(&[7]).unwrap();
        assert_eq!((rows_bytes(&one), held_bytes([&one, &one.slice(3, 5)])), (800, all.capacity()));
    }

    #[test]
    fn parts_of_rows_have_the_bytes_of_the_whole() {
        let blobs: ArrayRef = Arc::new(BinaryViewArray::from_iter_values((0..100).map(|n| vec![7; n])));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|n| "x".repeat(n))));
        let lists = (0..100).map(|n| Some((0..n).map(Some)));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int16Type, _, _>(lists));
        let pairs = (0..100).map(|n| Some([Some(n), Some(2 * n)]));
        let pairs: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(pairs, 2));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let small: ArrayRef =
            Arc::new(DictionaryArray::<Int8Type>::from_iter(["a", "b"].into_iter().cycle().take(100)));
        let part = |of: &ArrayRef| RecordBatch::try_from_iter([("x", of.clone())]).unwrap();
        let wanted = [4950 + 16 * 100, 4950 + 4 * 101, 2 * 4950 + 4 * 101, 400, 800];
        for (array, wanted) in [&blobs, &texts, &lists, &pairs, &numbers].into_iter().zip(wanted) {
            assert_eq!(rows_bytes(&part(array)), wanted, "{}", array.data_type());
        }
        for array in [blobs, texts, lists, pairs, numbers, small] {
            let whole = part(&array);
            let parts: usize = (0..100).step_by(10).map(|at| rows_bytes(&whole.slice(at, 10))).sum();
            // Each part has the end of its last value, or the values of a dictionary, of its own.
            assert!((rows_bytes(&whole)..rows_bytes(&whole) + 10 * 40).contains(&parts), "{}", array.data_type());
        }
    }

    /// A small part is copied, whatever its type, and a large one is not.
    #[test]
    fn parts_that_are_copied_keep_their_values_and_little_memory() {
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter((0..9_000).map(|n| (n % 7 != 0).then(|| "x".repeat(n % 90)))));
        let views: ArrayRef = Arc::new(BinaryViewArray::from_iter_values((0..9_000).map(|n| vec![7; n % 90])));
        let lists = (0..9_000).map(|n| (n % 5 != 0).then(|| (0..n % 40).map(Some)));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int16Type, _, _>(lists));
        let fixed = (0..9_000).map(|n| Some((0..40).map(move |i| Some(n + i))));
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(fixed, 40));
        let rows = RecordBatch::try_from_iter([("t", texts), ("v", views), ("l", lists), ("f", fixed)]).unwrap();
        for (at, len) in [(0, 0), (0, 100), (4_321, 77), (8_999, 1)] {
            let part = rows.slice(at, len);
            let copied = owned(part.clone()).unwrap();
            assert_eq!(copied, part);
            assert!(held_bytes([&copied]) < 80_000 && held_bytes([&part]) > 800_000);
        }
        let most = rows.slice(10, 8_000);
        assert_eq!(held_bytes([&owned(most.clone()).unwrap(), &most]), held_bytes([&rows]));
    }
}
