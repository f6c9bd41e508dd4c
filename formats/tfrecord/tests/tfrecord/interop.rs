//! Interoperability with protobuf, the package tfrecord and DALI (if installed). `PACKHORSE_PYTHON` names a Python with
//! `tests/interop/requirements.txt`.

use crate::common::{corpus, sink, source};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use packhorse_core::{MemoryInput, Rows};
use packhorse_testkit::{program, typed};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

fn python(args: &[&str]) -> Option<program::Ran> {
    let python = packhorse_testkit::external::python()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tfrecord/check.py");
    let mut command = Command::new(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args(args);
    Some(program::run(&mut command, Duration::from_secs(120)))
}

#[expect(clippy::disallowed_methods, reason = "a test hands files to another program")]
fn store(dir: &Path, files: &std::collections::BTreeMap<String, Vec<u8>>) {
    for (suffix, bytes) in files {
        std::fs::write(dir.join(format!("part{suffix}")), bytes).unwrap();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn protobuf_and_the_package_tfrecord_read_ours() {
    let dir = tempfile::tempdir().unwrap();
    let (mut paths, mut wanted) = (Vec::new(), Vec::new());
    for (at, options) in [&[][..], &[("tensors", "raw")], &[("compression", "gzip")]].iter().enumerate() {
        let sink = sink(options);
        for (number, (name, rows)) in corpus().into_iter().enumerate() {
            let folder = dir.path().join(format!("{at}-{number}"));
            std::fs::create_dir(&folder).unwrap();
            store(&folder, &typed::write(&*sink, &rows, &[rows.num_rows()]));
            paths.extend([folder.join(format!("part{}", sink.suffix())), folder.join("part.index")]);
            wanted.push((name, rows.num_rows(), options.is_empty()));
        }
    }
    let arguments: Vec<&str> = ["read"].into_iter().chain(paths.iter().map(|path| text(path))).collect();
    let Some(ran) = python(&arguments) else { return };
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), wanted.len());
    for (line, (name, rows, is_plain)) in ran.stdout.lines().zip(wanted) {
        let found: Vec<Value> = serde_json::from_str(line).unwrap();
        assert_eq!(found.len(), rows, "{name}");
        if is_plain {
            values(name, &found);
        }
    }
}

/// Checks some features of the corpus as others read them.
fn values(name: &str, found: &[Value]) {
    let at = |i: usize, feature: &str| found[i][feature].clone();
    match name {
        "blobs" => {
            assert_eq!(at(3, "cls"), json!(["int64_list", [3]]));
            assert_eq!(at(1, "txt"), json!(["bytes_list", [hex("naïve text ")]]));
        }
        "lists" => {
            assert_eq!(at(2, "l_flat"), json!(["float_list", [2.0, 2.5]]));
            assert_eq!(at(5, "l_nested"), json!(["int64_list", [500, 510, 511]]));
            assert_eq!(at(5, "l_nested.offsets1"), json!(["int64_list", [0, 1, 3]]));
            assert_eq!(at(3, "l_nested.offsets1"), json!(["int64_list", [0]]));
            assert_eq!(at(2, "l_words"), json!(["bytes_list", ["", hex(&"ä".repeat(7))]]));
        }
        "pictures" => {
            let bytes = |range: std::ops::Range<u8>| range.map(|byte| format!("{byte:02x}")).collect::<String>();
            assert_eq!(at(3, "p_all"), json!(["bytes_list", ["", bytes(24..39), bytes(27..57)]]));
        }
        "ragged" => assert_eq!(at(6, "r_uint8.shape"), json!(["int64_list", [2, 1]])),
        "nulls" => {
            assert_eq!(at(1, "x_tensor"), Value::Null);
            assert_eq!(at(3, "x_number"), json!(["bytes_list", ["0000000000000840"]]));
        }
        "scalars" => assert_eq!(at(0, "s_float32"), json!(["float_list", [-57.5]])),
        _ => {}
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn we_read_what_the_package_tfrecord_writes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(ran) = python(&["write", text(dir.path())]) else { return };
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for name in ["theirs.tfrecord", "theirs.gz.tfrecord", "theirs.zlib.tfrecord"] {
        let input = MemoryInput::new(name, std::fs::read(dir.path().join(name)).unwrap());
        let info = source(&[]).open(Arc::new(&input)).unwrap().info().unwrap();
        assert_eq!(info.items, 50);
        let rows: Vec<Rows> = typed::read(&*source(&[]), &input, 10..50);
        let rows = &rows[0];
        let column = |name: &str| rows.column_by_name(name).unwrap();
        assert_eq!(column("label").as_primitive::<Int64Type>().values()[..3], [-15, -14, -13]);
        let boxes = column("box").as_fixed_size_list().value(2);
        assert_eq!(boxes.as_primitive::<Int64Type>().values(), &[12, -12, 1 << 40, 0]);
        assert_eq!(column("weight").as_primitive::<Float32Type>().value(1), 2.75);
        assert_eq!(column("scores").as_list::<i32>().value(1).len(), 3);
        assert_eq!(column("image").as_binary_view().value(0), [10, 255].repeat(10));
    }
    let sequences = std::fs::read(dir.path().join("sequences.tfrecord")).unwrap();
    let rows = &typed::read(&*source(&[]), &MemoryInput::new("sequences.tfrecord", sequences), 0..6)[0];
    let lists = |name: &str| rows.column_by_name(name).unwrap().as_list::<i32>().value(3);
    let frames: Vec<_> = lists("rgb").as_binary_view().iter().flatten().map(<[u8]>::to_vec).collect();
    assert_eq!(frames, [[200, 0, 3], [200, 1, 3], [200, 2, 3]]);
    assert_eq!(lists("label").as_primitive::<Int64Type>().values(), &[0, 1, 2]);
    assert_eq!(lists("scores").as_list::<i32>().value(2).as_primitive::<Float32Type>().values(), &[1.0, 1.0, 2.0]);
}

#[test]
fn dali_reads_ours_by_the_index() {
    let (_, rows) = corpus().into_iter().find(|(name, _)| *name == "blobs").unwrap();
    let rows = rows.slice(1, 22);
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), &typed::write(&*sink(&[]), &rows, &[22]));
    let (data, index) = (dir.path().join("part.tfrecord"), dir.path().join("part.index"));
    let Some(ran) = python(&["dali", text(&data), text(&index)]) else { return };
    if ran.stderr.contains("No module named 'nvidia") {
        packhorse_testkit::external::skip("DALI is not installed");
        return;
    }
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let found: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    let wanted: Vec<Value> = (1..23).map(|i| json!([i, i * i * 3])).collect();
    assert_eq!(found, Value::from(wanted));
}
