//! Counts records and finds the offset of one, from headers only.

use crate::frame::{self, FRAME, HEADER};
use packhorse_core::{Error, Input, Result};

/// Bytes of one read where records are short.
const WINDOW: usize = 64 << 10;

/// The number and the offset of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordStart {
    pub(crate) record: u64,
    pub(crate) offset: u64,
}

/// The start of record `item` of a file of `len` bytes, or the end if it has fewer records. Lengths are checked against
/// the end of the file and, with `check`, against their checksums.
pub(crate) fn find(input: &dyn Input, len: u64, item: u64, check: bool) -> Result<RecordStart> {
    let mut place = RecordStart { record: 0, offset: 0 };
    let (mut window, mut window_at) = (Vec::new(), 0u64);
    let mut size = WINDOW;
    while place.record < item && place.offset < len {
        let about = |error: Error| at(error, place);
        let from = usize::try_from(place.offset - window_at).unwrap_or(usize::MAX);
        if from.checked_add(HEADER).is_none_or(|end| end > window.len()) {
            let rest = usize::try_from(len - place.offset).unwrap_or(usize::MAX);
            window.resize(size.min(rest), 0);
            window_at = place.offset;
            input.read_at(window_at, &mut window)?;
        }
        let from = usize::try_from(place.offset - window_at).unwrap_or(usize::MAX);
        let header = window.get(from..).and_then(|bytes| bytes.first_chunk()).ok_or_else(|| cut(place, len))?;
        let data = frame::length(header, check).map_err(about)?;
        let end = place.offset + FRAME + data;
        if end > len {
            return Err(cut(place, len));
        }
        // With long records, reads only headers.
        size = if data >= WINDOW as u64 { HEADER } else { WINDOW };
        place = RecordStart { record: place.record + 1, offset: end };
    }
    Ok(place)
}

/// The error for a file that ends within the record at `place`.
pub(crate) fn cut(place: RecordStart, len: u64) -> Error {
    at(Error::content(format!("is cut short at byte {len}; fetch it again")), place)
}

/// Adds the number of the record to `error`.
pub(crate) fn in_record(error: Error, number: u64) -> Error {
    error.context(format_args!("record {number}")).at_row(number)
}

/// Adds the number and the offset of the record to `error`.
pub(crate) fn at(error: Error, place: RecordStart) -> Error {
    error.context(format_args!("record {}, at byte {}", place.record, place.offset)).at_row(place.record)
}
