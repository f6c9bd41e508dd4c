//! Anybody's JSON lines: no panic, the same documents whatever way the file is cut, and what serde_json takes
//! for an object with a text we take too, and it says the same.
//!
//! The first byte picks options, the second the size of ranges.
#![no_main]

use arrow_array::cast::AsArray;
use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Input, Limits, MemoryInput, Options, Result, Source, key_column};
use packhorse_text::Text;
use std::io::Read;
use std::ops::Range;

/// The same bytes, without a known length.
struct Stream(MemoryInput);

impl Input for Stream {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn len(&self) -> Option<u64> {
        None
    }
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        unreachable!("a stream is read in order")
    }
    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        self.0.stream()
    }
}

/// Keys and texts, and the errors between them.
fn read(source: &dyn Source, input: &dyn Input, range: Range<u64>) -> Vec<Result<(String, String), String>> {
    let mut found = Vec::new();
    for rows in source.rows(input, range).expect("an input in memory opens") {
        match rows {
            Err(e) => found.push(Err(e.to_string())),
            Ok(rows) => {
                let keys = key_column(&rows).expect("keys").iter().flatten();
                let texts = rows.column(1).as_string_view().iter().flatten();
                found.extend(keys.zip(texts).map(|(key, text)| Ok((key.to_owned(), text.to_owned()))));
            }
        }
    }
    found
}

/// Whatever way `bytes` is cut and read, the same comes out; what that is.
fn check(
    options: &[(&str, &str)],
    name: &str,
    limit: u64,
    cut: u64,
    bytes: &[u8],
) -> Vec<Result<(String, String), String>> {
    let options: Options = options.iter().copied().collect();
    let limits = Limits { blob: limit, ..Limits::default() };
    let source = Text.source(&options, limits).expect("known options");
    let file = MemoryInput::new(name, bytes.to_vec());
    let whole = read(&*source, &file, 0..u64::MAX);
    let part = 1 + cut % (bytes.len() as u64 + 1);
    let starts = (0..bytes.len() as u64).step_by(part as usize);
    let parts: Vec<_> = starts.flat_map(|from| read(&*source, &file, from..from + part)).collect();
    assert_eq!(whole, parts, "in ranges of {part}");
    assert_eq!(whole, read(&*source, &Stream(file), 0..1), "as a stream");
    let total: usize = whole.iter().flatten().map(|(_, text)| text.len()).sum();
    assert!(total <= bytes.len(), "more came out than went in");
    whole
}

fuzz_target!(|bytes: &[u8]| {
    let [how, cut, bytes @ ..] = bytes else { return };
    let options: &[(&str, &str)] = match how % 3 {
        0 => &[],
        1 => &[("id-field", "id")],
        _ => &[("text-field", "a.text")],
    };
    let limit = if how & 64 == 0 { 1 << 20 } else { 16 };
    let found = check(options, "a.jsonl", limit, u64::from(*cut), bytes);
    if how % 3 != 0 || limit == 16 {
        return;
    }
    let mut found = found.into_iter();
    let unmarked = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for line in unmarked.split(|byte| *byte == b'\n') {
        if line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            continue;
        }
        let ours = found.next().expect("a document or an error a line");
        match serde_json::from_slice::<serde_json::Value>(line) {
            Ok(value) => match value.get("text").and_then(|text| text.as_str()) {
                Some(text) => assert_eq!(ours.map(|(_, text)| text).as_deref(), Ok(text)),
                None => assert!(ours.is_err()),
            },
            // Numbers out of range, NaN and lone surrogates are a matter of taste.
            Err(_) => {}
        }
    }
    assert!(found.next().is_none());
});
