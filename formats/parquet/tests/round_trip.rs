//! Rows written and read back are the same rows.

use packhorse_core::Options;
use packhorse_parquet::{ArrowIpc, Parquet};
use packhorse_testkit::typed;

const ALL: [&str; 8] = ["scalars", "tensors", "numpy", "ragged", "lists", "blobs", "nulls", "none"];

fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().copied().collect()
}

#[test]
fn every_kind_of_field_comes_back_from_parquet() {
    for pairs in
        [&[][..], &[("row-group", "5")], &[("compression", "none")], &[("compression", "snappy"), ("tensor-ext", "on")]]
    {
        typed::round_trips(&Parquet, &options(pairs), &ALL);
    }
}

#[test]
fn every_kind_of_field_comes_back_from_arrow() {
    for pairs in [
        &[][..],
        &[("batch", "5")],
        &[("stream", "on")],
        &[("compression", "lz4"), ("tensor-ext", "on")],
        &[("compression", "zstd")],
    ] {
        typed::round_trips(&ArrowIpc, &options(pairs), &ALL);
    }
}
