//! Loads whole `.npy` files into memory: reads in parallel, inflates, checks the CRC-32.

use crate::bytes::Bytes;
use crate::file::Array;
use crate::member::{CrcShift, crc32, inflate};
use arrow_buffer::Buffer;
use packhorse_core::{Limits, Memory, Pool, Result};
use rayon::prelude::{IndexedParallelIterator, ParallelIterator, ParallelSliceMut};

/// Members up to this size are read together with their local header.
const SMALL: u64 = 64 << 10;

/// Small enough to stay in the cache between the read and the checksum.
const PIECE: usize = 512 << 10;

/// The `.npy` file of `array`, whole.
pub(crate) fn load(bytes: Bytes<'_>, array: &Array, limits: &Limits, pool: &Pool) -> Result<Buffer> {
    let Some(member) = &array.member else {
        let size = limits.blob(bytes.len())?;
        return read(bytes, 0, size, false, pool).map(|(data, _)| Buffer::from(data));
    };
    let size = member.check(limits)?;
    let span = member.end - member.start;
    if span <= SMALL {
        let local = bytes.read(member.start, span as usize)?;
        return member.unpack(&local, limits).map(|data| Buffer::from(data.into_owned()));
    }
    let at = member.find(bytes)?;
    if member.method != 0 {
        let (packed, _) = read(bytes, at, limits.blob(member.packed)?, false, pool)?;
        let mut data = pool.take(size)?;
        inflate(&packed, &mut data)?;
        member.verify(crc32(&data))?;
        return Ok(Buffer::from(data));
    }
    let (data, crc) = read(bytes, at, size, true, pool)?;
    member.verify(crc)?;
    Ok(Buffer::from(data))
}

/// Reads `size` bytes from `at` in parallel pieces, and their CRC-32 if `summed` (else 0). Fails without allocating if
/// the file ends before.
pub(crate) fn read(bytes: Bytes<'_>, at: u64, size: usize, summed: bool, pool: &Pool) -> Result<(Memory, u32)> {
    bytes.holds(at, size)?;
    let mut data = pool.take(size)?;
    let fill = |(i, piece): (usize, &mut [u8])| {
        bytes.fill(at + (i * PIECE) as u64, piece)?;
        Ok((if summed { crc32(piece) } else { 0 }, piece.len() as u64))
    };
    // Handing a single piece to another thread takes longer than reading it.
    if size <= PIECE {
        let (crc, _) = fill((0, &mut data))?;
        return Ok((data, crc));
    }
    let pieces = data.par_chunks_mut(PIECE).enumerate().map(fill);
    let sums = pieces.collect::<Result<Vec<_>>>()?;
    let whole = CrcShift::by(PIECE as u64);
    let join = |crc, (piece, len)| if len == PIECE as u64 { whole } else { CrcShift::by(len) }.join(crc, piece);
    let crc = sums.into_iter().filter(|_| summed).fold(0, join);
    Ok((data, crc))
}
