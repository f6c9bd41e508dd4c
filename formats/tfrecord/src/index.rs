//! The `.index` beside a file: a line `OFFSET LENGTH` for each record, frames included, as `tfrecord2idx` writes it.

use crate::document::FileCounts;
use crate::scan::{RecordStart, START};
use packhorse_core::{Input, Kind, Result};
use std::fmt::Write;

/// The least bytes between two starts that are kept: so many are read at once where records are short.
const GAP: u64 = 64 << 10;

/// The suffix of the index.
pub(crate) const SUFFIX: &str = ".index";

/// Appends lines for the frames that end at `ends`, relative to `base`; returns the end of the last one.
pub(crate) fn put_lines(base: u64, ends: &[usize], text: &mut String) -> u64 {
    ends.iter()
        .fold((base, 0), |(at, before), end| {
            let len = (end - before) as u64;
            // Writing to a String does not fail.
            let _ = writeln!(text, "{at} {len}");
            (at + len, *end)
        })
        .0
}

/// Starts of records, at least [`GAP`] bytes apart, if `input` is the index of this file: one line per record, contiguous
/// from 0 to the end.
pub(crate) fn starts(input: &dyn Input, file: FileCounts) -> Result<Option<Vec<RecordStart>>> {
    // A line has at most two numbers of 20 digits.
    let bytes = match input.read_all(file.records.saturating_mul(42)) {
        Err(error) if error.kind() == Kind::Limit => return Ok(None),
        bytes => bytes?,
    };
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(None) };
    let (mut place, mut starts): (RecordStart, Vec<RecordStart>) = (START, Vec::new());
    for line in text.lines() {
        let Some((offset, size)) = line.split_once(' ') else { return Ok(None) };
        let (Ok(offset), Ok(size)) = (offset.parse::<u64>(), size.trim_end().parse::<u64>()) else { return Ok(None) };
        if offset != place.offset {
            return Ok(None);
        }
        if starts.last().is_none_or(|last| offset - last.offset >= GAP) {
            starts.push(place);
        }
        let Some(next) = place.offset.checked_add(size) else { return Ok(None) };
        place = RecordStart { record: place.record + 1, offset: next };
    }
    Ok((place == RecordStart { record: file.records, offset: file.bytes }).then_some(starts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::MemoryInput;

    #[test]
    fn records_are_found_and_an_index_of_another_file_is_ignored() {
        let mut text = String::new();
        let end = put_lines(0, &[20, 36], &mut text);
        assert_eq!((put_lines(end, &[100], &mut text), text.as_str()), (136, "0 20\n20 16\n36 100\n"));
        let find = |text: &str, bytes| {
            let records = text.lines().count() as u64;
            starts(&MemoryInput::new("a.index", text.to_owned()), FileCounts { records, bytes }).unwrap()
        };
        assert_eq!(find(&text, 136), Some(vec![START]));
        assert_eq!(find(&text, 137), None);
        assert_eq!(find("0 20\n21 16\n", 37), None);
        assert_eq!(find("0 x\n", 37), None);
        assert_eq!(find("0 18446744073709551615\n18446744073709551615 2", 1), None);
        let large = "0 70000\n70000 20\n70020 70000\n140020 9\n";
        let kept = [(0, 0), (1, 70_000), (3, 140_020)].map(|(record, offset)| RecordStart { record, offset });
        assert_eq!(find(large, 140_029), Some(kept.to_vec()));
    }
}
