//! Where rows start in a file of text, so that a range of rows is read from near its first.

/// Where a row starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowStart {
    /// The number of the row, from 0.
    pub row: u64,
    /// The offset of its first byte.
    pub byte: u64,
    /// The number of its first line, from 1.
    pub line: u64,
}

impl RowStart {
    /// The start of the file.
    pub const START: Self = Self { row: 0, byte: 0, line: 1 };
}

/// The starts of some rows of a file: one in each megabyte, 24 bytes each.
#[derive(Debug, Default)]
pub struct RowStarts(Vec<RowStart>);

/// The least distance in bytes between two of them.
const APART: u64 = 1 << 20;

impl RowStarts {
    /// Adds the start of a row, if it is far enough behind the last one. Rows come in order.
    pub fn add(&mut self, start: RowStart) {
        if self.0.last().is_none_or(|last| start.byte - last.byte >= APART) {
            self.0.push(start);
        }
    }

    /// The last start at or before the row; `None` without rows.
    pub fn before(&self, row: u64) -> Option<RowStart> {
        let after = self.0.partition_point(|start| start.row <= row);
        self.0.get(after.checked_sub(1)?).copied()
    }
}
