//! Checks the pages of a row group before they are decoded: the crate `parquet` allocates the sizes that they declare,
//! in their headers and in their decompressed data.

use crate::declared;
use crate::delta;
use crate::fetch::FetchedRanges;
use crate::runs;
use bytes::Bytes;
use packhorse_core::{Error, Limits, Result};
use parquet::arrow::FieldLevels;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection};
use parquet::basic::{Compression, Encoding, Type as PhysicalType};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length, SerializedPageReader};
use parquet::schema::types::ColumnDescPtr;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The memory of the levels and the null bit of a value within lists, in buffers that grow to twice their size.
const LEVELS: u64 = 9;

/// The most bytes of fixed-size values in a batch.
const FIXED: usize = 64 << 20;

/// A row group in memory.
pub(crate) struct LoadedRowGroup<'a> {
    pub(crate) parts: FetchedRanges,
    pub(crate) metadata: &'a ParquetMetaData,
    pub(crate) group: usize,
    /// The page locations of a column; `None` if unknown or if all pages are read.
    pub(crate) pages: &'a dyn Fn(usize) -> Option<&'a [PageLocation]>,
    pub(crate) limits: Limits,
    pub(crate) fault: PageFault,
}

/// Carries the error of a bad page past the crate `parquet`, which only keeps the text of an error.
#[derive(Clone, Default)]
pub(crate) struct PageFault(Arc<Mutex<Option<Error>>>);

impl PageFault {
    /// The error, if there was one.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, error: Error) -> ParquetError {
        let text = error.to_string();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        ParquetError::General(text)
    }
}

impl LoadedRowGroup<'_> {
    /// Reads the columns `levels`, `batch` rows at a time.
    pub(crate) fn reader(
        &self,
        levels: &FieldLevels,
        batch: usize,
        selection: Option<RowSelection>,
    ) -> ParquetResult<ParquetRecordBatchReader> {
        // The reader allocates a batch of fixed-size values before it reads one.
        let schema = self.metadata.file_metadata().schema_descr();
        let widest = schema.columns().iter().map(|column| column.type_length()).max().unwrap_or(0);
        let most = usize::try_from(widest).map_or(usize::MAX, |widest| FIXED.checked_div(widest).unwrap_or(usize::MAX));
        let batch = batch.min(self.num_rows()).min(most.max(1));
        ParquetRecordBatchReader::try_new_with_row_groups(levels, self, batch, selection)
    }

    fn row_group(&self) -> Option<&RowGroupMetaData> {
        self.metadata.row_groups().get(self.group)
    }
}

impl RowGroups for LoadedRowGroup<'_> {
    fn num_rows(&self) -> usize {
        self.row_group().and_then(|group| usize::try_from(group.num_rows()).ok()).unwrap_or(0)
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let chunk = self.row_group().and_then(|group| group.columns().get(leaf));
        let chunk = chunk.ok_or_else(|| ParquetError::EOF("a row group lacks a column".to_owned()))?;
        let pages = (self.pages)(leaf);
        let column = ColumnChunk {
            parts: self.parts.clone(),
            codec: chunk.compression(),
            indexed: pages.is_some(),
            limits: self.limits,
            fault: self.fault.clone(),
        };
        let pages = pages.map(<[PageLocation]>::to_vec);
        let pages = SerializedPageReader::new(Arc::new(column), chunk, self.num_rows(), pages)?;
        let checked = CheckedPages {
            pages,
            column: chunk.column_descr_ptr(),
            flat: (chunk.column_descr().max_rep_level() == 0).then(|| self.num_rows() as u64),
            limits: self.limits,
            fault: self.fault.clone(),
        };
        Ok(Box::new(One(Some(Box::new(checked)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.row_group().into_iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// The pages of one column chunk, once.
struct One(Option<Box<dyn PageReader>>);

impl Iterator for One {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for One {}

/// The bytes of a column chunk. `get_read` starts at a page header if pages are read sequentially; `get_bytes` starts
/// at one if page locations are known.
struct ColumnChunk {
    parts: FetchedRanges,
    codec: Compression,
    indexed: bool,
    limits: Limits,
    fault: PageFault,
}

impl Length for ColumnChunk {
    fn len(&self) -> u64 {
        self.parts.len()
    }
}

impl ChunkReader for ColumnChunk {
    type T = PageHeader;

    fn get_read(&self, start: u64) -> ParquetResult<PageHeader> {
        let (bytes, fault) = (self.parts.from(start)?, self.fault.clone());
        Ok(PageHeader { bytes, unchecked: Some((self.codec, self.limits)), fault })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.parts.get_bytes(start, length)?;
        if self.indexed {
            declared::page(&bytes, self.codec, self.limits).map_err(|e| self.fault.keep(e))?;
        }
        Ok(bytes)
    }
}

/// Reads a page header and checks it at the first read.
struct PageHeader {
    bytes: Bytes,
    unchecked: Option<(Compression, Limits)>,
    fault: PageFault,
}

impl Read for PageHeader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some((codec, limits)) = self.unchecked.take() {
            let checked = declared::page(&self.bytes, codec, limits);
            checked.map_err(|e| io::Error::other(self.fault.keep(e)))?;
        }
        let taken = self.bytes.split_to(buf.len().min(self.bytes.len()));
        buf.iter_mut().zip(&taken).for_each(|(to, from)| *to = *from);
        Ok(taken.len())
    }
}

/// The pages of a column chunk, each checked after decompression.
struct CheckedPages {
    pages: SerializedPageReader<ColumnChunk>,
    column: ColumnDescPtr,
    /// For a column without lists: the values that its pages may still have.
    flat: Option<u64>,
    limits: Limits,
    fault: PageFault,
}

impl CheckedPages {
    fn check(&mut self, page: Page) -> ParquetResult<Page> {
        self.sound(&page).map_err(|e| self.fault.keep(e))?;
        Ok(page)
    }

    fn sound(&mut self, page: &Page) -> Result<()> {
        let damaged = || Error::content("has a page that declares more than it can hold; write the file again");
        let values = u64::from(page.num_values());
        if let Page::DictionaryPage { buf, .. } = page {
            let bytes = values.checked_mul(width(&self.column)).filter(|bytes| *bytes <= buf.len() as u64);
            return bytes.map(drop).ok_or_else(damaged);
        }
        match &mut self.flat {
            Some(left) => *left = left.checked_sub(values).ok_or_else(damaged)?,
            // Bounds the declared number of values: a run of equal ones takes almost no bytes in the file.
            None => drop(self.limits.blob(values.saturating_mul(2 * held(&self.column) + LEVELS))?),
        }
        if !has_repetitions(page, &self.column) {
            return Err(damaged());
        }
        let body = body(page, &self.column).and_then(|range| page.buffer().get(range)).ok_or_else(damaged)?;
        is_sound(body, page.encoding(), values, self.column.physical_type()).then_some(()).ok_or_else(damaged)
    }
}

/// The least size of a value in a dictionary.
fn width(column: &ColumnDescPtr) -> u64 {
    match column.physical_type() {
        PhysicalType::BOOLEAN => 1,
        PhysicalType::INT32 | PhysicalType::FLOAT | PhysicalType::BYTE_ARRAY => 4,
        PhysicalType::INT64 | PhysicalType::DOUBLE => 8,
        PhysicalType::INT96 => 12,
        PhysicalType::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).unwrap_or(0).max(1),
    }
}

/// The memory of a value in a column of Arrow, with short text in its view.
fn held(column: &ColumnDescPtr) -> u64 {
    if column.physical_type() == PhysicalType::BYTE_ARRAY { 16 } else { width(column) }
}

/// The range of the values in a data page, after its levels.
fn body(page: &Page, column: &ColumnDescPtr) -> Option<Range<usize>> {
    let end = page.buffer().len();
    let start = match page {
        Page::DataPageV2 { rep_levels_byte_len, def_levels_byte_len, .. } => {
            usize::try_from(*rep_levels_byte_len).ok()?.checked_add(usize::try_from(*def_levels_byte_len).ok()?)?
        }
        Page::DataPage { buf, num_values, rep_level_encoding, def_level_encoding, .. } => {
            let mut at = 0usize;
            for (most, encoding) in
                [(column.max_rep_level(), *rep_level_encoding), (column.max_def_level(), *def_level_encoding)]
            {
                at = at.checked_add(levels(buf.get(at..)?, most, encoding, *num_values)?)?;
            }
            at
        }
        Page::DictionaryPage { .. } => 0,
    };
    (start <= end).then_some(start..end)
}

/// Whether a data page has as many repetition levels as it declares.
fn has_repetitions(page: &Page, column: &ColumnDescPtr) -> bool {
    let (most, values) = (column.max_rep_level(), u64::from(page.num_values()));
    let levels = match page {
        _ if most <= 0 => return true,
        Page::DataPageV2 { buf, rep_levels_byte_len, .. } => buf.get(..*rep_levels_byte_len as usize),
        Page::DataPage { buf, rep_level_encoding: encoding @ Encoding::RLE, num_values, .. } => {
            levels(buf, most, *encoding, *num_values).and_then(|end| buf.get(4..end))
        }
        // Bit-packed levels have a size by their number.
        _ => return true,
    };
    levels.is_some_and(|levels| runs::hold(levels, most, values))
}

/// The size of the levels, up to `most`, at the start of a data page of version 1.
fn levels(bytes: &[u8], most: i16, encoding: Encoding, values: u32) -> Option<usize> {
    match encoding {
        _ if most <= 0 => Some(0),
        Encoding::RLE => {
            let len = u32::from_le_bytes(*bytes.first_chunk::<4>()?);
            usize::try_from(len).ok()?.checked_add(4)
        }
        // Bit-packed levels, which are deprecated.
        _ => {
            let bits = u64::from(16 - most.leading_zeros().min(16)).checked_mul(values.into())?;
            usize::try_from(bits.div_ceil(8)).ok()
        }
    }
}

/// Whether the encoded values of a data page match its declared number of values.
fn is_sound(bytes: &[u8], encoding: Encoding, values: u64, physical: PhysicalType) -> bool {
    match encoding {
        // A page of nulls may be empty.
        _ if bytes.is_empty() => true,
        // Skipping values may lead the crate past the end, where it would allocate any size.
        Encoding::PLAIN if physical == PhysicalType::BYTE_ARRAY => are_within(bytes, values),
        Encoding::DELTA_BINARY_PACKED => delta::is_sound(bytes, values),
        Encoding::DELTA_LENGTH_BYTE_ARRAY => delta::after(bytes, values).is_some(),
        Encoding::DELTA_BYTE_ARRAY => {
            delta::after(bytes, values).is_some_and(|rest| delta::after(rest, values).is_some())
        }
        Encoding::BYTE_STREAM_SPLIT => match physical {
            PhysicalType::INT32 | PhysicalType::FLOAT => bytes.len().is_multiple_of(4),
            PhysicalType::INT64 | PhysicalType::DOUBLE => bytes.len().is_multiple_of(8),
            _ => true,
        },
        _ => true,
    }
}

/// Whether up to `values` length-prefixed values lie in `bytes`. Nulls are counted but have no bytes.
fn are_within(mut bytes: &[u8], values: u64) -> bool {
    for _ in 0..values {
        let Some((len, rest)) = bytes.split_first_chunk::<4>() else { return bytes.is_empty() };
        match usize::try_from(u32::from_le_bytes(*len)).ok().and_then(|len| rest.get(len..)) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    true
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        self.pages.get_next_page()?.map(|page| self.check(page)).transpose()
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> ParquetResult<Option<Page>> {
        self.pages.take_deferred_dictionary()?.map(|page| self.check(page)).transpose()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.pages.at_record_boundary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_behind_their_lengths_lie_within_the_page() {
        let page = [2, 0, 0, 0, b'a', b'b', 0, 0, 0, 0, 1, 0, 0, 0, b'c'];
        assert!(are_within(&page, 3) && are_within(&page, 9) && are_within(&page, 1) && are_within(&[], 5));
        assert!(!are_within(&page[..14], 3) && !are_within(&page[..12], 3) && are_within(&page[..12], 2));
        assert!(!are_within(&[0xff; 8], 1));
        assert!(is_sound(&page, Encoding::PLAIN, 3, PhysicalType::BYTE_ARRAY));
        assert!(!is_sound(&page[..14], Encoding::PLAIN, 3, PhysicalType::BYTE_ARRAY));
    }
}
