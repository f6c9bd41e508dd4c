//! Several values a sample: lists in lists, and the pictures of one sample, in batches and in tars.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
}

use arrow_array::builder::{BinaryViewBuilder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use common::process::{Ended, packhorse};
use packhorse::core::{DataType, FieldType, HUGGINGFACE, KEY, Options, Rows, Schema, bytes_of, with_metadata};
use packhorse::gpu::transforms::Pictures;
use packhorse::gpu::{DeviceTransform, Simulated, Upload};
use packhorse::read::order::Shuffle;
use packhorse::read::*;
use packhorse::transform::image::{Size, View};
use packhorse_testkit::typed;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn pack(input: &Path, to: &str, out: &Path, more: &[&str]) -> Ended {
    packhorse(&[&["pack", text(input), "--to", to, "--out", text(out)], more].concat()).run()
}

/// A shard of the format `arrow`.
fn written(rows: &Rows, dir: &Path) -> PathBuf {
    let sink = packhorse::registry().get("arrow").unwrap().sink(&Options::new()).unwrap();
    let path = dir.join("in.arrow");
    fs::write(&path, &typed::write(&*sink, rows, &[rows.num_rows()])[".arrow"]).unwrap();
    path
}

fn batches(dataset: &Path, fields: &[FieldOptions], shuffle: Shuffle) -> packhorse::core::Result<Vec<Batch<HostSlab>>> {
    let options = LoaderOptions {
        shuffle: Some(shuffle),
        remainder: Remainder::Uneven,
        epochs: Some(1),
        threads: 2,
        ..LoaderOptions::new(5)
    };
    Loader::new(packhorse::open(text(dataset))?, fields, &options, Host::default())?.collect()
}

/// The innermost values of a list, and the lengths of the lists at each level, the innermost first.
fn flat(list: ArrayRef) -> (ArrayRef, Vec<Vec<i64>>) {
    let lengths = |offsets: &[i32]| offsets.windows(2).map(|ends| i64::from(ends[1] - ends[0])).collect();
    match list.as_list_opt::<i32>() {
        Some(inner) => {
            let (from, to) = (inner.value_offsets()[0], *inner.value_offsets().last().unwrap());
            let (values, mut found) = flat(inner.values().slice(from as usize, (to - from) as usize));
            found.push(lengths(inner.value_offsets()));
            (values, found)
        }
        None => match list.as_binary_view_opt() {
            Some(bytes) => (Arc::clone(&list), vec![bytes.lengths().map(i64::from).collect()]),
            None => (list, Vec::new()),
        },
    }
}

fn bytes(values: &ArrayRef) -> Vec<u8> {
    match values.as_binary_view_opt() {
        Some(blobs) => blobs.iter().flatten().flatten().copied().collect(),
        None => bytes_of(values).unwrap().to_vec(),
    }
}

#[test]
fn lists_in_lists_are_values_and_lengths() {
    let dir = tempfile::tempdir().unwrap();
    for (name, rows) in typed::corpus().into_iter().filter(|(name, _)| ["lists", "pictures"].contains(name)) {
        let keys = rows.column_by_name(KEY).unwrap().as_string_view();
        let fields = rows.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let fields: Vec<&String> = fields.iter().filter(|name| !["l_words", KEY].contains(&name.as_str())).collect();
        let asked = fields.iter().map(|name| FieldOptions::new(name.as_str(), FieldKind::Auto));
        let asked: Vec<FieldOptions> = asked.map(|field| FieldOptions { required: false, ..field }).collect();
        let input = written(&rows, dir.path());
        for to in ["parquet", "arrow", "hdf5", "tfrecord"] {
            let out = dir.path().join(format!("{name}-{to}"));
            assert_eq!(pack(&input, to, &out, &["--samples-per-shard", "9"]).code(), 0);
            let found = batches(&out, &asked, Shuffle::Full).unwrap();
            assert_eq!(found.iter().map(Batch::rows).sum::<usize>(), rows.num_rows());
            for (batch, row) in found.iter().flat_map(|batch| (0..batch.rows()).map(move |row| (batch, row))) {
                let at = keys.iter().position(|key| key == batch.key(row)).unwrap();
                for field in &fields {
                    let lists = rows.column_by_name(field).unwrap().as_list::<i32>();
                    let empty = lists.value(at).slice(0, 0);
                    let (values, lengths) = flat(if lists.is_null(at) { empty } else { lists.value(at) });
                    assert_eq!(batch.row(field, row).unwrap(), bytes(&values), "{to}: {field} of sample {at}");
                    let mut part = (*field).clone();
                    for lengths in lengths {
                        part.push_str(".lengths");
                        let wanted: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
                        assert_eq!(batch.row(&part, row).unwrap(), wanted, "{to}: {part} of sample {at}");
                    }
                    assert!(batch.layout().field(&format!("{part}.lengths")).is_none());
                }
            }
        }
    }
}

/// So many JPEGs of several sizes.
fn jpegs(dir: &Path, count: usize) -> Vec<Vec<u8>> {
    let (folder, number) = (dir.join("photos"), count.to_string());
    assert_eq!(packhorse(&["synth", "images", "--count", &number, "--out", text(&folder)]).run().code(), 0);
    let mut files = Vec::new();
    for class in fs::read_dir(folder).unwrap() {
        let of_class = fs::read_dir(class.unwrap().path()).unwrap();
        files.extend(
            of_class.map(|file| file.unwrap().path()).filter(|file| file.extension().is_some_and(|e| e == "jpg")),
        );
    }
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// A table of samples with so many of the pictures each.
fn table(samples: &[&[Vec<u8>]], dir: &Path) -> PathBuf {
    let mut lists = ListBuilder::new(BinaryViewBuilder::new());
    for sample in samples {
        sample.iter().for_each(|picture| lists.values().append_value(picture));
        lists.append(true);
    }
    let keys = StringViewArray::from_iter_values((0..samples.len()).map(|at| format!("s{at}")));
    let feature = r#"{"_type":"List","feature":{"_type":"Image"}}"#;
    let images = FieldType::List { element: DataType::BinaryView, depth: 1 }.field("images", true);
    let fields = vec![FieldType::Text.field(KEY, false), with_metadata(images, HUGGINGFACE, feature)];
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(lists.finish())];
    let schema = Schema::new(fields);
    let columns = columns.into_iter().zip(schema.fields()).map(|(column, field)| match column.as_list_opt::<i32>() {
        Some(lists) => {
            let DataType::List(item) = field.data_type() else { unreachable!("{field}") };
            let (_, offsets, values, nulls) = lists.clone().into_parts();
            Arc::new(arrow_array::ListArray::new(item.clone(), offsets, values, nulls))
        }
        None => column,
    });
    written(&RecordBatch::try_new(Arc::new(schema.clone()), columns.collect()).unwrap(), dir)
}

#[test]
fn several_pictures_a_sample_are_decoded_and_a_bad_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut photos = jpegs(dir.path(), 8);
    let view = View { size: Size::Squash { height: 20, width: 30 }, ..View::default() };
    let fields = [FieldOptions::new("pixels", FieldKind::Picture(view)).from("images")];
    let input = table(&[&photos[..3], &[], &photos[3..4], &photos[4..6]], dir.path());
    let alone = table(&[&photos[..1], &photos[1..2], &photos[2..3], &photos[3..4], &photos[4..5], &photos[5..6]], &{
        let alone = dir.path().join("alone");
        fs::create_dir_all(&alone).unwrap();
        alone
    });
    for to in ["parquet", "hdf5"] {
        let pixels = |input: &Path, name: &str| {
            let out = dir.path().join(format!("{name}-{to}"));
            assert_eq!(pack(input, to, &out, &[]).code(), 0);
            let found = batches(&out, &fields, Shuffle::Sequential).unwrap();
            let all = found.iter().flat_map(|batch| batch.field("pixels").unwrap().to_vec()).collect::<Vec<u8>>();
            (
                all,
                found.iter().flat_map(|batch| batch.integers("pixels.offsets").collect::<Vec<_>>()).collect::<Vec<_>>(),
            )
        };
        let ((several, offsets), (single, _)) = (pixels(&input, "several"), pixels(&alone, "alone"));
        assert_eq!((several.len(), offsets), (6 * 20 * 30 * 3, vec![0, 3, 3, 4, 6]));
        assert!(several == single && several.iter().any(|pixel| *pixel > 99));
    }
    let second = packhorse(&["cat", text(&dir.path().join("several-hdf5")), "s3.images.1"]).0.output().unwrap();
    assert!(second.status.success() && second.stdout == photos[5], "{}", String::from_utf8_lossy(&second.stderr));
    let keeps = [FieldOptions::new("images", FieldKind::Picture(View::default()))];
    let error = batches(&dir.path().join("several-hdf5"), &keeps, Shuffle::Sequential).unwrap_err();
    assert!(error.to_string().contains("give a view of one size"), "{error}");
    photos[4].truncate(300);
    let out = dir.path().join("bad");
    assert_eq!(pack(&table(&[&photos[..3], &photos[3..6]], dir.path()), "parquet", &out, &[]).code(), 0);
    let error = batches(&out, &fields, Shuffle::Sequential).unwrap_err();
    assert_eq!(error.sample(), Some("s1"));
    assert!(error.to_string().contains("picture 1 of the list"), "{error}");
}

/// Records do not tell whether a feature that has one value in each of them is a list: other files do.
#[test]
fn single_values_are_lists_where_other_records_have_lists() {
    let dir = tempfile::tempdir().unwrap();
    let records = dir.path().join("records");
    fs::create_dir(&records).unwrap();
    let single = [r#"{"n": [1], "tags": ["x"], "v": [1.5]}"#, r#"{"n": [2], "tags": ["y"], "v": [2.5]}"#];
    let several =
        [r#"{"n": [3, 4], "tags": ["a", "b"], "v": [1.0, 2.0]}"#, r#"{"n": [], "tags": ["c"], "v": [3.0, 4.0]}"#];
    let written = |name: &str, lines: &[&str]| {
        let (json, out) = (dir.path().join(format!("{name}.jsonl")), dir.path().join(name));
        fs::write(&json, lines.join("\n")).unwrap();
        assert_eq!(pack(&json, "tfrecord", &out, &["--from", "jsonl"]).code(), 0);
        // Without the documents beside it.
        let path = records.join(format!("{name}.tfrecord"));
        fs::copy(out.join("shard-000000.tfrecord"), &path).unwrap();
        path
    };
    let (a, b) = (written("a", &single), written("b", &several));
    let shown = |dataset: &Path| packhorse(&["head", text(dataset), "-n", "9"]).run().printed;
    for (name, input) in [("whole", &records), ("rest", &b)] {
        let out = dir.path().join(name);
        let ended = pack(input, "parquet", &out, &[]);
        assert_eq!(ended.code(), 0, "{ended:?}");
        if name == "rest" {
            let ended = packhorse(&["append", text(&out), text(&a)]).run();
            assert_eq!(ended.code(), 0, "{ended:?}");
        }
        let shown = shown(&out);
        for value in
            ["n: [1] Int64[1]", "n: [2] Int64[1]", "n: [3, 4] Int64[2]", "n: [] Int64[0]", r#"tags: ["x"] text[1]"#]
        {
            assert!(shown.contains(value), "{name}: no {value} in {shown}");
        }
    }
    // Text by chance, single text, and bytes.
    let mixed = dir.path().join("mixed");
    fs::create_dir(&mixed).unwrap();
    fs::rename(&a, mixed.join("a.tfrecord")).unwrap();
    fs::rename(&b, mixed.join("b.tfrecord")).unwrap();
    let photos = [vec![0xff, 0xd8], vec![0xfe], vec![0]];
    let frames = dir.path().join("frames");
    let renamed = ["--field", "images=tags"];
    assert_eq!(pack(&table(&[&photos[..2], &photos[2..]], dir.path()), "tfrecord", &frames, &renamed).code(), 0);
    fs::copy(frames.join("shard-000000.tfrecord"), mixed.join("c.tfrecord")).unwrap();
    let out = dir.path().join("bytes");
    let ended = pack(&mixed, "parquet", &out, &["--fill-missing"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    for value in ["tags: [1 B] blob[1]", "tags: [1 B, 1 B] blob[2]", "tags: [2 B, 1 B] blob[2]"] {
        assert!(shown(&out).contains(value), "no {value} in {}", shown(&out));
    }
    let a = mixed.join("a.tfrecord");
    // Alone they are single values.
    let alone = dir.path().join("alone");
    assert_eq!(pack(&a, "parquet", &alone, &[]).code(), 0);
    assert!(shown(&alone).contains("n: 1\n"), "{}", shown(&alone));
}

/// A step of a GPU makes rows of a batch, of which such a field has none.
#[test]
fn a_gpu_gets_pictures_in_lists_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let photos = jpegs(dir.path(), 4);
    let out = dir.path().join("out");
    assert_eq!(pack(&table(&[&photos[..3], &[], &photos[3..]], dir.path()), "arrow", &out, &[]).code(), 0);
    let view = View { size: Size::Squash { height: 8, width: 8 }, ..View::default() };
    let fields = [FieldOptions::new("pixels", FieldKind::Picture(view)).from("images")];
    let fields = [&fields[..], &[FieldOptions::new("images", FieldKind::Bytes)]].concat();
    let options =
        LoaderOptions { shuffle: Some(Shuffle::Sequential), epochs: Some(1), threads: 1, ..LoaderOptions::new(3) };
    let dataset = packhorse::open(text(&out)).unwrap();
    let loader = |steps: Vec<Arc<dyn DeviceTransform>>| {
        Loader::new(dataset.clone(), &fields, &options, Upload::with_transforms(Simulated::new(), steps).unwrap())
    };
    let sent = loader(Vec::new()).unwrap().next().unwrap().unwrap();
    let host = batches(&out, &fields, Shuffle::Sequential).unwrap();
    for name in ["pixels", "pixels.offsets", "images", "images.lengths", "images.lengths.offsets"] {
        assert!(sent.download(name).unwrap() == host[0].field(name).unwrap(), "{name}");
    }
    let error = loader(vec![Arc::new(Pictures::new("pixels"))]).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("several pictures a sample"), "{error}");
}

#[test]
fn the_values_of_a_list_are_members_of_a_tar() {
    let dir = tempfile::tempdir().unwrap();
    let photos = jpegs(dir.path(), 5);
    let input = table(&[&photos[..3], &[], &photos[3..4]], dir.path());
    let out = dir.path().join("tar");
    let refused = pack(&input, "webdataset", &out, &[]);
    assert!(refused.code() != 0 && refused.said.contains("--spread images=N"), "{refused:?}");
    let asked = ["--field", "images=images.jpg", "--on-error", "skip", "--spread"];
    let few = pack(&input, "webdataset", &out, &[&asked[..], &["images=2"]].concat());
    assert!(few.said.contains("--spread images=3"), "{few:?}");
    fs::remove_dir_all(&out).unwrap();
    assert_eq!(pack(&input, "webdataset", &out, &[&asked[..], &["images=3"]].concat()).code(), 0);
    let dataset = packhorse::open(text(&out)).unwrap();
    let names: Vec<&str> = dataset.schema().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["images.0.jpg", "images.1.jpg", "images.2.jpg"]);
    let fields =
        names.iter().map(|name| FieldOptions { required: false, ..FieldOptions::new(*name, FieldKind::Bytes) });
    let found = batches(&out, &fields.collect::<Vec<_>>(), Shuffle::Sequential).unwrap();
    let row = |row: usize| names.iter().map(|name| found[0].row(name, row).unwrap().to_vec()).collect::<Vec<_>>();
    // A tar holds no sample without a member.
    assert_eq!((found[0].rows(), row(0)), (2, photos[..3].to_vec()));
    assert_eq!(row(1), [photos[3].clone(), Vec::new(), Vec::new()]);
}
