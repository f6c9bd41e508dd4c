//! Appends Arrow columns to the fields of a shard.

use super::field_writer::{FieldWriter, Regions};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use packhorse_core::{DataType, Error, FieldType, Result, bytes_of, element_width};

/// Appends the samples of `array`.
pub(crate) fn push(column: &mut FieldWriter, array: &ArrayRef, regions: &mut Regions) -> Result<()> {
    column.rows += array.len() as u64;
    column.push_present((0..array.len()).map(|row| array.is_valid(row)), regions)?;
    match column.kind.clone() {
        FieldType::Blob | FieldType::Text => push_values(column, array, regions),
        FieldType::Scalar(_) | FieldType::Tensor { .. } => push_fixed(column, array, regions),
        FieldType::Ragged { rank, .. } => push_ragged(column, array, rank, regions),
        FieldType::List { depth, .. } => push_lists(column, array, 0, depth, regions),
    }
}

/// The approximate bytes of sample `row` of `array`. It depends on the sample alone, so that the file does not depend
/// on how samples are grouped into batches.
pub(crate) fn weight(array: &dyn Array, row: usize) -> usize {
    if array.is_null(row) {
        return 1;
    }
    let mut range = row..row + 1;
    let mut array = array;
    while let Some((values, from, to)) = lists_of(array, range.start, range.end) {
        (array, range) = (values, from..to);
    }
    1 + match Bytes::of(array) {
        Some(bytes) => range.map(|i| bytes.get(i).len() + 16).sum(),
        None => range.len() * element_width(array.data_type()).unwrap_or(1),
    }
}

/// The values of a list array, and the range of them that rows `from..to` hold.
fn lists_of(array: &dyn Array, from: usize, to: usize) -> Option<(&dyn Array, usize, usize)> {
    let at = |offsets: &[i32]| Some((*offsets.get(from)? as usize, *offsets.get(to)? as usize));
    let large = |offsets: &[i64]| Some((*offsets.get(from)? as usize, *offsets.get(to)? as usize));
    let (values, (from, to)): (&ArrayRef, _) = match array.data_type() {
        DataType::List(_) => (array.as_list::<i32>().values(), at(array.as_list::<i32>().value_offsets())?),
        DataType::LargeList(_) => (array.as_list::<i64>().values(), large(array.as_list::<i64>().value_offsets())?),
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            (array.as_fixed_size_list().values(), (from * size, to * size))
        }
        DataType::Struct(_) => return lists_of(array.as_struct().column_by_name("data")?, from, to),
        _ => return None,
    };
    Some((values, from, to))
}

fn push_values(column: &mut FieldWriter, array: &ArrayRef, regions: &mut Regions) -> Result<()> {
    let bytes = Bytes::of(array).ok_or_else(|| mismatch(array))?;
    for row in 0..array.len() {
        column.push_value(if array.is_valid(row) { bytes.get(row) } else { &[] }, regions)?;
    }
    Ok(())
}

/// Elements of samples of fixed size; nulls become zero.
fn push_fixed(column: &mut FieldWriter, array: &ArrayRef, regions: &mut Regions) -> Result<()> {
    let mut flat = array;
    while let Some(list) = flat.as_fixed_size_list_opt() {
        flat = list.values();
    }
    let each = flat.len() / array.len().max(1);
    if let Some(texts) = Bytes::of(flat) {
        for i in 0..flat.len() {
            column.push_value(if array.is_valid(i / each.max(1)) { texts.get(i) } else { &[] }, regions)?;
        }
        return Ok(());
    }
    let bytes = bytes_of(flat)?;
    if array.null_count() == 0 {
        return column.push_elements(&bytes, regions);
    }
    let mut bytes = bytes.to_vec();
    let size = (bytes.len() / array.len().max(1)).max(1);
    for (row, sample) in bytes.chunks_mut(size).enumerate() {
        if array.is_null(row) {
            sample.fill(0);
        }
    }
    column.push_elements(&bytes.into(), regions)
}

fn push_ragged(column: &mut FieldWriter, array: &ArrayRef, rank: usize, regions: &mut Regions) -> Result<()> {
    let parts = array.as_struct_opt().ok_or_else(|| mismatch(array))?;
    let part = |name| parts.column_by_name(name).ok_or_else(|| mismatch(array));
    let shapes = part("shape")?.as_fixed_size_list_opt().ok_or_else(|| mismatch(array))?;
    let mut dims = bytes_of(shapes.values())?.to_vec();
    for (row, shape) in dims.chunks_mut(4 * rank.max(1)).enumerate() {
        if array.is_null(row) {
            shape.fill(0);
        }
    }
    column.shapes.append(&dims, &mut regions.spill)?;
    push_runs(column, array, part("data")?, 0, 1, regions)
}

fn push_lists(
    column: &mut FieldWriter,
    array: &ArrayRef,
    level: usize,
    depth: usize,
    regions: &mut Regions,
) -> Result<()> {
    push_runs(column, array, array, level, depth, regions)
}

/// Appends the lists of `lists`, empty where `outer` is null, and their values in contiguous runs.
fn push_runs(
    column: &mut FieldWriter,
    outer: &ArrayRef,
    lists: &ArrayRef,
    level: usize,
    depth: usize,
    regions: &mut Regions,
) -> Result<()> {
    let mut run = 0..0;
    let mut inside: Option<&dyn Array> = None;
    for row in 0..lists.len() {
        if outer.is_null(row) || lists.is_null(row) {
            column.push_offset(level, 0, regions)?;
            continue;
        }
        let (values, from, to) = lists_of(lists, row, row + 1).ok_or_else(|| mismatch(lists))?;
        inside = Some(values);
        column.push_offset(level, to - from, regions)?;
        if from != run.end {
            push_inside(column, values, run.clone(), level, depth, regions)?;
            run = from..from;
        }
        run.end = to;
    }
    match inside {
        Some(values) => push_inside(column, values, run, level, depth, regions),
        None => Ok(()),
    }
}

fn push_inside(
    column: &mut FieldWriter,
    values: &dyn Array,
    run: std::ops::Range<usize>,
    level: usize,
    depth: usize,
    regions: &mut Regions,
) -> Result<()> {
    let values = values.slice(run.start, run.len());
    match level + 1 < depth {
        true => push_lists(column, &values, level + 1, depth, regions),
        false => push_fixed(column, &values, regions),
    }
}

fn mismatch(array: &ArrayRef) -> Error {
    Error::bug(format!("a column of type {} that does not match its schema", array.data_type()))
}

/// Variable-length values of any of Arrow's types.
enum Bytes<'a> {
    BinaryView(&'a arrow_array::BinaryViewArray),
    Binary(&'a arrow_array::BinaryArray),
    LargeBinary(&'a arrow_array::LargeBinaryArray),
    TextView(&'a arrow_array::StringViewArray),
    Text(&'a arrow_array::StringArray),
    LargeText(&'a arrow_array::LargeStringArray),
}

impl<'a> Bytes<'a> {
    fn of(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::BinaryView => Bytes::BinaryView(array.as_binary_view()),
            DataType::Binary => Bytes::Binary(array.as_binary()),
            DataType::LargeBinary => Bytes::LargeBinary(array.as_binary()),
            DataType::Utf8View => Bytes::TextView(array.as_string_view()),
            DataType::Utf8 => Bytes::Text(array.as_string()),
            DataType::LargeUtf8 => Bytes::LargeText(array.as_string()),
            _ => return None,
        })
    }

    fn get(&self, row: usize) -> &'a [u8] {
        match self {
            Bytes::BinaryView(array) => array.value(row),
            Bytes::Binary(array) => array.value(row),
            Bytes::LargeBinary(array) => array.value(row),
            Bytes::TextView(array) => array.value(row).as_bytes(),
            Bytes::Text(array) => array.value(row).as_bytes(),
            Bytes::LargeText(array) => array.value(row).as_bytes(),
        }
    }
}
