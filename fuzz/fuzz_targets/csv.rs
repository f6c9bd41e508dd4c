//! CSV tables of arbitrary bytes: no panic, and a range of rows has as many rows as it asks for.
//!
//! The first byte chooses settings, the next two give the range.
#![no_main]

mod table;

use libfuzzer_sys::fuzz_target;
use packhorse_csv::Csv;

const SETTINGS: [&[(&str, &str)]; 6] = [
    &[],
    &[("delimiter", "spaces"), ("comment", "#"), ("header", "comment")],
    &[("delimiter", "::"), ("header", "none")],
    &[("comment", "%"), ("header", "comment")],
    &[("comment", "#"), ("quote", "none"), ("null", "NA")],
    &[("delimiter", ";"), ("decimal", ","), ("skip", "1"), ("units", "1")],
];

fuzz_target!(|bytes: &[u8]| {
    let [settings, bytes @ ..] = bytes else { return };
    let _ = table::check(&Csv::default(), SETTINGS[usize::from(*settings) % SETTINGS.len()], "a.csv", bytes);
});
