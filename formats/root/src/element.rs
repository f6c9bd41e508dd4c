//! Number types: how baskets store them, and their column types.

use packhorse_core::DataType;

/// A number type: its column type, and its encoding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NumberType {
    pub(crate) data_type: DataType,
    pub(crate) stored: NumberEncoding,
}

/// The encoding of a number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NumberEncoding {
    /// Big-endian, in this many bytes.
    Plain(usize),
    /// A 4-byte float that is widened to 8 bytes.
    Widened,
    /// `Double32_t` and `Float16_t` without a range: an exponent, and a mantissa of this many bits.
    Truncated(u32),
    /// `Double32_t` and `Float16_t` with a range: an integer number of steps from the minimum.
    Range { low: f64, step: f64 },
}

impl NumberType {
    fn plain(data_type: DataType, width: usize) -> Self {
        Self { data_type, stored: NumberEncoding::Plain(width) }
    }

    /// An `int`.
    pub(crate) fn int() -> Self {
        Self::plain(DataType::Int32, 4)
    }

    /// A `short`.
    pub(crate) fn short() -> Self {
        Self::plain(DataType::Int16, 2)
    }

    /// An `unsigned int`.
    pub(crate) fn unsigned() -> Self {
        Self::plain(DataType::UInt32, 4)
    }

    /// A `bool`.
    pub(crate) fn bool() -> Self {
        Self::plain(DataType::Boolean, 1)
    }

    /// The number type of ROOT's type code, except `Double32_t` and `Float16_t`.
    pub(crate) fn of_code(code: i64) -> Option<Self> {
        Some(match code {
            18 => Self::plain(DataType::Boolean, 1),
            1 => Self::plain(DataType::Int8, 1),
            11 => Self::plain(DataType::UInt8, 1),
            2 => Self::plain(DataType::Int16, 2),
            12 => Self::plain(DataType::UInt16, 2),
            3 => Self::plain(DataType::Int32, 4),
            // Counters and bit fields.
            6 | 13 | 15 => Self::plain(DataType::UInt32, 4),
            4 | 16 => Self::plain(DataType::Int64, 8),
            14 | 17 => Self::plain(DataType::UInt64, 8),
            5 => Self::plain(DataType::Float32, 4),
            8 => Self::plain(DataType::Float64, 8),
            _ => return None,
        })
    }

    /// The number type of a leaf of class `kind`.
    pub(crate) fn of_leaf(kind: &str, unsigned: bool) -> Option<Self> {
        let code = match (kind, unsigned) {
            ("TLeafO", _) => 18,
            ("TLeafB", false) => 1,
            ("TLeafB", true) => 11,
            ("TLeafS", false) => 2,
            ("TLeafS", true) => 12,
            ("TLeafI", false) => 3,
            ("TLeafI", true) => 13,
            ("TLeafL" | "TLeafG", false) => 16,
            ("TLeafL" | "TLeafG", true) => 17,
            ("TLeafF", _) => 5,
            ("TLeafD", _) => 8,
            _ => return None,
        };
        Self::of_code(code)
    }

    /// The number type of the C++ type `name`, written without spaces.
    pub(crate) fn of_type(name: &str) -> Option<Self> {
        let code = match name {
            "bool" | "Bool_t" => 18,
            "char" | "signedchar" | "Char_t" | "int8_t" => 1,
            "unsignedchar" | "UChar_t" | "uint8_t" => 11,
            "short" | "Short_t" | "int16_t" | "signedshort" => 2,
            "unsignedshort" | "UShort_t" | "uint16_t" => 12,
            "int" | "Int_t" | "int32_t" | "signedint" => 3,
            "unsignedint" | "UInt_t" | "uint32_t" | "unsigned" => 13,
            "long" | "Long_t" | "longlong" | "Long64_t" | "int64_t" => 16,
            "unsignedlong" | "ULong_t" | "unsignedlonglong" | "ULong64_t" | "uint64_t" => 17,
            "float" | "Float_t" => 5,
            "double" | "Double_t" => 8,
            _ => return None,
        };
        Self::of_code(code)
    }

    /// Bytes per stored number.
    pub(crate) fn width(&self) -> usize {
        match self.stored {
            NumberEncoding::Plain(width) => width,
            NumberEncoding::Widened | NumberEncoding::Range { .. } => 4,
            NumberEncoding::Truncated(_) => 3,
        }
    }

    /// Bytes per number in the column.
    pub(crate) fn column_width(&self) -> usize {
        packhorse_core::element_width(&self.data_type).unwrap_or(1)
    }

    /// Decodes the numbers in `bytes` and appends them, little-endian.
    pub(crate) fn append(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + bytes.len() / self.width() * self.column_width(), 0);
        self.write(bytes, out.get_mut(start..).unwrap_or_default());
    }

    /// Decodes the numbers in `bytes` into `out`, which must have their size.
    pub(crate) fn write(&self, bytes: &[u8], out: &mut [u8]) {
        let single = self.data_type == DataType::Float32;
        match &self.stored {
            NumberEncoding::Plain(1) => turn::<1>(bytes, out),
            NumberEncoding::Plain(2) => turn::<2>(bytes, out),
            NumberEncoding::Plain(4) => turn::<4>(bytes, out),
            NumberEncoding::Plain(_) => turn::<8>(bytes, out),
            NumberEncoding::Widened => {
                each::<4, 8>(bytes, out, |four| f64::from(f32::from_be_bytes(four)).to_le_bytes());
            }
            NumberEncoding::Truncated(bits) if single => {
                each::<3, 4>(bytes, out, |three| (truncated(three, *bits) as f32).to_le_bytes());
            }
            NumberEncoding::Truncated(bits) => each::<3, 8>(bytes, out, |three| truncated(three, *bits).to_le_bytes()),
            NumberEncoding::Range { low, step } if single => each::<4, 4>(bytes, out, |four| {
                (u32::from_be_bytes(four) as f32 * *step as f32 + *low as f32).to_le_bytes()
            }),
            NumberEncoding::Range { low, step } => {
                each::<4, 8>(bytes, out, |four| (f64::from(u32::from_be_bytes(four)) * step + low).to_le_bytes());
            }
        }
    }
}

/// Reverses the bytes of numbers of `N` bytes.
fn turn<const N: usize>(bytes: &[u8], out: &mut [u8]) {
    each::<N, N>(bytes, out, |mut number| {
        number.reverse();
        number
    });
}

fn each<const FROM: usize, const TO: usize>(bytes: &[u8], out: &mut [u8], convert: impl Fn([u8; FROM]) -> [u8; TO]) {
    let (numbers, _) = bytes.as_chunks::<FROM>();
    let (places, _) = out.as_chunks_mut::<TO>();
    for (place, number) in places.iter_mut().zip(numbers) {
        *place = convert(*number);
    }
}

/// Decodes a truncated float: an exponent of one byte, then sign and mantissa in two.
fn truncated([exponent, high, low]: [u8; 3], bits: u32) -> f64 {
    let mantissa = u32::from(high) << 8 | u32::from(low);
    let raw = u32::from(exponent) << 23 | (mantissa & ((1 << (bits + 1)) - 1)) << (23 - bits);
    let value = f64::from(f32::from_bits(raw));
    if mantissa & 1 << (bits + 1) != 0 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_little_endian() {
        let mut out = vec![7];
        NumberType::of_code(3).unwrap().append(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe], &mut out);
        assert_eq!(out, [7, 1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff]);
        let mut out = Vec::new();
        NumberType::of_type("double").unwrap().append(&2.5f64.to_be_bytes(), &mut out);
        assert_eq!(out, 2.5f64.to_le_bytes());
    }

    #[test]
    fn packed_floats_are_decoded() {
        let range = NumberType { data_type: DataType::Float64, stored: NumberEncoding::Range { low: -1.0, step: 0.5 } };
        let mut out = Vec::new();
        range.append(&[0, 0, 0, 3], &mut out);
        assert_eq!(out, 0.5f64.to_le_bytes());
        // 1.5 has exponent 127 and only the first bit of the mantissa set.
        assert_eq!(truncated([127, 0b0000_1000, 0], 12), 1.5);
        assert_eq!(truncated([127, 0b0010_1000, 0], 12), -1.5);
    }
}
