//! Reads `.npy` and `.npz` files as typed rows: a sample is a file, or an entry of the first dimension.

use crate::array_reader::{ArrayReader, RowBlock};
use crate::bytes::Bytes;
use crate::column::assemble;
use crate::dtype::{Axis, DtypeField};
use crate::file::{Array, Naming, field_name, members_of};
use crate::gather::{contiguous, gather, size};
use crate::header_cache::HeaderCache;
use crate::load::load;
use crate::npy_header::{MAGIC, NpyHeader};
use crate::text::push_text;
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use packhorse_core::{
    Blocks, Error, Input, Limits, Omission, Pool, Result, Rows, SchemaRef, Source, Table, TableInfo, array_of,
    split_base, swap_bytes,
};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The approximate bytes and the most rows of a block.
const BLOCK_BYTES: usize = 2 << 20;
const BLOCK_ROWS: usize = 1 << 16;

/// The number of blocks read together: threads share more work and synchronize less often.
const WAVE: usize = 4;

/// Files up to this size are read with one request.
const SMALL: u64 = 256 << 10;

/// The most rows of zero bytes, since the file's size does not bound them.
const EMPTY_ROWS: usize = 1 << 16;

#[derive(Clone)]
pub(crate) struct NpzSource {
    pub(crate) limits: Limits,
    /// The arrays of `.npz` files to read; `None` for all.
    pub(crate) chosen: Option<Arc<[String]>>,
    /// Whether an entry of the first dimension is a sample.
    pub(crate) rows: bool,
    pub(crate) pool: Pool,
    pub(crate) known: Arc<HeaderCache>,
}

/// The metadata of a file, from its headers.
struct ArrayLayout {
    arrays: Vec<(Array, Arc<NpyHeader>)>,
    schema: SchemaRef,
    items: usize,
    /// Bytes of all data.
    bytes: u64,
    /// Names of members that are not arrays.
    others: Vec<String>,
}

fn omission(field: String) -> Omission {
    Omission { field, reason: "not an array: its name does not end in .npy".to_owned(), empty: false }
}

impl Source for NpzSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        // If the file is one sample, its headers are read together with its data.
        let layout = if self.rows { Some(self.headers(&*input)?) } else { None };
        Ok(Box::new(Arrays { source: self.clone(), input, layout }))
    }
}

/// An open file.
struct Arrays<'a> {
    source: NpzSource,
    input: Arc<dyn Input + 'a>,
    /// Set if an entry of the first dimension is a sample.
    layout: Option<ArrayLayout>,
}

impl Table for Arrays<'_> {
    fn info(&self) -> Result<TableInfo> {
        let of = |layout: &ArrayLayout| TableInfo {
            schema: Arc::clone(&layout.schema),
            items: layout.items as u64,
            bytes: layout.bytes,
            counted: true,
            omitted: layout.others.iter().cloned().map(omission).collect(),
        };
        match &self.layout {
            Some(layout) => Ok(of(layout)),
            None => self.source.headers(&*self.input).map(|layout| of(&layout)),
        }
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let (source, input) = (&self.source, &*self.input);
        let Some(layout) = &self.layout else {
            let one = items.contains(&0).then_some(());
            return Ok(Box::new(one.into_iter().map(|()| source.whole(input).map_err(|e| e.in_input(input.name())))));
        };
        let end = usize::try_from(items.end).unwrap_or(usize::MAX).min(layout.items);
        let start = usize::try_from(items.start).unwrap_or(usize::MAX).min(end);
        let split = RowBlocks::new(input, layout, start..end, &source.limits, &source.pool);
        Ok(Box::new(split.map_err(|e| e.in_input(input.name()))?))
    }
}

impl NpzSource {
    /// Reads the headers of `input`.
    fn headers(&self, input: &dyn Input) -> Result<ArrayLayout> {
        Bytes::of(input).and_then(|bytes| self.layout(input, bytes)).map_err(|e| e.in_input(input.name()))
    }

    fn layout(&self, input: &dyn Input, bytes: Bytes<'_>) -> Result<ArrayLayout> {
        let (arrays, others) = members_of(&naming(input, bytes)?, bytes, self.chosen.as_deref(), &self.limits)?;
        let mut found = Vec::with_capacity(arrays.len());
        for array in arrays {
            // Rows are read in blocks.
            let room = if self.rows { Ok(()) } else { array.require_room(&self.limits) };
            let header = room.and_then(|()| array.header(bytes, &self.known, &self.limits));
            let header = header.map_err(|e| array.named(e))?;
            if let (true, Some(rows)) = (self.rows, header.shape.first()) {
                let row = header.data_len() as u64 / (*rows as u64).max(1);
                self.limits.blob(row).map_err(|e| array.named(e.subject("a row")))?;
            }
            found.push((array, header));
        }
        let items = if self.rows { first_dimension(&found)? } else { 1 };
        let schema = self.known.schema(&found, self.rows)?;
        let bytes = found.iter().fold(0u64, |n, (_, header)| n.saturating_add(header.data_len() as u64));
        Ok(ArrayLayout { arrays: found, schema, items, bytes, others })
    }

    /// Reads the file as one sample.
    fn whole(&self, input: &dyn Input) -> Result<Rows> {
        let mut bytes = Bytes::of(input)?;
        let small = if bytes.len() <= SMALL { bytes.read(0, SMALL as usize)? } else { Cow::Borrowed(&[][..]) };
        if !small.is_empty() {
            bytes = Bytes::Memory(&small);
        }
        let layout = self.layout(input, bytes)?;
        let file = |(array, _): &(Array, Arc<NpyHeader>)| {
            load(bytes, array, &self.limits, &self.pool).map_err(|e| array.named(e))
        };
        let files: Result<Vec<Buffer>> = match layout.bytes > SMALL {
            true => layout.arrays.par_iter().map(file).collect(),
            false => layout.arrays.iter().map(file).collect(),
        };
        let mut columns = BTreeMap::new();
        for ((array, header), file) in layout.arrays.iter().zip(files?) {
            let one = [Axis { len: 1, stride: 0 }];
            let axes = one.into_iter().chain(header.axes(header.fortran)).collect();
            put(&mut columns, array, header, &RowBlock { bytes: file, start: header.start, axes }, &self.pool)?;
        }
        rows_of(&layout.schema, columns, 1)
    }
}

/// How fields are named: by the file's name, or else by its first bytes.
fn naming(input: &dyn Input, bytes: Bytes<'_>) -> Result<Naming> {
    let base = input.name().rsplit('/').next().unwrap_or_default();
    if let Some(naming) = split_base(base.as_bytes()).ok().and_then(|name| Naming::of(&name.field).ok()) {
        return Ok(naming);
    }
    match *bytes.read(0, MAGIC.len())? == MAGIC[..] {
        true => Ok(Naming::One("npy".into())),
        false => Ok(Naming::Many(String::new())),
    }
}

/// The first dimension that all arrays share.
fn first_dimension(arrays: &[(Array, Arc<NpyHeader>)]) -> Result<usize> {
    let mut found: Option<(usize, &Array)> = None;
    for (array, header) in arrays {
        let Some(len) = header.shape.first() else {
            return Err(Error::content(format!(
                "array {} has no dimension, so rows=true can't split it; choose the others with `arrays`",
                array.field
            )));
        };
        if *len > EMPTY_ROWS && header.data_len() == 0 {
            return Err(Error::unsupported(format!("array {} has {len} rows of zero bytes", array.field)));
        }
        match found {
            Some((wanted, other)) if wanted != *len => {
                return Err(Error::content(format!(
                    "array {} has {len} rows, but {} has {wanted}; choose those that belong together with `arrays`, or leave `rows` out",
                    array.field, other.field
                )));
            }
            _ => found = Some((*len, array)),
        }
    }
    Ok(found.map_or(0, |(len, _)| len))
}

/// Adds the columns of `array` to `columns`.
fn put(
    columns: &mut BTreeMap<String, ArrayRef>,
    array: &Array,
    header: &NpyHeader,
    block: &RowBlock,
    pool: &Pool,
) -> Result<()> {
    for part in &header.dtype.parts {
        let values = values(part, block, pool).map_err(|e| array.named(e))?;
        columns.insert(field_name(&array.field, &part.name), values);
    }
    Ok(())
}

/// The elements of `part` in all rows of `block`, in C order; not copied if they are contiguous.
fn values(part: &DtypeField, block: &RowBlock, pool: &Pool) -> Result<ArrayRef> {
    let axes = block.axes.iter().chain(&part.axes);
    let elements: usize = axes.clone().map(|axis| axis.len).product();
    let (start, width) = (block.start + part.offset, part.element.width);
    let src = block.bytes.get(start..).unwrap_or_default();
    if !part.element.is_text() && part.element.swap <= 1 && contiguous(axes.clone(), width) {
        let bytes = block.bytes.slice_with_length(start.min(block.bytes.len()), (elements * width).min(src.len()));
        return array_of(&part.element.data_type, bytes, elements);
    }
    let axes: Vec<Axis> = axes.copied().collect();
    let mut packed = pool.take(size(&axes, width))?;
    gather(src, &axes, width, &mut packed);
    swap_bytes(&mut packed, part.element.swap);
    if !part.element.is_text() {
        return array_of(&part.element.data_type, Buffer::from(packed), elements);
    }
    let mut text = StringViewBuilder::new();
    push_text(&packed, width, elements, &mut text)?;
    Ok(Arc::new(text.finish()))
}

fn rows_of(schema: &SchemaRef, mut values: BTreeMap<String, ArrayRef>, n: usize) -> Result<Rows> {
    let column = |field: &Arc<packhorse_core::Field>| {
        let values = values.remove(field.name()).ok_or_else(|| Error::bug("a field without values"))?;
        assemble(field, values, Vec::new(), Vec::new(), None, n)
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(n));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|e| Error::bug(e.to_string()))
}

/// An iterator over blocks of rows of a file's arrays.
struct RowBlocks<'a> {
    pool: &'a Pool,
    /// The most blocks that are read together: one if the file is too small for several threads.
    together: usize,
    schema: SchemaRef,
    readers: Vec<ArrayReader<'a>>,
    left: Range<usize>,
    ready: VecDeque<Result<Rows>>,
    /// Rows per block.
    block: usize,
    name: &'a str,
}

impl<'a> RowBlocks<'a> {
    fn new(
        input: &'a dyn Input,
        layout: &ArrayLayout,
        items: Range<usize>,
        limits: &Limits,
        pool: &'a Pool,
    ) -> Result<Self> {
        let row = (layout.bytes / layout.items.max(1) as u64).max(1);
        let block = (BLOCK_BYTES as u64 / row).clamp(1, BLOCK_ROWS as u64) as usize;
        let fit = limits.ahead / row.saturating_mul(block as u64).max(1);
        let together = if layout.bytes > SMALL { fit.clamp(1, WAVE as u64) as usize } else { 1 };
        let mut readers = Vec::new();
        if !items.is_empty() {
            for (array, header) in &layout.arrays {
                let found = (array.clone(), Arc::clone(header));
                let reader = ArrayReader::new(Bytes::of(input)?, found, items.start, limits, pool);
                readers.push(reader.map_err(|e| array.named(e))?);
            }
        }
        let (schema, ready) = (Arc::clone(&layout.schema), VecDeque::new());
        Ok(Self { pool, together, schema, readers, left: items, ready, block, name: input.name() })
    }

    /// Reads the next blocks, up to the first error.
    fn wave(&mut self) {
        let mut runs = Vec::with_capacity(WAVE);
        while !self.left.is_empty() && runs.len() < self.together {
            let end = self.left.end.min(self.left.start.saturating_add(self.block));
            runs.push(self.left.start..end);
            self.left.start = end;
        }
        let read = |reader: &mut ArrayReader<'a>| reader.blocks(&runs).into_iter();
        let mut arrays: Vec<_> = match self.together > 1 {
            true => self.readers.par_iter_mut().map(read).collect(),
            false => self.readers.iter_mut().map(read).collect(),
        };
        for run in runs {
            let blocks = arrays.iter_mut().map(|blocks| blocks.next().unwrap_or_else(|| Err(Error::bug("no block"))));
            let rows = self.rows(blocks, run.len()).map_err(|e| e.in_input(self.name));
            let failed = rows.is_err();
            self.ready.push_back(rows);
            if failed {
                self.left.start = self.left.end;
                return;
            }
        }
    }

    /// Combines the blocks of all arrays into `n` rows.
    fn rows(&self, blocks: impl Iterator<Item = Result<RowBlock>>, n: usize) -> Result<Rows> {
        let mut columns = BTreeMap::new();
        for (reader, block) in self.readers.iter().zip(blocks) {
            let (array, header) = reader.array();
            put(&mut columns, array, header, &block.map_err(|e| reader.named(e))?, self.pool)?;
        }
        rows_of(&self.schema, columns, n)
    }
}

impl Iterator for RowBlocks<'_> {
    type Item = Result<Rows>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() && !self.left.is_empty() {
            self.wave();
        }
        self.ready.pop_front()
    }
}
