//! The types of tokens in files and in batches, and the conversion between them.

use packhorse_core::{DataType, Error, Result};

/// The type of a token in a batch, little-endian: the narrowest one that holds all values of the files' types. For
/// several files, the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenType {
    /// From `u8` and `u16`.
    U16,
    /// From `i8`, `i16`, `i32`; and from `u32`, where an id of 2^31 and more is an error.
    I32,
    /// From `i64`.
    I64,
}

impl TokenType {
    /// Bytes per token.
    pub fn width(self) -> usize {
        match self {
            TokenType::U16 => 2,
            TokenType::I32 => 4,
            TokenType::I64 => 8,
        }
    }

    /// As an Arrow type.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            TokenType::U16 => DataType::UInt16,
            TokenType::I32 => DataType::Int32,
            TokenType::I64 => DataType::Int64,
        }
    }

    /// Fills `out`, whole tokens, with `id`; `None` if it does not fit the type.
    pub(crate) fn fill(self, id: i64, out: &mut [u8]) -> Option<()> {
        match self {
            TokenType::U16 => out.as_chunks_mut().0.fill(u16::try_from(id).ok()?.to_le_bytes()),
            TokenType::I32 => out.as_chunks_mut().0.fill(i32::try_from(id).ok()?.to_le_bytes()),
            TokenType::I64 => out.as_chunks_mut().0.fill(id.to_le_bytes()),
        }
        Some(())
    }
}

/// The types of tokens in files, and the type that each has in batches.
const ELEMENTS: [(DataType, TokenType); 7] = [
    (DataType::UInt8, TokenType::U16),
    (DataType::UInt16, TokenType::U16),
    (DataType::Int8, TokenType::I32),
    (DataType::Int16, TokenType::I32),
    (DataType::Int32, TokenType::I32),
    (DataType::UInt32, TokenType::I32),
    (DataType::Int64, TokenType::I64),
];

/// The type in batches of a file's tokens.
///
/// Errors: a type that is not supported for tokens.
pub(crate) fn token_type(element: &DataType) -> Result<TokenType> {
    let found = ELEMENTS.into_iter().find(|(known, _)| known == element).map(|(_, token_type)| token_type);
    found.ok_or_else(|| Error::unsupported(format!("has tokens of type {element}, which are not whole numbers")))
}

/// Converts the tokens `from` of a file to the type `token_type` in `out`, which has exactly their size. Only `u32` is
/// converted to a narrower type.
pub(crate) fn convert(element: &DataType, from: &[u8], token_type: TokenType, out: &mut [u8]) -> Result<()> {
    match (element, token_type) {
        (DataType::UInt8, TokenType::U16) => each(from, out, |[a]| u16::from(a).to_le_bytes()),
        (DataType::UInt8, TokenType::I32) => each(from, out, |[a]| i32::from(a).to_le_bytes()),
        (DataType::UInt8, TokenType::I64) => each(from, out, |[a]| i64::from(a).to_le_bytes()),
        (DataType::Int8, TokenType::I32) => each(from, out, |a| i32::from(i8::from_le_bytes(a)).to_le_bytes()),
        (DataType::Int8, TokenType::I64) => each(from, out, |a| i64::from(i8::from_le_bytes(a)).to_le_bytes()),
        (DataType::Int16, TokenType::I32) => each(from, out, |a| i32::from(i16::from_le_bytes(a)).to_le_bytes()),
        (DataType::Int16, TokenType::I64) => each(from, out, |a| i64::from(i16::from_le_bytes(a)).to_le_bytes()),
        (DataType::UInt16, TokenType::I32) => each(from, out, |a| i32::from(u16::from_le_bytes(a)).to_le_bytes()),
        (DataType::UInt16, TokenType::I64) => each(from, out, |a| i64::from(u16::from_le_bytes(a)).to_le_bytes()),
        (DataType::Int32, TokenType::I64) => each(from, out, |a| i64::from(i32::from_le_bytes(a)).to_le_bytes()),
        (DataType::UInt32, TokenType::I64) => each(from, out, |a| i64::from(u32::from_le_bytes(a)).to_le_bytes()),
        (DataType::UInt32, TokenType::I32) => {
            let top = from.as_chunks().0.iter().fold(0, |top, id| u32::from_le_bytes(*id).max(top));
            if top >> 31 != 0 {
                return Err(Error::content(format!("has the token {top}, which 32 bits with a sign don't hold")));
            }
            each(from, out, |a: [u8; 4]| a);
        }
        _ if *element == token_type.data_type() && from.len() == out.len() => out.copy_from_slice(from),
        _ => return Err(Error::bug(format!("tokens {element} do not become {token_type:?}"))),
    }
    Ok(())
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
            let narrowest = token_type(&data_type).unwrap();
            let from = value.to_le_bytes()[..data_type.primitive_width().unwrap()].repeat(3);
            let types = [TokenType::U16, TokenType::I32, TokenType::I64];
            for token_type in types.into_iter().filter(|token_type| *token_type >= narrowest) {
                let mut out = vec![9; 3 * token_type.width()];
                convert(&data_type, &from, token_type, &mut out).unwrap();
                let mut wanted = vec![0; out.len()];
                token_type.fill(value, &mut wanted).unwrap();
                assert_eq!(out, wanted, "{data_type} {token_type:?}");
            }
        }
        assert!(token_type(&DataType::Float32).is_err());
        assert!(convert(&DataType::UInt32, &[0, 0, 0, 0x80], TokenType::I32, &mut [0; 4]).is_err());
        assert!(TokenType::U16.fill(65_536, &mut [0; 2]).is_none() && TokenType::U16.fill(-1, &mut [0; 2]).is_none());
    }
}
