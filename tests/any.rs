//! Any container to any other and back: what comes out is what went in.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, RecordBatch};
use packhorse::Recipe;
use packhorse::core::{
    DataType, Field, FieldType, KEY, Limits, Options, Rows, Schema, Store as _, array_of, bytes_of, numpy_type,
};
use packhorse::pack::{OnError, Shuffle};
use packhorse::storage::Local;
use packhorse_testkit::typed;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONTAINERS: [&str; 5] = ["hdf5", "parquet", "arrow", "tfrecord", "webdataset"];

/// Packs `inputs` into shards of the format `to`; returns its data files, in order.
fn convert(inputs: &[PathBuf], to: &str, out: &Path, shuffle: Shuffle) -> Vec<PathBuf> {
    convert_in_parts(inputs, to, out, shuffle, 2, &["1/1"])
}

/// The same, with so many jobs, part by part.
fn convert_in_parts(
    inputs: &[PathBuf],
    to: &str,
    out: &Path,
    shuffle: Shuffle,
    jobs: usize,
    parts: &[&str],
) -> Vec<PathBuf> {
    let recipe =
        Recipe { input: inputs.to_vec(), to: Some(to.to_owned()), out: Some(out.to_owned()), ..Recipe::default() };
    let recipe = Recipe { shuffle, ragged: true, ..recipe.samples_per_shard(9) };
    // In a tar, a sample is its members: one without any is left out, on record.
    let policy = if to == "webdataset" { OnError::Skip } else { OnError::Fail };
    let session = packhorse::session().jobs(jobs).on_error(policy);
    let plan = session.plan(&recipe).unwrap_or_else(|e| panic!("{to}: {e}"));
    session.store_plan(&recipe, &plan).unwrap();
    for part in parts {
        session.fill(out, part.parse().unwrap()).unwrap_or_else(|e| panic!("{to}: {e}"));
    }
    let manifest = session.seal(out).unwrap();
    manifest.shards.iter().map(|shard| out.join(&shard.file)).collect()
}

/// Writes `rows` as a shard of the format `id` into the folder `dir`.
fn written(id: &str, rows: &Rows, dir: &Path) -> PathBuf {
    let registry = packhorse::registry();
    let sink = registry.get(id).unwrap().sink(&Options::new()).unwrap();
    std::fs::create_dir_all(dir).unwrap();
    for (suffix, bytes) in typed::write(&*sink, rows, &[rows.num_rows()]) {
        std::fs::write(dir.join(format!("first{suffix}")), bytes).unwrap();
    }
    dir.join(format!("first{}", sink.suffix()))
}

/// The value of each field of each sample, in words that do not depend on how columns are put together.
type Samples = BTreeMap<String, BTreeMap<String, String>>;

fn samples(files: &[PathBuf]) -> Samples {
    let registry = packhorse::registry();
    let mut found = Samples::new();
    for file in files {
        let format = registry.by_name(file.to_str().unwrap().as_bytes()).unwrap();
        let source = format.source(&Options::new(), Limits::default()).unwrap();
        let input = Local.open(file).unwrap();
        for rows in source.open(Arc::new(&*input)).unwrap().rows(0..u64::MAX).unwrap() {
            add(&rows.unwrap(), &mut found);
        }
    }
    found
}

fn add(rows: &Rows, found: &mut Samples) {
    let keys = rows.column_by_name(KEY).unwrap().as_string_view().clone();
    for (i, field) in rows.schema().fields().iter().enumerate().filter(|(_, f)| f.name() != KEY) {
        for row in (0..rows.num_rows()).filter(|row| rows.column(i).is_valid(*row)) {
            let value = shown(field, &rows.column(i).slice(row, 1));
            found.entry(keys.value(row).to_owned()).or_default().insert(field.name().clone(), value);
        }
    }
    // A sample whose fields are all missing is a sample too.
    for row in 0..rows.num_rows() {
        found.entry(keys.value(row).to_owned()).or_default();
    }
}

/// One value: its type, its shape, its bytes. A tensor of one shape is the same as a ragged one with it.
fn shown(field: &Field, value: &ArrayRef) -> String {
    let kind = FieldType::of(field).unwrap();
    let numpy = numpy_type(field).unwrap_or_default();
    match kind {
        FieldType::Tensor { element, shape } => {
            let list = value.as_fixed_size_list();
            format!("{element} {numpy} {shape:?} {:?}", elements(&list.value(0)))
        }
        FieldType::Ragged { element, .. } => {
            let parts = value.as_struct();
            let shape = parts.column(1).as_fixed_size_list().value(0);
            let shape = shape.as_primitive::<arrow_array::types::Int32Type>().values().to_vec();
            format!("{element} {numpy} {shape:?} {:?}", elements(&parts.column(0).as_list::<i32>().value(0)))
        }
        // One level of lists is an array of one dimension, in containers that know no other.
        FieldType::List { element, depth: 1 } => {
            let list = value.as_list::<i32>().value(0);
            format!("{element} {numpy} [{}] {:?}", list.len(), elements(&list))
        }
        other => format!("{other} {numpy} {value:?}"),
    }
}

fn elements(values: &ArrayRef) -> String {
    bytes_of(values).map_or_else(|_| format!("{values:?}"), |bytes| format!("{:02x?}", bytes.as_slice()))
}

/// Which batches of the corpus a tar can carry: nested lists, and lists of words and of bytes have no form as a file.
fn carries(format: &str, name: &str) -> bool {
    format != "webdataset" || !["lists", "pictures"].contains(&name)
}

#[test]
fn every_container_to_every_other_and_back() {
    let dir = tempfile::tempdir().unwrap();
    for (name, rows) in typed::corpus().into_iter().filter(|(name, _)| *name != "none") {
        for a in CONTAINERS.into_iter().filter(|a| *a != "webdataset") {
            let first = written(a, &rows, &dir.path().join(format!("{name}-{a}")));
            let wanted = samples(std::slice::from_ref(&first));
            assert_eq!(wanted.len(), rows.num_rows());
            for b in CONTAINERS.into_iter().filter(|b| carries(b, name)) {
                let there = dir.path().join(format!("{name}-{a}-{b}"));
                convert(std::slice::from_ref(&first), b, &there, Shuffle::No);
                // A sealed dataset is an input as a folder: its shards, and not what lies beside them.
                let back = dir.path().join(format!("{name}-{a}-{b}-{a}"));
                let found = samples(&convert(&[there], a, &back, Shuffle::Global { seed: 3 }));
                let mut wanted = wanted.clone();
                wanted.retain(|_, fields| b != "webdataset" || !fields.is_empty());
                assert!(found == wanted, "{name}: {a} → {b} → {a}: {}", difference(&wanted, &found));
            }
        }
    }
}

fn difference(wanted: &Samples, found: &Samples) -> String {
    for (key, fields) in wanted {
        let Some(others) = found.get(key) else { return format!("sample {key} is gone") };
        for (field, value) in fields {
            if others.get(field) != Some(value) {
                return format!(
                    "{key}.{field} was {value} and is {:?}; fields: {:?}",
                    others.get(field),
                    others.keys()
                );
            }
        }
        if others.len() != fields.len() {
            return format!("{key} has more fields: {:?}", others.keys());
        }
    }
    format!("{} samples instead of {}", found.len(), wanted.len())
}

fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.map(|path| (path.strip_prefix(dir).unwrap().to_owned(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn threads_and_parts_do_not_change_a_byte() {
    let dir = tempfile::tempdir().unwrap();
    for (name, rows) in typed::corpus().into_iter().filter(|(name, _)| ["ragged", "blobs", "nulls"].contains(name)) {
        let input = written("arrow", &rows, &dir.path().join(name));
        for to in CONTAINERS {
            let out = |what: &str| dir.path().join(format!("{name}-{to}-{what}"));
            let shuffle = Shuffle::Blocks { seed: 5, size: 4 };
            convert_in_parts(std::slice::from_ref(&input), to, &out("one"), shuffle, 1, &["1/1"]);
            convert_in_parts(std::slice::from_ref(&input), to, &out("parts"), shuffle, 8, &["3/3", "1/3", "2/3"]);
            let (one, parts) = (tree(&out("one")), tree(&out("parts")));
            assert!(one.len() > 3 && one == parts, "{name} as {to}: {:?}, {:?}", one.keys(), parts.keys());
        }
    }
}

/// The types of records are in a file beside them, which a compressed file has too.
#[test]
fn compressed_records_keep_their_types() {
    let dir = tempfile::tempdir().unwrap();
    let columns = [(DataType::UInt8, vec![]), (DataType::Float16, vec![2, 3]), (DataType::Int32, vec![4])];
    let first = written("hdf5", &batch(&columns, 20, &[1, 2, 3, 5, 8]), &dir.path().join("a"));
    let wanted = samples(std::slice::from_ref(&first));
    let recipe = Recipe { input: vec![first], to: Some("tfrecord".to_owned()), ..Recipe::default() };
    let recipe = Recipe { out: Some(dir.path().join("b")), compression: Some("gzip".to_owned()), ..recipe };
    packhorse::session().pack(&recipe.samples_per_shard(9)).unwrap();
    let found = samples(&convert(&[dir.path().join("b")], "hdf5", &dir.path().join("c"), Shuffle::No));
    assert!(found == wanted, "{}", difference(&wanted, &found));
}

/// Arrays without an element take no bytes; such an input is not empty.
#[test]
fn a_table_is_no_empty_input() {
    let dir = tempfile::tempdir().unwrap();
    let rows = batch(&[(DataType::Float32, vec![0])], 5, b"x");
    let input = written("arrow", &rows, &dir.path().join("in"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_packhorse"));
    let out = dir.path().join("out");
    let ended =
        command.arg("pack").arg(&input).args(["--quiet", "--to", "parquet", "--out"]).arg(&out).output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

/// Any elements in any shape.
fn column() -> impl Strategy<Value = (DataType, Vec<usize>)> {
    let elements = prop_oneof![
        Just(DataType::UInt8),
        Just(DataType::Int16),
        Just(DataType::Boolean),
        Just(DataType::Float32),
        Just(DataType::Float64),
        Just(DataType::Float16),
        Just(DataType::UInt64),
    ];
    (elements, proptest::collection::vec(0usize..4, 0..4))
}

fn batch(columns: &[(DataType, Vec<usize>)], samples: usize, bytes: &[u8]) -> Rows {
    let keys: Vec<String> = (0..samples).map(|i| format!("k{i}")).collect();
    let mut fields = vec![FieldType::Text.field(KEY, false)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(arrow_array::StringViewArray::from_iter_values(keys))];
    for (i, (element, shape)) in columns.iter().enumerate() {
        let size: usize = shape.iter().product();
        let raw: Vec<u8> = bytes.iter().copied().cycle().skip(i).take(samples * size.max(1) * 8).collect();
        let values = array_of(element, raw.into(), samples * size).unwrap();
        let kind = match shape.is_empty() {
            true => FieldType::Scalar(element.clone()),
            false => FieldType::Tensor { element: element.clone(), shape: shape.clone() },
        };
        let field = kind.field(&format!("f{i}"), false);
        arrays.push(match field.data_type() {
            DataType::FixedSizeList(item, n) => {
                Arc::new(FixedSizeListArray::try_new_with_length(item.clone(), *n, values, None, samples).unwrap())
            }
            _ => values,
        });
        fields.push(field);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_arrays_come_back(
        columns in proptest::collection::vec(column(), 1..5),
        samples_wanted in 1usize..20,
        bytes in proptest::collection::vec(any::<u8>(), 1..64),
        a in 0usize..4,
        b in 0usize..5,
    ) {
        let (a, b) = (CONTAINERS[a], CONTAINERS[b]);
        let dir = tempfile::tempdir().unwrap();
        let first = written(a, &batch(&columns, samples_wanted, &bytes), &dir.path().join("a"));
        let wanted = samples(std::slice::from_ref(&first));
        let there = convert(&[first], b, &dir.path().join("b"), Shuffle::Global { seed: 9 });
        let found = samples(&convert(&there, a, &dir.path().join("c"), Shuffle::No));
        prop_assert!(found == wanted, "{a} → {b} → {a}: {}", difference(&wanted, &found));
    }
}
