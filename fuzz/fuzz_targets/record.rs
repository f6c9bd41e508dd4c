//! Any description of a record over any bytes: the first line is the option, the rest the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Limits, MemoryInput};
use packhorse_record::Record;

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    let (option, file) = bytes.split_at(cut);
    let Ok(option) = std::str::from_utf8(option) else { return };
    let Ok(source) = Record.source(&[("record", option), ("skip", "1")].into_iter().collect(), Limits::default())
    else {
        return;
    };
    let input = MemoryInput::new("a.dat", file.to_vec());
    if let (Ok(Some(probe)), Ok(blocks)) = (source.probe(&input), source.rows(&input, 0..u64::MAX)) {
        let found: u64 = blocks.map(|rows| rows.expect("whole records").num_rows() as u64).sum();
        assert_eq!(found, probe.items);
    }
});
