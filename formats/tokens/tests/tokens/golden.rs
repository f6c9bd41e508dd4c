//! Digests of the bytes that the sink writes. If they change, raise the format's revision and note it in the changelog.

use crate::common::{flat, rows, sink, write};
use crate::round_trip::sentences;
use packhorse_core::{DataType, Format};
use packhorse_tokens::Tokens;
use std::fmt::Write;

const GOLDEN: &str = include_str!("golden.txt");

#[test]
fn the_bytes_do_not_change() {
    let mut found = format!("revision {}\n", Tokens::default().info().revision);
    let lens: Vec<usize> = (0..300).map(|i| (i * 37 % 50) * (i % 3)).collect();
    let flat = flat(&lens, 5, 65_000);
    for options in
        [&[][..], &[("layout", "datatrove"), ("tokenizer", "gpt2")], &[("layout", "llmc")], &[("layout", "bare")]]
    {
        for (name, rows) in [
            ("flat u16", rows(&flat, &DataType::UInt16, true, false)),
            ("sentences u16", rows(&sentences(), &DataType::UInt16, false, true)),
        ] {
            for (file, bytes) in write(&*sink(options), &rows, 100).0.0 {
                // The table of documents does not depend on the layout.
                if options.is_empty() || !file.ends_with(".parquet") {
                    let digest = blake3::hash(&bytes).to_hex();
                    writeln!(found, "{name} {options:?} {file} {} {}", bytes.len(), &digest[..16]).unwrap();
                }
            }
        }
    }
    assert!(found == GOLDEN, "the bytes differ from golden.txt:\n{found}");
}
