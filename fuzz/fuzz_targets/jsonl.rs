//! JSON lines of arbitrary bytes: no panic, and the same documents whole, in ranges and as a stream. A line that
//! serde_json reads as an object with a text must give the same text.
//!
//! The first byte selects options and a stream or ranges; the next two give the ranges.
#![no_main]

mod cuts;
mod stream;

use cuts::{Cut, check};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [how, place, size, bytes @ ..] = bytes else { return };
    let cut = if how & 128 == 0 { Cut::Ranges(*place, *size) } else { Cut::Stream };
    let options: &[(&str, &str)] = match how % 3 {
        0 => &[],
        1 => &[("id-field", "id")],
        _ => &[("text-field", "a.text")],
    };
    let limit = if how & 64 == 0 { 1 << 20 } else { 16 };
    let found = check(options, "a.jsonl", limit, cut, bytes);
    if how % 3 != 0 || limit == 16 {
        return;
    }
    let mut found = found.into_iter();
    let unmarked = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for line in unmarked.split(|byte| *byte == b'\n') {
        if line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            continue;
        }
        let ours = found.next().expect("a document or an error for each line");
        match serde_json::from_slice::<serde_json::Value>(line) {
            Ok(value) => match value.get("text").and_then(|text| text.as_str()) {
                Some(text) => assert_eq!(ours.map(|(_, text)| text).as_deref(), Ok(text)),
                None => assert!(ours.is_err()),
            },
            // Parsers differ in numbers out of range, NaN and lone surrogates.
            Err(_) => {}
        }
    }
    assert!(found.next().is_none());
});
