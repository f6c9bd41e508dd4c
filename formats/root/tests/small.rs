//! Small files, written by `make_small.py` with uproot: their values, ranges of entries, and options.
//! Needs only this folder.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use packhorse_core::{DataType, FieldType, Format, Input, Kind, Limits, MemoryInput, Options, Source};
use packhorse_root::Root;
use std::ops::Range;
use std::sync::Arc;

const TREES: [(&str, &[u8]); 4] = [
    ("zlib", include_bytes!("data/tree-zlib.root")),
    ("lz4", include_bytes!("data/tree-lz4.root")),
    ("lzma", include_bytes!("data/tree-lzma.root")),
    ("zstd", include_bytes!("data/tree-zstd.root")),
];
const NTUPLE: &[u8] = include_bytes!("data/ntuple.root");
/// 40,000,000 rows of one Boolean that is always false.
const ABSURD: &[u8] = include_bytes!("absurd/rows.root");
const N: u64 = 20;

fn source(options: &[(&str, &str)]) -> Box<dyn Source> {
    Root.source(&options.iter().copied().collect(), Limits::default()).unwrap()
}

fn rows(input: &dyn Input, options: &[(&str, &str)], items: Range<u64>) -> Vec<RecordBatch> {
    source(options).open(Arc::new(input)).unwrap().rows(items).unwrap().map(Result::unwrap).collect()
}

fn refused(input: &dyn Input, options: &[(&str, &str)]) -> (Kind, String) {
    let error = source(options).open(Arc::new(input)).and_then(|table| table.info()).unwrap_err();
    (error.kind(), error.to_string())
}

/// The values of `make_small.py`, from entry `first` on.
fn check(rows: &RecordBatch, first: usize) {
    for row in 0..rows.num_rows() {
        let i = first + row;
        let column = |name: &str| rows.column_by_name(name).unwrap();
        assert_eq!(column("energy").as_primitive::<Float32Type>().value(row), i as f32 / 4.0);
        assert_eq!(column("flag").as_boolean().value(row), i.is_multiple_of(3));
        assert_eq!(column("id").as_primitive::<Int64Type>().value(row), i as i64 - 5);
        let pt = column("pt").as_list::<i32>().value(row);
        let wanted: Vec<f64> = (0..i % 4).map(|j| i as f64 + j as f64 / 2.0).collect();
        assert_eq!(pt.as_primitive::<Float64Type>().values().to_vec(), wanted);
        if let Some(pos) = rows.column_by_name("pos") {
            let pos = pos.as_fixed_size_list().value(row);
            let wanted: Vec<i32> = (0..6).map(|j| (6 * i + j) as i32).collect();
            assert_eq!(pos.as_primitive::<Int32Type>().values().to_vec(), wanted);
        }
        if let Some(word) = rows.column_by_name("word") {
            assert_eq!(word.as_string_view().value(row), "ä".repeat(i % 5));
        }
    }
}

#[test]
fn metadata_is_read_once_however_many_ranges_follow() {
    for (name, bytes) in TREES.into_iter().chain([("ntuple", NTUPLE)]) {
        packhorse_testkit::typed::opens_once(&*source(&[]), name, bytes.to_vec());
    }
}

#[test]
fn trees_of_every_compression() {
    for (name, bytes) in TREES {
        let input = MemoryInput::new(name, bytes);
        let info = source(&[]).open(Arc::new(&input)).unwrap().info().unwrap();
        assert_eq!(info.items, N);
        let types: Vec<String> = info.schema.fields().iter().map(|f| FieldType::of(f).unwrap().to_string()).collect();
        assert_eq!(types, ["Float32", "Boolean", "Int64", "Int32", "Int32[2,3]", "list<Float64>"], "{name}");
        for (from, to) in [(0, 20), (3, 4), (7, 13), (10, 20), (20, 20), (18, 99)] {
            let found = rows(&input, &[], from..to);
            let count: usize = found.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(count as u64, to.min(N) - from, "{name}");
            let mut first = from as usize;
            found.iter().for_each(|rows| {
                assert_eq!(rows.schema(), info.schema);
                check(rows, first);
                first += rows.num_rows();
            });
        }
    }
}

#[test]
fn an_ntuple() {
    let input = MemoryInput::new("ntuple", NTUPLE);
    let info = source(&[]).open(Arc::new(&input)).unwrap().info().unwrap();
    assert_eq!(info.items, N);
    for (from, to) in [(0, 20), (3, 4), (7, 13), (18, 99)] {
        rows(&input, &[], from..to).iter().for_each(|rows| check(rows, from as usize));
    }
    assert_eq!(Root::trees(&input, Limits::default()).unwrap(), ["events;1"]);
}

#[test]
fn options_select_trees_and_branches() {
    let input = MemoryInput::new("tree", TREES[0].1);
    for tree in ["events", "dir/events", "/dir/events", "dir/events;1"] {
        assert_eq!(source(&[("tree", tree)]).open(Arc::new(&input)).unwrap().info().unwrap().items, N);
    }
    let found = rows(&input, &[("branches", "p*,id")], 0..N);
    let schema = found[0].schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "pos", "pt"]);
    let (kind, text) = refused(&input, &[("tree", "other")]);
    assert_eq!(kind, Kind::Config);
    assert!(text.contains("holds no tree other for `tree`: dir/events (20 entries)"), "{text}");
    let (kind, text) = refused(&input, &[("branches", "energi")]);
    assert_eq!(
        (kind, text.as_str()),
        (
            Kind::Config,
            "tree: `branches`: no branch matches energi; did you mean energy? (there are energy, flag, id, pos, npt, pt)"
        )
    );
    for wrong in [("unsupported", "maybe"), ("branch", "x")] {
        let options: Options = [wrong].into_iter().collect();
        assert_eq!(Root.source(&options, Limits::default()).err().unwrap().kind(), Kind::Config);
    }
}

#[test]
fn several_trees_are_listed() {
    let input = MemoryInput::new("several", &include_bytes!("data/several.root")[..]);
    let tables = source(&[]).tables(&input).unwrap();
    let found: Vec<_> = tables.iter().map(|table| (table.name.as_str(), table.items, &table.refused)).collect();
    assert_eq!(found, [("dir/events", 3, &None), ("dir/tuple", 4, &None), ("runs", 2, &None)]);
    let (kind, text) = refused(&input, &[]);
    assert_eq!(kind, Kind::Config);
    assert!(text.contains("dir/events (3 entries), dir/tuple (4 entries), runs (2 entries); choose one"), "{text}");
}

#[test]
fn other_files_are_refused() {
    for (bytes, wanted) in
        [(&b"no"[..], Kind::Content), (b"PK\x03\x04 and more", Kind::Content), (b"root", Kind::Content)]
    {
        assert_eq!(refused(&MemoryInput::new("x", bytes), &[]).0, wanted);
    }
}

#[test]
fn a_report_has_the_type_of_each_branch() {
    let input = MemoryInput::new("tree", TREES[0].1);
    let report = Root::report(&input, &Options::new(), Limits::default()).unwrap();
    let pos = report.iter().find(|branch| branch.name == "pos").unwrap();
    assert_eq!(pos.holds, Ok(FieldType::Tensor { element: DataType::Int32, shape: vec![2, 3] }));
}

#[test]
fn only_the_absurd_is_refused() {
    let input = MemoryInput::new("rows.root", ABSURD);
    let (kind, text) = refused(&input, &[]);
    assert_eq!(kind, Kind::Limit, "{text}");
    assert!(text.contains("rows.root") && text.contains("40000000 rows") && text.contains("expansion=any"), "{text}");
    let any = [("expansion", "any")];
    assert_eq!(source(&any).open(Arc::new(&input)).unwrap().info().unwrap().items, 40_000_000);
    assert_eq!(source(&any).tables(&input).unwrap().len(), 1);
    let last = rows(&input, &any, 39_999_998..40_000_000);
    assert_eq!(last.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
}

/// The baskets of some entries are larger than those of an average block.
#[test]
fn blocks_have_fewer_entries_where_these_do_not_fit() {
    let (_, tree) = TREES[0];
    let input = MemoryInput::new("small.root", tree.to_vec());
    let read = |blob: u64| {
        let source = Root.source(&Options::new(), Limits { blob, ..Limits::default() })?;
        source.open(Arc::new(&input))?.rows(0..N)?.collect::<packhorse_core::Result<Vec<RecordBatch>>>()
    };
    let (blocks, error) = (64..1 << 20)
        .step_by(64)
        .scan(None, |error, blob| {
            let found = read(blob).map_err(|e| *error = Some(e));
            Some((found.ok(), error.clone()))
        })
        .find_map(|(blocks, error)| blocks.zip(error))
        .unwrap();
    assert!(blocks.len() > 1, "{error}");
    let mut first = 0;
    for rows in &blocks {
        check(rows, first);
        first += rows.num_rows();
    }
    assert_eq!(first as u64, N);
    assert!(error.kind() == Kind::Limit && error.hints().is_some_and(|hint| hint.contains("`memory=")), "{error}");
}
