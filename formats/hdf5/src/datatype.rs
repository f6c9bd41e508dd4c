//! HDF5 datatypes (file format specification, IV.A.2.d), and their mapping from Arrow types.

mod parse;

use crate::bytes::Cursor;
use packhorse_core::{DataType, Result};

/// Bytes of a global heap reference in files with 8-byte addresses.
pub(crate) const HEAPED: u32 = 16;

/// A datatype, in the detail that reading rows needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Datatype {
    /// 1, 2, 4 or 8 bytes.
    Integer { size: u32, signed: bool, big: bool },
    /// Integers that use only some bits of up to 8 bytes, such as 12-bit images and 24-bit audio.
    Bits { size: u32, signed: bool, big: bool, offset: u16, precision: u16 },
    /// Bit fields of 1, 2, 4 or 8 bytes: unsigned integers in h5py, Booleans in PyTables.
    BitField { size: u32, big: bool },
    /// IEEE 754, of 2, 4 or 8 bytes.
    Float { size: u32, big: bool },
    /// Other floats, such as bfloat16, that a wider IEEE 754 float holds exactly.
    OddFloat { size: u32, big: bool, parts: FloatParts },
    /// Seconds since 1970, an integer of 4 or 8 bytes.
    Time { size: u32, big: bool },
    /// PyTables' Time64: seconds in the upper half, microseconds in the lower.
    Timeval { big: bool },
    /// h5py's Booleans: an enumeration of 1 byte with the names FALSE and TRUE.
    Boolean,
    /// h5py's complex numbers: a compound of the floats `r` and `i`, of `size` bytes each.
    Complex { size: u32, big: bool },
    /// Fixed-length text of this many bytes.
    Fixed { size: u32, utf8: bool, padding: Padding },
    /// Opaque bytes. For NumPy's times, the type that h5py notes in the tag.
    Opaque { size: u32, numpy: Option<String> },
    /// Variable-length text in the global heap; the size is that of a reference.
    VlenText { utf8: bool, size: u32 },
    /// Variable-length sequences in the global heap; the size is that of a reference.
    Vlen { of: Box<Datatype>, size: u32 },
    /// Members: name, offset, type.
    Compound { size: u32, members: Vec<(String, u32, Datatype)> },
    /// An array datatype.
    Array { size: u32, dims: Vec<u32>, of: Box<Datatype> },
    /// A datatype that rows can't hold, described for messages.
    Other { size: u32, what: String },
}

/// The bit positions of a float's parts; bit 0 is the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatParts {
    pub(crate) sign: u8,
    /// Position and number of bits.
    pub(crate) exponent: (u8, u8),
    pub(crate) mantissa: (u8, u8),
    pub(crate) bias: u32,
}

impl FloatParts {
    /// Bytes (4 or 8) of the smallest IEEE 754 float that holds all values exactly.
    pub(crate) fn wider(&self) -> u32 {
        let (exponent, mantissa, bias) = (u32::from(self.exponent.1), self.mantissa.1, i64::from(self.bias));
        let (most, least) = ((1i64 << exponent.min(40)) - 1 - bias, 1 - bias);
        if mantissa <= 23 && most <= 128 && least >= -126 { 4 } else { 8 }
    }
}

/// The padding of fixed-length text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// The text ends before the first zero byte.
    Zero,
    /// Trailing zeros are padding.
    Zeros,
    /// Trailing spaces are padding.
    Spaces,
}

impl Datatype {
    /// The datatype for elements of Arrow type `element` and, if set, NumPy type `numpy`.
    pub(crate) fn of(element: &DataType, numpy: Option<&str>) -> Option<Self> {
        let size = || u32::try_from(element.primitive_width()?).ok();
        match element {
            DataType::Boolean => Some(Datatype::Boolean),
            number if number.is_integer() => {
                Some(Datatype::Integer { size: size()?, signed: number.is_signed_integer(), big: false })
            }
            number if number.is_floating() => Some(Datatype::Float { size: size()?, big: false }),
            DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => {
                Some(Datatype::VlenText { utf8: true, size: HEAPED })
            }
            DataType::FixedSizeBinary(size) => named(numpy.unwrap_or("|V"), u32::try_from(*size).ok()?),
            _ => None,
        }
    }

    /// Whether elements lie in the global heap, each with a length of its own.
    pub(crate) fn is_in_heap(&self) -> bool {
        matches!(self, Datatype::VlenText { .. } | Datatype::Vlen { .. })
    }

    /// Bytes per element in the file.
    pub(crate) fn size(&self) -> u32 {
        match self {
            Datatype::Boolean => 1,
            Datatype::Complex { size, .. } => size.saturating_mul(2),
            Datatype::Timeval { .. } => 8,
            Datatype::Integer { size, .. }
            | Datatype::Bits { size, .. }
            | Datatype::BitField { size, .. }
            | Datatype::Float { size, .. }
            | Datatype::OddFloat { size, .. }
            | Datatype::Time { size, .. }
            | Datatype::Fixed { size, .. }
            | Datatype::Opaque { size, .. }
            | Datatype::VlenText { size, .. }
            | Datatype::Vlen { size, .. }
            | Datatype::Compound { size, .. }
            | Datatype::Array { size, .. }
            | Datatype::Other { size, .. } => *size,
        }
    }

    /// The bytes of the datatype message; empty for datatypes that we never write.
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
            Datatype::Opaque { size, .. } => head(5, 1, 0, 0, *size),
            Datatype::VlenText { utf8, size } => {
                let mut bytes = head(9, 1, 1, u8::from(*utf8), *size);
                bytes.extend(Datatype::Integer { size: 1, signed: false, big: false }.encode());
                bytes
            }
            Datatype::Vlen { of, size } => {
                let mut bytes = head(9, 1, 0, 0, *size);
                bytes.extend(of.encode());
                bytes
            }
            _ => Vec::new(),
        }
    }

    /// Parses a datatype and moves `cursor` past it.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self> {
        parse::parse(cursor, parse::DEEPEST)
    }

    /// The meaning of the type in files of PyTables: its Booleans and Time64.
    pub(crate) fn of_pytables(self) -> Self {
        match self {
            Datatype::BitField { size: 1, .. } => Datatype::Boolean,
            Datatype::Time { size: 8, big } => Datatype::Timeval { big },
            Datatype::Array { size, dims, of } => Datatype::Array { size, dims, of: Box::new(of.of_pytables()) },
            Datatype::Vlen { of, size } => Datatype::Vlen { of: Box::new(of.of_pytables()), size },
            Datatype::Compound { size, members } => {
                let members = members.into_iter().map(|(name, offset, of)| (name, offset, of.of_pytables()));
                Datatype::Compound { size, members: members.collect() }
            }
            other => other,
        }
    }
}

impl std::fmt::Display for Datatype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Datatype::Integer { size, signed, .. } => write!(f, "{}int{}", if *signed { "" } else { "u" }, size * 8),
            Datatype::Bits { size, precision, .. } => write!(f, "integers of {precision} bits in {size} bytes"),
            Datatype::BitField { size, .. } => write!(f, "bit fields of {size} bytes"),
            Datatype::Float { size, .. } => write!(f, "float{}", size * 8),
            Datatype::OddFloat { size, .. } => write!(f, "floats of {size} bytes that are not IEEE 754"),
            Datatype::Time { .. } | Datatype::Timeval { .. } => f.write_str("times"),
            Datatype::Boolean => f.write_str("bool"),
            Datatype::Complex { size, .. } => write!(f, "complex{}", size * 16),
            Datatype::Fixed { size, .. } => write!(f, "text of {size} bytes"),
            Datatype::Opaque { size, .. } => write!(f, "opaque bytes of size {size}"),
            Datatype::VlenText { .. } => f.write_str("variable-length text"),
            Datatype::Vlen { of, .. } => write!(f, "lists of {of}"),
            Datatype::Compound { .. } => f.write_str("compounds"),
            Datatype::Array { of, .. } => write!(f, "arrays of {of}"),
            Datatype::Other { what, .. } => f.write_str(what),
        }
    }
}

/// The datatype of fixed-size binary elements, by their NumPy type. Times are stored as integers.
fn named(numpy: &str, size: u32) -> Option<Datatype> {
    let kind = numpy.trim_start_matches(['<', '|', '=']);
    match (kind.chars().next()?, size) {
        (_, 0) => None,
        ('c', 8 | 16) => Some(Datatype::Complex { size: size / 2, big: false }),
        ('M' | 'm', 8) => Some(Datatype::Integer { size: 8, signed: true, big: false }),
        ('S', _) => Some(Datatype::Fixed { size, utf8: false, padding: Padding::Zeros }),
        _ => Some(Datatype::Opaque { size, numpy: None }),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datatypes_round_trip() {
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
            Datatype::Opaque { size: 7, numpy: None },
            Datatype::VlenText { utf8: true, size: HEAPED },
            Datatype::Vlen { of: Box::new(Datatype::Integer { size: 1, signed: false, big: false }), size: HEAPED },
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
    fn deep_nesting_is_an_error() {
        let bytes = [0x19, 0, 0, 0, 16, 0, 0, 0].repeat(100);
        assert!(Datatype::parse(&mut Cursor::new(&bytes, "datatype")).is_err());
    }
}
