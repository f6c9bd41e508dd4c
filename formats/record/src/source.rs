//! Reads records as samples, in blocks.

use crate::layout::{RecordLayout, RecordMember};
use arrow_array::{ArrayRef, FixedSizeListArray, RecordBatch};
use arrow_buffer::Buffer;
use packhorse_core::{
    Blocks, DataType, Error, Field, Input, Result, Rows, Schema, SchemaRef, Source, Table, TableInfo, array_of, blocks,
    swap_bytes,
};
use std::ops::Range;
use std::sync::Arc;

/// The approximate bytes and the most rows of a block.
const BLOCK_BYTES: usize = 4 << 20;
const BLOCK_ROWS: usize = 1 << 16;

pub(crate) struct RecordSource {
    pub(crate) layout: Arc<RecordLayout>,
    /// Bytes before the first record.
    pub(crate) skip: u64,
}

impl Source for RecordSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let items = self.items(&*input).map_err(|e| e.in_input(input.name()))?;
        let (layout, schema) = (Arc::clone(&self.layout), self.schema());
        Ok(Box::new(RecordTable { input, layout, schema, skip: self.skip, items }))
    }
}

/// An open file of records.
struct RecordTable<'a> {
    input: Arc<dyn Input + 'a>,
    layout: Arc<RecordLayout>,
    schema: SchemaRef,
    skip: u64,
    items: u64,
}

impl Table for RecordTable<'_> {
    fn info(&self) -> Result<TableInfo> {
        let kept: usize = self.layout.members.iter().map(|member| member.width).sum();
        let (items, bytes) = (self.items, self.items.saturating_mul(kept as u64));
        Ok(TableInfo { schema: Arc::clone(&self.schema), items, bytes, counted: true, omitted: Vec::new() })
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let end = self.items.min(items.end);
        let block = (BLOCK_BYTES / self.layout.width).clamp(1, BLOCK_ROWS) as u64;
        let mut at = items.start;
        Ok(blocks(self.input.name(), move || {
            let rows = at..end.min(at.saturating_add(block));
            at = rows.end;
            (!rows.is_empty()).then(|| self.block(rows)).transpose()
        }))
    }
}

impl RecordTable<'_> {
    fn block(&self, rows: Range<u64>) -> Result<Rows> {
        // A few MiB, or one record, which is within the limits.
        let n = (rows.end - rows.start) as usize;
        let mut bytes = packhorse_core::aligned(n * self.layout.width);
        self.input.read_at(self.skip + rows.start * self.layout.width as u64, &mut bytes)?;
        let bytes = Buffer::from(bytes);
        let columns = self.layout.members.iter().map(|member| column(member, &bytes, self.layout.width, n));
        let columns = columns.collect::<Result<_>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|e| Error::bug(e.to_string()))
    }
}

impl RecordSource {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.layout.members.iter().map(|member| member.field.clone()).collect::<Vec<Field>>()))
    }

    /// The number of records in the file.
    fn items(&self, input: &dyn Input) -> Result<u64> {
        let len = input
            .len()
            .ok_or_else(|| Error::unsupported("is a stream, but records are read by position; decompress it first"))?;
        let body = len.checked_sub(self.skip).ok_or_else(|| {
            Error::content(format!("has {len} bytes, fewer than the {} bytes of `skip-header`", self.skip))
        })?;
        let width = self.layout.width as u64;
        match body % width {
            0 => Ok(body / width),
            over => Err(Error::content(format!(
                "does not end with a whole record: {over} bytes are left over after {} records of {width} bytes; \
                 check the options record and skip, or whether the file is cut short",
                body / width
            ))),
        }
    }
}

/// The column of `member` in `n` records of `width` bytes; not copied if it is the only member.
fn column(member: &RecordMember, records: &Buffer, width: usize, n: usize) -> Result<ArrayRef> {
    let values = match member.width == width && member.swap == 1 {
        true => records.clone(),
        false => {
            let mut packed = picked(member, records, width);
            swap_bytes(&mut packed, member.swap);
            Buffer::from(packed)
        }
    };
    let values = array_of(&member.element, values, n * member.elements)?;
    match member.field.data_type() {
        DataType::FixedSizeList(item, size) => {
            let lists = FixedSizeListArray::try_new(item.clone(), *size, values, None);
            Ok(Arc::new(lists.map_err(|e| Error::bug(e.to_string()))?))
        }
        _ => Ok(values),
    }
}

/// The bytes of `member` in all records.
fn picked(member: &RecordMember, records: &[u8], width: usize) -> Vec<u8> {
    let parts = records
        .chunks_exact(width)
        .map(|record| record.get(member.offset..).and_then(|rest| rest.get(..member.width)).unwrap_or_default());
    match member.width {
        1 => fixed::<1>(parts),
        2 => fixed::<2>(parts),
        4 => fixed::<4>(parts),
        8 => fixed::<8>(parts),
        _ => parts.fold(Vec::with_capacity(records.len() / width * member.width), |mut out, part| {
            out.extend_from_slice(part);
            out
        }),
    }
}

/// Concatenates parts whose width is known at compile time.
fn fixed<'a, const W: usize>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let parts: Vec<[u8; W]> = parts.filter_map(|part| part.first_chunk().copied()).collect();
    parts.into_flattened()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Int16Type};
    use packhorse_core::{Kind, Limits, MemoryInput};

    fn source(record: &str, skip: u64) -> RecordSource {
        RecordSource { layout: Arc::new(RecordLayout::parse(record, &Limits::default()).unwrap()), skip }
    }

    fn bytes(n: usize) -> Vec<u8> {
        let record = |i: usize| [&(i as i16).to_be_bytes()[..], b"pad", &(i as f32).to_le_bytes(), &[1; 4]].concat();
        [b"head".to_vec(), (0..n).flat_map(record).collect()].concat()
    }

    #[test]
    fn records_come_in_blocks() {
        let n = 400_000;
        let (source, input) = (source(">i2 n, V3 _, <f4[2] x", 4), MemoryInput::new("a.dat", bytes(n)));
        let table = source.open(Arc::new(&input)).unwrap();
        let info = table.info().unwrap();
        assert_eq!((info.items, info.bytes), (n as u64, n as u64 * 10));
        let blocks: Vec<Rows> = table.rows(3..u64::MAX).unwrap().map(|b| b.unwrap()).collect();
        assert!(blocks.len() > 3);
        let mut at = 3;
        for block in &blocks {
            assert_eq!(block.schema(), info.schema);
            let numbers = block.column(0).as_primitive::<Int16Type>();
            let x = block.column(1).as_fixed_size_list().values().as_primitive::<Float32Type>().clone();
            for i in 0..block.num_rows() {
                assert_eq!((numbers.value(i), x.value(2 * i)), ((at + i) as i16, (at + i) as f32));
            }
            at += block.num_rows();
        }
        assert_eq!(at, n);
        assert_eq!(table.rows(n as u64..n as u64 + 9).unwrap().count(), 0);
    }

    #[test]
    fn incomplete_records_are_errors() {
        let source = source(">i2 n, V3 _, <f4[2] x", 4);
        for cut in 0..bytes(3).len() {
            let input = MemoryInput::new("a.dat", bytes(3)[..cut].to_vec());
            match source.open(Arc::new(&input)).and_then(|table| table.info()) {
                Ok(info) => assert_eq!((info.items, (cut - 4) % 13), ((cut as u64 - 4) / 13, 0)),
                Err(e) => {
                    let words =
                        if cut < 4 { "fewer than".to_owned() } else { format!("{} bytes are left", (cut - 4) % 13) };
                    assert!(e.kind() == Kind::Content && e.message().contains(&words), "{e}");
                    assert_eq!(e.input(), Some("a.dat"));
                }
            }
        }
    }
}
