//! The pages of a row group, checked before they are decoded: what they declare, in their headers and beneath the
//! compression, is what the crate `parquet` takes memory for.

use crate::declared;
use crate::delta;
use crate::fetch::Parts;
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

/// The least memory that a value within lists takes, with its levels and its null: what a page's number of those is
/// measured by, since a run of equal ones takes next to no bytes in the file.
const NESTED: u64 = 64;

/// The most bytes of fixed-size values that a batch has.
const FIXED: usize = 64 << 20;

/// A row group whose bytes are in memory.
pub(crate) struct Group<'a> {
    pub(crate) parts: Parts,
    pub(crate) metadata: &'a ParquetMetaData,
    pub(crate) group: usize,
    /// Where the pages of a column are; `None` where that isn't known or all of them are read.
    pub(crate) pages: &'a dyn Fn(usize) -> Option<&'a [PageLocation]>,
    pub(crate) limits: Limits,
    pub(crate) fault: Fault,
}

/// What was found wrong with a page: the crate `parquet` passes on no more than the text of an error.
#[derive(Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<Error>>>);

impl Fault {
    /// What was found, if something was.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, error: Error) -> ParquetError {
        let text = error.to_string();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        ParquetError::General(text)
    }
}

impl Group<'_> {
    /// Reads the columns `levels`, `batch` rows at a time.
    pub(crate) fn reader(
        &self,
        levels: &FieldLevels,
        batch: usize,
        selection: Option<RowSelection>,
    ) -> ParquetResult<ParquetRecordBatchReader> {
        // The reader takes room for a batch of such values before it sees one.
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

impl RowGroups for Group<'_> {
    fn num_rows(&self) -> usize {
        self.row_group().and_then(|group| usize::try_from(group.num_rows()).ok()).unwrap_or(0)
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let chunk = self.row_group().and_then(|group| group.columns().get(leaf));
        let chunk = chunk.ok_or_else(|| ParquetError::EOF("a row group lacks a column".to_owned()))?;
        let pages = (self.pages)(leaf);
        let column = Column {
            parts: self.parts.clone(),
            codec: chunk.compression(),
            indexed: pages.is_some(),
            limits: self.limits,
            fault: self.fault.clone(),
        };
        let pages = pages.map(<[PageLocation]>::to_vec);
        let pages = SerializedPageReader::new(Arc::new(column), chunk, self.num_rows(), pages)?;
        let checked = Checked {
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

/// The bytes of a column chunk. Where the pages are read one after the other what `get_read` gives begins at a page's
/// header, if it is read at all, and where they are known `get_bytes` begins at one.
struct Column {
    parts: Parts,
    codec: Compression,
    indexed: bool,
    limits: Limits,
    fault: Fault,
}

impl Length for Column {
    fn len(&self) -> u64 {
        self.parts.len()
    }
}

impl ChunkReader for Column {
    type T = Header;

    fn get_read(&self, start: u64) -> ParquetResult<Header> {
        let (bytes, fault) = (self.parts.from(start)?, self.fault.clone());
        Ok(Header { bytes, unchecked: Some((self.codec, self.limits)), fault })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.parts.get_bytes(start, length)?;
        if self.indexed {
            declared::page(&bytes, self.codec, self.limits).map_err(|e| self.fault.keep(e))?;
        }
        Ok(bytes)
    }
}

/// The header of a page, checked when it is first read.
struct Header {
    bytes: Bytes,
    unchecked: Option<(Compression, Limits)>,
    fault: Fault,
}

impl Read for Header {
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

/// The pages of a column chunk, each checked once it is unpacked.
struct Checked {
    pages: SerializedPageReader<Column>,
    column: ColumnDescPtr,
    /// Of a column without lists: how many values its pages may still have.
    flat: Option<u64>,
    limits: Limits,
    fault: Fault,
}

impl Checked {
    fn check(&mut self, page: Page) -> ParquetResult<Page> {
        self.sound(&page).map_err(|e| self.fault.keep(e))?;
        Ok(page)
    }

    fn sound(&mut self, page: &Page) -> Result<()> {
        let damaged = || Error::content("has a page that declares what it can't hold; write the file anew");
        let values = u64::from(page.num_values());
        if let Page::DictionaryPage { buf, .. } = page {
            let bytes = values.checked_mul(width(&self.column)).filter(|bytes| *bytes <= buf.len() as u64);
            return bytes.map(drop).ok_or_else(damaged);
        }
        match &mut self.flat {
            Some(left) => *left = left.checked_sub(values).ok_or_else(damaged)?,
            None => drop(self.limits.blob(values.saturating_mul(NESTED))?),
        }
        let body = body(page, &self.column).and_then(|range| page.buffer().get(range)).ok_or_else(damaged)?;
        is_sound(body, page.encoding(), values, self.column.physical_type()).then_some(()).ok_or_else(damaged)
    }
}

/// The least bytes of a value in a dictionary.
fn width(column: &ColumnDescPtr) -> u64 {
    match column.physical_type() {
        PhysicalType::BOOLEAN => 1,
        PhysicalType::INT32 | PhysicalType::FLOAT | PhysicalType::BYTE_ARRAY => 4,
        PhysicalType::INT64 | PhysicalType::DOUBLE => 8,
        PhysicalType::INT96 => 12,
        PhysicalType::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).unwrap_or(0).max(1),
    }
}

/// Where in a data page the values are, behind its levels.
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

/// How many bytes the levels up to `most` are that stand in front of a data page of the first version.
fn levels(bytes: &[u8], most: i16, encoding: Encoding, values: u32) -> Option<usize> {
    match encoding {
        _ if most <= 0 => Some(0),
        Encoding::RLE => {
            let len = u32::from_le_bytes(*bytes.first_chunk::<4>()?);
            usize::try_from(len).ok()?.checked_add(4)
        }
        // Packed bits, which nobody writes any more.
        _ => {
            let bits = u64::from(16 - most.leading_zeros().min(16)).checked_mul(values.into())?;
            usize::try_from(bits.div_ceil(8)).ok()
        }
    }
}

/// Whether the values `bytes` of a data page are no more than it says.
fn is_sound(bytes: &[u8], encoding: Encoding, values: u64, physical: PhysicalType) -> bool {
    match encoding {
        // A page of nulls may hold nothing at all.
        _ if bytes.is_empty() => true,
        // Values that are passed over may lead the crate behind the end, from where it takes any memory.
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

/// Whether up to `values` values, each behind its length, lie in `bytes`; nulls, which are counted, have none.
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

impl Iterator for Checked {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Checked {
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
