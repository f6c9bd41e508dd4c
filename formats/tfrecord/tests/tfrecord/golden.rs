//! Digests of the bytes that the sink writes. If they change, raise the format's revision and note it in the changelog.

use crate::common::{corpus, sink};
use packhorse_core::Format;
use packhorse_testkit::typed;
use packhorse_tfrecord::TfRecord;
use std::fmt::Write;

const GOLDEN: &str = include_str!("golden.txt");

#[test]
fn the_bytes_do_not_change() {
    let mut found = format!("revision {}\n", TfRecord.info().revision);
    for options in [&[][..], &[("tensors", "raw")], &[("compression", "gzip")]] {
        for (name, rows) in corpus() {
            let files = typed::write(&*sink(options), &rows, &[rows.num_rows()]);
            for (suffix, bytes) in &files {
                // Compressed bytes depend on zlib; their content is compared in other tests.
                if !suffix.ends_with(".gz") && (options.is_empty() || !suffix.ends_with(".json")) {
                    let digest = blake3::hash(bytes).to_hex();
                    writeln!(found, "{name} {options:?} {suffix} {} {}", bytes.len(), &digest[..16]).unwrap();
                }
            }
        }
    }
    assert!(found == GOLDEN, "the bytes differ from golden.txt:\n{found}");
}
