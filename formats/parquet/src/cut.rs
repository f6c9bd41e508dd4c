//! Cuts rows into row groups (or record batches) by rows and bytes, and groups into pieces, independent of how the rows are
//! pushed.

use packhorse_core::{Error, FieldType, Kind, Result, Rows, SchemaRef, add_sizes};

/// The most bytes of a group and of a value, so that 32-bit offsets suffice for every reader.
pub(crate) const MOST: u64 = 1_000_000_000;

/// The default size in bytes of a group without blobs.
pub(crate) const GATHERED: u64 = 128_000_000;

/// The most bytes of a piece of a group with blobs: the default size of the group.
pub(crate) const BLOBS: u64 = 32_000_000;
/// The most bytes of a piece of any other group: encoders need 12 bytes more for each number in a list.
pub(crate) const PIECE: u64 = 8_000_000;

/// The limits of a group, and the most bytes of a piece of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimit {
    pub(crate) rows: usize,
    pub(crate) bytes: u64,
    pub(crate) piece: u64,
}

impl GroupLimit {
    /// 100 rows or 32 MB with blobs, else 100,000 rows or 128 MB; or `rows` rows, if given.
    pub(crate) fn of<'a>(kinds: impl Iterator<Item = &'a FieldType>, rows: Option<usize>) -> Self {
        Self::sized(kinds, rows, GATHERED)
    }

    /// The same with `bytes` of rows without blobs.
    fn sized<'a>(kinds: impl Iterator<Item = &'a FieldType>, rows: Option<usize>, bytes: u64) -> Self {
        let blobs = kinds.into_iter().any(|kind| matches!(kind, FieldType::Blob));
        let piece = if blobs { BLOBS } else { PIECE };
        match (rows, blobs) {
            (Some(rows), _) => Self { rows, bytes: MOST, piece },
            (None, true) => Self { rows: 100, bytes: BLOBS, piece },
            (None, false) => Self { rows: 100_000, bytes, piece },
        }
    }

    /// The limits of a record batch, which is read and written in one piece: 100 rows or 32 MB with blobs, else 100,000
    /// rows or 8 MB; or `rows` rows, if given.
    pub(crate) fn batch<'a>(kinds: impl Iterator<Item = &'a FieldType>, rows: Option<usize>) -> Self {
        // Who reads one row reads its whole batch.
        Self::sized(kinds, rows, PIECE).whole()
    }

    /// The same limits, each group in one piece.
    fn whole(self) -> Self {
        Self { piece: u64::MAX, ..self }
    }
}

/// Whether a group continues after a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    More,
    End,
}

/// Collects rows until a piece is full.
pub(crate) struct GroupCutter {
    full: GroupLimit,
    schema: SchemaRef,
    pending: Vec<Rows>,
    /// Rows and bytes of the open group.
    rows: usize,
    bytes: u64,
    /// Bytes of the open group that are no longer pending.
    written: u64,
}

impl GroupCutter {
    pub(crate) fn new(full: GroupLimit, schema: SchemaRef) -> Self {
        Self { full, schema, pending: Vec::new(), rows: 0, bytes: 0, written: 0 }
    }

    /// Adds `rows` and passes each full piece to `write`.
    pub(crate) fn push(&mut self, rows: &Rows, mut write: impl FnMut(Rows, Then) -> Result<()>) -> Result<()> {
        let mut sizes = vec![0u64; rows.num_rows()];
        rows.columns().iter().for_each(|column| add_sizes(column, &mut sizes));
        let mut start = 0;
        for (row, size) in sizes.into_iter().enumerate() {
            if size > MOST {
                let text = format!("row {row}: has {size} bytes; a column holds at most {MOST} a sample");
                return Err(Error::new(Kind::Limit, text));
            }
            if let Some(then) = self.ends_before(size) {
                self.pending.push(rows.slice(start, row - start));
                start = row;
                self.flush(then, &mut write)?;
            }
            self.rows += 1;
            self.bytes = self.bytes.saturating_add(size);
        }
        self.pending.push(rows.slice(start, rows.num_rows() - start));
        Ok(())
    }

    /// Whether a group or a piece of it ends before a row of `size` bytes.
    fn ends_before(&self, size: u64) -> Option<Then> {
        let bytes = self.bytes.saturating_add(size);
        if self.rows == 0 {
            None
        } else if self.rows >= self.full.rows || bytes > self.full.bytes {
            Some(Then::End)
        } else {
            let piece = bytes - self.written > self.full.piece && self.bytes > self.written;
            piece.then_some(Then::More)
        }
    }

    /// Passes the pending rows to `write`.
    pub(crate) fn flush(&mut self, then: Then, write: &mut impl FnMut(Rows, Then) -> Result<()>) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let piece = arrow_select::concat::concat_batches(&self.schema, &self.pending);
        self.pending.clear();
        match then {
            Then::More => self.written = self.bytes,
            Then::End => (self.rows, self.bytes, self.written) = (0, 0, 0),
        }
        write(piece.map_err(|e| Error::bug(e.to_string()))?, then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
    use std::sync::Arc;

    /// The pieces of rows of these sizes that are pushed `batch` at a time.
    fn pieces(full: GroupLimit, sizes: &[usize], batch: usize) -> Vec<(usize, Then)> {
        let one = |sizes: &[usize]| {
            let values: Vec<Vec<u8>> = sizes.iter().map(|size| vec![7; *size]).collect();
            let column = BinaryArray::from_iter_values(values);
            RecordBatch::try_from_iter([("x", Arc::new(column) as ArrayRef)]).unwrap()
        };
        let mut cutter = GroupCutter::new(full, one(&[]).schema());
        let mut found = Vec::new();
        let mut write = |rows: Rows, then| {
            found.push((rows.num_rows(), then));
            Ok(())
        };
        sizes.chunks(batch).for_each(|sizes| cutter.push(&one(sizes), &mut write).unwrap());
        cutter.flush(Then::End, &mut write).unwrap();
        found
    }

    #[test]
    fn pieces_end_at_the_same_rows_however_these_come() {
        let full = GroupLimit { rows: 9, bytes: 100, piece: 30 };
        let sizes = [10, 10, 10, 10, 25, 50, 1, 0, 40, 90, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];
        let wanted = [
            (3, Then::More),
            (1, Then::More),
            (1, Then::End),
            (1, Then::More),
            (2, Then::More),
            (1, Then::End),
            (1, Then::More),
            (8, Then::End),
            (3, Then::End),
        ];
        for batch in 1..=sizes.len() {
            assert_eq!(pieces(full, &sizes, batch), wanted, "{batch} at a time");
            let whole: Vec<usize> = pieces(full.whole(), &sizes, batch).iter().map(|(rows, _)| *rows).collect();
            assert_eq!(whole, [5, 4, 9, 3], "{batch} at a time");
        }
    }
}
