//! The values of Arrow arrays as JSON text, for the types that a table of columns has.
//!
//! * Integers and decimals with all digits; floats with the shortest digits that round-trip; NaN and infinities as
//!   null, since JSON can't express them.
//! * Dates, times and timestamps as ISO 8601 strings, with `Z` if the file marks them as UTC, and with 0, 3, 6 or 9
//!   decimals of a second as needed.
//! * Lists as arrays, structs as objects with all their members, maps as objects whose names are the keys' text.
//! * Binary data, intervals and all other types: refused by [`check`], by column name, before anything is read.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType, downcast_integer_array, downcast_temporal_array};
use arrow_schema::DataType;
use packhorse_core::{Error, Result, shortest_half};
use serde::Serialize;

/// Refuses a column that JSON can't hold, with an `Unsupported` error that names it and its type.
pub(super) fn check(name: &str, kind: &DataType) -> Result<()> {
    let inner = |field: &str| format!("{name}.{field}");
    match kind {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Err(refused(name, "binary data, which JSON can't hold"))
        }
        DataType::List(item) => check(&inner(item.name()), item.data_type()),
        DataType::Struct(fields) => fields.iter().try_for_each(|f| check(&inner(f.name()), f.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => {
                if !pair.first().is_some_and(|key| is_name(key.data_type())) {
                    return Err(refused(name, "a map whose keys are neither text nor integers"));
                }
                pair.iter().try_for_each(|f| check(&inner(f.name()), f.data_type()))
            }
            _ => Err(refused(name, "a map without entries")),
        },
        DataType::Null | DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Date32 => Ok(()),
        DataType::Time32(_) | DataType::Time64(_) | DataType::Timestamp(..) => Ok(()),
        DataType::Decimal128(..) | DataType::Decimal256(..) => Ok(()),
        kind if kind.is_integer() || kind.is_floating() => Ok(()),
        kind => Err(refused(name, &format!("values of the type {kind}"))),
    }
}

/// Whether a value can be a key, or the name of an object's member.
pub(super) fn is_name(kind: &DataType) -> bool {
    *kind == DataType::Utf8 || kind.is_integer()
}

fn refused(name: &str, what: &str) -> Error {
    Error::unsupported(format!("the column {name:?} holds {what}; choose the columns to keep without it"))
}

/// Appends the value at `row` of an array whose type [`check`] has passed.
pub(super) fn write(array: &dyn Array, row: usize, json: &mut Vec<u8>) -> Result<()> {
    if array.is_null(row) {
        return put(json, &());
    }
    downcast_integer_array!(
        array => put(json, &array.value(row)),
        _ => write_other(array, row, json),
    )
}

fn write_other(array: &dyn Array, row: usize, json: &mut Vec<u8>) -> Result<()> {
    match array.data_type() {
        DataType::Null => put(json, &()),
        DataType::Boolean => put(json, &array.as_boolean().value(row)),
        DataType::Utf8 => put(json, array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => put(json, array.as_string::<i64>().value(row)),
        DataType::List(_) => write_list(array, row, json),
        DataType::Struct(_) => write_struct(array, row, json),
        DataType::Map(..) => write_map(array, row, json),
        DataType::Float16 => put(json, &shortest_half(value::<Float16Type>(array, row))),
        DataType::Float32 => put(json, &value::<Float32Type>(array, row)),
        DataType::Float64 => put(json, &value::<Float64Type>(array, row)),
        DataType::Decimal128(..) => digits::<Decimal128Type>(array, row, json),
        DataType::Decimal256(..) => digits::<Decimal256Type>(array, row, json),
        _ => write_time(array, row, json),
    }
}

fn value<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

fn put<T: Serialize + ?Sized>(json: &mut Vec<u8>, value: &T) -> Result<()> {
    serde_json::to_writer(json, value).map_err(|e| Error::bug("writing a value as JSON failed").caused_by(e))
}

fn digits<T: DecimalType>(array: &dyn Array, row: usize, json: &mut Vec<u8>) -> Result<()> {
    json.extend_from_slice(array.as_primitive::<T>().value_as_string(row).as_bytes());
    Ok(())
}

fn write_time(array: &dyn Array, row: usize, json: &mut Vec<u8>) -> Result<()> {
    let kind = array.data_type();
    // Parquet knows UTC and local time only, so a zone is UTC.
    let zone = if matches!(kind, DataType::Timestamp(_, Some(_))) { "Z" } else { "" };
    downcast_temporal_array!(
        array => match kind {
            DataType::Date32 => put_time(json, array.value_as_date(row), ""),
            DataType::Timestamp(..) => put_time(json, array.value_as_datetime(row), zone),
            _ => put_time(json, array.value_as_time(row), ""),
        },
        kind => Err(Error::bug(format!("a column of the type {kind} was not refused"))),
    )
}

/// chrono's `Debug` is ISO 8601 by contract, with as many decimals as needed.
fn put_time(json: &mut Vec<u8>, time: Option<impl std::fmt::Debug>, zone: &str) -> Result<()> {
    let time = time.ok_or_else(|| Error::content("holds a date or time outside the calendar"))?;
    json.extend_from_slice(format!("\"{time:?}{zone}\"").as_bytes());
    Ok(())
}

fn write_list(array: &dyn Array, row: usize, json: &mut Vec<u8>) -> Result<()> {
    let list = array.as_list::<i32>().value(row);
    json.push(b'[');
    for item in 0..list.len() {
        if item > 0 {
            json.push(b',');
        }
        write(&list, item, json)?;
    }
    json.push(b']');
    Ok(())
}

fn write_struct(array: &dyn Array, row: usize, json: &mut Vec<u8>) -> Result<()> {
    let members = array.as_struct();
    json.push(b'{');
    for (i, (field, column)) in members.fields().iter().zip(members.columns()).enumerate() {
        if i > 0 {
            json.push(b',');
        }
        put(json, field.name())?;
        json.push(b':');
        write(column, row, json)?;
    }
    json.push(b'}');
    Ok(())
}

fn write_map(array: &dyn Array, row: usize, json: &mut Vec<u8>) -> Result<()> {
    let entries = array.as_map().value(row);
    let (Some(keys), Some(values)) = (entries.columns().first(), entries.columns().get(1)) else {
        return Err(Error::content("holds a map without values"));
    };
    json.push(b'{');
    for entry in 0..entries.len() {
        if entry > 0 {
            json.push(b',');
        }
        let start = json.len();
        write(keys, entry, json)?;
        if json.get(start) != Some(&b'"') {
            json.insert(start, b'"');
            json.push(b'"');
        }
        json.push(b':');
        write(values, entry, json)?;
    }
    json.push(b'}');
    Ok(())
}
