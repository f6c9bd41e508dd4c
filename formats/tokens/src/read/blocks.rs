//! Runs of documents as blocks of rows.

use super::{DocumentRun, TokenFile, schema};
use arrow_array::{ArrayRef, ListArray, RecordBatch};
use arrow_buffer::{Buffer, MutableBuffer, OffsetBuffer};
use packhorse_core::{DataType, Error, Kind, Limits, Result, Rows, SchemaRef, array_of};
use std::ops::Range;
use std::sync::Arc;

/// A block ends when its tokens have this many bytes.
const BLOCK_BYTES: u64 = 1 << 20;
/// Or when it has this many rows.
const BLOCK_ROWS: u64 = 8192;

pub(super) struct DocumentBlocks<'a> {
    file: &'a (dyn TokenFile + 'a),
    schema: SchemaRef,
    /// The documents not yet delivered.
    items: Range<u64>,
    stretch: DocumentRun,
    /// Documents of the run already delivered.
    used: usize,
    limits: Limits,
}

impl<'a> DocumentBlocks<'a> {
    pub(super) fn new(file: &'a (dyn TokenFile + 'a), items: Range<u64>, limits: Limits) -> Self {
        let items = items.start..items.end.min(file.documents());
        let schema = schema(file.dtype(), file.lengths());
        Self { file, schema, items, stretch: DocumentRun::default(), used: 0, limits }
    }

    /// The next block.
    pub(super) fn block(&mut self) -> Result<Option<Rows>> {
        if self.items.is_empty() {
            return Ok(None);
        }
        if self.used == self.stretch.ends.len() {
            let most = (self.items.end - self.items.start).min(BLOCK_ROWS);
            self.stretch = self.file.stretch(self.items.start, most)?;
            self.used = 0;
        }
        let to = self.full();
        let columns = self.columns(self.used..to)?;
        if to == self.used {
            return Err(Error::bug("a run without documents"));
        }
        self.items.start += (to - self.used) as u64;
        self.used = to;
        let rows = RecordBatch::try_new(self.schema.clone(), columns);
        rows.map(Some).map_err(|e| Error::bug(e.to_string()))
    }

    /// The end, in the run, of a block from `used` on: at least one document.
    fn full(&self) -> usize {
        let begin = end_of(&self.stretch.ends, self.used);
        let most = begin.saturating_add(BLOCK_BYTES / self.file.dtype().size());
        let fits = self.stretch.ends.partition_point(|end| *end <= most);
        fits.max(self.used + 1).min(self.stretch.ends.len())
    }

    fn columns(&self, range: Range<usize>) -> Result<Vec<ArrayRef>> {
        let dtype = self.file.dtype();
        let (from, to) = (end_of(&self.stretch.ends, range.start), end_of(&self.stretch.ends, range.end));
        let len = self.limits.blob((to - from).saturating_mul(dtype.size())).map_err(|e| self.about(e))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        let data = self.file.data();
        let at = self.stretch.start.saturating_add(from.saturating_mul(dtype.size()));
        data.read_at(at, bytes.as_slice_mut()).map_err(|e| e.in_input(data.name()))?;
        let ends = self.stretch.ends.get(range.clone()).unwrap_or_default();
        let places = offsets(ends.iter().map(|end| end - from)).map_err(|e| self.about(e))?;
        let tokens = list(&dtype.element(), places, bytes.into(), len / dtype.width())?;
        if !self.file.lengths() {
            return Ok(vec![tokens]);
        }
        let ends = &self.stretch.length_ends;
        let (from, to) = (end_of(ends, range.start), end_of(ends, range.end));
        let lengths = self.stretch.lengths.get(from..to).unwrap_or_default();
        let bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
        let ends = ends.get(range).unwrap_or_default();
        let places = offsets(ends.iter().map(|end| (end - from) as u64)).map_err(|e| self.about(e))?;
        Ok(vec![list(&DataType::Int32, places, Buffer::from_vec(bytes), lengths.len())?, tokens])
    }

    fn about(&self, error: Error) -> Error {
        error.context(format_args!("document {}", self.items.start)).at_row(self.items.start)
    }
}

/// The start of document `i`, by the ends of documents.
fn end_of<T: Copy + Default>(ends: &[T], i: usize) -> T {
    i.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default()
}

fn offsets(ends: impl Iterator<Item = u64>) -> Result<OffsetBuffer<i32>> {
    let long = |_| Error::new(Kind::Limit, "has over 2^31 tokens, more than a row can hold");
    let ends = ends.map(|end| i32::try_from(end).map_err(long));
    let offsets = std::iter::once(Ok(0)).chain(ends).collect::<Result<Vec<i32>>>()?;
    Ok(OffsetBuffer::new(offsets.into()))
}

fn list(element: &DataType, offsets: OffsetBuffer<i32>, bytes: Buffer, len: usize) -> Result<ArrayRef> {
    let values = array_of(element, bytes, len)?;
    let item = Arc::new(packhorse_core::Field::new("item", element.clone(), false));
    let list = ListArray::try_new(item, offsets, values, None);
    Ok(Arc::new(list.map_err(|e| Error::bug(e.to_string()))?))
}
