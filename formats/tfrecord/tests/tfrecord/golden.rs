//! The bytes that the sink writes. Where they change, raise the format's revision, and write so in the
//! changelog.

use crate::common::{corpus, sink};
use packhorse_core::Format;
use packhorse_testkit::typed;
use packhorse_tfrecord::TfRecord;
use std::fmt::Write;

const GOLDEN: &str = include_str!("golden.txt");

#[test]
fn the_bytes_are_as_they_were() {
    let mut found = format!("revision {}\n", TfRecord.info().revision);
    for options in [&[][..], &[("tensors", "raw")], &[("compression", "gzip")]] {
        for (name, rows) in corpus() {
            let files = typed::write(&*sink(options), &rows, &[rows.num_rows()]);
            for (suffix, bytes) in &files {
                // What zlib makes of bytes is its own affair; what is inside is compared elsewhere.
                if !suffix.ends_with(".gz") && (options.is_empty() || !suffix.ends_with(".json")) {
                    let digest = blake3::hash(bytes).to_hex();
                    writeln!(found, "{name} {options:?} {suffix} {} {}", bytes.len(), &digest[..16]).unwrap();
                }
            }
        }
    }
    assert!(found == GOLDEN, "other bytes than golden.txt has:\n{found}");
}
