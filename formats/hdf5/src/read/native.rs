//! Converts elements to the types of rows: little-endian, with unusual integers and floats widened.

use crate::datatype::{Datatype, FloatParts};

/// Bytes per element after [`widened`].
pub(crate) fn width(datatype: &Datatype) -> usize {
    match datatype {
        Datatype::Bits { size, .. } => size.next_power_of_two() as usize,
        Datatype::OddFloat { parts, .. } => parts.wider() as usize,
        other => other.size() as usize,
    }
}

/// Makes elements little-endian.
pub(crate) fn swap(datatype: &Datatype, bytes: &mut [u8]) {
    let size = match datatype {
        Datatype::Integer { size, big: true, .. }
        | Datatype::Bits { size, big: true, .. }
        | Datatype::BitField { size, big: true }
        | Datatype::Time { size, big: true }
        | Datatype::Float { size, big: true }
        | Datatype::OddFloat { size, big: true, .. }
        | Datatype::Complex { size, big: true } => *size as usize,
        Datatype::Timeval { big: true } => 8,
        _ => return,
    };
    bytes.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
}

/// Widens little-endian elements of `datatype` to the type of rows; `None` if they have it already.
pub(crate) fn widened(datatype: &Datatype, bytes: &[u8]) -> Option<Vec<u8>> {
    let each = (datatype.size() as usize).max(1);
    let elements = bytes.chunks_exact(each).map(number);
    let wide = width(datatype);
    let cut = |value: u64| value.to_le_bytes().into_iter().take(wide);
    match datatype {
        Datatype::Bits { signed, offset, precision, .. } => {
            Some(elements.flat_map(|value| cut(integer(value, *signed, *offset, *precision))).collect())
        }
        Datatype::OddFloat { parts, .. } if wide == 4 => {
            Some(elements.flat_map(|value| (float(value, parts) as f32).to_le_bytes()).collect())
        }
        Datatype::OddFloat { parts, .. } => {
            Some(elements.flat_map(|value| float(value, parts).to_le_bytes()).collect())
        }
        Datatype::Timeval { .. } => Some(elements.flat_map(|value| seconds(value).to_le_bytes()).collect()),
        _ => None,
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn integer(value: u64, signed: bool, offset: u16, precision: u16) -> u64 {
    let rest = 64 - u32::from(precision).clamp(1, 64);
    let top = value >> u32::from(offset).min(63) << rest;
    if signed { (top as i64 >> rest) as u64 } else { top >> rest }
}

fn float(value: u64, parts: &FloatParts) -> f64 {
    let field = |(at, count): (u8, u8)| value >> at.min(63) & ((1u64 << count.min(63)) - 1);
    let (exponent, mantissa) = (field(parts.exponent), field(parts.mantissa));
    let last = (1u64 << parts.exponent.1.min(63)) - 1;
    let one = (1u64 << parts.mantissa.1.min(52)) as f64;
    let power = |exponent: i64| f64::from_bits(((exponent - i64::from(parts.bias) + 1023).clamp(1, 2046) as u64) << 52);
    let size = match exponent {
        _ if exponent == last && mantissa == 0 => f64::INFINITY,
        _ if exponent == last => f64::NAN,
        0 => mantissa as f64 * power(1) / one,
        _ => (1.0 + mantissa as f64 / one) * power(exponent as i64),
    };
    if value >> parts.sign.min(63) & 1 == 1 { -size } else { size }
}

/// PyTables' Time64 as seconds, computed as PyTables does.
fn seconds(value: u64) -> f64 {
    let (micros, seconds) = (value as u32 as i32, (value >> 32) as u32 as i32);
    f64::from(seconds) + f64::from(micros) * 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(parts: FloatParts, size: u32, bytes: &[u8]) -> Vec<u8> {
        widened(&Datatype::OddFloat { size, big: false, parts }, bytes).unwrap_or_default()
    }

    #[test]
    fn every_bfloat_is_the_upper_half_of_a_float() {
        let parts = FloatParts { sign: 15, exponent: (7, 8), mantissa: (0, 7), bias: 127 };
        for half in 0..=u16::MAX {
            let wide = floats(parts, 2, &half.to_le_bytes());
            let found = f32::from_le_bytes([wide[0], wide[1], wide[2], wide[3]]);
            let wanted = f32::from_bits(u32::from(half) << 16);
            assert!(found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan()), "{half:#x}");
        }
    }

    #[test]
    fn extreme_doubles_are_exact() {
        let parts = FloatParts { sign: 63, exponent: (52, 11), mantissa: (0, 52), bias: 1023 };
        for value in [f64::MAX, -f64::MIN_POSITIVE, 5e-324, -0.0, 1.0 / 3.0, f64::INFINITY] {
            assert_eq!(floats(parts, 8, &value.to_le_bytes()), value.to_le_bytes());
        }
    }

    #[test]
    fn integers_keep_their_sign() {
        let bits = |signed, offset| Datatype::Bits { size: 3, signed, big: false, offset, precision: 20 };
        assert_eq!(widened(&bits(true, 0), &[0xff, 0xff, 0xff]), Some(vec![0xff; 4]));
        assert_eq!(widened(&bits(false, 4), &[0xf5, 0xff, 0xff]), Some(vec![0xff, 0xff, 0x0f, 0]));
        assert_eq!(widened(&bits(true, 0), &[1, 0, 0xf0]), Some(vec![1, 0, 0, 0]));
    }
}
