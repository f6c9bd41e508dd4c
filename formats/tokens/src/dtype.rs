//! Token types and their codes in an `.idx`.

use packhorse_core::{DataType, Error, Result};

/// The type of a token in a `.bin`. Always little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// Code 1.
    U8,
    /// Code 2.
    I8,
    /// Code 3.
    I16,
    /// Code 4: Megatron's type for vocabularies of 65,500 and more.
    I32,
    /// Code 5.
    I64,
    /// Code 6. GPT-NeoX swaps 6 and 7.
    F64,
    /// Code 7.
    F32,
    /// Code 8: Megatron's type for vocabularies under 65,500.
    U16,
    /// No code: datatrove, llm.c and bare files only.
    U32,
}

const ALL: [(Dtype, u8, &str, DataType, usize); 9] = [
    (Dtype::U8, 1, "u8", DataType::UInt8, 1),
    (Dtype::I8, 2, "i8", DataType::Int8, 1),
    (Dtype::I16, 3, "i16", DataType::Int16, 2),
    (Dtype::I32, 4, "i32", DataType::Int32, 4),
    (Dtype::I64, 5, "i64", DataType::Int64, 8),
    (Dtype::F64, 6, "f64", DataType::Float64, 8),
    (Dtype::F32, 7, "f32", DataType::Float32, 4),
    (Dtype::U16, 8, "u16", DataType::UInt16, 2),
    (Dtype::U32, 0, "u32", DataType::UInt32, 4),
];

impl Dtype {
    /// The type with this code, if there is one.
    pub fn of_code(code: u8) -> Option<Self> {
        ALL.iter().find(|one| one.1 == code && code > 0).map(|one| one.0)
    }

    /// The type of this name (`u16`).
    pub(crate) fn of_name(name: &str) -> Result<Self> {
        ALL.iter().find(|one| one.2 == name).map(|one| one.0).ok_or_else(|| {
            let known = ALL.map(|one| one.2).join(", ");
            Error::config(format!("option dtype: unknown type \"{name}\"; known are {known}"))
        })
    }

    /// The type with these Arrow elements, if there is one.
    pub(crate) fn of_element(element: &DataType) -> Option<Self> {
        ALL.iter().find(|one| one.3 == *element).map(|one| one.0)
    }

    /// Its code in an `.idx`; `None` for `u32`.
    pub fn code(self) -> Option<u8> {
        self.entry().map(|one| one.1).filter(|code| *code > 0)
    }

    /// Its name (`u16`).
    pub fn name(self) -> &'static str {
        self.entry().map_or("", |one| one.2)
    }

    /// Its Arrow type.
    pub fn element(self) -> DataType {
        self.entry().map_or(DataType::Null, |one| one.3.clone())
    }

    /// Bytes per token.
    pub fn size(self) -> u64 {
        self.width() as u64
    }

    pub(crate) fn width(self) -> usize {
        self.entry().map_or(1, |one| one.4)
    }

    fn entry(self) -> Option<&'static (Dtype, u8, &'static str, DataType, usize)> {
        static TABLE: [(Dtype, u8, &str, DataType, usize); 9] = ALL;
        TABLE.iter().find(|one| one.0 == self)
    }

    /// Whether every token is an id of a vocabulary of size `ids`.
    pub(crate) fn all_below(self, ids: u64, tokens: &[u8]) -> bool {
        let highest = |numbers: &[[u8; 4]]| numbers.iter().fold(0, |top, n| u32::from_le_bytes(*n).max(top));
        match self {
            _ if tokens.is_empty() => true,
            Dtype::U16 => {
                let numbers = tokens.as_chunks().0.iter();
                u64::from(numbers.fold(0, |top, n| u16::from_le_bytes(*n).max(top))) < ids
            }
            Dtype::U32 => u64::from(highest(tokens.as_chunks().0)) < ids,
            // Unsigned, a negative number is 2^31 or more.
            Dtype::I32 => u64::from(highest(tokens.as_chunks().0)) < ids.min(1 << 31),
            _ => tokens.chunks_exact(self.width()).all(|token| self.is_below(ids, token)),
        }
    }

    /// Whether the token is an id of a vocabulary of size `ids`.
    pub(crate) fn is_below(self, ids: u64, token: &[u8]) -> bool {
        self.value(token).and_then(|id| u64::try_from(id).ok()).is_some_and(|id| id < ids)
    }

    /// The value of a token as an integer; `None` for a float with a fraction.
    pub(crate) fn value(self, bytes: &[u8]) -> Option<i64> {
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let [a, b, c, d, ..] = wide;
        Some(match self {
            Dtype::U8 => i64::from(a),
            Dtype::I8 => i64::from(a as i8),
            Dtype::I16 => i64::from(i16::from_le_bytes([a, b])),
            Dtype::U16 => i64::from(u16::from_le_bytes([a, b])),
            Dtype::I32 => i64::from(i32::from_le_bytes([a, b, c, d])),
            Dtype::U32 => i64::from(u32::from_le_bytes([a, b, c, d])),
            Dtype::I64 => i64::from_le_bytes(wide),
            Dtype::F32 => whole(f64::from(f32::from_le_bytes([a, b, c, d])))?,
            Dtype::F64 => whole(f64::from_le_bytes(wide))?,
        })
    }
}

fn whole(x: f64) -> Option<i64> {
    // 2^53: the largest range in which every integer is a distinct double.
    (x.fract() == 0.0 && x.abs() <= 9_007_199_254_740_992.0).then_some(x as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_values() {
        let codes: Vec<_> = (0..=9).map(|code| Dtype::of_code(code).map_or("-", Dtype::name)).collect();
        assert_eq!(codes, ["-", "u8", "i8", "i16", "i32", "i64", "f64", "f32", "u16", "-"]);
        assert_eq!(Dtype::U32.code(), None);
        assert_eq!(Dtype::U16.value(&[0xff, 0xff]), Some(65_535));
        assert_eq!(Dtype::I32.value(&[0xff; 4]), Some(-1));
        assert_eq!(Dtype::F32.value(&7f32.to_le_bytes()), Some(7));
        assert_eq!(Dtype::F32.value(&7.5f32.to_le_bytes()), None);
        assert_eq!(Dtype::I64.value(&[1]), Some(1));
        assert!(Dtype::of_name("u17").is_err());
    }

    #[test]
    fn ids_of_a_vocabulary() {
        for (dtype, ..) in ALL {
            let ids: [i64; 3] = [3, 100, 7];
            let bytes: Vec<u8> = match dtype {
                Dtype::F64 => ids.iter().flat_map(|id| (*id as f64).to_le_bytes()).collect(),
                Dtype::F32 => ids.iter().flat_map(|id| (*id as f32).to_le_bytes()).collect(),
                _ => ids.iter().flat_map(|id| id.to_le_bytes()[..dtype.width()].to_vec()).collect(),
            };
            assert!(
                dtype.all_below(101, &bytes) && !dtype.all_below(100, &bytes) && dtype.all_below(0, &[]),
                "{dtype:?}"
            );
        }
        assert!(!Dtype::I32.all_below(u64::MAX, &[0xff; 4]) && Dtype::U32.all_below(1 << 32, &[0xff; 4]));
        assert!(!Dtype::I64.all_below(u64::MAX, &[0xff; 8]) && !Dtype::F32.all_below(9, &1.5f32.to_le_bytes()));
    }
}
