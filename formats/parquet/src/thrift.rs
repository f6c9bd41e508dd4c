//! A parser of Thrift's compact protocol for Parquet's metadata. It checks declared lengths against the available bytes
//! before the crate `parquet` allocates for them.
//!
//! Specification: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

use crate::byte_cursor::ByteCursor;

/// The deepest nesting of Thrift values; Parquet needs about ten levels.
pub(crate) const VALUES: u8 = 32;

// Types of the compact protocol.
pub(crate) const TRUE: u8 = 1;
pub(crate) const FALSE: u8 = 2;
const BYTE: u8 = 3;
const INTEGERS: std::ops::RangeInclusive<u8> = 4..=6;
pub(crate) const I32: u8 = 5;
pub(crate) const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
pub(crate) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(crate) const STRUCT: u8 = 12;

/// The remaining bytes. All methods return `None` for a truncated or invalid value.
pub(crate) struct Thrift<'a>(ByteCursor<'a>);

impl<'a> Thrift<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(ByteCursor(bytes))
    }

    /// The number of bytes that are left.
    pub(crate) fn rest(&self) -> usize {
        self.0.0.len()
    }

    fn advance(&mut self, len: u64) -> Option<()> {
        self.0.take(len).map(drop)
    }

    /// A signed integer; only the low 32 bits are used.
    pub(crate) fn zigzag(&mut self) -> Option<i32> {
        let value = self.0.varint()?;
        let value = (value >> 1) as i64 ^ -((value & 1) as i64);
        Some(value as i32)
    }

    /// Calls `take` with the id and the type of every field of a struct; `take` must read the value.
    pub(crate) fn fields(&mut self, mut take: impl FnMut(&mut Self, i32, u8) -> Option<()>) -> Option<()> {
        let mut id = 0i32;
        loop {
            let header = self.0.byte()?;
            if header & 15 == 0 {
                return Some(());
            }
            id = if header >> 4 == 0 { self.zigzag()? } else { id.wrapping_add(i32::from(header >> 4)) };
            take(self, id, header & 15)?;
        }
    }

    /// The length and the element type of a list or set.
    pub(crate) fn list(&mut self) -> Option<(u64, u8)> {
        let header = self.0.byte()?;
        let len = if header >> 4 == 15 { self.0.varint()? } else { u64::from(header >> 4) };
        Some((len, header & 15))
    }

    /// Skips a field's value of the type `kind`, with values nested at most `depth` deep.
    pub(crate) fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // The type of a boolean field encodes its value.
            1 | 2 => Some(()),
            BYTE => self.advance(1),
            kind if INTEGERS.contains(&kind) => self.0.varint().map(drop),
            DOUBLE => self.advance(8),
            BINARY => {
                let len = self.0.varint()?;
                self.advance(len)
            }
            LIST | SET => {
                let (len, kind) = self.list()?;
                (0..len).try_for_each(|_| self.skip_element(kind, depth))
            }
            MAP => {
                let len = self.0.varint()?;
                let kinds = if len > 0 { self.0.byte()? } else { 0 };
                (0..len).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 15, depth)
                })
            }
            STRUCT => self.fields(|thrift, _, kind| thrift.skip(kind, depth)),
            _ => None,
        }
    }

    /// Skips an element; within lists and maps a boolean is a byte.
    fn skip_element(&mut self, kind: u8, depth: u8) -> Option<()> {
        self.skip(if kind <= 2 { BYTE } else { kind }, depth)
    }
}
