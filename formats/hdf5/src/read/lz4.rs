//! [Filter 32004](https://github.com/nexusformat/HDF5-External-Filter-Plugins): LZ4 blocks, each after its compressed
//! length; a block of full length is not compressed. The total length and the block length come first. All are
//! big-endian.

use super::inflate::damaged;
use crate::bytes::Cursor;
use packhorse_core::Result;

/// Decompresses `input` into the start of `out`; returns the number of bytes.
pub(crate) fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = Cursor::new(input, "a chunk compressed with lz4");
    let (len, size) = (usize::try_from(cursor.big(8)?).unwrap_or(usize::MAX), cursor.big(4)? as usize);
    let out = out.get_mut(..len).ok_or_else(|| cursor.bad("is larger than its dataset says"))?;
    if size == 0 && len > 0 {
        return Err(cursor.bad("has blocks of 0 bytes"));
    }
    for part in out.chunks_mut(size.max(1)) {
        let packed = cursor.big(4)? as usize;
        let packed = cursor.take(packed)?;
        match packed.len() == part.len() {
            true => part.copy_from_slice(packed),
            false => block(packed, part)?,
        }
    }
    Ok(len)
}

/// Decompresses one LZ4 block, which must fill `out`.
pub(crate) fn block(packed: &[u8], out: &mut [u8]) -> Result<()> {
    match lz4_flex::block::decompress_into(packed, out).map_err(damaged)? {
        len if len == out.len() => Ok(()),
        len => Err(damaged(format!("an LZ4 block has {len} bytes instead of {}", out.len()))),
    }
}
