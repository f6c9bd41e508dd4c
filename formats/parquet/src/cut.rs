//! Cuts rows into row groups (or record batches) by rows and bytes, and groups into pieces, independent of how the rows are
//! pushed.

use crate::groups;
use packhorse_core::{
    Error, Field, FieldType, KEY, Result, RowCheck, Rows, Schema, SchemaRef, add_sizes, element_width,
};
use std::sync::Arc;

/// The most bytes of a group and of a value, so that 32-bit offsets suffice for every reader.
pub(crate) const MOST: u64 = 1_000_000_000;

/// The default size in bytes of a group without blobs.
pub(crate) const GATHERED: u64 = 128_000_000;

/// The most bytes of a piece of a group with blobs: the default size of the group.
pub(crate) const BLOBS: u64 = 32_000_000;
/// The most bytes of a piece of any other group: encoders need 12 bytes more for each number in a list.
pub(crate) const PIECE: u64 = 8_000_000;

/// The most bytes of a sample in row groups, which are read column by column: some columns of the largest values.
pub(crate) const SAMPLE: u64 = 8 * MOST;
/// The most bytes of a sample in record batches, each of which is read in one piece of at most 2 GiB.
pub(crate) const SAMPLE_OF_BATCH: u64 = 2 * MOST;

/// The limits of a group, and the most bytes of a piece of it and of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimit {
    pub(crate) rows: usize,
    pub(crate) bytes: u64,
    pub(crate) piece: u64,
    pub(crate) sample: u64,
}

impl GroupLimit {
    /// 100 rows or 32 MB with blobs, else 100,000 rows or 128 MB; or `rows` rows, if given.
    pub(crate) fn of<'a>(kinds: impl Iterator<Item = &'a FieldType>, rows: Option<usize>) -> Self {
        Self::sized(kinds, rows, GATHERED)
    }

    /// The same with `bytes` of rows without blobs.
    fn sized<'a>(kinds: impl Iterator<Item = &'a FieldType>, rows: Option<usize>, bytes: u64) -> Self {
        let blobs = kinds.into_iter().any(FieldType::holds_blobs);
        let piece = if blobs { BLOBS } else { PIECE };
        match (rows, blobs) {
            (Some(rows), _) => Self { rows, bytes: MOST, piece, sample: SAMPLE },
            (None, true) => Self { rows: 100, bytes: BLOBS, piece, sample: SAMPLE },
            (None, false) => Self { rows: 100_000, bytes, piece, sample: SAMPLE },
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
        Self { piece: u64::MAX, sample: SAMPLE_OF_BATCH, ..self }
    }
}

/// The most bytes of a group of `rows` rows.
pub(crate) fn most_of(schema: &Schema, rows: usize) -> u64 {
    let width = |field: &Arc<Field>| match FieldType::of(field).ok()? {
        FieldType::Scalar(element) => element_width(&element),
        FieldType::Tensor { element, shape } => Some(element_width(&element)? * shape.iter().product::<usize>()),
        _ => None,
    };
    let row = schema.fields().iter().filter(|field| field.name() != KEY).map(width).sum::<Option<usize>>();
    // With room for the key.
    row.map_or(MOST, |row| MOST.min((row as u64 + 64).saturating_mul(rows as u64)))
}

/// The check of the sizes of rows of `schema`, each of at most `sample` bytes; `None` where all fields are scalars.
pub(crate) fn size_check(schema: &Schema, sample: u64) -> Option<RowCheck> {
    let scalar = |kind| matches!(kind, Ok(FieldType::Scalar(_)));
    let vary = schema.fields().iter().any(|field| field.name() != KEY && !scalar(FieldType::of(field)));
    vary.then(|| -> RowCheck { Box::new(move |rows| sizes(rows, sample).map(drop)) })
}

/// The bytes of each row. A `Content` error names the first sample with a value larger than a column holds, or larger than
/// `sample` bytes.
fn sizes(rows: &Rows, sample: u64) -> Result<Vec<u64>> {
    let (mut sums, mut sizes) = (vec![0u64; rows.num_rows()], vec![0u64; rows.num_rows()]);
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        sizes.fill(0);
        add_sizes(column, &mut sizes);
        for (row, (sum, size)) in sums.iter_mut().zip(&sizes).enumerate() {
            let admitted = groups::admit(field.name(), *size);
            admitted.map_err(|error| error.in_field(field.name()).in_row_of(rows, row))?;
            *sum = sum.saturating_add(*size);
        }
    }
    match sums.iter().enumerate().find(|(_, sum)| **sum > sample) {
        None => Ok(sums),
        Some((row, sum)) => {
            let text = format!("has {sum} bytes, over the limit of {sample} for a sample; pack it as webdataset");
            Err(Error::content(text).in_row_of(rows, row))
        }
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
        let mut start = 0;
        for (row, size) in sizes(rows, self.full.sample)?.into_iter().enumerate() {
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
    use arrow_array::builder::make_view;
    use arrow_array::{ArrayRef, BinaryArray, BinaryViewArray, RecordBatch, StringViewArray};
    use arrow_buffer::Buffer;
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
        let full = GroupLimit { rows: 9, bytes: 100, piece: 30, sample: SAMPLE };
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

    #[test]
    fn each_column_has_its_own_limit_and_a_sample_another() {
        let zeros = Buffer::from(vec![0; MOST as usize + 1]);
        let rows = |columns: &[&str], first: u64| {
            let views = vec![make_view(&zeros[..first as usize], 0, 0), 0];
            let column: ArrayRef = Arc::new(BinaryViewArray::new(views.into(), vec![zeros.clone()], None));
            let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(["k", "l"]));
            let columns = columns.iter().map(|name| (*name, Arc::clone(&column)));
            RecordBatch::try_from_iter([(KEY, keys)].into_iter().chain(columns)).unwrap()
        };
        let two = rows(&["x", "y"], 700_000_000);
        let check = size_check(&two.schema(), SAMPLE_OF_BATCH).unwrap();
        assert!(check(&two).is_ok());
        let mut found = Vec::new();
        let mut cutter = GroupCutter::new(GroupLimit::batch(std::iter::empty(), None), two.schema());
        let mut write = |rows: Rows, then| {
            found.push((rows.num_rows(), then));
            Ok(())
        };
        cutter.push(&two, &mut write).unwrap();
        assert_eq!((found.as_slice(), cutter.rows), (&[(1, Then::End)][..], 1));
        let three = rows(&["x", "y", "z"], 700_000_000);
        let error = check(&three).unwrap_err();
        assert_eq!((error.kind(), error.sample(), error.field()), (packhorse_core::Kind::Content, Some("k"), None));
        assert!(size_check(&two.schema(), SAMPLE).unwrap()(&three).is_ok());
        let error = check(&rows(&["x"], MOST + 1)).unwrap_err();
        assert_eq!((error.sample(), error.field()), (Some("k"), Some("x")));
        assert!(size_check(&two.project(&[0]).unwrap().schema(), SAMPLE).is_none());
    }
}
