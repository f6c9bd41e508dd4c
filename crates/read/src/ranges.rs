//! Ranges of files that were asked for one by one, read in few calls.

use crate::{TokenFile, TokenType};
use packhorse_core::{Error, Result};

/// The most bytes that are read at once for the sake of neighbours.
const MOST: u64 = 8 << 20;

/// A range of a file and where in the slab its tokens go.
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

/// Reads all `wants`, which are reordered, each into its place in `out`. `buf` holds ranges that are read together.
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
        let (count, end) = together(rest, file.gap());
        let (these, others) = rest.split_at(count);
        rest = others;
        let alone =
            if count == 1 && file.is_plain(token_type) { out.get_mut(first.to..first.to + first.len) } else { None };
        if let Some(out) = alone {
            file.read_at(first.start, out)?;
            continue;
        }
        // At most `MOST` bytes, or one segment, which the batch has room for.
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

/// How many of the sorted `wants`, from the first on, are worth one call, and where that ends.
fn together(wants: &[Want], gap: u64) -> (usize, u64) {
    let Some(first) = wants.first() else { return (0, 0) };
    let (mut count, mut end) = (1, first.end);
    for want in wants.iter().skip(1) {
        let reached = want.end.max(end);
        let near = want.file == first.file && want.start <= end.saturating_add(gap);
        if !near || reached - first.start > MOST {
            break;
        }
        (count, end) = (count + 1, reached);
    }
    (count, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_together() {
        let want = |file, start, end| Want { file, start, end, to: 0, len: 0 };
        let wants = [want(0, 0, 10), want(0, 8, 9), want(0, 15, 20), want(0, 26, 30), want(1, 26, 30)];
        assert_eq!(together(&wants, 5), (3, 20));
        assert_eq!(together(&wants[3..], 5), (1, 30));
        assert_eq!(together(&[want(0, 0, MOST), want(0, MOST, MOST + 1)], 5), (1, MOST));
        assert_eq!(together(&[], 5), (0, 0));
    }
}
