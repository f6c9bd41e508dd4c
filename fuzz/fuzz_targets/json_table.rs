//! Tables of JSON lines of arbitrary bytes: no panic, a range of rows has as many rows as it asks for, and a table has a row
//! for each line that is not blank.
//!
//! The first two bytes give the range.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Limits, MemoryInput, Options, Rows};
use packhorse_text::JsonLines;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let [from, to, bytes @ ..] = bytes else { return };
    let limits = Limits { blob: 1 << 20, ..Limits::default() };
    let source = JsonLines::default().source(&Options::new(), limits).expect("a source");
    let input = MemoryInput::new("a.jsonl", bytes.to_vec());
    let Ok(table) = source.open(Arc::new(&input)) else { return };
    let Ok(info) = table.info() else { return };
    let read = |items| table.rows(items).expect("rows").collect::<Result<Vec<Rows>, _>>().expect("a block");
    let count = |blocks: Vec<Rows>| blocks.iter().map(|rows| rows.num_rows() as u64).sum::<u64>();
    assert_eq!(count(read(0..info.items)), info.items);
    let (from, to) = (u64::from(*from).min(info.items), u64::from(*to).min(info.items));
    assert_eq!(count(read(from..to)), to.saturating_sub(from));
    let blank = |line: &&[u8]| !line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    let unmarked = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    assert_eq!(unmarked.split(|byte| *byte == b'\n').filter(blank).count() as u64, info.items);
});
