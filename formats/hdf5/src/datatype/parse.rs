//! Parses datatype messages.

use super::{Datatype, FloatParts, Padding, float_parts};
use crate::bytes::Cursor;
use packhorse_core::{Error, Result};

/// The deepest nesting of types.
pub(super) const DEEPEST: usize = 8;

pub(super) fn parse(cursor: &mut Cursor<'_>, depth: usize) -> Result<Datatype> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::unsupported(format!("datatypes nested more than {DEEPEST} deep")));
    };
    let start = cursor.u8()?;
    let (class, version) = (start & 15, start >> 4);
    let (low, middle) = (cursor.u8()?, cursor.u8()?);
    cursor.skip(1)?;
    let size = cursor.u32()?;
    let other = |what: &str| Datatype::Other { size, what: what.to_owned() };
    if size == 0 {
        return Err(cursor.bad("has elements of size 0"));
    }
    match class {
        0 => integer(cursor, size, low),
        1 => float(cursor, size, low, middle),
        2 => time(cursor, size, low),
        3 => Ok(text(size, low)),
        4 => bit_field(cursor, size, low),
        5 => opaque(cursor, size, low),
        6 => compound(cursor, version, size, usize::from(low) | usize::from(middle) << 8, depth),
        7 => Ok(other("references")),
        8 => enumeration(cursor, version, usize::from(low) | usize::from(middle) << 8, depth),
        9 => {
            let of = parse(cursor, depth)?;
            Ok(match low & 15 {
                _ if size < 9 => return Err(cursor.bad("has global heap references of fewer than 9 bytes")),
                1 => Datatype::VlenText { utf8: middle & 15 == 1, size },
                _ => Datatype::Vlen { of: Box::new(of), size },
            })
        }
        10 => array(cursor, version, size, depth),
        11 => match parse(cursor, depth)? {
            Datatype::Float { size: each, big } if each > 2 && size == each * 2 => {
                Ok(Datatype::Complex { size: each, big })
            }
            of => Ok(other(&format!("complex numbers of {of}"))),
        },
        _ => Err(Error::unsupported(format!("datatypes of class {class}"))),
    }
}

fn integer(cursor: &mut Cursor<'_>, size: u32, low: u8) -> Result<Datatype> {
    let (offset, precision) = (cursor.u16()?, cursor.u16()?);
    let (signed, big) = (low & 8 != 0, low & 1 != 0);
    let bits = size.saturating_mul(8);
    Ok(match (size, offset, u32::from(precision)) {
        (1 | 2 | 4 | 8, 0, all) if all == bits => Datatype::Integer { size, signed, big },
        (1..=8, _, few) if few > 0 && u32::from(offset) + few <= bits => {
            Datatype::Bits { size, signed, big, offset, precision }
        }
        _ => Datatype::Other { size, what: format!("integers of {precision} bits in {size} bytes") },
    })
}

fn bit_field(cursor: &mut Cursor<'_>, size: u32, low: u8) -> Result<Datatype> {
    Ok(match integer(cursor, size, low & 1)? {
        Datatype::Integer { size, big, .. } => Datatype::BitField { size, big },
        Datatype::Other { .. } => Datatype::Other { size, what: format!("bit fields of {size} bytes") },
        bits => bits,
    })
}

fn time(cursor: &mut Cursor<'_>, size: u32, low: u8) -> Result<Datatype> {
    let precision = cursor.u16()?;
    Ok(match matches!(size, 4 | 8) && u32::from(precision) == size * 8 {
        true => Datatype::Time { size, big: low & 1 != 0 },
        false => Datatype::Other { size, what: format!("times of {precision} bits in {size} bytes") },
    })
}

/// Opaque bytes; h5py's tag for times is `NUMPY:<M8[s]`.
fn opaque(cursor: &mut Cursor<'_>, size: u32, low: u8) -> Result<Datatype> {
    let tag = cursor.take(usize::from(low))?.split(|byte| *byte == 0).next().unwrap_or_default();
    let numpy = std::str::from_utf8(tag).ok().and_then(|tag| tag.strip_prefix("NUMPY:"));
    let numpy = numpy.filter(|numpy| size == 8 && ["<M8[", "<m8["].iter().any(|time| numpy.starts_with(time)));
    Ok(Datatype::Opaque { size, numpy: numpy.map(str::to_owned) })
}

fn float(cursor: &mut Cursor<'_>, size: u32, low: u8, sign: u8) -> Result<Datatype> {
    let (offset, precision) = (cursor.u16()?, cursor.u16()?);
    let parts = cursor.take(4)?;
    let bias = cursor.u32()?;
    let found = (sign, parts, bias);
    let plain = float_parts(size).is_some_and(|(sign, parts, bias)| (sign, &parts[..], bias) == found);
    let implied = low & 0x70 == 0x20;
    let plain = plain && implied && offset == 0 && u32::from(precision) == size.saturating_mul(8);
    let big = low & 1 != 0;
    let odd = match parts {
        [exponent_at, exponent, mantissa_at, mantissa] if implied => odd_float(
            size,
            FloatParts { sign, exponent: (*exponent_at, *exponent), mantissa: (*mantissa_at, *mantissa), bias },
        ),
        _ => None,
    };
    Ok(match (plain, odd) {
        (true, _) => Datatype::Float { size, big },
        (false, Some(parts)) => Datatype::OddFloat { size, big, parts },
        (false, None) => Datatype::Other { size, what: format!("floats of {precision} bits in {size} bytes") },
    })
}

/// `parts`, if they fit into `size` bytes and a float of 8 bytes holds every value.
fn odd_float(size: u32, parts: FloatParts) -> Option<FloatParts> {
    let bits = size.checked_mul(8).filter(|bits| *bits <= 64)?;
    let inside = |(at, count): (u8, u8)| count > 0 && u32::from(at) + u32::from(count) <= bits;
    let (bias, exponent) = (i64::from(parts.bias), parts.exponent.1);
    let fits = parts.mantissa.1 <= 52 && exponent <= 11 && 1 - bias >= -1022 && (1i64 << exponent) - 1 - bias <= 1024;
    (inside(parts.exponent) && inside(parts.mantissa) && u32::from(parts.sign) < bits && fits).then_some(parts)
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

/// A member's name, offset and, in version 1, dimensions.
fn member_head(cursor: &mut Cursor<'_>, version: u8, size: u32) -> Result<(String, u32, Vec<u32>)> {
    let before = cursor.rest().len();
    let name = crate::bytes::name(cursor.zero_ended()?);
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
