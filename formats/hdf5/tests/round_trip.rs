//! Every kind of field, written and read back.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

mod large;

use packhorse_core::{Format, Limits, Options};
use packhorse_hdf5::Hdf5;
use packhorse_testkit::typed;

const ALL: [&str; 8] = ["scalars", "tensors", "numpy", "ragged", "lists", "blobs", "nulls", "none"];

#[test]
fn rows_come_back() {
    for pairs in [
        &[][..],
        &[("filter", "zstd"), ("shuffle", "on"), ("chunk", "4")],
        &[("filter", "none")],
        &[("vlen", "on"), ("chunk", "1")],
    ] {
        typed::round_trips(&Hdf5, &pairs.iter().copied().collect::<Options>(), &ALL);
    }
}

#[test]
fn large_rows_come_back() {
    let source = Hdf5.source(&Options::new(), Limits::default()).unwrap();
    for (name, rows, options) in large::corpus() {
        let sink = Hdf5.sink(&options.iter().copied().collect::<Options>()).unwrap();
        typed::round_trip(&*sink, &*source, name, &rows);
    }
}
