//! Reads arrays of numbers from a file in bounded memory.

use packhorse_core::{Input, Result};

/// Calls `each` with the `count` numbers of `W` bytes at `offset`, in pieces.
pub(crate) fn each<const W: usize>(
    input: &dyn Input,
    offset: u64,
    count: u64,
    each: &mut dyn FnMut(&[[u8; W]]) -> Result<()>,
) -> Result<()> {
    let end = offset.saturating_add(count.saturating_mul(W as u64));
    // The pieces are whole numbers: their size is a multiple of each width.
    input.each_piece(offset..end, &mut |bytes| each(bytes.as_chunks::<W>().0))
}

/// The `count` numbers of `W` bytes at `offset`. The caller bounds `count` and checks that they lie in the file.
pub(crate) fn read_array<const W: usize>(input: &dyn Input, offset: u64, count: usize) -> Result<Vec<[u8; W]>> {
    let mut bytes = vec![[0; W]; count];
    input.read_at(offset, bytes.as_flattened_mut())?;
    Ok(bytes)
}
