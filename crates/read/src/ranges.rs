//! Reads many ranges of files in few calls.

use crate::coalesce::coalesce;
use crate::{TokenFile, TokenType};
use packhorse_core::{Error, Result};

/// The maximum size of a merged read, in bytes.
const MOST: u64 = 8 << 20;

/// A range of a file, and the destination of its tokens in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Want {
    pub(crate) file: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// First byte in `out`.
    pub(crate) to: usize,
    /// Bytes in `out`.
    pub(crate) len: usize,
}

/// Reads all `wants`, which are reordered, each to its place in `out`. `buf` holds merged reads.
pub(crate) fn read(
    files: &[TokenFile],
    wants: &mut [Want],
    token_type: TokenType,
    out: &mut [u8],
    buf: &mut Vec<u8>,
) -> Result<()> {
    wants.sort_unstable();
    let mut rest = &*wants;
    while let Some(first) = rest.first() {
        let file = files.get(first.file as usize).ok_or_else(|| Error::bug("a range of no file"))?;
        let near = rest.iter().take_while(|want| want.file == first.file).map(|want| want.start..want.end);
        let (count, end) = coalesce(near, file.gap(), MOST);
        let (these, others) = rest.split_at(count);
        rest = others;
        let alone =
            if count == 1 && file.is_plain(token_type) { out.get_mut(first.to..first.to + first.len) } else { None };
        if let Some(out) = alone {
            file.read_at(first.start, out)?;
            continue;
        }
        // At most `MOST` bytes, or one segment, which fits a batch.
        buf.resize((end - first.start) as usize, 0);
        file.read_at(first.start, buf)?;
        for want in these {
            let from = buf.get((want.start - first.start) as usize..(want.end - first.start) as usize);
            let places = from.zip(out.get_mut(want.to..want.to + want.len));
            let (from, out) = places.ok_or_else(|| Error::bug("a range outside of what was read"))?;
            file.convert(from, token_type, out)?;
        }
    }
    Ok(())
}
