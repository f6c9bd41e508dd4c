//! Arbitrary descriptions of binary records over arbitrary bytes: no panic, and as many rows as announced. The first
//! line is the option, the rest the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Limits, MemoryInput};
use packhorse_record::Record;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    let (option, file) = bytes.split_at(cut);
    let Ok(option) = std::str::from_utf8(option) else { return };
    let Ok(source) = Record.source(&[("record", option), ("skip", "1")].into_iter().collect(), Limits::default())
    else {
        return;
    };
    let input = MemoryInput::new("a.dat", file.to_vec());
    let Ok(table) = source.open(Arc::new(&input)) else { return };
    if let (Ok(info), Ok(blocks)) = (table.info(), table.rows(0..u64::MAX)) {
        let found: u64 = blocks.map(|rows| rows.expect("whole records").num_rows() as u64).sum();
        assert_eq!(found, info.items);
    }
});
