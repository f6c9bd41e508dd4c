//! Selections of views of arbitrary bytes: a bad one is an error, and one that can be read is the same after it is written
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::Kind;
use packhorse_dataset::{decode_selection, encode_selection};

fn look(bytes: &[u8]) {
    match decode_selection(bytes) {
        Ok(runs) => {
            assert_eq!(encode_selection(&runs), bytes);
            assert!(runs.iter().all(|run| run.len > 0 && run.first.checked_add(run.len).is_some()));
        }
        Err(error) => assert_eq!(error.kind(), Kind::Content),
    }
}

fuzz_target!(|bytes: &[u8]| {
    look(bytes);
    // Random bytes hardly ever have the magic number and the right number of runs: both are added.
    let runs = (bytes.len() / 20) as u64;
    look(&[&b"PHVIEW\0\x01"[..], &runs.to_le_bytes(), bytes].concat());
});
