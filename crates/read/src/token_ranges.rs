//! Reads many ranges of files in few calls.

use crate::coalesce::coalesce;
use crate::reads_ahead::ReadsAhead;
use crate::{TokenFile, TokenType};
use packhorse_core::{Error, Result};
use std::ops::Range;

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

/// Wants of one file that are close to each other, and the range to read for them.
#[derive(Clone)]
struct Merged<'a> {
    files: &'a [TokenFile],
    rest: &'a [Want],
}

impl<'a> Iterator for Merged<'a> {
    type Item = (&'a TokenFile, &'a [Want], Range<u64>);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.rest.first()?;
        let file = self.files.get(first.file as usize)?;
        let near = self.rest.iter().take_while(|want| want.file == first.file).map(|want| want.start..want.end);
        let (count, end) = coalesce(near, file.gap(), MOST);
        let (these, others) = self.rest.split_at_checked(count)?;
        self.rest = others;
        Some((file, these, first.start..end))
    }
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
    let merged = Merged { files, rest: wants };
    let mut ahead = ReadsAhead::new(merged.clone().map(|(file, _, range)| (file.input(), range)));
    for (file, wants, range) in merged {
        let plain = match wants {
            [want] if file.is_plain(token_type) => out.get_mut(want.to..want.to + want.len),
            _ => None,
        };
        if let Some(out) = plain {
            ahead.read(out).map_err(|error| error.in_input(file.name()))?;
            continue;
        }
        // At most `MOST` bytes, or one segment, which fits a batch.
        buf.resize((range.end - range.start) as usize, 0);
        ahead.read(buf).map_err(|error| error.in_input(file.name()))?;
        for want in wants {
            let from = buf.get((want.start - range.start) as usize..(want.end - range.start) as usize);
            let places = from.zip(out.get_mut(want.to..want.to + want.len));
            let (from, out) = places.ok_or_else(|| Error::bug("a range outside of what was read"))?;
            file.convert(from, token_type, out)?;
        }
    }
    Ok(())
}
