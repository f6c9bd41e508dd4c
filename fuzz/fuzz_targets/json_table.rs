//! Tables of JSON lines of arbitrary bytes: no panic, a range of rows has as many rows as it asks for, and a table has a row
//! for each line that is not blank.
//!
//! The first two bytes give the range.
#![no_main]

mod table;

use libfuzzer_sys::fuzz_target;
use packhorse_text::JsonLines;

fuzz_target!(|bytes: &[u8]| {
    let Some(rows) = table::check(&JsonLines::default(), &[], "a.jsonl", bytes) else { return };
    let bytes = &bytes[2..];
    let blank = |line: &&[u8]| !line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    let unmarked = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    assert_eq!(unmarked.split(|byte| *byte == b'\n').filter(blank).count() as u64, rows);
});
