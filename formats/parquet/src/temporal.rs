//! Dates, times of day, timestamps and durations. Rows hold 8-byte ticks with the column's NumPy type and, if Arrow's
//! type says more, the metadata [`LOGICAL`]; files hold Arrow's and Parquet's own types.
//!
//! | NumPy type | `LOGICAL` | in files |
//! | --- | --- | --- |
//! | `<M8[s]`, `<M8[ms]`, `<M8[us]`, `<M8[ns]` | none | timestamp of that unit; in Parquet seconds are milliseconds |
//! | the same | `timestamp[us, tz=UTC]` | timestamp with the time zone |
//! | `<m8[s]` to `<m8[ns]` | none | duration; an integer in Parquet, with Arrow's type in the metadata |
//! | `<m8[s]` to `<m8[ns]` | `time32[s]`, `time64[us]` | time of day; in Parquet seconds are milliseconds |
//! | `<M8[D]`, `<M8[ms]` | `date32`, `date64` | date |
//! | any other | | 8 bytes |

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Time32MillisecondType, Time32SecondType, TimestampMillisecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, Date64Array, FixedSizeListArray, Int32Array, LargeListArray, ListArray, StructArray, make_array,
};
use arrow_buffer::Buffer;
use arrow_schema::TimeUnit;
use packhorse_core::{DataType, Error, Field, FieldType, LOGICAL, NUMPY, Result, array_of, bytes_of, numpy_type};
use std::sync::Arc;

const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Second),
    ("ms", TimeUnit::Millisecond),
    ("us", TimeUnit::Microsecond),
    ("ns", TimeUnit::Nanosecond),
];

/// The name of a unit in NumPy and Arrow.
pub(crate) fn unit_name(unit: &TimeUnit) -> &'static str {
    UNITS.iter().find(|(_, known)| known == unit).map_or("", |(name, _)| name)
}

/// The NumPy type of a temporal type.
pub(crate) fn numpy(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Timestamp(unit, _) => format!("<M8[{}]", unit_name(unit)),
        DataType::Date32 => "<M8[D]".to_owned(),
        DataType::Date64 => "<M8[ms]".to_owned(),
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => {
            format!("<m8[{}]", unit_name(unit))
        }
        _ => return None,
    })
}

/// The name of a temporal type in Arrow's documentation and in Hugging Face's `datasets`.
pub(crate) fn name(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Timestamp(unit, None) => format!("timestamp[{}]", unit_name(unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp[{}, tz={zone}]", unit_name(unit)),
        DataType::Date32 => "date32".to_owned(),
        DataType::Date64 => "date64".to_owned(),
        DataType::Time32(unit) => format!("time32[{}]", unit_name(unit)),
        DataType::Time64(unit) => format!("time64[{}]", unit_name(unit)),
        DataType::Duration(unit) => format!("duration[{}]", unit_name(unit)),
        _ => return None,
    })
}

fn named(name: &str) -> Option<DataType> {
    let (word, inner) = name.split_once('[').unwrap_or((name, ""));
    let inner = inner.strip_suffix(']').unwrap_or_default();
    let (unit, zone) = inner.split_once(", tz=").map_or((inner, None), |(unit, zone)| (unit, Some(zone)));
    let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, unit)| *unit);
    Some(match word {
        "date32" => DataType::Date32,
        "date64" => DataType::Date64,
        "time32" => DataType::Time32(unit.filter(|u| matches!(u, TimeUnit::Second | TimeUnit::Millisecond))?),
        "time64" => DataType::Time64(unit.filter(|u| matches!(u, TimeUnit::Microsecond | TimeUnit::Nanosecond))?),
        "duration" => DataType::Duration(unit?),
        "timestamp" => DataType::Timestamp(unit?, zone.map(Into::into)),
        _ => return None,
    })
}

/// The Arrow type of the ticks in the column `field`, if Arrow has their unit.
pub(crate) fn logical(field: &Field) -> Option<DataType> {
    let numpy_name = numpy_type(field)?;
    if *FieldType::of(field).ok()?.element()? != DataType::FixedSizeBinary(8) {
        return None;
    }
    let said = field.metadata().get(LOGICAL).and_then(|name| named(name));
    if let Some(said) = said.filter(|said| numpy(said).as_deref() == Some(numpy_name)) {
        return Some(said);
    }
    let (word, unit) = numpy_name.strip_suffix(']')?.split_once('[')?;
    let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, unit)| *unit)?;
    match word {
        "<M8" => Some(DataType::Timestamp(unit, None)),
        "<m8" => Some(DataType::Duration(unit)),
        _ => None,
    }
}

/// The metadata of a column of ticks whose elements have the type `data_type` in a file.
pub(crate) fn metadata(data_type: &DataType) -> Vec<(&'static str, String)> {
    let element = element(data_type);
    let Some(numpy) = numpy(element) else { return Vec::new() };
    let plain = matches!(element, DataType::Timestamp(_, None) | DataType::Duration(_));
    let logical = name(element).filter(|_| !plain).map(|name| (LOGICAL, name));
    [(NUMPY, numpy)].into_iter().chain(logical).collect()
}

/// The innermost element type of nested lists.
fn element(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            element(item.data_type())
        }
        DataType::Dictionary(_, values) => element(values),
        other => other,
    }
}

/// The type of `logical` in a Parquet file. Parquet has no timestamps and times of day in seconds, and its dates count days.
pub(crate) fn in_parquet(logical: DataType) -> DataType {
    match logical {
        DataType::Timestamp(TimeUnit::Second, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone),
        DataType::Date64 => DataType::Date32,
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        other => other,
    }
}

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Converts the ticks of the column `field` to their Arrow type, or with `parquet` to their type in Parquet.
pub(crate) fn written(field: &Field, array: &ArrayRef, parquet: bool) -> Result<ArrayRef> {
    let Some(logical) = logical(field) else { return Ok(Arc::clone(array)) };
    let stored = if parquet { in_parquet(logical.clone()) } else { logical.clone() };
    let ticks = |array: &ArrayRef| match array.data_type() {
        DataType::FixedSizeBinary(8) => of_ticks(array, &stored, &logical),
        _ => Ok(Arc::clone(array)),
    };
    elements(array, &ticks)
}

/// Converts 8-byte ticks of the type `logical` to `wanted`.
fn of_ticks(array: &ArrayRef, wanted: &DataType, logical: &DataType) -> Result<ArrayRef> {
    let bytes = bytes_of(array)?;
    let (values, _) = bytes.as_slice().as_chunks::<8>();
    let nulls = array.nulls();
    let outside = || {
        Error::content(format!("holds a time outside of the range of {wanted}")).hint("leave the field out with `drop`")
    };
    if wanted.primitive_width() == Some(4) {
        let unit = if (logical, wanted) == (&DataType::Date64, &DataType::Date32) { DAY } else { 1 };
        let finer = if matches!(wanted, DataType::Time32(_)) && logical != wanted { 1000 } else { 1 };
        let narrow = values.iter().enumerate().map(|(i, value)| match (array.is_null(i), i64::from_le_bytes(*value)) {
            (true, _) => Ok(0),
            (false, value) if value % unit != 0 => Err(Error::content("holds a date with a time of day")
                .hint("cast it to a timestamp, or leave the field out")),
            (false, value) => {
                let value = (value / unit).checked_mul(finer).and_then(|value| i32::try_from(value).ok());
                value.ok_or_else(outside)
            }
        });
        let narrow = Int32Array::new(narrow.collect::<Result<Vec<_>>>()?.into(), nulls.cloned());
        return retyped(&(Arc::new(narrow) as ArrayRef), wanted);
    }
    let bytes = if wanted != logical {
        let scale = |(i, value): (usize, &[u8; 8])| match i64::from_le_bytes(*value) {
            // NumPy's NaT.
            i64::MIN => Ok(i64::MIN),
            _ if array.is_null(i) => Ok(0),
            value => value.checked_mul(1000).ok_or_else(outside),
        };
        let scaled = values.iter().enumerate().map(scale).collect::<Result<Vec<i64>>>()?;
        Buffer::from(scaled.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
    } else {
        bytes
    };
    let ticks = array_of(wanted, bytes, array.len())?;
    let data = ticks.to_data().into_builder().nulls(nulls.cloned()).build();
    data.map(make_array).map_err(|e| Error::bug(e.to_string()))
}

/// Reinterprets the values as another type of the same width.
fn retyped(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    let data = array.to_data().into_builder().data_type(wanted.clone()).build();
    data.map(make_array).map_err(|e| Error::bug(e.to_string()))
}

/// Converts milliseconds and days back to the seconds and milliseconds of the column `field`; the inverse of [`in_parquet`].
pub(crate) fn read(field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    match logical(field) {
        Some(DataType::Timestamp(TimeUnit::Second, _)) => {}
        Some(DataType::Date64) => return elements(array, &millis_of_days),
        Some(DataType::Time32(TimeUnit::Second)) => return elements(array, &seconds_of_millis),
        _ => return Ok(Arc::clone(array)),
    }
    let seconds = |array: &ArrayRef| {
        let Some(millis) = array.as_primitive_opt::<TimestampMillisecondType>() else { return Ok(Arc::clone(array)) };
        let seconds = |value: i64| if value == i64::MIN { Ok(value) } else { whole_seconds(value) };
        Ok(Arc::new(millis.try_unary::<_, TimestampSecondType, _>(seconds)?) as ArrayRef)
    };
    elements(array, &seconds)
}

fn millis_of_days(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(days) = array.as_primitive_opt::<Date32Type>() else { return Ok(Arc::clone(array)) };
    let values = days.values().iter().map(|day| i64::from(*day) * DAY);
    Ok(Arc::new(Date64Array::new(values.collect(), days.nulls().cloned())))
}

fn seconds_of_millis(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(millis) = array.as_primitive_opt::<Time32MillisecondType>() else { return Ok(Arc::clone(array)) };
    let seconds = |value: i32| whole_seconds(value.into()).map(|seconds| seconds as i32);
    Ok(Arc::new(millis.try_unary::<_, Time32SecondType, _>(seconds)?))
}

/// Errors (kind `Content`): parts of a second.
fn whole_seconds(millis: i64) -> Result<i64> {
    match millis.rem_euclid(1000) {
        0 => Ok(millis.div_euclid(1000)),
        _ => {
            let message = "holds parts of a second, and its metadata says seconds";
            let hint = format!(
                "the values were changed and the metadata `{LOGICAL}` of the column was kept: write the file without it"
            );
            Err(Error::content(message).hint(hint))
        }
    }
}

/// Applies `change` to the innermost values of lists and structs.
fn elements(array: &ArrayRef, change: &dyn Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
    let bug = |e: arrow_schema::ArrowError| Error::bug(e.to_string());
    let item = |item: &Field, values: &ArrayRef| Arc::new(item.clone().with_data_type(values.data_type().clone()));
    Ok(match array.data_type() {
        DataType::List(field) => {
            let lists = array.as_list::<i32>();
            let values = elements(lists.values(), change)?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(ListArray::try_new(item(field, &values), offsets, values, nulls).map_err(bug)?)
        }
        DataType::LargeList(field) => {
            let lists = array.as_list::<i64>();
            let values = elements(lists.values(), change)?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(LargeListArray::try_new(item(field, &values), offsets, values, nulls).map_err(bug)?)
        }
        DataType::FixedSizeList(field, size) => {
            let lists = array.as_fixed_size_list();
            let values = elements(lists.values(), change)?;
            let (field, nulls) = (item(field, &values), lists.nulls().cloned());
            let lists = FixedSizeListArray::try_new_with_length(field, *size, values, nulls, lists.len());
            Arc::new(lists.map_err(bug)?)
        }
        DataType::Struct(parts) => {
            let structs = array.as_struct();
            let children = structs.columns().iter().map(|child| elements(child, change)).collect::<Result<Vec<_>>>()?;
            let parts = parts.iter().zip(&children).map(|(part, child)| item(part, child)).collect();
            Arc::new(StructArray::try_new(parts, children, structs.nulls().cloned()).map_err(bug)?)
        }
        _ => change(array)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Time32MillisecondArray, TimestampMillisecondArray};
    use packhorse_core::with_metadata;

    #[test]
    fn names_round_trip() {
        for name_of in
            ["date32", "date64", "time32[s]", "time64[ns]", "duration[ms]", "timestamp[us, tz=Europe/Berlin]"]
        {
            assert_eq!(name(&named(name_of).unwrap()).as_deref(), Some(name_of));
        }
        assert_eq!(named("time32[us]"), None);
        assert_eq!(named("float32"), None);
    }

    #[test]
    fn a_logical_type_that_contradicts_the_numpy_type_is_not_believed() {
        let field = |numpy: &str, logical: &str| {
            let field = FieldType::Scalar(DataType::FixedSizeBinary(8)).field("t", true);
            with_metadata(with_metadata(field, NUMPY, numpy), LOGICAL, logical)
        };
        let zone = Some("UTC".into());
        assert_eq!(
            logical(&field("<M8[us]", "timestamp[us, tz=UTC]")),
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone))
        );
        assert_eq!(logical(&field("<M8[ns]", "date32")), Some(DataType::Timestamp(TimeUnit::Nanosecond, None)));
        assert_eq!(logical(&field("<M8[D]", "")), None);
        assert_eq!(logical(&field("<M8[D]", "date32")), Some(DataType::Date32));
        assert_eq!(logical(&field("|V8", "date32")), None);
    }

    /// Another program may change values and keep what the metadata says of them.
    #[test]
    fn parts_of_a_second_are_not_cut_off() {
        for (logical, millis) in [
            ("timestamp[s]", Arc::new(TimestampMillisecondArray::from(vec![Some(3000), None, Some(1999)])) as ArrayRef),
            ("time32[s]", Arc::new(Time32MillisecondArray::from(vec![Some(3000), None, Some(2)]))),
        ] {
            let field = FieldType::Scalar(DataType::FixedSizeBinary(8)).field("t", true);
            let field = with_metadata(
                with_metadata(field, NUMPY, if logical == "time32[s]" { "<m8[s]" } else { "<M8[s]" }),
                LOGICAL,
                logical,
            );
            let error = read(&field, &millis).unwrap_err();
            assert!(
                error.kind() == packhorse_core::Kind::Content && error.hints().unwrap().contains(LOGICAL),
                "{error}"
            );
            let seconds = read(&field, &millis.slice(0, 2)).unwrap();
            assert_eq!((seconds.len(), seconds.null_count()), (2, 1));
        }
    }

    #[test]
    fn seconds_of_a_day_are_milliseconds_in_parquet() {
        let field = with_metadata(FieldType::Scalar(DataType::FixedSizeBinary(8)).field("t", true), NUMPY, "<m8[s]");
        let field = with_metadata(field, LOGICAL, "time32[s]");
        let ticks = |value: i64| -> ArrayRef {
            Arc::new(arrow_array::FixedSizeBinaryArray::new(8, Buffer::from(value.to_le_bytes()), None))
        };
        let millis = written(&field, &ticks(3601), true).unwrap();
        assert_eq!(millis.as_primitive::<Time32MillisecondType>().values()[..], [3_601_000]);
        let back = read(&field, &millis).unwrap();
        assert_eq!(back.as_primitive::<arrow_array::types::Time32SecondType>().values()[..], [3601]);
        assert_eq!(written(&field, &ticks(3601), false).unwrap().data_type(), &DataType::Time32(TimeUnit::Second));
        assert!(written(&field, &ticks(3_000_000), true).is_err());
    }

    #[test]
    fn dates_of_milliseconds_are_days_in_parquet() {
        let field = with_metadata(FieldType::Scalar(DataType::FixedSizeBinary(8)).field("d", true), NUMPY, "<M8[ms]");
        let field = with_metadata(field, LOGICAL, "date64");
        let ticks = |values: &[i64]| -> ArrayRef {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            Arc::new(arrow_array::FixedSizeBinaryArray::new(8, Buffer::from(bytes), None))
        };
        let days = written(&field, &ticks(&[0, DAY, -2 * DAY]), true).unwrap();
        assert_eq!(days.data_type(), &DataType::Date32);
        let back = read(&field, &days).unwrap();
        assert_eq!(back.data_type(), &DataType::Date64);
        assert_eq!(back.as_primitive::<arrow_array::types::Date64Type>().values()[..], [0, DAY, -2 * DAY]);
        assert_eq!(written(&field, &ticks(&[1]), false).unwrap().data_type(), &DataType::Date64);
        let error = written(&field, &ticks(&[DAY + 1]), true).unwrap_err();
        assert!(error.to_string().contains("time of day"), "{error}");
    }
}
