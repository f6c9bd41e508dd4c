//! The page locations of columns without an offset index, from the headers of their pages. Without locations, who reads some
//! rows of a row group reads all of its bytes.

use crate::declared::{PageKind, header};
use crate::footer::chunk;
use packhorse_core::{Input, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::offset_index::PageLocation;

/// Smaller column chunks are read whole. Over a network each header is a request.
const SMALL: u64 = 256 << 10;
const SMALL_REMOTE: u64 = 4 << 20;
/// The most headers that are read over a network.
const MOST_REMOTE: usize = 256;

/// Bytes of the first read of a header, and of a second one, which holds long statistics.
const HEADS: [u64; 2] = [512, 64 << 10];

/// The locations of the pages of a column without lists; `None` where they can't be told, and for small columns.
pub(crate) fn pages(
    metadata: &ParquetMetaData,
    (group, leaf): (usize, usize),
    input: &dyn Input,
    len: u64,
) -> Result<Option<Vec<PageLocation>>> {
    let Some(rows) = metadata.row_groups().get(group) else { return Ok(None) };
    let flat = rows.columns().get(leaf).is_some_and(|column| column.column_descr().max_rep_level() == 0);
    let (Ok(chunk), Ok(rows)) = (chunk(metadata, group, leaf, len), u64::try_from(rows.num_rows())) else {
        return Ok(None);
    };
    let (small, most) = match input.local_path() {
        Some(_) => (SMALL, usize::MAX),
        None => (SMALL_REMOTE, MOST_REMOTE),
    };
    if !flat || chunk.end - chunk.start < small {
        return Ok(None);
    }
    let (mut at, mut row, mut pages) = (chunk.start, 0u64, Vec::new());
    while row < rows && at < chunk.end && pages.len() < most {
        let mut found = None;
        for head in HEADS {
            let mut bytes = vec![0; head.min(chunk.end - at) as usize];
            input.read_at(at, &mut bytes)?;
            found = header(&bytes);
            if found.is_some() {
                break;
            }
        }
        let Some(header) = found else { return Ok(None) };
        let size = header.bytes + header.packed;
        let Some(end) = at.checked_add(size).filter(|end| *end <= chunk.end) else { return Ok(None) };
        match (header.kind, i64::try_from(at), i32::try_from(size), i64::try_from(row)) {
            (PageKind::Dictionary, ..) if pages.is_empty() => {}
            (PageKind::Data { values: values @ 1.. }, Ok(offset), Ok(compressed_page_size), Ok(first_row_index)) => {
                pages.push(PageLocation { offset, compressed_page_size, first_row_index });
                row += values;
                if rows.div_ceil(values) > most as u64 {
                    return Ok(None);
                }
            }
            _ => return Ok(None),
        }
        at = end;
    }
    let first = pages.first().map_or(0, |page| page.offset as u64 - chunk.start);
    Ok((row == rows && i32::try_from(first).is_ok()).then_some(pages))
}
