//! Every kind of field, written and read back.

use packhorse_core::Options;
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
