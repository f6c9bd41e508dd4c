//! Bounds the nesting of a Parquet schema before the crate `parquet` reads it: that recurses for every level, and a
//! stack overflow ends the process.
//!
//! Reads only the schema of the footer: field 2 of `FileMetaData` is the list of all `SchemaElement`s, parents first.
//! Field 5 of an element is its number of children, for which the reader allocates at once. The file ends in the
//! footer's length (4 bytes, little-endian) and `PAR1`.

use crate::thrift::{I32, LIST, STRUCT, Thrift, VALUES};
use packhorse_core::{Error, Result};

/// The deepest supported nesting. The reader overflows a stack of 2 MiB at some thousand levels.
const DEEPEST: usize = 100;

/// Refuses a footer whose columns nest too deeply.
pub(crate) fn check(footer: &[u8]) -> Result<()> {
    match deepest(footer) {
        Some(depth) if depth <= DEEPEST => Ok(()),
        Some(_) => Err(Error::unsupported(format!("has columns nested over {DEEPEST} levels deep; flatten them"))),
        None => Err(Error::content("has a damaged Parquet footer; write the file again")),
    }
}

/// The depth of the schema in a footer; `None` if it is damaged.
fn deepest(footer: &[u8]) -> Option<usize> {
    let (mut thrift, mut deepest) = (Thrift::new(footer), 0);
    thrift.fields(|thrift, id, kind| {
        if (id, kind) != (2, LIST) {
            return thrift.skip(kind, VALUES);
        }
        let (len, kind) = thrift.list()?;
        // The number of missing children of every open element.
        let mut open: Vec<i32> = Vec::new();
        for _ in 0..len {
            while open.last() == Some(&0) {
                open.pop();
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            let children = children(thrift, kind)?.max(0);
            // Children are elements of the same list.
            (u64::try_from(children).ok()? < len).then_some(())?;
            open.push(children);
            deepest = deepest.max(open.len());
        }
        Some(())
    })?;
    Some(deepest)
}

/// The number of children of a `SchemaElement`.
fn children(thrift: &mut Thrift<'_>, kind: u8) -> Option<i32> {
    let mut children = 0;
    if kind != STRUCT {
        return None;
    }
    thrift.fields(|thrift, id, kind| {
        if (id, kind) != (5, I32) {
            return thrift.skip(kind, VALUES);
        }
        children = thrift.zigzag()?;
        Some(())
    })?;
    Some(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer of elements with these numbers of children.
    fn footer(children: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xfc];
        let len = children.len();
        bytes.extend([(len & 0x7f) as u8 | 0x80, (len >> 7 & 0x7f) as u8 | 0x80, (len >> 14) as u8]);
        // Field 4 (name) as "x", then 5 (children).
        children.iter().for_each(|n| bytes.extend([0x48, 1, b'x', 0x15, n << 1, 0]));
        bytes.extend([0x16, 0, 0]);
        bytes
    }

    #[test]
    fn depth_counts_from_the_root_and_is_bounded() {
        assert_eq!(deepest(&footer(&[])), Some(0));
        assert_eq!(deepest(&footer(&[3, 0, 0, 0])), Some(2));
        assert_eq!(deepest(&footer(&[2, 2, 0, 1, 0, 0])), Some(4));
        assert_eq!(deepest(&footer(&[1; 300])), Some(300));
        assert_eq!(deepest(&footer(&[3, 0])), None);
        assert!(check(&footer(&[1; 100])).is_ok());
        assert_eq!(check(&footer(&[1; 100_000])).unwrap_err().kind(), packhorse_core::Kind::Unsupported);
    }

    #[test]
    fn a_footer_cut_short_is_damaged() {
        let whole = footer(&[2, 0, 0]);
        for end in 0..whole.len() {
            assert_eq!(deepest(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn every_type_is_skipped_and_nesting_is_bounded() {
        let mut all = vec![0x11, 0x12, 0x13, 7, 0x16, 0x80, 1, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x18, 2, b'a', b'b'];
        all.extend([0x19, 0x21, 1, 2, 0x1b, 1, 0x58, 3, 1, b'v', 0x1b, 0, 0x1c, 0x15, 4, 0, 0x05, 40, 6, 0]);
        assert_eq!(deepest(&all), Some(0));
        assert_eq!(deepest(&[0x1c; 1 << 20]), None);
        assert_eq!(deepest(&[&[0x19][..], &[0x19; 1 << 20]].concat()), None);
    }
}
