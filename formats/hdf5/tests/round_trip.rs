//! Every kind of field round-trips.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod large;

use arrow_array::{Int64Array, RecordBatch};
use packhorse_core::{DataType, FieldType, Format, Kind, Limits, MemoryInput, Options, Schema, with_metadata};
use packhorse_hdf5::Hdf5;
use packhorse_testkit::typed;
use std::sync::Arc;

const ALL: [&str; 9] = ["scalars", "tensors", "numpy", "ragged", "lists", "blobs", "nulls", "none", "pictures"];

#[test]
fn rows_round_trip() {
    for pairs in [
        &[][..],
        &[("filter", "zstd"), ("shuffle", "on"), ("chunk", "4")],
        &[("filter", "none")],
        &[("filter", "lzf"), ("chunk", "6")],
        &[("filter", "lz4"), ("shuffle", "on")],
        &[("vlen", "on"), ("chunk", "1")],
    ] {
        typed::round_trips(&Hdf5, &pairs.iter().copied().collect::<Options>(), &ALL);
    }
}

#[test]
fn large_rows_round_trip() {
    let source = Hdf5.source(&Options::new(), Limits::default()).unwrap();
    for (name, rows, options) in large::corpus() {
        let filters = if name == "chunks" { &["gzip", "lzf", "lz4"][..] } else { &["gzip"] };
        for filter in filters {
            let sink = Hdf5.sink(&options.iter().copied().chain([("filter", *filter)]).collect::<Options>()).unwrap();
            typed::round_trip(&*sink, &*source, name, &rows);
        }
    }
}

#[test]
fn metadata_round_trips() {
    let classes = |count: usize| serde_json::to_string(&vec!["a class of a rather long name"; count]).unwrap();
    for count in [3, 2000, 5000] {
        let label = FieldType::Scalar(DataType::Int64).field("label", false);
        let label = with_metadata(label, "class_names", &classes(count));
        let metadata = [("class_names", classes(count)), ("origin", "here".to_owned())];
        let schema = Schema::new(vec![label]).with_metadata(metadata);
        let labels = Arc::new(Int64Array::from_iter_values(0..5));
        let rows = RecordBatch::try_new(Arc::new(schema), vec![labels]).unwrap();
        let (sink, source) =
            (Hdf5.sink(&Options::new()).unwrap(), Hdf5.source(&Options::new(), Limits::default()).unwrap());
        let file = typed::write(&*sink, &rows, &[5]).remove(".h5").unwrap();
        let input = MemoryInput::new("classes.h5", file);
        assert_eq!(source.open(Arc::new(&input)).unwrap().info().unwrap().schema, rows.schema());
        typed::same(&typed::read(&*source, &input, 0..5), &rows, "classes");
    }
}

/// The index has several levels.
#[test]
fn few_rows_of_many_chunks_are_read() {
    let field = FieldType::Scalar(DataType::Int64).field("x", false);
    let numbers = Arc::new(Int64Array::from_iter_values((0..5000).map(|i| i * i)));
    let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![numbers]).unwrap();
    let source = Hdf5.source(&Options::new(), Limits::default()).unwrap();
    for chunk in ["1", "3"] {
        let options = [("filter", "zstd"), ("chunk", chunk)].into_iter().collect::<Options>();
        let file = typed::write(&*Hdf5.sink(&options).unwrap(), &rows, &[5000]).remove(".h5").unwrap();
        typed::opens_once(&*source, "many.h5", file.clone());
        let input = MemoryInput::new("many.h5", file);
        for (from, to) in [(0, 1), (63, 65), (64, 128), (1000, 3000), (4097, 4098), (4999, 5000), (4990, 9000)] {
            let wanted = rows.slice(from as usize, (to.min(5000) - from) as usize);
            typed::same(&typed::read(&*source, &input, from..to), &wanted, "some of many");
        }
        let limits = Limits { blob: 10_000, ..Limits::default() };
        let small = Hdf5.source(&Options::new(), limits).unwrap();
        let refused = small.open(Arc::new(&input)).unwrap().info().unwrap_err();
        assert!(refused.kind() == Kind::Limit && refused.to_string().contains("chunk index"), "{refused}");
    }
}
