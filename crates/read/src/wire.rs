//! The types of tokens in files and in batches, and the way from one to the other.

use packhorse_core::{DataType, Error, Result};

/// The type of a token in a batch, little-endian: the narrowest of these that holds whatever the files' types
/// hold. Of several files the widest one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wire {
    /// From `u8` and `u16`.
    U16,
    /// From `i8`, `i16`, `i32`; and from `u32`, where an id of 2^31 and more is an error.
    I32,
    /// From `i64`.
    I64,
}

impl Wire {
    /// Bytes a token.
    pub fn width(self) -> usize {
        match self {
            Wire::U16 => 2,
            Wire::I32 => 4,
            Wire::I64 => 8,
        }
    }

    /// As an Arrow type.
    pub fn data_type(self) -> DataType {
        match self {
            Wire::U16 => DataType::UInt16,
            Wire::I32 => DataType::Int32,
            Wire::I64 => DataType::Int64,
        }
    }

    /// Fills `out`, whole tokens, with `id`; `None` if the type does not hold it.
    pub(crate) fn fill(self, id: i64, out: &mut [u8]) -> Option<()> {
        match self {
            Wire::U16 => out.as_chunks_mut().0.fill(u16::try_from(id).ok()?.to_le_bytes()),
            Wire::I32 => out.as_chunks_mut().0.fill(i32::try_from(id).ok()?.to_le_bytes()),
            Wire::I64 => out.as_chunks_mut().0.fill(id.to_le_bytes()),
        }
        Some(())
    }
}

/// The type of a token in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    U8,
    I8,
    I16,
    U16,
    I32,
    U32,
    I64,
}

impl Element {
    /// Errors: a type that tokens don't have here.
    pub(crate) fn of(data_type: &DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::UInt8 => Element::U8,
            DataType::Int8 => Element::I8,
            DataType::Int16 => Element::I16,
            DataType::UInt16 => Element::U16,
            DataType::Int32 => Element::I32,
            DataType::UInt32 => Element::U32,
            DataType::Int64 => Element::I64,
            other => return Err(Error::unsupported(format!("has tokens of type {other}, which are no whole numbers"))),
        })
    }

    pub(crate) fn width(self) -> usize {
        match self {
            Element::U8 | Element::I8 => 1,
            Element::I16 | Element::U16 => 2,
            Element::I32 | Element::U32 => 4,
            Element::I64 => 8,
        }
    }

    pub(crate) fn wire(self) -> Wire {
        match self {
            Element::U8 | Element::U16 => Wire::U16,
            Element::I8 | Element::I16 | Element::I32 | Element::U32 => Wire::I32,
            Element::I64 => Wire::I64,
        }
    }

    /// Whether a batch has the bytes of the file.
    pub(crate) fn is_plain(self, wire: Wire) -> bool {
        matches!((self, wire), (Element::U16, Wire::U16) | (Element::I32, Wire::I32) | (Element::I64, Wire::I64))
    }

    /// The tokens `from` as the type `wire` into `out`, which has room for exactly those. Never to a narrower
    /// type but for `u32`.
    pub(crate) fn convert(self, from: &[u8], wire: Wire, out: &mut [u8]) -> Result<()> {
        match (self, wire) {
            (Element::U8, Wire::U16) => each(from, out, |[a]| u16::from(a).to_le_bytes()),
            (Element::U8, Wire::I32) => each(from, out, |[a]| i32::from(a).to_le_bytes()),
            (Element::U8, Wire::I64) => each(from, out, |[a]| i64::from(a).to_le_bytes()),
            (Element::I8, Wire::I32) => each(from, out, |a| i32::from(i8::from_le_bytes(a)).to_le_bytes()),
            (Element::I8, Wire::I64) => each(from, out, |a| i64::from(i8::from_le_bytes(a)).to_le_bytes()),
            (Element::I16, Wire::I32) => each(from, out, |a| i32::from(i16::from_le_bytes(a)).to_le_bytes()),
            (Element::I16, Wire::I64) => each(from, out, |a| i64::from(i16::from_le_bytes(a)).to_le_bytes()),
            (Element::U16, Wire::I32) => each(from, out, |a| i32::from(u16::from_le_bytes(a)).to_le_bytes()),
            (Element::U16, Wire::I64) => each(from, out, |a| i64::from(u16::from_le_bytes(a)).to_le_bytes()),
            (Element::I32, Wire::I64) => each(from, out, |a| i64::from(i32::from_le_bytes(a)).to_le_bytes()),
            (Element::U32, Wire::I64) => each(from, out, |a| i64::from(u32::from_le_bytes(a)).to_le_bytes()),
            (Element::U32, Wire::I32) => {
                let top = from.as_chunks().0.iter().fold(0, |top, id| u32::from_le_bytes(*id).max(top));
                if top >> 31 != 0 {
                    return Err(Error::content(format!("has the token {top}, which 32 bits with a sign don't hold")));
                }
                each(from, out, |a: [u8; 4]| a);
            }
            _ if self.is_plain(wire) && from.len() == out.len() => out.copy_from_slice(from),
            _ => return Err(Error::bug(format!("tokens {self:?} do not become {wire:?}"))),
        }
        Ok(())
    }
}

fn each<const N: usize, const M: usize>(from: &[u8], out: &mut [u8], number: impl Fn([u8; N]) -> [u8; M]) {
    for (out, from) in out.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
        *out = number(*from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_arrives_with_its_value() {
        let types = [
            (DataType::UInt8, 200i64),
            (DataType::Int8, -3),
            (DataType::Int16, -300),
            (DataType::UInt16, 65_535),
            (DataType::Int32, -70_000),
            (DataType::UInt32, (1 << 31) - 1),
            (DataType::Int64, 1 << 40),
        ];
        for (data_type, value) in types {
            let element = Element::of(&data_type).unwrap();
            let from = value.to_le_bytes()[..element.width()].repeat(3);
            for wire in [Wire::U16, Wire::I32, Wire::I64].into_iter().filter(|wire| *wire >= element.wire()) {
                let mut out = vec![9; 3 * wire.width()];
                element.convert(&from, wire, &mut out).unwrap();
                let mut wanted = vec![0; out.len()];
                wire.fill(value, &mut wanted).unwrap();
                assert_eq!(out, wanted, "{data_type} {wire:?}");
            }
        }
        assert!(Element::of(&DataType::Float32).is_err());
        assert!(Element::U32.convert(&[0, 0, 0, 0x80], Wire::I32, &mut [0; 4]).is_err());
        assert!(Wire::U16.fill(65_536, &mut [0; 2]).is_none() && Wire::U16.fill(-1, &mut [0; 2]).is_none());
    }
}
