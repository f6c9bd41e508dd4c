//! LZF, which h5py and PyTables offer (Marc Lehmann's liblzf): literal runs and short back references.

use crate::bytes::Cursor;
use packhorse_core::Result;

/// Decompresses `input` into the start of `out`; returns the number of bytes.
pub(crate) fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = Cursor::new(input, "a chunk compressed with lzf");
    let mut at = 0usize;
    while !cursor.rest().is_empty() {
        let control = usize::from(cursor.u8()?);
        if control < 32 {
            let literal = cursor.take(control + 1)?;
            let target =
                out.get_mut(at..at + literal.len()).ok_or_else(|| cursor.bad("is larger than its dataset says"))?;
            target.copy_from_slice(literal);
            at += literal.len();
            continue;
        }
        let mut len = (control >> 5) + 2;
        if len == 9 {
            len += usize::from(cursor.u8()?);
        }
        let back = ((control & 31) << 8) + usize::from(cursor.u8()?) + 1;
        let from = at.checked_sub(back).ok_or_else(|| cursor.bad("refers to bytes before its start"))?;
        if at + len > out.len() {
            return Err(cursor.bad("is larger than its dataset says"));
        }
        if back >= len {
            out.copy_within(from..from + len, at);
        } else {
            for i in 0..len {
                out.copy_within(from + i..from + i + 1, at + i);
            }
        }
        at += len;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn runs_and_references() {
        let mut out = [0; 16];
        // "abc", then 7 bytes at distance 3.
        let len = decompress(&[2, b'a', b'b', b'c', 5 << 5, 2], &mut out).unwrap();
        assert_eq!(&out[..len], b"abcabcabca");
        assert!(decompress(&[2, b'a', b'b', b'c', 5 << 5, 3], &mut out).is_err());
        assert!(decompress(&[0, b'a', 7 << 5, 20, 0], &mut out).is_err());
        assert!(decompress(&[9, b'a'], &mut out).is_err());
    }
}
