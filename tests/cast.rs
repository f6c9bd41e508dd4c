//! Fields whose types differ from input to input become one type where `cast` says which.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse::Recipe;
use packhorse::core::{Code, LOGICAL, NUMPY};
use packhorse::dataset::{MANIFEST, Manifest};
use packhorse::read::order::Shuffle;
use std::path::{Path, PathBuf};

/// The formats that store values by type, and one that stores them as files.
const FORMATS: [&str; 5] = ["parquet", "arrow", "hdf5", "tfrecord", "webdataset"];

/// Two tables of one column: whole numbers in one, and others in the other.
fn tables(dir: &Path, second: &str) -> Vec<PathBuf> {
    let [a, b] = ["a.csv", "b.csv"].map(|name| dir.join(name));
    std::fs::write(&a, "x\n1\n2\n3\n").unwrap();
    std::fs::write(&b, format!("x\n{second}\n")).unwrap();
    vec![a, b]
}

/// An `.npy` file of version 1.0 with one row of `values`, which are `bytes` of the type `descr`.
fn npy(path: &Path, descr: &str, values: usize, bytes: &[u8]) {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1, {values}), }}");
    let end = (10 + header.len() + 1).next_multiple_of(64) - 11;
    header.extend(std::iter::repeat_n(' ', end - header.len()));
    header.push('\n');
    let len = u16::try_from(header.len()).unwrap().to_le_bytes();
    std::fs::write(path, [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), bytes].concat()).unwrap();
}

/// `count` arrays of three numbers, the first of which is that of the file, from `first`; `types` by turns.
fn arrays(folder: &Path, first: u8, count: u8, types: &[&str]) {
    std::fs::create_dir_all(folder).unwrap();
    for (i, descr) in (first..first + count).zip(types.iter().cycle()) {
        let values = [0, 1, 2].map(|k| i + k);
        let bytes: Vec<u8> = match *descr {
            "<f4" => values.iter().flat_map(|v| f32::from(*v).to_le_bytes()).collect(),
            "<f8" => values.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect(),
            ">i2" => values.iter().flat_map(|v| i16::from(*v).to_be_bytes()).collect(),
            "|u1" => values.to_vec(),
            other => unreachable!("no type {other}"),
        };
        npy(&folder.join(format!("{i:03}.x.npy")), descr, 3, &bytes);
    }
}

/// The recipe of `input` without a cast.
fn plain(input: &[PathBuf], to: &str, out: &Path) -> Recipe {
    Recipe { input: input.to_vec(), ..Recipe::new("", to, out) }
}

fn cast(input: &[PathBuf], to: &str, out: &Path, cast: &str) -> Recipe {
    Recipe { cast: vec![cast.to_owned()], ..plain(input, to, out) }
}

/// The values of the field `x` of all samples in order, in single precision.
fn values(out: &Path) -> Vec<f32> {
    let field = if out.ends_with("webdataset") { "x.npy" } else { "x" };
    let loader = packhorse::open(out.to_str().unwrap())
        .unwrap()
        .loader(1)
        .field("x", field)
        .shuffle(Shuffle::Sequential)
        .build()
        .unwrap();
    let rows = loader.map(|batch| batch.unwrap().row("x", 0).unwrap().to_vec());
    rows.flat_map(|row| row.chunks_exact(4).map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect::<Vec<_>>())
        .collect()
}

#[test]
fn tables_of_different_types_become_one_where_the_cast_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let input = tables(dir.path(), "4.5\n-1.25");
    for to in FORMATS {
        let out = dir.path().join(to);
        let error = packhorse::session().pack(&plain(&input, to, &out)).unwrap_err();
        assert_eq!(error.code(), Code::ColumnsDiffer);
        assert!(error.hints().unwrap().contains("cast=x=f64"), "{error}");
        packhorse::session().pack(&cast(&input, to, &out, "x=f32")).unwrap();
        assert_eq!(values(&out), [1.0, 2.0, 3.0, 4.5, -1.25], "{to}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_an_error_of_its_sample() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let recipe = cast(&tables(dir.path(), "4.5"), "parquet", &out, "x=i64");
    let error = packhorse::session().pack(&recipe).unwrap_err();
    assert_eq!(error.sample(), Some("b/000000000"), "{error}");
    assert!(error.to_string().contains("4.5"), "{error}");
    let text = cast(&tables(dir.path(), "four"), "parquet", &out, "x=i64");
    let error = packhorse::session().pack(&text).unwrap_err();
    assert!(error.to_string().contains("four"), "{error}");
}

#[test]
fn arrays_of_different_types_become_one() {
    let dir = tempfile::tempdir().unwrap();
    let folder = [dir.path().join("arrays")];
    arrays(&folder[0], 0, 100, &["<f4", "<f8", ">i2", "|u1"]);
    let wanted: Vec<f32> = (0..100u8).flat_map(|i| [0, 1, 2].map(|k| f32::from(i + k))).collect();
    for to in ["parquet", "arrow", "hdf5", "tfrecord"] {
        let out = dir.path().join(to);
        let error = packhorse::session().pack(&plain(&folder, to, &out)).unwrap_err();
        assert_eq!(error.code(), Code::ColumnsDiffer);
        packhorse::session().pack(&cast(&folder, to, &out, "x=f32")).unwrap();
        assert_eq!(values(&out), wanted, "{to}");
    }
}

#[test]
fn samples_of_another_type_are_added_to_a_dataset_that_casts() {
    let dir = tempfile::tempdir().unwrap();
    let [first, more, out] = ["first", "more", "out"].map(|name| dir.path().join(name));
    arrays(&first, 0, 10, &["<f4", "|u1"]);
    arrays(&more, 10, 5, &[">i2"]);
    packhorse::session().pack(&cast(std::slice::from_ref(&first), "parquet", &out, "x=f32")).unwrap();
    packhorse::session().append(&out, &Recipe { input: vec![more], ..Recipe::default() }).unwrap();
    let wanted: Vec<f32> = (0..15u8).flat_map(|i| [0, 1, 2].map(|k| f32::from(i + k))).collect();
    assert_eq!(values(&out), wanted);
}

/// What a job drops may be of any type in each input.
#[test]
fn fields_that_are_dropped_may_differ() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a.csv", "b.csv"].map(|name| dir.path().join(name));
    std::fs::write(&a, "x,y\n1,1\n").unwrap();
    std::fs::write(&b, "x,y\n2,one\n").unwrap();
    for format in FORMATS {
        let out = dir.path().join(format);
        let refused = packhorse::session().pack(&plain(&[a.clone(), b.clone()], format, &out)).unwrap_err();
        assert_eq!((refused.code(), refused.field()), (Code::ColumnsDiffer, Some("y")), "{format}");
        for (kept, dropped) in [(vec![], vec!["y".to_owned()]), (vec!["x".to_owned()], vec![])] {
            let recipe = cast(&[a.clone(), b.clone()], format, &out, "x=f32");
            let recipe = Recipe { field: kept, drop: dropped, ..recipe };
            let packed = packhorse::session().pack(&recipe).unwrap();
            assert_eq!(values(&out), [1.0, 2.0], "{format}");
            std::fs::remove_dir_all(&out).unwrap();
            assert_eq!(packed.report.samples, 2);
        }
    }
}

/// An array that is left out may be of any type, also of one that can't be read.
#[test]
fn arrays_that_are_dropped_may_differ() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    arrays(&input, 0, 3, &["<f4"]);
    for (name, descr, width) in [("000", "|u1", 1), ("001", "<i8", 8), ("002", "|O", 8)] {
        npy(&input.join(format!("{name}.info.npy")), descr, 3, &vec![0; 3 * width]);
    }
    for to in ["parquet", "hdf5"] {
        let out = |name: &str| dir.path().join(format!("{to}-{name}"));
        let recipe = |name: &str| plain(std::slice::from_ref(&input), to, &out(name));
        let error = packhorse::session().pack(&recipe("all")).unwrap_err().to_string();
        assert!(error.contains("info"), "{error}");
        packhorse::session().pack(&Recipe { drop: vec!["info".to_owned()], ..recipe("dropped") }).unwrap();
        packhorse::session().pack(&Recipe { field: vec!["x".to_owned()], ..recipe("chosen") }).unwrap();
        for name in ["dropped", "chosen"] {
            assert_eq!(values(&out(name)), [0u8, 1, 2, 1, 2, 3, 2, 3, 4].map(f32::from));
        }
    }
}

/// Of files that decode to one field all but one can be left out, by their own names.
#[test]
fn files_of_one_field_are_told_apart_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    arrays(&input, 0, 3, &["<f4"]);
    for number in 0..3 {
        std::fs::write(input.join(format!("{number:03}.x.txt")), "a text").unwrap();
    }
    for to in ["parquet", "hdf5"] {
        let recipe = |name: &str| plain(std::slice::from_ref(&input), to, &dir.path().join(format!("{to}-{name}")));
        let error = packhorse::session().pack(&recipe("all")).unwrap_err();
        assert!(error.to_string().contains("(`drop=x.npy` or `drop=x.txt`)"), "{error}");
        packhorse::session().pack(&Recipe { drop: vec!["x.txt".to_owned()], ..recipe("arrays") }).unwrap();
        assert_eq!(values(&dir.path().join(format!("{to}-arrays"))), [0u8, 1, 2, 1, 2, 3, 2, 3, 4].map(f32::from));
        let packed = packhorse::session().pack(&Recipe { drop: vec!["x.npy".to_owned()], ..recipe("texts") }).unwrap();
        assert_eq!(packed.manifest.schema.iter().map(|field| &field.name[..]).collect::<Vec<_>>(), ["__key__", "x"]);
    }
}

/// Times of two units become those that the cast names, as every reader of the dataset sees them.
#[test]
fn times_of_several_units_become_one() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    std::fs::create_dir_all(&input).unwrap();
    npy(&input.join("0.t.npy"), "<M8[us]", 2, &[1_500_000i64, -1].map(i64::to_le_bytes).concat());
    npy(&input.join("1.t.npy"), "<M8[ns]", 2, &[7i64, i64::MIN].map(i64::to_le_bytes).concat());
    let out = dir.path().join("out");
    let recipe = |to: &str| cast(std::slice::from_ref(&input), "hdf5", &out, to);
    let error = packhorse::session().pack(&plain(std::slice::from_ref(&input), "hdf5", &out)).unwrap_err();
    assert_eq!(error.code(), Code::ColumnsDiffer);
    assert!(error.to_string().contains("pass `cast=t=timestamp[ns]` to make them one type"), "{error}");
    let error = packhorse::session().pack(&recipe("t=timestamp[us]")).unwrap_err().to_string();
    assert!(error.contains("7 ns can't be given as a whole number of us"), "{error}");
    packhorse::session().replacing(true).pack(&recipe("t=timestamp[ns]")).unwrap();
    let file = std::fs::read(out.join("shard-000000.h5")).unwrap();
    let wanted = [1_500_000_000i64, -1000, 7, i64::MIN].map(i64::to_le_bytes).concat();
    assert!(file.windows(wanted.len()).any(|bytes| bytes == wanted), "the ticks of both are in one row each");
}

/// Text as CSV has it becomes times that every format stores as such.
#[test]
fn text_becomes_times() {
    let dir = tempfile::tempdir().unwrap();
    let tables = [("a.csv", "2024-05-01 12:30,2024-05-01T12:30:00+02:00"), ("b.csv", ",2024-05-02T00:00Z")].map(
        |(name, row)| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("t,z\n{row}\n")).unwrap();
            path
        },
    );
    for to in FORMATS {
        let out = dir.path().join(to);
        let casts = ["t=timestamp[us]", "z=timestamp[ms,UTC]"].map(str::to_owned).to_vec();
        packhorse::session().pack(&Recipe { cast: casts, ..plain(&tables, to, &out) }).unwrap();
        let manifest = Manifest::decode(&std::fs::read(out.join(MANIFEST)).unwrap()).unwrap();
        let note = |name: &str| {
            let field = manifest.schema.iter().find(|field| field.name == name).unwrap();
            (field.metadata[NUMPY].clone(), field.metadata.get(LOGICAL).cloned())
        };
        assert_eq!(note("t"), ("<M8[us]".to_owned(), None), "{to}");
        assert_eq!(note("z"), ("<M8[ms]".to_owned(), Some("timestamp[ms, tz=UTC]".to_owned())), "{to}");
        if to == "hdf5" {
            let file = std::fs::read(out.join("shard-000000.h5")).unwrap();
            let wanted = [1_714_559_400_000i64, 1_714_608_000_000].map(i64::to_le_bytes).concat();
            assert!(file.windows(wanted.len()).any(|bytes| bytes == wanted), "both moments in UTC");
        }
    }
    let recipe =
        Recipe { cast: vec!["z=timestamp[us]".to_owned()], ..plain(&tables, "parquet", &dir.path().join("bad")) };
    let error = packhorse::session().pack(&recipe).unwrap_err();
    assert!(error.to_string().contains("has an offset from UTC") && error.sample() == Some("a/000000000"), "{error}");
}

/// Lists, and lists of lists, become arrays of one shape; those of another shape are an error of their sample.
#[test]
fn lists_of_one_shape_become_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let stacked = |lines: &str, shape: &str, to: &str| {
        let input = dir.path().join("in.jsonl");
        std::fs::write(&input, lines).unwrap();
        let out = dir.path().join(lines.len().to_string()).join(to);
        let mut recipe = plain(&[input], to, &out);
        recipe.take("from", "jsonl".as_ref()).unwrap();
        recipe.take("cast", "x=f32".as_ref()).unwrap();
        recipe.take("stack", format!("x={shape}").as_ref()).unwrap();
        packhorse::session().pack(&recipe).map(|_| values(&out))
    };
    for to in FORMATS {
        let flat = "{\"x\": [1.5, 2.5, 3.5]}\n{\"x\": [4.5, 5.5, 6.5]}\n";
        assert_eq!(stacked(flat, "3", to).unwrap(), [1.5, 2.5, 3.5, 4.5, 5.5, 6.5], "{to}");
        let nested = "{\"x\": [[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]]}\n{\"x\": [[7, 8, 9], [10, 11, 12]]}\n";
        let wanted = [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
        assert_eq!(stacked(nested, "2x3", to).unwrap(), wanted, "{to}");
    }
    let first = "{\"x\": [[1.5, 2.5], [3.5, 4.5]]}\n";
    for (second, why) in [
        ("[[1.5, 2.5]]", "has the shape [1] here, and `stack` wants [2,2]"),
        ("[[1.5, 2.5], [3.5]]", "has the shape [2,1] here, and `stack` wants [2,2]"),
        ("null", "is missing"),
    ] {
        let error = stacked(&format!("{first}{{\"x\": {second}}}\n"), "2x2", "parquet").unwrap_err();
        assert!(error.to_string().contains(why), "{second}: {error}");
        assert_eq!(error.sample(), Some("in/000000001"), "{second}: {error}");
    }
}

/// A document without tokens, and one with the lengths of another, cost themselves alone.
#[test]
fn documents_that_token_shards_can_not_hold_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in.jsonl"), dir.path().join("out"));
    let lines = [
        r#"{"tokens": [1, 2, 3], "lengths": [3]}"#,
        r#"{"tokens": null, "lengths": [1]}"#,
        r#"{"tokens": [4, 5], "lengths": [3]}"#,
        r#"{"tokens": [6], "lengths": [1]}"#,
    ];
    std::fs::write(&input, lines.join("\n")).unwrap();
    let mut recipe = plain(&[input], "tokens", &out);
    recipe.take("from", "jsonl".as_ref()).unwrap();
    recipe.take("cast", "tokens=i32".as_ref()).unwrap();
    recipe.take("cast", "lengths=i32".as_ref()).unwrap();
    let error = packhorse::session().pack(&recipe).unwrap_err();
    assert_eq!(error.sample(), Some("in/000000001"), "{error}");
    recipe.take("on-error", "skip".as_ref()).unwrap();
    packhorse::session().replacing(true).pack(&recipe).unwrap();
    let tokens = std::fs::read(out.join("shard-000000.bin")).unwrap();
    assert_eq!(tokens, [1, 2, 3, 6].map(i32::to_le_bytes).concat());
    assert_eq!(std::fs::read_to_string(out.join("skipped.jsonl")).unwrap().lines().count(), 2);
}
