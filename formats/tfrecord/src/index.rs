//! The `.index` beside a file: a line `OFFSET LENGTH` for each record, frames included, as `tfrecord2idx` writes it.

use crate::document::FileCounts;
use packhorse_core::{Input, Kind, Result};
use std::fmt::Write;

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

/// The offset of record `item`, if `input` is the index of this file: one line per record, contiguous from 0 to the
/// end.
pub(crate) fn find(input: &dyn Input, file: FileCounts, item: u64) -> Result<Option<u64>> {
    // A line has at most two numbers of 20 digits.
    let bytes = match input.read_all(file.records.saturating_mul(42)) {
        Err(error) if error.kind() == Kind::Limit => return Ok(None),
        bytes => bytes?,
    };
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(None) };
    let (mut at, mut found, mut lines) = (0u64, None, 0);
    for (number, line) in text.lines().enumerate() {
        let Some((offset, size)) = line.split_once(' ') else { return Ok(None) };
        let (Ok(offset), Ok(size)) = (offset.parse::<u64>(), size.trim_end().parse::<u64>()) else { return Ok(None) };
        if offset != at {
            return Ok(None);
        }
        if number as u64 == item {
            found = Some(at);
        }
        let Some(next) = at.checked_add(size) else { return Ok(None) };
        at = next;
        lines += 1;
    }
    let whole = at == file.bytes && lines == file.records;
    Ok(whole.then(|| found.unwrap_or(at)))
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
        let find = |text: &str, bytes, item| {
            let records = text.lines().count() as u64;
            find(&MemoryInput::new("a.index", text.to_owned()), FileCounts { records, bytes }, item).unwrap()
        };
        assert_eq!([0, 1, 2, 3, 9].map(|item| find(&text, 136, item)), [0, 20, 36, 136, 136].map(Some));
        assert_eq!(find(&text, 137, 0), None);
        assert_eq!(find("0 20\n21 16\n", 37, 0), None);
        assert_eq!(find("0 x\n", 37, 0), None);
        assert_eq!(find("0 18446744073709551615\n18446744073709551615 2", 1, 0), None);
    }
}
