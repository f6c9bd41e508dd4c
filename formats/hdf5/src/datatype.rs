//! HDF5 datatypes (file format specification, IV.A.2.d) and which elements of rows they are.

use crate::bytes::Cursor;
use packhorse_core::{DataType, Error, Result};

/// How deep types may lie in types.
const DEEPEST: usize = 8;

/// A datatype, as far as rows know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Datatype {
    /// 1, 2, 4 or 8 bytes.
    Integer { size: u32, signed: bool, big: bool },
    /// IEEE 754, of 2, 4 or 8 bytes.
    Float { size: u32, big: bool },
    /// An enumeration of 1 byte whose names are FALSE and TRUE: Booleans, as h5py writes them.
    Boolean,
    /// The pair `r`, `i` of floats of `size` bytes each, as h5py writes complex numbers.
    Complex { size: u32, big: bool },
    /// Text of this many bytes.
    Fixed { size: u32, utf8: bool, padding: Padding },
    /// Bytes without a meaning.
    Opaque { size: u32 },
    /// Text of any length, in the global heap.
    VlenText { utf8: bool },
    /// Elements of any number, in the global heap.
    Vlen(Box<Datatype>),
    /// Members side by side: name, offset, type.
    Compound { size: u32, members: Vec<(String, u32, Datatype)> },
    /// Elements in a fixed shape, inside a compound.
    Array { size: u32, dims: Vec<u32>, of: Box<Datatype> },
    /// What rows can't hold, in words.
    Other { size: u32, what: String },
}

/// What follows fixed text that is shorter than its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Text ends before the first zero.
    Zero,
    /// Zeros at the end are no text.
    Zeros,
    /// Spaces at the end are no text.
    Spaces,
}

impl Datatype {
    /// What holds the elements `element` of rows, whose NumPy type is `numpy` where it is said.
    pub(crate) fn of(element: &DataType, numpy: Option<&str>) -> Option<Self> {
        let integer = |size, signed| Some(Datatype::Integer { size, signed, big: false });
        match element {
            DataType::Boolean => Some(Datatype::Boolean),
            DataType::Int8 => integer(1, true),
            DataType::Int16 => integer(2, true),
            DataType::Int32 => integer(4, true),
            DataType::Int64 => integer(8, true),
            DataType::UInt8 => integer(1, false),
            DataType::UInt16 => integer(2, false),
            DataType::UInt32 => integer(4, false),
            DataType::UInt64 => integer(8, false),
            DataType::Float16 => Some(Datatype::Float { size: 2, big: false }),
            DataType::Float32 => Some(Datatype::Float { size: 4, big: false }),
            DataType::Float64 => Some(Datatype::Float { size: 8, big: false }),
            DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => Some(Datatype::VlenText { utf8: true }),
            DataType::FixedSizeBinary(size) => named(numpy.unwrap_or("|V"), u32::try_from(*size).ok()?),
            _ => None,
        }
    }

    /// Bytes of an element in the file.
    pub(crate) fn size(&self) -> u32 {
        match self {
            Datatype::Boolean => 1,
            Datatype::Complex { size, .. } => size.saturating_mul(2),
            Datatype::VlenText { .. } | Datatype::Vlen(_) => 16,
            Datatype::Integer { size, .. }
            | Datatype::Float { size, .. }
            | Datatype::Fixed { size, .. }
            | Datatype::Opaque { size }
            | Datatype::Compound { size, .. }
            | Datatype::Array { size, .. }
            | Datatype::Other { size, .. } => *size,
        }
    }

    /// The bytes of the datatype's message, for those that we write.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Datatype::Integer { size, signed, big } => {
                let mut bytes = head(0, 1, u8::from(*signed) << 3 | u8::from(*big), 0, *size);
                bytes.extend(pair(0, (size * 8) as u16));
                bytes
            }
            Datatype::Float { size, big } => encode_float(*size, *big),
            Datatype::Boolean => {
                let mut bytes = head(8, 3, 2, 0, 1);
                bytes.extend(Datatype::Integer { size: 1, signed: true, big: false }.encode());
                bytes.extend(b"FALSE\0TRUE\0\0\x01");
                bytes
            }
            Datatype::Complex { size, big } => {
                let mut bytes = head(6, 3, 2, 0, size * 2);
                for (name, offset) in [(b"r\0", 0), (b"i\0", *size as u8)] {
                    bytes.extend(name);
                    bytes.push(offset);
                    bytes.extend(encode_float(*size, *big));
                }
                bytes
            }
            Datatype::Fixed { size, utf8, padding } => head(3, 1, u8::from(*utf8) << 4 | *padding as u8, 0, *size),
            Datatype::Opaque { size } => head(5, 1, 0, 0, *size),
            Datatype::VlenText { utf8 } => {
                let mut bytes = head(9, 1, 1, u8::from(*utf8), 16);
                bytes.extend(Datatype::Integer { size: 1, signed: false, big: false }.encode());
                bytes
            }
            Datatype::Vlen(of) => {
                let mut bytes = head(9, 1, 0, 0, 16);
                bytes.extend(of.encode());
                bytes
            }
            Datatype::Compound { .. } | Datatype::Array { .. } | Datatype::Other { .. } => Vec::new(),
        }
    }

    /// Reads a datatype; what is left of `cursor` follows it.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self> {
        parse(cursor, DEEPEST)
    }
}

impl std::fmt::Display for Datatype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Datatype::Integer { size, signed, .. } => write!(f, "{}int{}", if *signed { "" } else { "u" }, size * 8),
            Datatype::Float { size, .. } => write!(f, "float{}", size * 8),
            Datatype::Boolean => f.write_str("bool"),
            Datatype::Complex { size, .. } => write!(f, "complex{}", size * 16),
            Datatype::Fixed { size, .. } => write!(f, "text of {size} bytes"),
            Datatype::Opaque { size } => write!(f, "opaque bytes of size {size}"),
            Datatype::VlenText { .. } => f.write_str("text of any length"),
            Datatype::Vlen(of) => write!(f, "{of} of any number"),
            Datatype::Compound { .. } => f.write_str("a compound"),
            Datatype::Array { of, .. } => write!(f, "an array of {of}"),
            Datatype::Other { what, .. } => f.write_str(what),
        }
    }
}

/// What elements without an Arrow twin are in HDF5, by their NumPy type. Times are stored as integers.
fn named(numpy: &str, size: u32) -> Option<Datatype> {
    let kind = numpy.trim_start_matches(['<', '|', '=']);
    match (kind.chars().next()?, size) {
        (_, 0) => None,
        ('c', 8 | 16) => Some(Datatype::Complex { size: size / 2, big: false }),
        ('M' | 'm', 8) => Some(Datatype::Integer { size: 8, signed: true, big: false }),
        ('S', _) => Some(Datatype::Fixed { size, utf8: false, padding: Padding::Zeros }),
        _ => Some(Datatype::Opaque { size }),
    }
}

fn head(class: u8, version: u8, low: u8, middle: u8, size: u32) -> Vec<u8> {
    let mut bytes = vec![class | version << 4, low, middle, 0];
    bytes.extend(size.to_le_bytes());
    bytes
}

/// Bit offset and precision.
fn pair(offset: u16, precision: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (offset.to_le_bytes(), precision.to_le_bytes());
    [a, b, c, d]
}

/// Exponent's location and size, mantissa's location and size, exponent's bias.
fn float_parts(size: u32) -> Option<(u8, [u8; 4], u32)> {
    match size {
        2 => Some((15, [10, 5, 0, 10], 15)),
        4 => Some((31, [23, 8, 0, 23], 127)),
        8 => Some((63, [52, 11, 0, 52], 1023)),
        _ => None,
    }
}

fn encode_float(size: u32, big: bool) -> Vec<u8> {
    let (sign, parts, bias) = float_parts(size).unwrap_or_default();
    let mut bytes = head(1, 1, 0x20 | u8::from(big), sign, size);
    bytes.extend(pair(0, (size * 8) as u16));
    bytes.extend(parts);
    bytes.extend(bias.to_le_bytes());
    bytes
}

fn parse(cursor: &mut Cursor<'_>, depth: usize) -> Result<Datatype> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::unsupported(format!("datatypes inside each other more than {DEEPEST} deep")));
    };
    let start = cursor.u8()?;
    let (class, version) = (start & 15, start >> 4);
    let (low, middle) = (cursor.u8()?, cursor.u8()?);
    cursor.skip(1)?;
    let size = cursor.u32()?;
    let other = |what: &str| Datatype::Other { size, what: what.to_owned() };
    if size == 0 {
        return Err(cursor.bad("says that its elements have no bytes"));
    }
    match class {
        0 => integer(cursor, size, low),
        1 => float(cursor, size, low, middle),
        2 => cursor.skip(2).map(|()| other("a time")),
        3 => Ok(text(size, low)),
        4 => cursor.skip(4).map(|()| other("a bit field")),
        5 => cursor.skip(usize::from(low)).map(|()| Datatype::Opaque { size }),
        6 => compound(cursor, version, size, usize::from(low) | usize::from(middle) << 8, depth),
        7 => Ok(other("a reference")),
        8 => enumeration(cursor, version, usize::from(low) | usize::from(middle) << 8, depth),
        9 => {
            let of = parse(cursor, depth)?;
            Ok(if low & 15 == 1 { Datatype::VlenText { utf8: middle & 15 == 1 } } else { Datatype::Vlen(Box::new(of)) })
        }
        10 => array(cursor, version, size, depth),
        _ => Err(Error::unsupported(format!("datatypes of class {class}"))),
    }
}

fn integer(cursor: &mut Cursor<'_>, size: u32, low: u8) -> Result<Datatype> {
    let (offset, precision) = (cursor.u16()?, cursor.u16()?);
    let whole = matches!(size, 1 | 2 | 4 | 8) && offset == 0 && u32::from(precision) == size * 8;
    Ok(match whole {
        true => Datatype::Integer { size, signed: low & 8 != 0, big: low & 1 != 0 },
        false => Datatype::Other { size, what: format!("integers of {precision} bits in {size} bytes") },
    })
}

fn float(cursor: &mut Cursor<'_>, size: u32, low: u8, sign: u8) -> Result<Datatype> {
    let (offset, precision) = (cursor.u16()?, cursor.u16()?);
    let parts = cursor.take(4)?;
    let found = (sign, parts, cursor.u32()?);
    let plain = float_parts(size).is_some_and(|(sign, parts, bias)| (sign, &parts[..], bias) == found);
    let plain = plain && offset == 0 && u32::from(precision) == size.saturating_mul(8) && low & 0x70 == 0x20;
    Ok(match plain {
        true => Datatype::Float { size, big: low & 1 != 0 },
        false => Datatype::Other { size, what: format!("floats of {precision} bits that are not IEEE 754's") },
    })
}

fn text(size: u32, low: u8) -> Datatype {
    let padding = match low & 15 {
        0 => Padding::Zero,
        2 => Padding::Spaces,
        _ => Padding::Zeros,
    };
    Datatype::Fixed { size, utf8: low >> 4 == 1, padding }
}

fn compound(cursor: &mut Cursor<'_>, version: u8, size: u32, count: usize, depth: usize) -> Result<Datatype> {
    let mut members = Vec::new();
    for _ in 0..count {
        let (name, offset, dims) = member_head(cursor, version, size)?;
        let mut of = parse(cursor, depth)?;
        if !dims.is_empty() {
            of = array_of(dims, of);
        }
        if offset.checked_add(of.size()).is_none_or(|end| end > size) {
            return Err(cursor.bad(&format!("has a member {name} outside its {size} bytes")));
        }
        members.push((name, offset, of));
    }
    Ok(complex(&members, size).unwrap_or(Datatype::Compound { size, members }))
}

/// A member's name, offset and, in the oldest version, dimensions.
fn member_head(cursor: &mut Cursor<'_>, version: u8, size: u32) -> Result<(String, u32, Vec<u32>)> {
    let before = cursor.rest().len();
    let name = String::from_utf8_lossy(cursor.zero_ended()?).into_owned();
    if version >= 3 {
        let width = (4 - size.leading_zeros() / 8) as usize;
        return Ok((name, cursor.uint(width)? as u32, Vec::new()));
    }
    let used = before - cursor.rest().len();
    cursor.skip(used.next_multiple_of(8) - used)?;
    let offset = cursor.u32()?;
    if version == 2 {
        return Ok((name, offset, Vec::new()));
    }
    let rank = usize::from(cursor.u8()?).min(4);
    cursor.skip(11)?;
    let mut dims = [0; 4];
    for dim in &mut dims {
        *dim = cursor.u32()?;
    }
    Ok((name, offset, dims.into_iter().take(rank).collect()))
}

fn complex(members: &[(String, u32, Datatype)], whole: u32) -> Option<Datatype> {
    let [(r, 0, Datatype::Float { size, big }), (i, offset, second)] = members else { return None };
    let second_fits = *second == Datatype::Float { size: *size, big: *big } && offset == size && whole == size * 2;
    (r == "r" && i == "i" && second_fits && *size > 2).then_some(Datatype::Complex { size: *size, big: *big })
}

fn enumeration(cursor: &mut Cursor<'_>, version: u8, count: usize, depth: usize) -> Result<Datatype> {
    let base = parse(cursor, depth)?;
    let mut names = Vec::new();
    for _ in 0..count {
        let before = cursor.rest().len();
        names.push(cursor.zero_ended()?);
        let used = before - cursor.rest().len();
        if version < 3 {
            cursor.skip(used.next_multiple_of(8) - used)?;
        }
    }
    let values = cursor.take(count.saturating_mul(base.size() as usize))?;
    let boolean = base.size() == 1 && names == [&b"FALSE"[..], b"TRUE"] && values == [0, 1];
    Ok(if boolean { Datatype::Boolean } else { base })
}

fn array(cursor: &mut Cursor<'_>, version: u8, size: u32, depth: usize) -> Result<Datatype> {
    let rank = cursor.u8()?;
    cursor.skip(if version < 3 { 3 } else { 0 })?;
    let dims = (0..rank).map(|_| cursor.u32()).collect::<Result<Vec<_>>>()?;
    cursor.skip(if version < 3 { 4 * usize::from(rank) } else { 0 })?;
    match array_of(dims, parse(cursor, depth)?) {
        array if array.size() == size => Ok(array),
        _ => Err(cursor.bad("has an array whose size is not that of its elements")),
    }
}

fn array_of(dims: Vec<u32>, of: Datatype) -> Datatype {
    let size = dims.iter().fold(of.size(), |size, dim| size.saturating_mul(*dim));
    Datatype::Array { size, dims, of: Box::new(of) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for datatype in [
            Datatype::Integer { size: 1, signed: false, big: false },
            Datatype::Integer { size: 8, signed: true, big: true },
            Datatype::Float { size: 2, big: false },
            Datatype::Float { size: 4, big: false },
            Datatype::Float { size: 8, big: true },
            Datatype::Boolean,
            Datatype::Complex { size: 4, big: false },
            Datatype::Complex { size: 8, big: false },
            Datatype::Fixed { size: 5, utf8: false, padding: Padding::Zeros },
            Datatype::Fixed { size: 300, utf8: true, padding: Padding::Spaces },
            Datatype::Opaque { size: 7 },
            Datatype::VlenText { utf8: true },
            Datatype::Vlen(Box::new(Datatype::Integer { size: 1, signed: false, big: false })),
        ] {
            let bytes = datatype.encode();
            let mut cursor = Cursor::new(&bytes, "datatype");
            assert_eq!(Datatype::parse(&mut cursor).unwrap(), datatype);
            assert!(cursor.rest().is_empty());
            for cut in 0..bytes.len() {
                assert!(Datatype::parse(&mut Cursor::new(&bytes[..cut], "datatype")).is_err());
            }
        }
    }

    #[test]
    fn nesting_has_an_end() {
        let bytes = [0x19, 0, 0, 0, 16, 0, 0, 0].repeat(100);
        assert!(Datatype::parse(&mut Cursor::new(&bytes, "datatype")).is_err());
    }
}
