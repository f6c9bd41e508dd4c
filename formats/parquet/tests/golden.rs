//! Digests of the bytes that the sinks write. If one changes, raise the format's revision and note it in the changelog.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use arrow_array::{Int64Array, RecordBatch};
use packhorse_core::{DataType, FieldType, Format, Schema};
use packhorse_parquet::{ArrowIpc, Parquet};
use packhorse_testkit::typed;
use std::sync::Arc;

/// The digest of the files of the whole corpus but for `pictures`, which came later. Files contain the version of this crate, so a new
/// version changes it.
fn digest(format: &dyn Format, pairs: &[(&str, &str)]) -> String {
    digest_of(format, pairs, &|name| name != "pictures")
}

fn digest_of(format: &dyn Format, pairs: &[(&str, &str)], takes: &dyn Fn(&str) -> bool) -> String {
    let sink = format.sink(&pairs.iter().copied().collect()).unwrap();
    let mut hasher = blake3::Hasher::new();
    for (_, rows) in typed::corpus().into_iter().filter(|(name, _)| takes(name)) {
        typed::write(&*sink, &rows, &[rows.num_rows()]).values().for_each(|bytes| {
            hasher.update(bytes);
        });
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[test]
fn the_bytes_are_of_revisions_3_and_2() {
    let found = [
        digest(&Parquet, &[]),
        digest(&Parquet, &[("compression", "none"), ("row-group", "7")]),
        digest(&ArrowIpc, &[]),
        digest(&ArrowIpc, &[("stream", "on"), ("compression", "zstd"), ("tensor-ext", "on")]),
    ];
    assert_eq!(found, ["f86c9ce52493f500", "a7399a848f2a55bd", "a0ed39477e414964", "58b23e0b3181629f"]);
    let formats: [&dyn Format; 2] = [&Parquet, &ArrowIpc];
    let pictures = formats.map(|format| digest_of(format, &[], &|name| name == "pictures"));
    assert_eq!(pictures, ["9033de9cd7adff3f", "77eacce551382800"]);
}

/// A row group of several pieces, however its rows are grouped.
#[test]
fn the_bytes_of_a_large_row_group_are_of_revision_3() {
    let numbers = Arc::new(Int64Array::from_iter_values((0..2_000_000).map(|i| i * i % 1_000_003)));
    let field = FieldType::Scalar(DataType::Int64).field("x", false);
    let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![numbers]).unwrap();
    let sink = Parquet.sink(&[("row-group", "2000000")].into_iter().collect()).unwrap();
    let digests = [&[2_000_000][..], &[1_234_567, 765_433]].map(|groups| {
        let bytes = typed::write(&*sink, &rows, groups).remove(".parquet").unwrap();
        blake3::hash(&bytes).to_hex()[..16].to_owned()
    });
    assert_eq!(digests, ["25811fa2dad2785a"; 2]);
}

#[test]
fn the_bytes_do_not_depend_on_threads() {
    let inside = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| digest(&Parquet, &[("row-group", "4")]))
    };
    assert_eq!(inside(1), inside(7));
}
