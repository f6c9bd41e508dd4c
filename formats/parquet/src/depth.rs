//! How deep the columns of a Parquet file nest, read before its reader does: that one calls itself for every level, and a
//! stack that overflows ends the process, which nothing can contain.
//!
//! Reads just enough of the footer, a struct in Thrift's compact protocol
//! (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>): `FileMetaData` holds in its
//! field 2 the list of all `SchemaElement`s, parents first, whose field 5 is the number of children. The file ends in
//! the footer's length (4 bytes, little endian) and `PAR1`.

use packhorse_core::{Error, Result};

/// The deepest nesting that is read. The reader overflows a stack of 2 MiB at some thousand levels.
const DEEPEST: usize = 100;
/// The deepest nesting of Thrift values; Parquet's own need about ten.
const VALUES: u8 = 32;

// Types of the compact protocol.
const BYTE: u8 = 3;
const INTEGERS: std::ops::RangeInclusive<u8> = 4..=6;
const I32: u8 = 5;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Refuses a footer whose columns nest too deep.
pub(crate) fn check(footer: &[u8]) -> Result<()> {
    match deepest(footer) {
        Some(depth) if depth <= DEEPEST => Ok(()),
        Some(_) => Err(Error::unsupported(format!("has columns nested over {DEEPEST} levels deep; write it flatter"))),
        None => Err(Error::content("has a damaged Parquet footer; write the file anew")),
    }
}

/// The depth of the schema in a footer; `None` where it is damaged.
fn deepest(footer: &[u8]) -> Option<usize> {
    let (mut thrift, mut deepest) = (Thrift(footer), 0);
    thrift.fields(|thrift, id, kind| {
        if (id, kind) != (2, LIST) {
            return thrift.skip(kind, VALUES);
        }
        let (len, kind) = thrift.list()?;
        // Of every open element, how many children are still to come.
        let mut open: Vec<i32> = Vec::new();
        for _ in 0..len {
            while open.last() == Some(&0) {
                open.pop();
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            open.push(thrift.children(kind)?.max(0));
            deepest = deepest.max(open.len());
        }
        Some(())
    })?;
    Some(deepest)
}

/// The bytes still to be read. Everything gives `None` at a value that is cut short or makes no sense.
struct Thrift<'a>(&'a [u8]);

impl Thrift<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn advance(&mut self, len: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(len).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A signed integer, of which the low 32 bits count.
    fn zigzag(&mut self) -> Option<i32> {
        let value = self.varint()?;
        let value = (value >> 1) as i64 ^ -((value & 1) as i64);
        Some(value as i32)
    }

    /// Gives the number and the type of every field of a struct to `take`, which reads the value.
    fn fields(&mut self, mut take: impl FnMut(&mut Self, i32, u8) -> Option<()>) -> Option<()> {
        let mut id = 0i32;
        loop {
            let header = self.byte()?;
            if header & 15 == 0 {
                return Some(());
            }
            id = if header >> 4 == 0 { self.zigzag()? } else { id.wrapping_add(i32::from(header >> 4)) };
            take(self, id, header & 15)?;
        }
    }

    /// The length of a list or set, and the type of its elements.
    fn list(&mut self) -> Option<(u64, u8)> {
        let header = self.byte()?;
        let len = if header >> 4 == 15 { self.varint()? } else { u64::from(header >> 4) };
        Some((len, header & 15))
    }

    /// The number of children of a `SchemaElement`.
    fn children(&mut self, kind: u8) -> Option<i32> {
        let mut children = 0;
        if kind != STRUCT {
            return None;
        }
        self.fields(|thrift, id, kind| {
            if (id, kind) != (5, I32) {
                return thrift.skip(kind, VALUES);
            }
            children = thrift.zigzag()?;
            Some(())
        })?;
        Some(children)
    }

    /// Passes over a struct's value of the type `kind`; values within it nest `depth` deep at most.
    fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // The type of a boolean field is its value.
            1 | 2 => Some(()),
            BYTE => self.advance(1),
            kind if INTEGERS.contains(&kind) => self.varint().map(drop),
            DOUBLE => self.advance(8),
            BINARY => {
                let len = self.varint()?;
                self.advance(len)
            }
            LIST | SET => {
                let (len, kind) = self.list()?;
                (0..len).try_for_each(|_| self.skip_element(kind, depth))
            }
            MAP => {
                let len = self.varint()?;
                let kinds = if len > 0 { self.byte()? } else { 0 };
                (0..len).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 15, depth)
                })
            }
            STRUCT => self.fields(|thrift, _, kind| thrift.skip(kind, depth)),
            _ => None,
        }
    }

    /// Within lists and maps a boolean is a byte.
    fn skip_element(&mut self, kind: u8, depth: u8) -> Option<()> {
        self.skip(if kind <= 2 { BYTE } else { kind }, depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer of these elements' numbers of children.
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
    fn every_type_is_passed_over_and_nesting_is_bounded() {
        let mut all = vec![0x11, 0x12, 0x13, 7, 0x16, 0x80, 1, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x18, 2, b'a', b'b'];
        all.extend([0x19, 0x21, 1, 2, 0x1b, 1, 0x58, 3, 1, b'v', 0x1b, 0, 0x1c, 0x15, 4, 0, 0x05, 40, 6, 0]);
        assert_eq!(deepest(&all), Some(0));
        assert_eq!(deepest(&[0x1c; 1 << 20]), None);
        assert_eq!(deepest(&[&[0x19][..], &[0x19; 1 << 20]].concat()), None);
    }
}
