//! Records: the encoded values of a row, and the b-tree cell that holds them.

use super::SqlValue;

/// A record, with the serial types and the bodies of its values (2.1 Record Format), and its b-tree cell.
#[derive(Debug, Default)]
pub(super) struct RowRecord {
    types: Vec<u8>,
    bodies: Vec<u8>,
    pub(super) cell: Vec<u8>,
}

impl RowRecord {
    pub(super) fn set(&mut self, values: &[SqlValue]) {
        self.types.clear();
        self.bodies.clear();
        values.iter().for_each(|value| self.push(*value));
    }

    pub(super) fn push(&mut self, value: SqlValue) {
        match value {
            SqlValue::Null => self.types.push(0),
            SqlValue::Integer(number) => {
                let (serial, size) = integer_type(number);
                self.types.push(serial);
                self.bodies.extend_from_slice(number.to_be_bytes().get(8 - size..).unwrap_or_default());
            }
            SqlValue::Text(text) => {
                put_varint(&mut self.types, 13 + 2 * wide(text.len()));
                self.bodies.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Encodes the cell: the size of the record, the rowid (in a table), the record. Returns the size.
    pub(super) fn seal(&mut self, rowid: Option<i64>) -> usize {
        let types = self.types.len();
        let header = (types + 1..).find(|all| types + varint_size(wide(*all)) == *all).unwrap_or(types);
        let size = header + self.bodies.len();
        self.cell.clear();
        put_varint(&mut self.cell, wide(size));
        rowid.into_iter().for_each(|rowid| put_varint(&mut self.cell, rowid.cast_unsigned()));
        put_varint(&mut self.cell, wide(header));
        self.cell.extend_from_slice(&self.types);
        self.cell.extend_from_slice(&self.bodies);
        size
    }
}

/// The serial type of an integer and the size of its body.
fn integer_type(number: i64) -> (u8, usize) {
    match number {
        0 => (8, 0),
        1 => (9, 0),
        -0x80..=0x7f => (1, 1),
        -0x8000..=0x7fff => (2, 2),
        -0x80_0000..=0x7f_ffff => (3, 3),
        -0x8000_0000..=0x7fff_ffff => (4, 4),
        -0x8000_0000_0000..=0x7fff_ffff_ffff => (5, 6),
        _ => (6, 8),
    }
}

/// The size of a varint: 7 bits in each byte, 8 in the ninth.
pub(super) fn varint_size(value: u64) -> usize {
    (1..9).find(|size| value >> (7 * size) == 0).unwrap_or(9)
}

pub(super) fn put_varint(out: &mut Vec<u8>, value: u64) {
    let size = varint_size(value);
    let (high, low) = if size == 9 { (value >> 8, low_byte(value)) } else { (value >> 7, low_byte(value) & 0x7f) };
    for group in (0..size - 1).rev() {
        out.push(low_byte(high >> (7 * group)) | 0x80);
    }
    out.push(low);
}

pub(super) fn low_byte(value: u64) -> u8 {
    let [.., low] = value.to_be_bytes();
    low
}

/// A size as u64, lossless on every platform.
pub(super) fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
