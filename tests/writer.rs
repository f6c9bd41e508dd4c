//! Samples from a program become datasets like those that are packed from files.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
    pub(crate) mod tree;
}

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeListArray, Int32Array, Int64Array, LargeBinaryArray,
    LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use common::process::packhorse;
use common::tree::{assert_equal, tree};
use packhorse::core::{
    CLASSES, Cancel, Code, DataType, Field, FieldType, KEY, Kind, Limits, Options, Rows, Schema, SchemaRef,
    with_metadata,
};
use packhorse::dataset::Manifest;
use packhorse::pack::Depth;
use packhorse::storage::Local;
use packhorse::{OnError, Recipe, Session, Writer};
use packhorse_testkit::faults::{CallKind, FailingStore, StoreFault};
use packhorse_testkit::typed;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Photos and captions of different sizes.
fn value(i: usize) -> (String, Vec<u8>, String) {
    let photo = (0..100 + i * 977 % 3000).map(|at| (at * i) as u8).collect();
    (format!("class {}/photo {i}", i % 3), photo, format!("caption {i}"))
}

fn schema() -> SchemaRef {
    let fields = vec![
        FieldType::Blob.field("txt", true),
        FieldType::Text.field(KEY, false),
        FieldType::Blob.field("jpg", false),
    ];
    Arc::new(Schema::new(fields))
}

fn rows_of(samples: impl Iterator<Item = (String, Vec<u8>, String)>) -> Rows {
    let (mut keys, mut photos, mut captions) = (Vec::new(), Vec::new(), Vec::new());
    for (key, photo, caption) in samples {
        keys.push(key);
        photos.push(photo);
        captions.push(caption);
    }
    let columns: [(&str, ArrayRef); 3] = [
        ("jpg", Arc::new(BinaryViewArray::from_iter_values(photos))),
        (KEY, Arc::new(StringViewArray::from_iter_values(keys))),
        ("txt", Arc::new(BinaryViewArray::from_iter_values(captions))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn rows(samples: std::ops::Range<usize>) -> Rows {
    rows_of(samples.map(value))
}

fn session() -> Session {
    packhorse::session().jobs(2)
}

fn writer(session: &Session, recipe: &Recipe) -> Writer {
    session.writer(recipe, &schema()).unwrap()
}

/// Pushes `n` samples, `batch` at a time.
fn write(session: &Session, recipe: &Recipe, n: usize, batch: usize) -> Manifest {
    let mut writer = writer(session, recipe);
    for from in (0..n).step_by(batch) {
        writer.push(&rows(from..(from + batch).min(n))).unwrap();
    }
    assert_eq!(writer.samples(), n as u64);
    writer.finish().unwrap()
}

/// Verifies every byte of the dataset.
#[track_caller]
fn assert_whole(out: &Path) {
    let found = packhorse::session().verify(out, Depth::Full).unwrap();
    assert!(found.damages.is_empty(), "{:?}", found.damages);
    let status = packhorse::session().status(out).unwrap();
    assert!(status.sealed && status.missing.is_empty(), "{status:?}");
    assert_eq!(status.samples, Some(status.packed));
}

/// All samples of the shards of a container of columns.
fn read_back(out: &Path, manifest: &Manifest) -> Vec<Rows> {
    let registry = packhorse::registry();
    let source = registry.get(&manifest.format.format).unwrap().source(&Options::new(), Limits::default()).unwrap();
    let mut found = Vec::new();
    for shard in &manifest.shards {
        let input = packhorse::core::Store::open(&Local, &out.join(&shard.file)).unwrap();
        found.extend(typed::read(&*source, &*input, 0..shard.samples));
    }
    found
}

#[test]
fn every_kind_of_field_comes_back_from_every_container() {
    let containers = [
        ("parquet", "scalars tensors ragged lists blobs nulls"),
        ("arrow", "scalars tensors ragged lists blobs nulls"),
        ("hdf5", "scalars tensors ragged lists blobs nulls"),
        ("tfrecord", "tensors blobs"),
    ];
    let dir = TempDir::new().unwrap();
    for (to, kinds) in containers {
        for (name, wanted) in typed::corpus().into_iter().filter(|(name, _)| kinds.split(' ').any(|kind| kind == *name))
        {
            let out = dir.path().join(format!("{to}-{name}"));
            let recipe = Recipe::for_writer(to, &out).samples_per_shard(4);
            let mut writer = session().writer(&recipe, &wanted.schema()).unwrap();
            let n = wanted.num_rows();
            let parts = [0, 1, n / 2, n];
            for (from, to) in parts.iter().zip(parts.iter().skip(1)) {
                writer.push(&wanted.slice(*from, to - from)).unwrap();
            }
            let manifest = writer.finish().unwrap();
            assert_eq!(manifest.shards.len(), n.div_ceil(4), "{to} {name}");
            assert_whole(&out);
            typed::same(&read_back(&out, &manifest), &wanted, &format!("{to} {name}"));
        }
    }
}

#[test]
fn blobs_are_written_as_the_same_files_are_packed() {
    let dir = TempDir::new().unwrap();
    let (files, packed, written) = (dir.path().join("files"), dir.path().join("packed"), dir.path().join("written"));
    let mut samples: Vec<_> = (0..40).map(value).collect();
    // Scan orders by key.
    samples.sort();
    for (key, photo, caption) in &samples {
        let path = files.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path.with_extension("jpg"), photo).unwrap();
        std::fs::write(path.with_extension("txt"), caption).unwrap();
    }
    let index = |recipe: Recipe| recipe.samples_per_shard(7).with("index", "wids,dali,energon").unwrap();
    session().pack(&index(Recipe::new(&files, "webdataset", &packed))).unwrap();
    let mut writer = writer(&session(), &index(Recipe::for_writer("webdataset", &written)));
    for batch in samples.chunks(3) {
        writer.push(&rows_of(batch.iter().cloned())).unwrap();
    }
    writer.finish().unwrap();
    assert_whole(&written);
    // Plans differ, and so do receipts.
    let shards = |dir: &Path| -> Vec<(String, Vec<u8>)> {
        let ours = |name: &String| name.starts_with("shard-") && !name.ends_with(".receipt.json");
        names(dir).into_iter().filter(ours).map(|name| (name.clone(), std::fs::read(dir.join(name)).unwrap())).collect()
    };
    assert_eq!(shards(&written).len(), 6 * 4, "{:?}", names(&written));
    assert!(shards(&written) == shards(&packed));
    assert_eq!(names(&written), names(&packed));
}

#[test]
fn bytes_do_not_depend_on_threads_nor_on_how_rows_come() {
    let dir = TempDir::new().unwrap();
    let mut datasets = Vec::new();
    for (i, (jobs, batch, memory)) in
        [(1, 50, 1 << 30), (3, 1, 1 << 30), (8, 7, 4096), (2, 49, 1)].into_iter().enumerate()
    {
        let out = dir.path().join(i.to_string());
        let session = session().jobs(jobs).memory(memory);
        let manifest = write(&session, &Recipe::for_writer("webdataset", &out).shard_size(20_000), 50, batch);
        assert!(manifest.shards.len() > 5);
        datasets.push((manifest.root, tree(&out)));
    }
    for (root, files) in datasets.iter().skip(1) {
        assert_eq!(*root, datasets[0].0);
        assert_equal(&datasets[0].1, files, "other threads and rows");
    }
}

#[test]
fn a_shard_ends_before_the_sample_that_exceeds_its_size() {
    let dir = TempDir::new().unwrap();
    let manifest = write(&session(), &Recipe::for_writer("webdataset", dir.path()).shard_size(9_000), 60, 11);
    let mut next = 0;
    let size = |i: usize| {
        let (_, photo, caption) = value(i);
        [photo.len(), caption.len()].iter().map(|len| 512 + len.next_multiple_of(512)).sum::<usize>()
    };
    for shard in &manifest.shards {
        let end = next + shard.samples as usize;
        // With the end of the tar.
        let bytes = (next..end).map(size).sum::<usize>() + 1024;
        assert_eq!(shard.bytes as usize, bytes);
        assert!(bytes <= 9_000 && (end == 60 || bytes + size(end) > 9_000), "{}: {bytes}", shard.name);
        next = end;
    }
    assert_eq!(next, 60);
    // A sample larger than the bound has a shard of its own.
    let other = TempDir::new().unwrap();
    let manifest = write(&session(), &Recipe::for_writer("webdataset", other.path()).shard_size(10), 4, 4);
    assert_eq!(manifest.shards.len(), 4);
}

#[test]
fn arrays_become_members() {
    let dir = TempDir::new().unwrap();
    let (written, packed) = (dir.path().join("written"), dir.path().join("packed"));
    let (_, rows) = typed::corpus().into_iter().find(|(name, _)| *name == "tensors").unwrap();
    let mut writer = session().writer(&Recipe::for_writer("webdataset", &written), &rows.schema()).unwrap();
    writer.push(&rows).unwrap();
    writer.finish().unwrap();
    assert_whole(&written);
    let manifest = session().pack(&Recipe::new(&written, "arrow", &packed)).unwrap().manifest;
    let found = read_back(&packed, &manifest);
    assert_eq!(found.iter().map(Rows::num_rows).sum::<usize>(), rows.num_rows());
    let name = |rows: &Rows| rows.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    assert_eq!(name(&found[0]), name(&rows));
}

#[test]
fn all_verbs_take_what_was_written() {
    let dir = TempDir::new().unwrap();
    let (out, copy, repacked) = (dir.path().join("out"), dir.path().join("copy"), dir.path().join("repacked"));
    let recipe = Recipe::for_writer("webdataset", &out).samples_per_shard(10).with("name", "mine").unwrap();
    let manifest = write(&session(), &recipe, 25, 4);
    assert_eq!((manifest.samples, manifest.shards.len(), manifest.name.as_str()), (25, 3, "mine"));
    let run = |args: &[&str]| packhorse(args).succeed().said.clone();
    let shard = out.join("mine-000000.tar");
    run(&["verify", "--full", text(&out)]);
    run(&["status", text(&out)]);
    run(&["stat", text(&shard)]);
    run(&["head", text(&shard)]);
    run(&["ls", text(&out)]);
    run(&["cat", text(&shard), "class%200/photo%200.jpg"]);
    run(&["stage", text(&out), "--to", text(&copy)]);
    assert_whole(&copy);
    // Nothing is left to fill or to repair.
    run(&["pack", "--plan", text(&out)]);
    run(&["seal", text(&out)]);
    run(&["repair", text(&out)]);
    assert_whole(&out);
    run(&["pack", text(&out), "--to", "parquet", "--out", text(&repacked), "--shuffle", "3"]);
    assert_whole(&repacked);
    let dataset = packhorse::open(text(&out)).unwrap();
    assert_eq!(dataset.len(), 25);
    let mut photos = 0;
    for batch in dataset.loader(5).field("jpg", "jpg").build().unwrap() {
        photos += batch.unwrap().rows();
    }
    assert_eq!(photos, 25);
}

#[test]
fn a_damaged_shard_cannot_be_packed_again() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    write(&session(), &Recipe::for_writer("webdataset", &out).samples_per_shard(10), 25, 25);
    let shard = out.join("shard-000001.tar");
    let good = std::fs::read(&shard).unwrap();
    let mut bad = good.clone();
    bad[700] ^= 1;
    std::fs::write(&shard, &bad).unwrap();
    let found = session().verify(&out, Depth::Full).unwrap();
    assert!(!found.damages.is_empty() && !found.repairable);
    let error = session().repair(&out).unwrap_err();
    assert_eq!(error.kind(), Kind::Incomplete);
    for part in ["shard-000001", "came from a program", "copy of the dataset"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(std::fs::read(&shard).unwrap() == bad, "the damaged shard is evidence");
    std::fs::write(&shard, good).unwrap();
    std::fs::remove_file(out.join("dataset.json")).unwrap();
    session().repair(&out).unwrap();
    assert_whole(&out);
}

#[test]
fn a_bad_batch_is_refused_whole_and_the_writer_goes_on() {
    let dir = TempDir::new().unwrap();
    let mut writer = writer(&session(), &Recipe::for_writer("webdataset", dir.path()));
    writer.push(&rows(0..5)).unwrap();
    let good = rows(5..8);
    let with = |name: &str, column: ArrayRef| {
        let schema = good.schema();
        let columns = schema.fields().iter().map(|f| f.name().clone()).zip(good.columns().to_vec());
        let mut columns: Vec<(String, ArrayRef)> = columns.filter(|(known, _)| known != name).collect();
        columns.push((name.to_owned(), column));
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .unwrap()
    };
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let holes: ArrayRef = Arc::new(BinaryViewArray::from(vec![Some(&b"x"[..]), None, Some(b"y")]));
    let bad_keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "c//d"]));
    let no_keys: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("c")]));
    for (bad, kind, said) in [
        (with("png", numbers.clone()), Kind::Config, "png is not in the schema"),
        (with("jpg", numbers), Kind::Content, "jpg is Int64 here and blob in the schema"),
        (with("jpg", holes), Kind::Content, "has no value of field jpg"),
        (with(KEY, bad_keys), Kind::Content, "c//d"),
        (with(KEY, no_keys), Kind::Content, "has no key"),
        (good.project(&[0, 2]).unwrap(), Kind::Content, KEY),
        (good.project(&[1, 2]).unwrap(), Kind::Content, "jpg"),
    ] {
        let error = writer.push(&bad).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(said), "{error}, not {said}");
    }
    // A nullable column may be left out.
    writer.push(&good.project(&[0, 1]).unwrap()).unwrap();
    // Text and bytes may be of Arrow's older types.
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["p", "q", "r"]));
    let photos: ArrayRef = Arc::new(BinaryArray::from(vec![&b"1"[..], b"2", b"3"]));
    writer.push(&RecordBatch::try_from_iter([(KEY, keys), ("jpg", photos)]).unwrap()).unwrap();
    assert_eq!(writer.finish().unwrap().samples, 11);
    assert_whole(dir.path());
}

const CONTAINERS: [&str; 5] = ["webdataset", "parquet", "arrow", "hdf5", "tfrecord"];

/// Rows of values of the field `x`, in their own type.
fn field_rows(x: &Field, values: ArrayRef) -> Rows {
    let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..values.len()).map(|row| format!("k{row}"))));
    let x = x.clone().with_data_type(values.data_type().clone()).with_nullable(true);
    let schema = Schema::new(vec![FieldType::Text.field(KEY, false), x]);
    RecordBatch::try_new(Arc::new(schema), vec![keys, values]).unwrap()
}

fn field_writer(to: &str, out: &Path, x: Field) -> Writer {
    let schema = Schema::new(vec![FieldType::Text.field(KEY, false), x]);
    session().writer(&Recipe::for_writer(to, out), &Arc::new(schema)).unwrap()
}

/// No container keeps nulls inside values, nor ragged values of another shape: a push of them is an error that names the sample, and
/// the writer goes on.
#[test]
fn what_no_container_holds_is_refused_with_its_sample() {
    let dir = TempDir::new().unwrap();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        Some(vec![Some(3), None]),
        None,
    ]);
    let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        [Some(vec![Some(1), Some(2)]), Some(vec![None, Some(4)])],
        2,
    );
    let ragged_field = FieldType::Ragged { element: DataType::Int32, rank: 2 }.field("x", false);
    let ragged = |shapes: [[i32; 2]; 2]| -> ArrayRef {
        let DataType::Struct(parts) = ragged_field.data_type() else { unreachable!() };
        let (DataType::List(item), DataType::FixedSizeList(dim, _)) = (parts[0].data_type(), parts[1].data_type())
        else {
            unreachable!()
        };
        let values = Arc::new(Int32Array::from_iter_values(0..10));
        let data = ListArray::new(item.clone(), OffsetBuffer::from_lengths([4, 6]), values, None);
        let dims = Arc::new(Int32Array::from_iter_values(shapes.into_iter().flatten()));
        let shape = FixedSizeListArray::new(dim.clone(), 2, dims, None);
        Arc::new(StructArray::new(parts.clone(), vec![Arc::new(data), Arc::new(shape)], None))
    };
    let nullable = |kind: FieldType| kind.field("x", true);
    let int = || DataType::Int32;
    for to in CONTAINERS {
        let bad: [(Field, ArrayRef, ArrayRef); 3] = [
            (
                nullable(FieldType::List { element: int(), depth: 1 }),
                Arc::new(lists.clone()),
                Arc::new(lists.slice(0, 1)),
            ),
            (
                nullable(FieldType::Tensor { element: int(), shape: vec![2] }),
                Arc::new(pairs.clone()),
                Arc::new(pairs.slice(0, 1)),
            ),
            (ragged_field.clone(), ragged([[2, 2], [2, 2]]), ragged([[4, 1], [-2, -3]])),
        ];
        for (number, (field, bad, good)) in bad.into_iter().enumerate() {
            let out = dir.path().join(format!("{to}-{number}"));
            let mut writer = field_writer(to, &out, field.clone());
            let error = writer.push(&field_rows(&field, bad)).unwrap_err();
            assert_eq!(
                (error.kind(), error.sample(), error.field()),
                (Kind::Content, Some("k1"), Some("x")),
                "{error}"
            );
            if number == 2 {
                let error = writer.push(&field_rows(&field, good)).unwrap_err();
                assert_eq!(error.sample(), Some("k1"), "{error}");
                writer.push(&field_rows(&field, ragged([[2, 2], [3, 2]]))).unwrap();
            } else {
                writer.push(&field_rows(&field, good)).unwrap();
            }
            writer.finish().unwrap();
            assert_whole(&out);
        }
    }
}

/// Arrow has several types for the same values, and its builders make lists whose elements may be null.
#[test]
fn values_may_come_in_any_type_of_arrow_that_holds_them() {
    let dir = TempDir::new().unwrap();
    let lists = || ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), Some(vec![])]);
    let pairs = || {
        FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>([Some([1, 2].map(Some)), Some([3, 4].map(Some))], 2)
    };
    let words: Vec<&str> = vec!["a", "b"];
    let text = |data_type: DataType| Field::new("x", data_type, false);
    let own = |kind: FieldType| kind.field("x", false);
    let cases: Vec<(Field, Vec<ArrayRef>)> = vec![
        (own(FieldType::List { element: DataType::Int32, depth: 1 }), vec![Arc::new(lists())]),
        (Field::new("x", lists().data_type().clone(), false), vec![Arc::new(lists())]),
        (own(FieldType::Tensor { element: DataType::Int32, shape: vec![2] }), vec![Arc::new(pairs())]),
        (
            text(DataType::Utf8),
            vec![
                Arc::new(StringArray::from(words.clone())),
                Arc::new(LargeStringArray::from(words.clone())),
                Arc::new(StringViewArray::from(words.clone())),
            ],
        ),
        (text(DataType::LargeUtf8), vec![Arc::new(LargeStringArray::from(words.clone()))]),
        (
            own(FieldType::Blob),
            vec![
                Arc::new(BinaryArray::from_iter_values(&words)),
                Arc::new(LargeBinaryArray::from_iter_values(&words)),
                Arc::new(BinaryViewArray::from_iter_values(&words)),
            ],
        ),
    ];
    for to in CONTAINERS {
        for (number, (field, arrays)) in cases.iter().enumerate() {
            let out = dir.path().join(format!("{to}-{number}"));
            let mut writer = field_writer(to, &out, field.clone());
            for (batch, array) in arrays.iter().enumerate() {
                let keys: ArrayRef =
                    Arc::new(StringViewArray::from_iter_values((0..2).map(|row| format!("{batch}-{row}"))));
                writer.push(&RecordBatch::try_from_iter([(KEY, keys), ("x", array.clone())]).unwrap()).unwrap();
            }
            let manifest = writer.finish().unwrap();
            assert_eq!(manifest.samples, 2 * arrays.len() as u64, "{to} {number}");
            assert_whole(&out);
            if ["parquet", "arrow"].contains(&to) {
                let found = read_back(&out, &manifest);
                let values: String =
                    found.iter().map(|rows| format!("{:?}", rows.column_by_name("x").unwrap())).collect();
                let wanted: &[&str] = if number < 3 { &["1"] } else { &["a", "b"] };
                let blobs = number == 5;
                let shown = |value: &&str| if blobs { format!("{:?}", value.as_bytes()) } else { (*value).to_owned() };
                assert!(
                    wanted.iter().all(|value| values.matches(&shown(value)).count() >= arrays.len()),
                    "{to} {values}"
                );
            }
        }
    }
}

#[test]
fn one_key_twice_is_an_error_and_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let recipe = Recipe::for_writer("webdataset", dir.path()).samples_per_shard(3);
    let mut writer = writer(&session(), &recipe);
    writer.push(&rows(0..5)).unwrap();
    let twice = "class%201/photo%201".to_owned();
    writer.push(&rows_of([(twice, b"x".to_vec(), String::new())].into_iter())).unwrap();
    let error = writer.finish().unwrap_err();
    assert_eq!(error.code(), Code::KeyTwice, "{error}");
    assert_eq!(names(dir.path()), [""; 0]);
    write(&session(), &recipe, 5, 2);
    assert_whole(dir.path());
}

#[test]
fn a_program_that_ends_early_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let recipe = Recipe::for_writer("webdataset", dir.path()).samples_per_shard(4);
    let mut dropped = writer(&session(), &recipe);
    dropped.push(&rows(0..30)).unwrap();
    assert_eq!(names(dir.path()), [".staging"]);
    drop(dropped);
    assert_eq!(names(dir.path()), [""; 0]);
    let error = writer(&session(), &recipe).finish().unwrap_err();
    assert!(error.kind() == Kind::Config && error.to_string().contains("no sample"), "{error}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_request_to_stop_ends_it() {
    let dir = TempDir::new().unwrap();
    let cancel = Cancel::default();
    let mut writer = writer(&session().cancel(cancel.clone()), &Recipe::for_writer("webdataset", dir.path()));
    writer.push(&rows(0..30)).unwrap();
    cancel.cancel();
    assert_eq!(writer.push(&rows(30..31)).unwrap_err().kind(), Kind::Cancelled);
    assert_eq!(writer.finish().unwrap_err().kind(), Kind::Cancelled);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_fault_below_is_said_and_leaves_no_dataset() {
    const ENOSPC: i32 = 28;
    let mut failed = 0;
    for kind in [CallKind::Create, CallKind::Write, CallKind::Sync, CallKind::Rename, CallKind::SyncDir] {
        for number in 0.. {
            let dir = TempDir::new().unwrap();
            let count = std::sync::atomic::AtomicUsize::new(0);
            let chosen = move |call: &packhorse_testkit::faults::Call<'_>| {
                call.kind == kind && count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == number
            };
            let store = FailingStore::new(Arc::new(Local), chosen, StoreFault::Errno(ENOSPC));
            let session = session().store(Arc::new(store.clone()));
            let recipe = Recipe::for_writer("webdataset", dir.path()).samples_per_shard(8);
            let done = session.writer(&recipe, &schema()).and_then(|mut writer| {
                for i in 0..4 {
                    writer.push(&rows(i * 5..i * 5 + 5))?;
                }
                writer.finish()
            });
            if store.hit().is_empty() {
                done.unwrap();
                break;
            }
            if let Err(e) = done {
                assert_eq!(e.kind(), Kind::Environment, "{kind:?} {number}: {e}");
                failed += 1;
                let manifest = Manifest::read(&Local, dir.path()).ok().flatten();
                // Only the sync after its rename can fail once the manifest is there.
                assert!(manifest.is_none() || kind == CallKind::SyncDir, "{kind:?} {number}: a manifest is left");
            }
            if names(dir.path()).is_empty() {
                write(&packhorse::session(), &recipe, 20, 20);
            }
        }
    }
    assert!(failed > 20, "only {failed} runs failed");
}

#[test]
fn a_folder_with_other_files_is_refused_or_replaced() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    let recipe = Recipe::for_writer("webdataset", &out).samples_per_shard(4);
    let first = write(&session(), &recipe, 9, 9);
    let refused = |session: &Session, out: &Path| {
        let error = session.writer(&Recipe::for_writer("webdataset", out), &schema()).err().unwrap();
        assert!(error.kind() == Kind::Config && error.code() == Code::OutputExists, "{error}");
    };
    refused(&session(), &out);
    let others = dir.path().join("others");
    std::fs::create_dir(&others).unwrap();
    std::fs::write(others.join("mine.txt"), "x").unwrap();
    refused(&session(), &others);
    refused(&session().replacing(true), &others);

    let mut dropped = writer(&session().replacing(true), &recipe);
    dropped.push(&rows(0..3)).unwrap();
    // Two writers of one folder at once.
    assert_eq!(session().replacing(true).writer(&recipe, &schema()).err().unwrap().kind(), Kind::Environment);
    drop(dropped);
    assert_whole(&out);
    assert_eq!(Manifest::read(&Local, &out).unwrap().unwrap().root, first.root);
    let recipe = Recipe::for_writer("parquet", &out);
    let second = write(&session().replacing(true), &recipe, 7, 2);
    assert_whole(&out);
    assert_eq!(Manifest::read(&Local, &out).unwrap().unwrap(), second);
    assert!(!names(&out).iter().any(|name| name.ends_with(".tar")), "{:?}", names(&out));
}

#[test]
fn settings_of_inputs_and_of_whole_datasets_are_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let base = || Recipe::for_writer("webdataset", dir.path().join("out"));
    let with = |name: &str, value: &str| base().with(name, value).unwrap();
    let again = "pack that again";
    for (recipe, name, hint) in [
        (base().shuffle(1), "shuffle", again),
        (with("split", "train=0.5,val=0.5"), "split", again),
        (with("dedup", "true"), "dedup", again),
        (with("shard-count", "3"), "shard-count", again),
        (base().image("resize=10"), "image", again),
        (with("field", "a=b"), "field", again),
        (base().tokenizer("t.json"), "tokenizer", again),
        (Recipe::new("x", "webdataset", dir.path().join("out")), "input", "leave it out"),
        (base().on_error(OnError::Skip), "on-error", "leave it out"),
        (with("labels", "folders"), "labels", "leave it out"),
    ] {
        let error = session().writer(&recipe, &schema()).err().unwrap();
        let told = error.to_string();
        assert!(error.kind() == Kind::Config && told.contains(&format!("`{name}`")) && told.contains(hint), "{told}");
    }
    assert!(!dir.path().join("out").exists());
}

#[test]
fn schemas_that_are_not_those_of_samples_are_refused() {
    let dir = TempDir::new().unwrap();
    let key = || FieldType::Text.field(KEY, false);
    let recipe = Recipe::for_writer("webdataset", dir.path().join("out"));
    for (fields, kind, said) in [
        (vec![FieldType::Blob.field("jpg", false)], Kind::Config, KEY),
        (vec![key()], Kind::Config, "only"),
        (
            vec![key(), FieldType::Blob.field("a", false), FieldType::Blob.field("a", false)],
            Kind::Config,
            "two fields a",
        ),
        (vec![key(), packhorse::core::Field::new("m", DataType::Null, true)], Kind::Config, "m"),
        (vec![key(), FieldType::Blob.field("a", false), FieldType::Blob.field("A", false)], Kind::Config, "case"),
    ] {
        let error = session().writer(&recipe, &Arc::new(Schema::new(fields))).err().unwrap();
        assert!(error.kind() == kind && error.to_string().contains(said), "{error}, not {said}");
    }
    assert!(!dir.path().join("out").exists());
}

#[test]
fn class_names_come_with_the_schema_or_in_a_file() {
    let dir = TempDir::new().unwrap();
    let fields = vec![
        FieldType::Text.field(KEY, false),
        FieldType::Scalar(DataType::Int64).field("cls", false),
        FieldType::Blob.field("jpg", false),
    ];
    let bare = Arc::new(Schema::new(fields.clone()));
    let named = Schema::new_with_metadata(fields, [(CLASSES.to_owned(), r#"["cat","dog"]"#.to_owned())]);
    let labels = |labels: &[i64]| {
        let columns: [ArrayRef; 3] = [
            Arc::new(StringViewArray::from_iter_values(labels.iter().enumerate().map(|(i, _)| format!("k{i}")))),
            Arc::new(Int64Array::from(labels.to_vec())),
            Arc::new(BinaryViewArray::from_iter_values(labels.iter().map(|_| b"x"))),
        ];
        RecordBatch::try_new(bare.clone(), columns.to_vec()).unwrap()
    };
    let list = dir.path().join("classes.txt");
    std::fs::write(&list, "cat\ndog\n").unwrap();
    for (to, schema, file) in [("webdataset", Arc::new(named), false), ("hdf5", bare.clone(), true)] {
        let out = dir.path().join(to);
        let mut recipe = Recipe::for_writer(to, &out);
        if file {
            recipe = recipe.with("classes", &list).unwrap();
        }
        let mut writer = session().writer(&recipe, &schema).unwrap();
        let error = writer.push(&labels(&[0, 2])).unwrap_err();
        assert!(error.sample() == Some("k1") && error.to_string().contains("2 classes"), "{error}");
        writer.push(&labels(&[0, 1, 1])).unwrap();
        assert_eq!(writer.finish().unwrap().classes, ["cat", "dog"]);
        assert_whole(&out);
        assert_eq!(packhorse::open(text(&out)).unwrap().classes(), ["cat", "dog"]);
    }
    let without = with_metadata(FieldType::Blob.field("jpg", false), "a", "b");
    let schema = Arc::new(Schema::new(vec![FieldType::Text.field(KEY, false), without]));
    let recipe = Recipe::for_writer("webdataset", dir.path().join("none")).with("classes", &list).unwrap();
    assert!(session().writer(&recipe, &schema).err().unwrap().to_string().contains("cls"));
}
