//! Filter 6, scale-offset, which h5py offers: numbers minus the chunk's minimum, in as few bits as the largest needs;
//! floats as multiples of a power of ten.
//!
//! A chunk starts with the bits per number (`u32`), the bytes of the minimum (`u8`) and the minimum, padded with zeros
//! to 21 bytes. The numbers follow, highest bit first. If there is a fill value, all bits set stands for it.

use super::inflate::damaged;
use crate::bytes::Cursor;
use packhorse_core::{Error, Result};

const HEADER: usize = 21;

/// The filter's parameters.
struct Parameters {
    float: bool,
    size: usize,
    big: bool,
    /// The decimal exponent that floats were scaled by.
    digits: i32,
    fill: Option<u64>,
}

impl Parameters {
    fn of(parameters: &[u32]) -> Result<(Self, usize)> {
        let [scale, digits, count, class, size, _, order, filled, fill @ ..] = parameters else {
            return Err(damaged("scale-offset lacks its parameters"));
        };
        let (float, size) = (*class == 1, *size as usize);
        if float && (*scale != 0 || !matches!(size, 4 | 8)) {
            return Err(Error::unsupported(
                "scale-offset chunks scaled by powers of two; rewrite the file with h5repack -f NONE",
            ));
        }
        if *class > 1 || !matches!(size, 1 | 2 | 4 | 8) {
            return Err(damaged(format!("scale-offset of elements of {size} bytes")));
        }
        let part = |i: usize| u64::from(fill.get(i).copied().unwrap_or_default());
        let fill = (*filled == 1).then(|| part(0) | if size == 8 { part(1) << 32 } else { 0 });
        Ok((Self { float, size, big: *order == 1, digits: *digits as i32, fill }, *count as usize))
    }

    /// The number that is `above` steps over the `smallest`, in the lowest bytes of the result.
    fn value(&self, above: u64, smallest: u64) -> u64 {
        match (self.float, self.size) {
            (false, _) => smallest.wrapping_add(above),
            (true, 4) => {
                let steps = above as u32 as i32 as f32 / 10f32.powf(self.digits as f32);
                u64::from((steps + f32::from_bits(smallest as u32)).to_bits())
            }
            (true, _) => {
                (above as i64 as f64 / 10f64.powf(f64::from(self.digits)) + f64::from_bits(smallest)).to_bits()
            }
        }
    }

    fn put(&self, value: u64, out: &mut [u8]) {
        let bytes = value.to_le_bytes();
        out.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        if self.big {
            out.reverse();
        }
    }
}

/// Decompresses `input` into the start of `out`; returns the number of bytes.
pub(crate) fn decompress(parameters: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let (kind, count) = Parameters::of(parameters)?;
    let mut cursor = Cursor::new(input, "a scale-offset chunk");
    let len = count.saturating_mul(kind.size);
    let out = out.get_mut(..len).ok_or_else(|| cursor.bad("is larger than its dataset says"))?;
    let (bits, width) = (cursor.u32()? as usize, usize::from(cursor.u8()?));
    let smallest = cursor.uint(width.min(8))?;
    let packed = input.get(HEADER..).ok_or_else(|| cursor.bad("is cut short"))?;
    if bits >= 8 * kind.size {
        // Full-width numbers are stored unchanged, always little-endian.
        let packed = packed.get(..len).filter(|_| bits == 8 * kind.size).ok_or_else(|| cursor.bad("is cut short"))?;
        out.copy_from_slice(packed);
        if kind.big {
            out.chunks_mut(kind.size).for_each(<[u8]>::reverse);
        }
        return Ok(len);
    }
    if (packed.len() as u128) * 8 < (count as u128) * (bits as u128) {
        return Err(cursor.bad("is cut short"));
    }
    // With 0 bits all numbers are equal, and none is the fill value.
    let mark = kind.fill.filter(|_| bits > 0).map(|fill| ((1u64 << bits) - 1, fill));
    let mut numbers = Bits { bytes: packed.iter(), held: 0, left: 0 };
    for place in out.chunks_mut(kind.size) {
        let above = numbers.take(bits as u32);
        let value = match mark {
            Some((mark, fill)) if mark == above => fill,
            _ => kind.value(above, smallest),
        };
        kind.put(value, place);
    }
    Ok(len)
}

/// A bit reader, highest bit first.
struct Bits<'a> {
    bytes: std::slice::Iter<'a, u8>,
    held: u128,
    left: u32,
}

impl Bits<'_> {
    /// The next `count` bits, fewer than 64; zeros after the end.
    fn take(&mut self, count: u32) -> u64 {
        while self.left < count {
            self.held = self.held << 8 | u128::from(self.bytes.next().copied().unwrap_or_default());
            self.left += 8;
        }
        self.left -= count;
        let taken = (self.held >> self.left) as u64 & ((1u64 << count) - 1);
        self.held &= (1u128 << self.left) - 1;
        taken
    }
}
