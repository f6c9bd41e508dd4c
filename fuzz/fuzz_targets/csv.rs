//! CSV tables of arbitrary bytes: no panic, and a range of rows has as many rows as it asks for.
//!
//! The first byte chooses settings, the next two give the range.
#![no_main]

mod table;

use libfuzzer_sys::fuzz_target;
use packhorse_csv::Csv;

const SETTINGS: [&[(&str, &str)]; 5] = [
    &[],
    &[("delimiter", "spaces"), ("comment", "#"), ("header", "comment")],
    &[("delimiter", "::"), ("header", "none")],
    &[("comment", "%"), ("header", "comment")],
    &[("comment", "#"), ("quote", "none"), ("null", "NA")],
];

fuzz_target!(|bytes: &[u8]| {
    let [settings, bytes @ ..] = bytes else { return };
    let _ = table::check(&Csv::default(), SETTINGS[usize::from(*settings) % SETTINGS.len()], "a.csv", bytes);
});
