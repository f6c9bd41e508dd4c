//! Maps HDF5 datatypes to field types.

use crate::datatype::Datatype;
use packhorse_core::{DataType, FieldType, numpy_number};

/// A field type, and the NumPy type if Arrow has no such type.
pub(crate) type Made = (FieldType, Option<String>);

/// The field type of a dataset with these dimensions whose elements are not compounds; or why it can't be read.
pub(crate) fn field_type(datatype: &Datatype, dims: &[u64]) -> Result<Made, String> {
    let long = || format!("rows with dimensions {:?} are too long", dims.get(1..).unwrap_or_default());
    let shape = dims.iter().skip(1).map(|dim| usize::try_from(*dim).ok()).collect::<Option<Vec<_>>>();
    let shape = shape.ok_or_else(long)?;
    let count = shape.iter().try_fold(1usize, |count, dim| count.checked_mul((*dim).max(1)));
    count.and_then(|count| i32::try_from(count).ok()).ok_or_else(long)?;
    if let Datatype::Vlen { of, .. } = datatype {
        return list_type(of, &shape);
    }
    let (element, numpy) = element(datatype).ok_or_else(|| datatype.to_string())?;
    let kind = match (shape.is_empty(), &element) {
        (true, DataType::Utf8View) => FieldType::Text,
        (true, _) => FieldType::Scalar(element),
        (false, _) => FieldType::Tensor { element, shape },
    };
    Ok((kind, numpy))
}

/// Vlen sequences are lists; those of `u8` are blobs.
fn list_type(of: &Datatype, shape: &[usize]) -> Result<Made, String> {
    let nested = matches!(of, Datatype::VlenText { .. } | Datatype::Vlen { .. } | Datatype::Fixed { .. });
    let found = element(of).filter(|_| !nested).ok_or_else(|| format!("lists of {of}"))?;
    if !shape.is_empty() {
        return Err(format!("lists of {of} in rows of dimensions {shape:?}"));
    }
    Ok(match (of, found) {
        (Datatype::Integer { size: 1, signed: false, .. }, _) => (FieldType::Blob, None),
        (_, (element, numpy)) => (FieldType::List { element, depth: 1 }, numpy),
    })
}

fn element(datatype: &Datatype) -> Option<(DataType, Option<String>)> {
    let plain = |element| Some((element, None));
    match datatype {
        Datatype::Boolean => plain(DataType::Boolean),
        Datatype::Integer { size, signed, .. } => integer(*size, *signed),
        Datatype::Bits { size, signed, .. } => integer(size.next_power_of_two(), *signed),
        Datatype::BitField { size, .. } => integer(*size, false),
        Datatype::Time { size, .. } => integer(*size, true),
        Datatype::Timeval { .. } => plain(DataType::Float64),
        Datatype::Float { size, .. } => Some((numpy_number('f', *size as usize)?, None)),
        Datatype::OddFloat { parts, .. } if parts.wider() == 4 => plain(DataType::Float32),
        Datatype::OddFloat { .. } => plain(DataType::Float64),
        Datatype::Fixed { .. } | Datatype::VlenText { .. } => plain(DataType::Utf8View),
        Datatype::Complex { .. } => fixed(datatype.size(), format!("<c{}", datatype.size())),
        Datatype::Opaque { size, numpy } => fixed(*size, numpy.clone().unwrap_or_else(|| format!("|V{size}"))),
        _ => None,
    }
}

fn integer(size: u32, signed: bool) -> Option<(DataType, Option<String>)> {
    Some((numpy_number(if signed { 'i' } else { 'u' }, size as usize)?, None))
}

fn fixed(size: u32, numpy: String) -> Option<(DataType, Option<String>)> {
    Some((DataType::FixedSizeBinary(i32::try_from(size).ok()?), Some(numpy)))
}
