//! Whole `.npy` files of a sample in memory: read in large pieces, inflated, checked.

use crate::bytes::Bytes;
use crate::file::Array;
use crate::member::{Crc32, crc32, inflate};
use arrow_buffer::Buffer;
use packhorse_core::{Limits, Result};

/// Up to this size a member is read together with its local header.
const SMALL: u64 = 64 << 10;

/// A piece stays in the cache between being read and being summed.
const PIECE: usize = 1 << 20;

/// The `.npy` file that `array` is, whole.
pub(crate) fn load(bytes: Bytes<'_>, array: &Array, limits: &Limits) -> Result<Buffer> {
    let Some(member) = &array.member else {
        let size = limits.blob(bytes.len())?;
        return read(bytes, 0, size, &mut |_| ()).map(Buffer::from);
    };
    let size = member.check(limits)?;
    let span = member.end - member.start;
    if span <= SMALL {
        let local = bytes.read(member.start, span as usize)?;
        return member.unpack(&local, limits).map(|data| Buffer::from(data.into_owned()));
    }
    let at = member.find(bytes)?;
    if member.method != 0 {
        let packed = read(bytes, at, limits.blob(member.packed)?, &mut |_| ())?;
        let data = inflate(&packed, size)?;
        member.verify(crc32(&data))?;
        return Ok(Buffer::from(data));
    }
    let mut crc = Crc32::default();
    let data = read(bytes, at, size, &mut |piece| crc.update(piece))?;
    member.verify(crc.finish())?;
    Ok(Buffer::from(data))
}

/// `size` bytes from `at`, each piece shown to `each`. The size is no more than the file has, or the
/// read fails.
fn read(bytes: Bytes<'_>, at: u64, size: usize, each: &mut dyn FnMut(&[u8])) -> Result<Vec<u8>> {
    bytes.holds(at, size)?;
    let mut data = vec![0; size];
    for (i, piece) in data.chunks_mut(PIECE).enumerate() {
        bytes.fill(at + (i * PIECE) as u64, piece)?;
        each(piece);
    }
    Ok(data)
}
