//! Counts records and finds the offset of one, from headers only.

use crate::frame::{self, FRAME, HEADER};
use packhorse_core::{Error, Input, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of one read where records are short.
const WINDOW: usize = 64 << 10;

/// The first record.
pub(crate) const START: RecordStart = RecordStart { record: 0, offset: 0 };

/// The number and the offset of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordStart {
    pub(crate) record: u64,
    pub(crate) offset: u64,
}

/// Every how many records a start is kept.
const EVERY: u64 = 1024;

/// Starts of records that were found before, ascending, so that no header is scanned twice for a file read in parts.
#[derive(Default)]
pub(crate) struct KnownStarts(Mutex<Vec<RecordStart>>);

impl KnownStarts {
    fn starts(&self) -> MutexGuard<'_, Vec<RecordStart>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last known start up to record `item`.
    fn before(&self, item: u64) -> RecordStart {
        let starts = self.starts();
        let known = starts.partition_point(|start| start.record <= item).checked_sub(1);
        known.and_then(|known| starts.get(known)).copied().unwrap_or(START)
    }

    /// Takes these starts, which ascend, in the place of fewer.
    pub(crate) fn take(&self, all: Vec<RecordStart>) {
        let mut starts = self.starts();
        if all.len() > starts.len() {
            *starts = all;
        }
    }

    fn add(&self, place: RecordStart) {
        if !place.record.is_multiple_of(EVERY) {
            return;
        }
        let mut starts = self.starts();
        if starts.last().is_none_or(|last| last.record < place.record) {
            starts.push(place);
        }
    }
}

/// The start of record `item` of a file of `len` bytes, or the end if it has fewer records. Lengths are checked against
/// the end of the file and, with `check`, against their checksums.
pub(crate) fn find(input: &dyn Input, len: u64, item: u64, check: bool, known: &KnownStarts) -> Result<RecordStart> {
    let mut place = known.before(item);
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
        known.add(place);
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
