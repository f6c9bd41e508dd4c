//! Cuts rows into row groups (or record batches) by rows and bytes, independent of how the rows are pushed.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray, OffsetSizeTrait};
use packhorse_core::{DataType, Error, FieldType, Kind, Result, Rows, SchemaRef, element_width};

/// The most bytes of a group and of a value, so that 32-bit offsets suffice for every reader.
pub(crate) const MOST: u64 = 1_000_000_000;

/// The default size in bytes of a group without blobs.
pub(crate) const GATHERED: u64 = 128_000_000;

/// The limits of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimit {
    pub(crate) rows: usize,
    pub(crate) bytes: u64,
}

impl GroupLimit {
    /// 100 rows or 32 MB with blobs, else 100,000 rows or 128 MB; or `rows` rows, if given.
    pub(crate) fn of<'a>(kinds: impl Iterator<Item = &'a FieldType>, rows: Option<usize>) -> Self {
        let blobs = kinds.into_iter().any(|kind| matches!(kind, FieldType::Blob));
        match (rows, blobs) {
            (Some(rows), _) => Self { rows, bytes: MOST },
            (None, true) => Self { rows: 100, bytes: 32_000_000 },
            (None, false) => Self { rows: 100_000, bytes: GATHERED },
        }
    }
}

/// Collects rows until a group is full.
pub(crate) struct GroupCutter {
    full: GroupLimit,
    schema: SchemaRef,
    pending: Vec<Rows>,
    rows: usize,
    bytes: u64,
}

impl GroupCutter {
    pub(crate) fn new(full: GroupLimit, schema: SchemaRef) -> Self {
        Self { full, schema, pending: Vec::new(), rows: 0, bytes: 0 }
    }

    /// Adds `rows` and passes each full group to `write`.
    pub(crate) fn push(&mut self, rows: &Rows, mut write: impl FnMut(Rows) -> Result<()>) -> Result<()> {
        let mut sizes = vec![0u64; rows.num_rows()];
        rows.columns().iter().for_each(|column| add_sizes(column, &mut sizes));
        let mut start = 0;
        for (row, size) in sizes.into_iter().enumerate() {
            if size > MOST {
                let text = format!("row {row}: has {size} bytes; a column holds at most {MOST} a sample");
                return Err(Error::new(Kind::Limit, text));
            }
            let over = self.bytes.saturating_add(size) > self.full.bytes;
            if self.rows > 0 && (self.rows >= self.full.rows || over) {
                self.pending.push(rows.slice(start, row - start));
                start = row;
                self.flush(&mut write)?;
            }
            self.rows += 1;
            self.bytes = self.bytes.saturating_add(size);
        }
        self.pending.push(rows.slice(start, rows.num_rows() - start));
        Ok(())
    }

    /// Passes the remaining rows to `write`.
    pub(crate) fn flush(&mut self, write: &mut impl FnMut(Rows) -> Result<()>) -> Result<()> {
        if self.rows > 0 {
            let group = arrow_select::concat::concat_batches(&self.schema, &self.pending);
            write(group.map_err(|e| Error::bug(e.to_string()))?)?;
        }
        self.pending.clear();
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

/// Adds the size in bytes of each value to the corresponding entry of `sizes`.
fn add_sizes(array: &ArrayRef, sizes: &mut [u64]) {
    match array.data_type() {
        DataType::Utf8View => add_lens(array.as_string_view().lengths(), sizes),
        DataType::BinaryView => add_lens(array.as_binary_view().lengths(), sizes),
        DataType::Utf8 => add_ends(array.as_string::<i32>(), sizes),
        DataType::LargeUtf8 => add_ends(array.as_string::<i64>(), sizes),
        DataType::Binary => add_ends(array.as_binary::<i32>(), sizes),
        DataType::LargeBinary => add_ends(array.as_binary::<i64>(), sizes),
        DataType::List(_) => add_inner(array.as_list::<i32>().values(), array.as_list::<i32>().value_offsets(), sizes),
        DataType::LargeList(_) => {
            add_inner(array.as_list::<i64>().values(), array.as_list::<i64>().value_offsets(), sizes);
        }
        DataType::FixedSizeList(_, n) => {
            let n = usize::try_from(*n).unwrap_or(0);
            let offsets: Vec<i64> = (0..=array.len()).map(|i| (i * n) as i64).collect();
            add_inner(array.as_fixed_size_list().values(), &offsets, sizes);
        }
        DataType::Struct(_) => array.as_struct().columns().iter().for_each(|part| add_sizes(part, sizes)),
        other => {
            let width = element_width(other).unwrap_or(0) as u64;
            sizes.iter_mut().for_each(|size| *size = size.saturating_add(width));
        }
    }
}

fn add_lens(lens: impl Iterator<Item = u32>, sizes: &mut [u64]) {
    sizes.iter_mut().zip(lens).for_each(|(size, len)| *size = size.saturating_add(len.into()));
}

fn add_ends<T: ByteArrayType>(array: &GenericByteArray<T>, sizes: &mut [u64]) {
    for (size, ends) in sizes.iter_mut().zip(array.value_offsets().windows(2)) {
        *size = size.saturating_add(between(ends));
    }
}

fn between<O: OffsetSizeTrait>(ends: &[O]) -> u64 {
    match ends {
        [from, to] => (to.as_usize() - from.as_usize()) as u64,
        _ => 0,
    }
}

fn add_inner<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &[O], sizes: &mut [u64]) {
    let fixed = element_width(values.data_type()).map(|width| width as u64);
    let mut inner = if fixed.is_some() { Vec::new() } else { vec![0; values.len()] };
    if fixed.is_none() {
        add_sizes(values, &mut inner);
    }
    for (size, ends) in sizes.iter_mut().zip(offsets.windows(2)) {
        let bytes = match (fixed, ends) {
            (Some(width), ends) => between(ends).saturating_mul(width),
            (None, [from, to]) => inner.get(from.as_usize()..to.as_usize()).unwrap_or_default().iter().sum(),
            _ => 0,
        };
        *size = size.saturating_add(bytes);
    }
}
