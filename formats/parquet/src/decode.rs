//! Converts the columns of a file to the canonical columns of core's `FieldType`. Sinks use the same conversion for the
//! rows that they are given in other Arrow types.

use crate::json_text;
use crate::mapping::{MappedColumn, Mapping};
use crate::temporal;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, LargeListArray, ListArray,
    RecordBatch, RecordBatchOptions, Scalar, StringViewArray, make_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::ArrowError;
use packhorse_core::{DataType, Error, Field, FieldType, KEY, Kind, Result, Rows, canonical, with_nulls};
use std::sync::Arc;

/// Converts the columns of a file, in the order of [`Mapping::roots`], to rows.
pub(crate) fn rows(mapping: &Mapping, roots: &[usize], columns: &[ArrayRef], len: usize) -> Result<Rows> {
    let arrays = mapping.columns.iter().map(|column| {
        if column.unread {
            return Ok(arrow_array::new_null_array(column.field.data_type(), len));
        }
        let place = roots.binary_search(&column.root).ok().and_then(|place| columns.get(place));
        let array = place.ok_or_else(|| Error::content("a row group lacks a column; write the file again"))?;
        let named = |e: Error| {
            let name = column.field.name();
            e.context(format_args!("column {name} of type {}", array.data_type())).in_field(name)
        };
        decode(column, array).map_err(named)
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(len));
    RecordBatch::try_new_with_options(Arc::clone(&mapping.schema), arrays, &options).map_err(damaged)
}

fn decode(column: &MappedColumn, array: &ArrayRef) -> Result<ArrayRef> {
    if column.json {
        return json_text::texts(array);
    }
    let mut array = Arc::clone(array);
    for (depth, part) in column.path.iter().enumerate() {
        if let Some(paths) = column.paths.filter(|_| depth + 1 == column.path.len()) {
            has_bytes(&array, *part, paths, column.strict)?;
        }
        array = part_of(&array, *part, column.strict)?;
    }
    if column.field.name() == KEY {
        array = match array.data_type() {
            DataType::Dictionary(_, values) if values.is_integer() => {
                digits(&canonical(&FieldType::Scalar(DataType::clone(values)), &array)?)?
            }
            kind if kind.is_integer() => digits(&array)?,
            _ => array,
        };
    }
    if column.filled {
        array = filled(&array)?;
    }
    let array = canonical(&column.kind, &temporal::read(&column.field, &array)?).map_err(|e| match e.kind() {
        Kind::Content => e.hint("write the file again"),
        _ => e
            .hint("fill them in, or leave the column out with `drop`, or all such columns with `unsupported=skip`")
            .hint(match column.kind.element() {
                Some(DataType::BinaryView) => "`read=fill=NAME`, with `from` the format, makes empty bytes of them",
                Some(DataType::Utf8View | DataType::Float32 | DataType::Float64) => {
                    "`read=fill=NAME`, with `from` the format, makes empty text or NaN of them, `read=json=NAME` JSON of the column"
                }
                _ => "`read=json=NAME`, with `from` the format, reads a column as JSON",
            }),
    })?;
    if !column.field.is_nullable() && array.null_count() > 0 {
        return Err(match column.field.name() == KEY {
            true => {
                Error::content("holds a null, and each sample has a key; fill it in, or give the column another name")
            }
            false => Error::content("holds a null, though it is declared as required; write the file again"),
        });
    }
    Ok(array)
}

/// Lists whose nulls are empty text or bytes, or NaN; nulls of other types, and lists that are null, stay.
fn filled(array: &ArrayRef) -> Result<ArrayRef> {
    use DataType::{
        Binary, BinaryView, FixedSizeList, Float32, Float64, LargeBinary, LargeList, LargeUtf8, List, Utf8, Utf8View,
    };
    let inside = match array.data_type() {
        List(_) => array.as_list::<i32>().values(),
        LargeList(_) => array.as_list::<i64>().values(),
        FixedSizeList(..) => array.as_fixed_size_list().values(),
        _ => return Ok(Arc::clone(array)),
    };
    let blank: Option<ArrayRef> = match inside.data_type() {
        _ if inside.null_count() == 0 => None,
        Float32 => Some(Arc::new(Float32Array::from(vec![f32::NAN]))),
        Float64 => Some(Arc::new(Float64Array::from(vec![f64::NAN]))),
        kind @ (Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView) => {
            Some(with_nulls(&arrow_array::new_null_array(kind, 1), None)?)
        }
        _ => None,
    };
    let inside = match (blank, inside.nulls()) {
        (Some(blank), Some(nulls)) => {
            let valid = BooleanArray::new(nulls.inner().clone(), None);
            arrow_select::zip::zip(&valid, inside, &Scalar::new(blank)).map_err(damaged)?
        }
        _ => filled(inside)?,
    };
    let lists = array.to_data().into_builder().child_data(vec![inside.to_data()]).build();
    lists.map(make_array).map_err(damaged)
}

/// Whole numbers as text: keys.
fn digits(array: &ArrayRef) -> Result<ArrayRef> {
    arrow_array::downcast_integer_array!(
        array => Ok(Arc::new(array.iter().map(|value| value.map(|value| value.to_string())).collect::<StringViewArray>())),
        other => Err(mismatch(other, "a whole number"))
    )
}

/// Refuses pictures of which only the path is there, also in lists.
fn has_bytes(array: &ArrayRef, bytes: usize, paths: usize, strict: bool) -> Result<()> {
    let inside = match array.data_type() {
        DataType::List(_) => Some(array.as_list::<i32>().values()),
        DataType::LargeList(_) => Some(array.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => Some(array.as_fixed_size_list().values()),
        _ => None,
    };
    if let Some(inside) = inside {
        return has_bytes(inside, bytes, paths, false);
    }
    let parts = array.as_struct_opt().map(|parts| parts.columns()).unwrap_or_default();
    if parts.get(paths).is_some_and(|paths| *paths.data_type() == DataType::Null) {
        return Ok(());
    }
    let (bytes, paths) = (part_of(array, bytes, strict)?, part_of(array, paths, strict)?);
    if bytes.null_count() == 0 {
        return Ok(());
    }
    let paths = canonical(&FieldType::Text, &paths)?;
    let alone = paths.as_string_view().iter().enumerate().find(|(row, path)| path.is_some() && bytes.is_null(*row));
    match alone {
        Some((_, path)) => {
            let message = format!("has the path {:?} of a file, and not its bytes", path.unwrap_or_default());
            let hint = "store the files in the table (Hugging Face's `save_to_disk` does), or choose other columns";
            Err(Error::content(message).hint(hint))
        }
        None => Ok(()),
    }
}

/// A child of a struct, null where the struct is null; of structs in lists, the lists of it.
fn part_of(array: &ArrayRef, part: usize, strict: bool) -> Result<ArrayRef> {
    let nulls = || array.nulls().cloned();
    let item = |child: &ArrayRef| Arc::new(Field::new("item", child.data_type().clone(), true));
    let lists = |offsets: &OffsetBuffer<i32>, child: ArrayRef| -> Result<ArrayRef> {
        Ok(Arc::new(ListArray::try_new(item(&child), offsets.clone(), child, nulls()).map_err(damaged)?))
    };
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            return lists(list.offsets(), part_of(list.values(), part, false)?);
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            return lists(map.offsets(), part_of(&entries, part, false)?);
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let child = part_of(list.values(), part, false)?;
            let lists = LargeListArray::try_new(item(&child), list.offsets().clone(), child, nulls());
            return Ok(Arc::new(lists.map_err(damaged)?));
        }
        DataType::FixedSizeList(_, size) => {
            let child = part_of(array.as_fixed_size_list().values(), part, false)?;
            let lists = FixedSizeListArray::try_new_with_length(item(&child), *size, child, nulls(), array.len());
            return Ok(Arc::new(lists.map_err(damaged)?));
        }
        _ => {}
    }
    let parent = array.as_struct_opt().ok_or_else(|| mismatch(array.data_type(), "a struct"))?;
    let child = parent.columns().get(part).ok_or_else(|| mismatch(array.data_type(), "a struct with more parts"))?;
    match parent.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => Ok(Arc::clone(child)),
        Some(_) if strict => Err(Error::unsupported(
            "holds null structs, which can't be told from null parts; leave out its parts with `drop`, or all such columns with `unsupported=skip`",
        )),
        Some(nulls) => with_nulls(child, NullBuffer::union(Some(nulls), child.logical_nulls().as_ref())),
    }
}

fn mismatch(found: &DataType, wanted: &str) -> Error {
    Error::content(format!("holds {found} where {wanted} was expected; write the file again"))
}

fn damaged(error: ArrowError) -> Error {
    Error::content(format!("is damaged: {error}"))
}
