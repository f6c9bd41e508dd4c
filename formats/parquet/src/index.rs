//! The page locations of a file, from its offset indexes. An invalid index is ignored, as if the file had none.

use crate::contain::parquet_error;
use crate::declared::is_offset_index;
use crate::fetch::FetchedRanges;
use crate::footer::chunk;
use packhorse_core::{Input, Limits, Pool, Result};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::page_index::offset_index::PageLocation;
use std::ops::Range;
use std::sync::Arc;

/// Indexes are usually contiguous; with larger gaps in total they are not read.
const APART: u64 = 64 << 20;

/// `metadata` with the page locations of the columns `leaves`, if the file, of `len` bytes, has valid indexes.
pub(crate) fn load(
    metadata: &Arc<ParquetMetaData>,
    leaves: &[usize],
    input: &dyn Input,
    len: u64,
    limits: Limits,
) -> Result<Arc<ParquetMetaData>> {
    let Some((all, ranges)) = ranges(metadata, len) else { return Ok(Arc::clone(metadata)) };
    let parts = FetchedRanges::read(input, len, vec![all], limits, &Pool::default())?;
    let bytes = |range: &Range<u64>| Some(parts.from(range.start).ok()?.slice(..(range.end - range.start) as usize));
    if !ranges.iter().all(|range| bytes(range).is_some_and(|bytes| is_offset_index(&bytes))) {
        return Ok(Arc::clone(metadata));
    }
    let mut reader = ParquetMetaDataReader::new_with_metadata(ParquetMetaData::clone(metadata))
        .with_offset_index_policy(PageIndexPolicy::Optional)
        .with_column_index_policy(PageIndexPolicy::Skip);
    reader.read_page_indexes(&parts).map_err(parquet_error)?;
    let found = reader.finish().map_err(parquet_error)?;
    let sound = (0..found.num_row_groups()).all(|group| leaves.iter().all(|leaf| is_sound(&found, group, *leaf, len)));
    Ok(if sound { Arc::new(found) } else { Arc::clone(metadata) })
}

/// The range of all offset indexes, and the range of each.
fn ranges(metadata: &ParquetMetaData, len: u64) -> Option<(Range<u64>, Vec<Range<u64>>)> {
    let mut ranges = Vec::new();
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let Some((offset, size)) = column.offset_index_offset().zip(column.offset_index_length()) else { continue };
        let start = u64::try_from(offset).ok()?;
        let end = start.checked_add(u64::try_from(size).ok()?).filter(|end| *end <= len)?;
        ranges.push(start..end);
    }
    let start = ranges.iter().map(|range| range.start).min()?;
    let end = ranges.iter().map(|range| range.end).max()?;
    let sum = ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
    (start < end && end - start <= sum.saturating_add(APART)).then_some((start..end, ranges))
}

/// Whether the pages of a column are ascending within its chunk, and their rows within its row group.
fn is_sound(metadata: &ParquetMetaData, group: usize, leaf: usize, len: u64) -> bool {
    let Some(pages) = pages(metadata, group, leaf) else { return true };
    let Ok(chunk) = chunk(metadata, group, leaf, len) else { return false };
    let rows = metadata.row_groups().get(group).map_or(0, |group| group.num_rows());
    let (mut at, mut row) = (chunk.start, 0);
    for (i, page) in pages.iter().enumerate() {
        let size = u64::try_from(page.compressed_page_size).ok().filter(|size| *size > 0);
        let (Ok(start), Some(size)) = (u64::try_from(page.offset), size) else { return false };
        let first = page.first_row_index;
        let ordered = start >= at && first >= row && first <= rows && (i > 0 || first == 0);
        let Some(end) = start.checked_add(size).filter(|end| ordered && *end <= chunk.end) else { return false };
        (at, row) = (end, first);
    }
    // The bytes before the first page are a dictionary.
    pages.first().is_some_and(|page| i32::try_from(page.offset as u64 - chunk.start).is_ok())
}

/// The page locations of a column, if known.
pub(crate) fn pages(metadata: &ParquetMetaData, group: usize, leaf: usize) -> Option<&[PageLocation]> {
    let index = metadata.page_index()?.offset_index(group, leaf)?;
    (!index.page_locations().is_empty()).then(|| index.page_locations().as_slice())
}
