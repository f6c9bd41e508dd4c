//! Decodes the elements of a page to plain little-endian values.

use super::schema::ColumnRecord;
use packhorse_core::{DataType, Error, Result};

/// The encoding of a column's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Bit,
    /// Little-endian, in this many bytes.
    Plain(usize),
    /// All first bytes, then all second bytes, …
    Split(usize),
    /// Split and zigzag-encoded: 0, -1, 1, -2, …
    ZigZag(usize),
    /// Split and delta-encoded.
    Delta(usize),
    /// The upper bits of a float.
    Truncated,
    /// Integer steps between a minimum and a maximum.
    Quantized,
}

/// Data type and encoding of the column type `kind`, by its number in the specification.
pub(crate) fn kind(kind: u16) -> Option<(DataType, Encoding)> {
    use DataType::{Boolean, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    use Encoding::{Bit, Delta, Plain, Quantized, Split, Truncated, ZigZag};
    Some(match kind {
        0x00 => (Boolean, Bit),
        0x01 | 0x02 | 0x04 => (UInt8, Plain(1)),
        0x03 => (Int8, Plain(1)),
        0x05 => (Int16, Plain(2)),
        0x06 => (UInt16, Plain(2)),
        0x07 => (Int32, Plain(4)),
        0x08 | 0x0e => (UInt32, Plain(4)),
        0x09 => (Int64, Plain(8)),
        0x0a | 0x0f => (UInt64, Plain(8)),
        0x0b => (Float16, Plain(2)),
        0x0c => (Float32, Plain(4)),
        0x0d => (Float64, Plain(8)),
        0x11 => (Int16, ZigZag(2)),
        0x12 => (UInt16, Split(2)),
        0x13 => (Int32, ZigZag(4)),
        0x14 => (UInt32, Split(4)),
        0x15 => (Int64, ZigZag(8)),
        0x16 => (UInt64, Split(8)),
        0x17 => (Float16, Split(2)),
        0x18 => (Float32, Split(4)),
        0x19 => (Float64, Split(8)),
        0x1a => (UInt32, Delta(4)),
        0x1b => (UInt64, Delta(8)),
        0x1c => (Float32, Truncated),
        0x1d => (Float32, Quantized),
        _ => return None,
    })
}

/// Whether it is an index column (offsets of collections).
pub(crate) fn is_index(kind: u16) -> bool {
    matches!(kind, 0x0e | 0x0f | 0x1a | 0x1b)
}

/// Decodes the `elements` of a page from its uncompressed bytes. Bits become a byte each.
pub(crate) fn decode(column: &ColumnRecord, bytes: Vec<u8>, elements: usize) -> Result<Vec<u8>> {
    let (_, encoding) = kind(column.kind).ok_or_else(|| Error::unsupported("a column of an unknown type"))?;
    Ok(match encoding {
        Encoding::Plain(_) => bytes,
        Encoding::Bit => (0..elements).map(|i| bytes.get(i / 8).map_or(0, |byte| byte >> (i % 8) & 1)).collect(),
        Encoding::Split(2) => join::<2>(&bytes, |_, value| value),
        Encoding::Split(4) => join::<4>(&bytes, |_, value| value),
        Encoding::Split(_) => join::<8>(&bytes, |_, value| value),
        Encoding::ZigZag(2) => join::<2>(&bytes, |_, value| back(value)),
        Encoding::ZigZag(4) => join::<4>(&bytes, |_, value| back(value)),
        Encoding::ZigZag(_) => join::<8>(&bytes, |_, value| back(value)),
        Encoding::Delta(4) => join::<4>(&bytes, u64::wrapping_add),
        Encoding::Delta(_) => join::<8>(&bytes, u64::wrapping_add),
        Encoding::Truncated => {
            let shift = 32u32.saturating_sub(u32::from(column.bits));
            bits(&bytes, elements, column.bits).flat_map(|raw| (raw << shift).to_le_bytes()).collect()
        }
        Encoding::Quantized => {
            let (low, high) = column.range.ok_or_else(|| Error::content("a quantized column without its range"))?;
            let steps = ((1u64 << column.bits.min(32)) - 1) as f64;
            let value = |raw: u32| (low + f64::from(raw) * (high - low) / steps) as f32;
            bits(&bytes, elements, column.bits).flat_map(|raw| value(raw).to_le_bytes()).collect()
        }
    })
}

/// Joins split bytes, and maps each value, with the previous result, through `then`.
fn join<const N: usize>(bytes: &[u8], then: impl Fn(u64, u64) -> u64) -> Vec<u8> {
    let count = bytes.len() / N;
    let mut out = Vec::with_capacity(bytes.len());
    let mut parts = [&[][..]; N];
    for (part, found) in parts.iter_mut().zip(bytes.chunks_exact(count.max(1))) {
        *part = found;
    }
    let mut previous = 0;
    for i in 0..count {
        let raw =
            parts.iter().rev().fold(0u64, |value, part| value << 8 | u64::from(part.get(i).copied().unwrap_or(0)));
        previous = then(previous, raw);
        out.extend_from_slice(previous.to_le_bytes().get(..N).unwrap_or_default());
    }
    out
}

fn back(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

/// Numbers of `width` bits, lowest bit first.
fn bits(bytes: &[u8], elements: usize, width: u16) -> impl Iterator<Item = u32> + '_ {
    let width = usize::from(width.clamp(1, 32));
    (0..elements).map(move |i| {
        let start = i * width;
        let window = (0..5).rev().map(|k| bytes.get(start / 8 + k).copied().unwrap_or(0));
        let raw = window.fold(0u64, |value, byte| value << 8 | u64::from(byte)) >> (start % 8);
        (raw & ((1u64 << width) - 1)) as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: u16, bits: u16) -> ColumnRecord {
        ColumnRecord { kind, bits, field: 0, deferred: false, range: Some((0.0, 1.0)) }
    }

    #[test]
    fn pages_of_every_kind() {
        let of = |kind, bits, bytes: &[u8], n| decode(&column(kind, bits), bytes.to_vec(), n).unwrap();
        assert_eq!(of(0x00, 1, &[0b101], 3), [1, 0, 1]);
        assert_eq!(of(0x12, 16, &[1, 2, 3, 4], 2), [1, 3, 2, 4]);
        // 1 and -1 are 2 and 1 in zigzag.
        assert_eq!(of(0x11, 16, &[2, 1, 0, 0], 2), [1, 0, 0xff, 0xff]);
        assert_eq!(of(0x1a, 32, &[3, 4, 0, 0, 0, 0, 0, 0], 2), [3, 0, 0, 0, 7, 0, 0, 0]);
        let half = (0x3f80_0000u32 >> 16) as u16;
        assert_eq!(of(0x1c, 16, &half.to_le_bytes(), 1), 1f32.to_le_bytes());
        assert_eq!(of(0x1d, 1, &[0b10], 2), [0f32.to_le_bytes(), 1f32.to_le_bytes()].concat());
        assert!(decode(&column(0x10, 96), Vec::new(), 0).is_err());
    }
}
