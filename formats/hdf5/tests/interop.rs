//! h5py reads our files, and we read files of h5py, PyTables and NetCDF. Needs `PACKHORSE_PYTHON`: a Python with h5py
//! and hdf5plugin.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a panic fails the test; Python reads files")]

mod large;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use packhorse_core::{
    DataType, FieldType, Format, Input, Limits, MemoryInput, Options, Rows, Schema, Sealed, ShardSummary, bytes_of,
    with_metadata,
};
use packhorse_hdf5::Hdf5;
use packhorse_testkit::memory::{CountedInput, MemoryOutlet};
use packhorse_testkit::typed;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Runs `script` of this folder; prints a note and returns `None` without a Python.
fn python(script: &str, arguments: &[&Path]) -> Option<String> {
    let python = packhorse_testkit::external::python()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let found = Command::new(python).arg(script).args(arguments).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    Some(String::from_utf8(found.stdout).unwrap())
}

fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().copied().collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The elements of `array` as the script prints them.
fn elements(array: &ArrayRef) -> String {
    match array.data_type() {
        DataType::Utf8View => {
            array.as_string_view().iter().map(|text| hex(text.unwrap().as_bytes())).collect::<Vec<_>>().join("|")
        }
        DataType::FixedSizeList(_, _) => elements(array.as_fixed_size_list().values()),
        _ => hex(&bytes_of(array).unwrap()),
    }
}

fn sample(kind: &FieldType, array: &ArrayRef) -> String {
    match kind {
        FieldType::Blob => hex(array.as_binary_view().value(0)),
        FieldType::Ragged { .. } => {
            let parts = array.as_struct();
            let shape = parts.column(1).as_fixed_size_list().value(0);
            let shape: Vec<i32> = shape.as_primitive::<arrow_array::types::Int32Type>().values().to_vec();
            format!("{shape:?}{}", elements(&parts.column(0).as_list::<i32>().value(0)))
        }
        FieldType::List { .. } => list(&array.as_list::<i32>().value(0)),
        _ => elements(array),
    }
}

fn list(array: &ArrayRef) -> String {
    let one = |i| match array.data_type() {
        DataType::List(_) => list(&array.as_list::<i32>().value(i)),
        DataType::BinaryView => hex(array.as_binary_view().value(i)),
        _ => elements(&array.slice(i, 1)),
    };
    format!("[{}]", (0..array.len()).map(one).collect::<Vec<_>>().join(","))
}

fn expect(found: &Value, rows: &Rows, what: &str) {
    assert_eq!(found["samples"], rows.num_rows(), "{what}");
    for (field, array) in rows.schema().fields().iter().zip(rows.columns()) {
        let kind = FieldType::of(field).unwrap();
        let values = found["fields"][field.name()].as_array().unwrap();
        assert_eq!(values.len(), rows.num_rows(), "{what}: {}", field.name());
        for (i, value) in values.iter().enumerate() {
            let wanted = array.is_valid(i).then(|| sample(&kind, &array.slice(i, 1)));
            assert_eq!(value.as_str(), wanted.as_deref(), "{what}: field {}, sample {i}", field.name());
        }
    }
}

#[test]
fn h5py_reads_what_we_write() {
    let dir = tempfile::tempdir().unwrap();
    for (i, pairs) in [
        &[][..],
        &[("filter", "zstd"), ("chunk", "3"), ("shuffle", "on")],
        &[("filter", "none"), ("vlen", "on")],
        &[("chunk", "1"), ("shuffle", "off")],
        &[("filter", "lzf"), ("chunk", "9")],
        &[("filter", "lz4"), ("shuffle", "on")],
    ]
    .iter()
    .enumerate()
    {
        let sink = Hdf5.sink(&options(pairs)).unwrap();
        let mut paths = Vec::new();
        for (name, rows) in typed::corpus() {
            let path = dir.path().join(format!("{name}{i}.h5"));
            std::fs::write(&path, &typed::write(&*sink, &rows, &[rows.num_rows()])[".h5"]).unwrap();
            if Path::new("/usr/bin/h5dump").exists() && *pairs != [("filter", "zstd")] {
                let dump = Command::new("/usr/bin/h5dump").arg("-H").arg(&path).output().unwrap();
                assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
            }
            paths.push(path);
        }
        let Some(found) = python("dump.py", &paths.iter().map(|p| p.as_path()).collect::<Vec<_>>()) else { return };
        assert_eq!(found.lines().count(), typed::corpus().len());
        for (line, (name, rows)) in found.lines().zip(typed::corpus()) {
            expect(&serde_json::from_str(line).unwrap(), &rows, &format!("{name} with {pairs:?}"));
        }
    }
}

type Samples = std::collections::BTreeMap<String, Vec<String>>;

/// The samples of a file by field, as the scripts print them, read in ranges that do not match chunks.
fn read(path: &Path, options: &Options) -> packhorse_core::Result<Samples> {
    let input = MemoryInput::new(path.to_string_lossy(), std::fs::read(path).unwrap());
    let source = Hdf5.source(options, Limits::default())?;
    let info = source.open(Arc::new(&input))?.info()?;
    let mut fields = std::collections::BTreeMap::<String, Vec<String>>::new();
    let cuts = [0, 1, 8, 23.min(info.items), info.items];
    for cut in cuts.windows(2) {
        for rows in source.open(Arc::new(&input))?.rows(cut[0].min(info.items)..cut[1].min(info.items))? {
            let rows = rows?;
            assert_eq!(rows.schema().fields(), info.schema.fields());
            for (field, array) in rows.schema().fields().iter().zip(rows.columns()) {
                let kind = FieldType::of(field).unwrap();
                let value = |i| if array.is_valid(i) { sample(&kind, &array.slice(i, 1)) } else { "null".to_owned() };
                let values = (0..array.len()).map(value);
                fields.entry(field.name().clone()).or_default().extend(values);
            }
        }
    }
    Ok(fields)
}

/// Compares files with what the script that wrote them printed: a line of JSON for each, of whose `options` those of the source are made.
fn compare(folder: &Path, lines: &str, options: impl Fn(&Value) -> Options) {
    let mut wrong = Vec::new();
    for line in lines.lines() {
        let wanted: Value = serde_json::from_str(line).unwrap();
        let (file, error, options) =
            (wanted["file"].as_str().unwrap(), wanted["error"].as_str().unwrap(), options(&wanted));
        let what = format!("{file} {options:?}");
        match read(&folder.join(file), &options) {
            Err(e) if error.is_empty() || !e.to_string().contains(error) => wrong.push(format!("{what}: {e}")),
            Err(_) => {}
            Ok(_) if !error.is_empty() => wrong.push(format!("{what}: no error")),
            Ok(found) => {
                let found = serde_json::to_value(found).unwrap();
                let fields = wanted["fields"].as_object().unwrap();
                if found.as_object().unwrap().keys().ne(fields.keys()) {
                    wrong.push(format!("{what}: fields {:?}", found.as_object().unwrap().keys()));
                }
                let differs = fields.keys().filter(|name| found[name.as_str()] != fields[name.as_str()]);
                wrong.extend(differs.map(|name| format!("{what}: {name} differs")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn third_party_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let Some(lines) = python("make_foreign.py", &[dir.path()]) else { return };
    let datasets =
        |wanted: &Value| wanted["datasets"].as_str().filter(|datasets| !datasets.is_empty()).map(str::to_owned);
    compare(dir.path(), &lines, |wanted| datasets(wanted).iter().map(|globs| ("datasets", globs.as_str())).collect());
}

#[test]
fn groups_are_samples() {
    let dir = tempfile::tempdir().unwrap();
    let Some(lines) = python("make_groups.py", &[dir.path()]) else { return };
    compare(dir.path(), &lines, |wanted| {
        wanted["options"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
            .collect()
    });
}

/// The names of a file's omitted fields.
fn omitted(path: &Path, options: &Options) -> packhorse_core::Result<Vec<String>> {
    let input = MemoryInput::new(path.to_string_lossy(), std::fs::read(path).unwrap());
    let info = Hdf5.source(options, Limits::default())?.open(Arc::new(&input))?.info()?;
    assert!(info.omitted.iter().all(|omitted| !omitted.reason.is_empty()));
    Ok(info.omitted.into_iter().map(|omitted| omitted.field).collect())
}

#[test]
fn no_dataset_disappears() {
    let dir = tempfile::tempdir().unwrap();
    let Some(lines) = python("make_odd.py", &[dir.path()]) else { return };
    let mut wrong = Vec::new();
    for line in lines.lines() {
        let wanted: Value = serde_json::from_str(line).unwrap();
        let name = wanted["file"].as_str().unwrap();
        let path = dir.path().join(name);
        let fields = wanted["fields"].as_object().unwrap();
        let lacking: Vec<&str> =
            wanted["omitted"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        if fields.is_empty() {
            let error = omitted(&path, &Options::new()).unwrap_err();
            assert_eq!(error.kind(), packhorse_core::Kind::Unsupported, "{error}");
            assert!(lacking.iter().all(|name| error.to_string().contains(&format!("{name}: "))), "{error}");
            continue;
        }
        match (read(&path, &Options::new()), omitted(&path, &Options::new())) {
            (Ok(found), Ok(mut left)) => {
                left.sort();
                let found = serde_json::to_value(found).unwrap();
                if found.as_object().unwrap().keys().ne(fields.keys()) || left != lacking {
                    wrong.push(format!("{name}: fields {:?}, without {left:?}", found.as_object().unwrap().keys()));
                }
                let differs = fields.keys().filter(|field| found[field.as_str()] != fields[field.as_str()]);
                wrong.extend(differs.map(|field| {
                    format!("{name}: {field} is {} and not {}", found[field.as_str()][1], fields[field.as_str()][1])
                }));
            }
            (Err(e), _) | (_, Err(e)) => wrong.push(format!("{name}: {e}")),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn netcdf_is_read_as_xarray_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(lines) = python("make_netcdf.py", &[dir.path()]) else { return };
    let mut wrong = Vec::new();
    for line in lines.lines() {
        let wanted: Value = serde_json::from_str(line).unwrap();
        let pairs = wanted["options"].as_object().unwrap();
        let options: Options = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
        let (name, error) = (wanted["file"].as_str().unwrap(), wanted["error"].as_str().unwrap());
        let path = dir.path().join(name);
        match (read(&path, &options), omitted(&path, &options)) {
            (Err(e), _) if !error.is_empty() && e.to_string().contains(error) => {}
            (Ok(found), Ok(mut left)) if error.is_empty() => {
                left.sort();
                let found = serde_json::to_value(found).unwrap();
                let fields = wanted["fields"].as_object().unwrap();
                if found.as_object().unwrap().keys().ne(fields.keys()) || serde_json::json!(left) != wanted["omitted"] {
                    wrong.push(format!("{name}: fields {:?}, without {left:?}", found.as_object().unwrap().keys()));
                }
                let differs = fields.keys().filter(|field| found[field.as_str()] != fields[field.as_str()]);
                wrong.extend(differs.map(|field| {
                    format!("{name} {pairs:?}: {field} is {} and not {}", found[field.as_str()], fields[field.as_str()])
                }));
            }
            (found, _) => wrong.push(format!("{name} {pairs:?}: {:?} and not {error:?}", found.map(|_| "rows"))),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn chunks_larger_than_blocks_are_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let (path, again) = (dir.path().join("tall.h5"), dir.path().join("again.h5"));
    let Some(_) = python("make_tall.py", &[&path, &again]) else { return };
    let input = CountedInput::new("tall.h5", std::fs::read(&path).unwrap());
    let source = Hdf5.source(&Options::new(), Limits::default()).unwrap();
    let mut at = 0usize;
    for rows in source.open(Arc::new(&input)).unwrap().rows(0..u64::MAX).unwrap() {
        let rows = rows.unwrap();
        let one = rows.column(1).as_primitive::<arrow_array::types::Int64Type>();
        let pairs = rows.column(0).as_fixed_size_list().values().clone();
        let pairs = pairs.as_primitive::<arrow_array::types::Int32Type>();
        assert!(one.values().iter().enumerate().all(|(i, value)| *value as usize == (at + i) % 1000));
        assert!(pairs.values().iter().enumerate().all(|(i, value)| *value as usize == (2 * at + i) % 1000));
        at += rows.num_rows();
    }
    assert_eq!(at, 10_000_000);
    let len = input.len().unwrap();
    let read = input.take_read();
    assert!(read < 2 * len, "{read} bytes of a file of {len} were read");
    // A shuffled plan reads runs in any order.
    for run in 0..40 {
        let from = run * 17 % 40 * 250_000;
        let rows: usize = source
            .open(Arc::new(&input))
            .unwrap()
            .rows(from..from + 1000)
            .unwrap()
            .map(|rows| {
                let rows = rows.unwrap();
                let one = rows.column(1).as_primitive::<arrow_array::types::Int64Type>();
                assert!(one.values().iter().zip(from..).all(|(value, i)| *value as u64 == i % 1000));
                rows.num_rows()
            })
            .sum();
        assert_eq!(rows, 1000);
    }
    let read = input.take_read();
    assert!(read < 3 * len, "{read} bytes of a file of {len} were read by runs");
    // A value that many rows share must not decode to gigabytes.
    let input = MemoryInput::new("again.h5", std::fs::read(&again).unwrap());
    let error = source.open(Arc::new(&input)).unwrap().rows(0..u64::MAX).unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), packhorse_core::Kind::Limit, "{error}");
}

#[test]
fn h5py_reads_large_files() {
    let dir = tempfile::tempdir().unwrap();
    for (name, rows, pairs) in large::corpus() {
        let rows = if name == "pieces" { rows.slice(0, 2) } else { rows };
        let sink = Hdf5.sink(&options(pairs)).unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, &typed::write(&*sink, &rows, &[rows.num_rows()])[".h5"]).unwrap();
        let Some(found) = python("dump.py", &[&path]) else { return };
        expect(&serde_json::from_str(&found).unwrap(), &rows, name);
    }
}

/// Packs `rows` into three shards and a master file.
fn dataset(dir: &Path, rows: &Rows) -> std::path::PathBuf {
    let sink = Hdf5.sink(&Options::new()).unwrap();
    let mut shards = Vec::new();
    for (i, (from, to)) in [(0, 5), (5, 5), (5, rows.num_rows())].into_iter().enumerate() {
        let mut outlet = MemoryOutlet::new();
        let mut writer = sink.create(&rows.schema(), &mut outlet).unwrap();
        writer.push(&rows.slice(from, to - from)).unwrap();
        let summary = writer.finish().unwrap();
        let (name, split) = (format!("set-{i:06}"), Some(if i < 2 { "train" } else { "val" }.to_owned()));
        std::fs::write(dir.join(format!("{name}.h5")), &outlet.files()[".h5"]).unwrap();
        shards.push(ShardSummary { name, split, ..summary });
    }
    let mut outlet = MemoryOutlet::new();
    let members = |_| Ok(packhorse_core::Members::default());
    sink.seal(&Sealed { name: "set", root_digest: "00ff", shards: &shards, members: &members }, &mut outlet).unwrap();
    std::fs::write(dir.join("set.h5"), &outlet.files()["set.h5"]).unwrap();
    dir.join("set.h5")
}

#[test]
fn h5py_reads_a_dataset_through_its_master_file() {
    for (name, rows) in typed::corpus() {
        let (dir, moved) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        if rows.num_rows() == 0 {
            continue;
        }
        dataset(dir.path(), &rows);
        for file in std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap()) {
            std::fs::copy(file.path(), moved.path().join(file.file_name())).unwrap();
        }
        drop(dir);
        let master = moved.path().join("set.h5");
        let Some(found) = python("master.py", &[&master]) else { return };
        let fixed = [("scalars", "12"), ("tensors", "9"), ("numpy", "5"), ("blobs", "1"), ("nulls", "2")];
        let wanted = fixed.iter().find(|(of, _)| *of == name).map_or("0", |(_, count)| count);
        assert_eq!(found.trim(), wanted, "{name}");
        let input = MemoryInput::new("set.h5", std::fs::read(&master).unwrap());
        let error = Hdf5
            .source(&Options::new(), Limits::default())
            .unwrap()
            .open(Arc::new(&input))
            .and_then(|table| table.info())
            .unwrap_err();
        assert!(error.to_string().contains("read its shards"), "{error}");
    }
}

#[test]
fn h5py_reads_class_names() {
    for count in [3, 2000, 5000] {
        let classes: Vec<String> = (0..count).map(|i| format!("class {i}, also called größe")).collect();
        let label = FieldType::Scalar(DataType::Int64).field("label", false);
        let label = with_metadata(label, "class_names", &serde_json::to_string(&classes).unwrap());
        let labels = Arc::new(Int64Array::from_iter_values(0..5));
        let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![label])), vec![labels]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("classes.h5");
        let sink = Hdf5.sink(&Options::new()).unwrap();
        std::fs::write(&path, &typed::write(&*sink, &rows, &[5])[".h5"]).unwrap();
        let Some(found) = python("dump.py", &[&path]) else { return };
        let found: Value = serde_json::from_str(&found).unwrap();
        expect(&found, &rows, "classes");
        assert_eq!(found["classes"]["label"], serde_json::json!(classes));
    }
}
