//! Anybody's tables: no panic, and any range of rows is that slice of the whole.
//!
//! The first two bytes say which range.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Limits, MemoryInput, Options, Rows};
use packhorse_csv::Csv;

fuzz_target!(|bytes: &[u8]| {
    let [from, to, bytes @ ..] = bytes else { return };
    let limits = Limits { blob: 1 << 20, ..Limits::default() };
    let source = Csv::default().source(&Options::new(), limits).expect("a source");
    let input = MemoryInput::new("a.csv", bytes.to_vec());
    let Ok(Some(probe)) = source.probe(&input) else { return };
    let read = |items| source.rows(&input, items).expect("rows").collect::<Result<Vec<Rows>, _>>().expect("a block");
    let count = |blocks: Vec<Rows>| blocks.iter().map(|rows| rows.num_rows() as u64).sum::<u64>();
    assert_eq!(count(read(0..probe.items)), probe.items);
    let (from, to) = (u64::from(*from).min(probe.items), u64::from(*to).min(probe.items));
    assert_eq!(count(read(from..to)), to.saturating_sub(from));
});
