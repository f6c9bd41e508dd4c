//! Plain text of arbitrary bytes: no panic, the same documents whole, in ranges and as a stream, and their bytes are those
//! of the file.
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
    let document = ["line", "paragraph", "file"][usize::from(how % 3)];
    let limit = if how & 64 == 0 { 1 << 20 } else { 16 };
    for found in check(&[("document", document)], "a.txt", limit, cut, bytes) {
        let Ok((key, text)) = found else { continue };
        let at: usize = key.parse().expect("an offset");
        let rest = &bytes[at..];
        let rest = if at == 0 { rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest) } else { rest };
        assert!(rest.starts_with(text.as_bytes()));
        assert!(text.len() as u64 <= limit);
        match document {
            "line" => assert!(!text.is_empty() && !text.contains('\n')),
            "paragraph" => assert!(!text.contains("\n\n") && !text.ends_with('\n')),
            _ => assert_eq!(at, 0),
        }
    }
});
