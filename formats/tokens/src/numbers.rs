//! Reads arrays of numbers from a file in bounded memory.

use packhorse_core::{Input, Result};

/// Bytes of one read, a multiple of each width.
const PIECE: usize = 1 << 20;

/// Calls `each` with the `count` numbers of `W` bytes at `offset`, in pieces.
pub(crate) fn each<const W: usize>(
    input: &dyn Input,
    offset: u64,
    count: u64,
    each: &mut dyn FnMut(&[[u8; W]]) -> Result<()>,
) -> Result<()> {
    each_bytes(input, offset, count.saturating_mul(W as u64), &mut |bytes| each(bytes.as_chunks::<W>().0))
}

/// Calls `each` with the `len` bytes at `offset`, in pieces.
pub(crate) fn each_bytes(
    input: &dyn Input,
    offset: u64,
    len: u64,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut buf = packhorse_core::aligned(usize::try_from(len).map_or(PIECE, |len| len.min(PIECE)));
    let mut done = 0;
    while done < len {
        let n = usize::try_from(len - done).map_or(buf.len(), |left| left.min(buf.len()));
        let piece = buf.get_mut(..n).unwrap_or_default();
        input.read_at(offset.saturating_add(done), piece)?;
        each(piece)?;
        done += n as u64;
    }
    Ok(())
}

/// The `count` numbers of `W` bytes at `offset`. The caller bounds `count` and checks that they lie in the file.
pub(crate) fn read_array<const W: usize>(input: &dyn Input, offset: u64, count: usize) -> Result<Vec<[u8; W]>> {
    let mut bytes = vec![[0; W]; count];
    input.read_at(offset, bytes.as_flattened_mut())?;
    Ok(bytes)
}
