//! How many records there are, and where one begins: headers only.

use crate::frame::{self, FRAME, HEADER};
use packhorse_core::{Error, Input, Result};

/// Bytes read at once where records are short.
const WINDOW: usize = 64 << 10;

/// A record, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) record: u64,
    pub(crate) offset: u64,
}

/// The place of record `item` of a file of `len` bytes, or its end if it has fewer. Lengths are checked
/// against their checksums if `check` says so, and against the end of the file.
pub(crate) fn find(input: &dyn Input, len: u64, item: u64, check: bool) -> Result<Place> {
    let mut place = Place { record: 0, offset: 0 };
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
        // Where the next header is out of reach, only headers are worth reading.
        size = if data >= WINDOW as u64 { HEADER } else { WINDOW };
        place = Place { record: place.record + 1, offset: end };
    }
    Ok(place)
}

/// The error of a file that ends within the record at `place`.
pub(crate) fn cut(place: Place, len: u64) -> Error {
    at(Error::content(format!("is cut short, at byte {len}: fetch it anew")), place)
}

/// `error`, which concerns record `number`.
pub(crate) fn in_record(error: Error, number: u64) -> Error {
    error.context(format_args!("record {number}")).at_row(number)
}

/// `error`, which concerns the record at `place`.
pub(crate) fn at(error: Error, place: Place) -> Error {
    error.context(format_args!("record {}, at byte {}", place.record, place.offset)).at_row(place.record)
}
