//! BloscLZ, Blosc's own codec derived from FastLZ: literal runs and back references.

use crate::bytes::Cursor;
use packhorse_core::Result;

/// A reference with these bits and a byte of 255 stores its distance in two more bytes, counted from [`FAR`].
const EXTENDED: usize = 31 << 8;
const FAR: usize = 8191;

/// Decompresses `input` into the start of `out`; returns the number of bytes.
pub(crate) fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = Cursor::new(input, "a part compressed with blosclz");
    // The first byte always starts a literal run; its upper bits are ignored.
    let mut control = usize::from(cursor.u8()?) & 31;
    let mut at = 0usize;
    loop {
        if control < 32 {
            let literal = cursor.take(control + 1)?;
            let target =
                out.get_mut(at..at + literal.len()).ok_or_else(|| cursor.bad("is larger than its header says"))?;
            target.copy_from_slice(literal);
            at += literal.len();
        } else {
            let (back, len) = reference(control, &mut cursor)?;
            let from = at.checked_sub(back).ok_or_else(|| cursor.bad("refers to bytes before its start"))?;
            if len > out.len() - at {
                return Err(cursor.bad("is larger than its header says"));
            }
            repeat(out, from, at, len);
            at += len;
        }
        if cursor.rest().is_empty() {
            return Ok(at);
        }
        control = usize::from(cursor.u8()?);
    }
}

/// Distance and length of a back reference.
fn reference(control: usize, cursor: &mut Cursor<'_>) -> Result<(usize, usize)> {
    let (mut len, mut back) = ((control >> 5) - 1, (control & 31) << 8);
    if len == 6 {
        loop {
            let more = usize::from(cursor.u8()?);
            len = len.saturating_add(more);
            if more < 255 {
                break;
            }
        }
    }
    let low = usize::from(cursor.u8()?);
    back += match (back, low) {
        (EXTENDED, 255) => (cursor.big(2)? as usize + FAR).saturating_sub(EXTENDED),
        _ => low,
    };
    Ok((back + 1, len + 3))
}

/// Copies `len` bytes from `from` to the later position `to`; overlapping bytes repeat.
fn repeat(out: &mut [u8], from: usize, to: usize, len: usize) {
    let mut done = 0;
    while done < len {
        // Bytes just copied are part of the source.
        let piece = (to - from + done).min(len - done);
        out.copy_within(from..from + piece, to + done);
        done += piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_references() {
        let mut out = [0; 32];
        let len = decompress(&[2, b'a', b'b', b'c', 4 << 5, 2, 0, b'd', 7 << 5, 3, 0], &mut out).unwrap();
        assert_eq!(&out[..len], [&b"abcabcabc"[..], &[b'd'; 13]].concat());
        assert!(decompress(&[2, b'a', b'b', b'c', 4 << 5, 3], &mut out).is_err());
        assert!(decompress(&[0, b'a', 7 << 5, 255, 255, 0, 0], &mut out).is_err());
        assert!(decompress(&[9, b'a'], &mut out).is_err());
        assert!(decompress(&[], &mut out).is_err());
    }
}
