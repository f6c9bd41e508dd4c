//! Tables of few rows: their splits, their order, their keys, and files that lie beside them.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use arrow_array::builder::{ListBuilder, NullBuilder};
use arrow_array::types::Int64Type;
use arrow_array::{
    Array as _, ArrayRef, BinaryArray, ListArray, RecordBatch, StringArray, StructArray, TimestampSecondArray,
};
use packhorse::core::{DataType, Event, Field, FieldType, Observer};
use packhorse::dataset::Manifest;
use packhorse::pack::Depth;
use packhorse::read::{Dataset, LoaderOptions, Remainder, order};
use packhorse::{OnError, Recipe, Shuffle, Splits};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A table of `rows` numbered rows, with a key each where `keys` says how they begin.
fn table(dir: &Path, name: &str, rows: std::ops::Range<u32>, keys: Option<&str>) -> PathBuf {
    let path = dir.join(name);
    let lines = rows.map(|row| match keys {
        Some(start) => format!("{start}{row:05},{row}\n"),
        None => format!("text {row},{row}\n"),
    });
    let header = if keys.is_some() { "__key__,x\n" } else { "text,x\n" };
    std::fs::write(&path, lines.fold(header.to_owned(), |all, line| all + &line)).unwrap();
    path
}

fn recipe(input: &Path, out: &Path) -> Recipe {
    Recipe::new(input, "parquet", out)
}

fn manifest(out: &Path) -> Manifest {
    Manifest::decode(&std::fs::read(out.join("dataset.json")).unwrap()).unwrap()
}

/// The keys of all samples, in order.
fn keys(dataset: &Dataset) -> Vec<String> {
    let (shuffle, remainder) = (order::Shuffle::Sequential, Remainder::Uneven);
    let options = LoaderOptions {
        shuffle: Some(shuffle),
        remainder,
        ..LoaderOptions::new(u32::try_from(dataset.len()).unwrap())
    };
    dataset.batch_samples(0, &options).unwrap().samples.into_iter().map(|sample| sample.key).collect()
}

fn splits(recipe: &Recipe) -> BTreeMap<String, u64> {
    packhorse::session().pack(recipe).unwrap();
    let manifest = manifest(recipe.out.as_ref().unwrap());
    manifest.splits.iter().map(|split| (split.name.clone(), split.samples)).collect()
}

#[test]
fn splits_have_their_shares_of_rows() {
    let dir = tempfile::tempdir().unwrap();
    for rows in [500, 30_000] {
        let input = table(dir.path(), &format!("{rows}.csv"), 0..rows, None);
        for (by, shuffle) in [("hash", Shuffle::No), ("hash", Shuffle::Global { seed: 7 }), ("order", Shuffle::No)] {
            let out = dir.path().join(format!("{rows}-{by}-{shuffle}"));
            let recipe = recipe(&input, &out).split("train=0.9,val=0.1".parse().unwrap());
            let found = splits(&Recipe { shuffle, split_by: by.parse().unwrap(), ..recipe });
            let (train, val) = (found["train"], found["val"]);
            assert_eq!(train + val, u64::from(rows), "each row once");
            let wanted = f64::from(rows) * 0.1;
            match by {
                "order" => assert_eq!(val as f64, wanted),
                // Five standard deviations of a thousand pieces.
                _ => assert!((val as f64 - wanted).abs() < f64::from(rows) * 0.05 + 5.0, "{val} of {rows} rows"),
            }
        }
    }
}

#[test]
fn splits_by_hash_stay_when_tables_are_added() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = dir.path().join("in");
    std::fs::create_dir(&inputs).unwrap();
    let split = |out: &str| {
        let out = dir.path().join(out);
        packhorse::session()
            .pack(
                &Recipe { from: Some("csv".to_owned()), ..recipe(&inputs, &out) }.split("a=0.5,b=0.5".parse().unwrap()),
            )
            .unwrap();
        let dataset = packhorse::open(out.to_str().unwrap()).unwrap();
        (keys(&dataset.split("a").unwrap()), keys(&dataset.split("b").unwrap()))
    };
    table(&inputs, "one.csv", 0..400, None);
    let (a, b) = split("first");
    table(&inputs, "two.csv", 0..3000, None);
    let (more_a, more_b) = split("second");
    assert!(a.iter().all(|key| more_a.contains(key)) && b.iter().all(|key| more_b.contains(key)));
}

#[test]
fn rows_of_a_small_table_are_shuffled() {
    let dir = tempfile::tempdir().unwrap();
    let input = table(dir.path(), "t.csv", 0..1000, Some("k"));
    let packed = |shuffle: Shuffle, out: &str| {
        let out = dir.path().join(out);
        packhorse::session().pack(&Recipe { shuffle, ..recipe(&input, &out) }).unwrap();
        keys(&packhorse::open(out.to_str().unwrap()).unwrap())
    };
    let sorted = packed(Shuffle::No, "sorted");
    let shuffled = packed(Shuffle::Global { seed: 7 }, "shuffled");
    assert_ne!(sorted, shuffled);
    let moved = sorted.iter().zip(&shuffled).filter(|(a, b)| a != b).count();
    assert!(moved > 900, "only {moved} of 1000 rows moved");
    let mut again = shuffled;
    again.sort();
    assert_eq!(again, sorted, "each row once");
}

#[test]
fn sealed_tables_with_keys_of_their_own_go_together() {
    let dir = tempfile::tempdir().unwrap();
    let sealed = |name: &str, rows: std::ops::Range<u32>| {
        let out = dir.path().join(name);
        let input = table(dir.path(), &format!("{name}.csv"), rows, Some("k"));
        packhorse::session().pack(&recipe(&input, &out)).unwrap();
        out
    };
    // Both have a shard of one name.
    let (one, two) = (sealed("one", 0..5), sealed("two", 5..9));
    for to in ["parquet", "webdataset"] {
        let out = dir.path().join(to);
        let both = Recipe { input: vec![one.clone(), two.clone()], ..Recipe::new(&one, to, &out) };
        packhorse::session().pack(&both).unwrap();
        assert_eq!(manifest(&out).samples, 9);
        assert!(packhorse::session().verify(&out, Depth::Full).unwrap().damages.is_empty());
    }
}

#[test]
fn names_of_columns_come_back_from_tars() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("t.csv");
    std::fs::write(&input, "speed m/s,Age,a;b\n1.5,3,2\n2.5,4,5\n").unwrap();
    let out = dir.path().join("out");
    packhorse::session().pack(&Recipe::new(&input, "webdataset", &out)).unwrap();
    assert!(packhorse::session().verify(&out, Depth::Full).unwrap().damages.is_empty());
}

#[test]
fn what_describes_a_folder_of_arrow_files_is_no_sample() {
    let dir = tempfile::tempdir().unwrap();
    let input = table(dir.path(), "t.csv", 0..6, None);
    let packed = dir.path().join("packed");
    packhorse::session().pack(&Recipe::new(&input, "arrow", &packed)).unwrap();
    // As `save_to_disk` of Hugging Face leaves a dataset of two splits.
    let saved = dir.path().join("saved");
    for split in ["train", "test"] {
        std::fs::create_dir_all(saved.join(split)).unwrap();
        std::fs::copy(packed.join("shard-000000.arrow"), saved.join(split).join("data-00000-of-00001.arrow")).unwrap();
        for name in ["dataset_info.json", "state.json"] {
            std::fs::write(saved.join(split).join(name), "{}").unwrap();
        }
    }
    std::fs::write(saved.join("dataset_dict.json"), "{\"splits\": [\"train\", \"test\"]}").unwrap();
    let out = dir.path().join("out");
    packhorse::session().pack(&recipe(&saved, &out)).unwrap();
    assert_eq!(manifest(&out).samples, 12);
}

/// The columns of a dataset may be null, or not, and so may those of the rows that are added.
#[test]
fn rows_that_lack_a_value_are_added_where_the_dataset_may_lack_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name)
    };
    let session = packhorse::session();
    let (first, out) = (file("a.csv", "user,score\n1,\n2,3\n"), dir.path().join("out"));
    session.pack(&recipe(&first, &out)).unwrap();
    // A column that is missing altogether is told, as by a pack of both files.
    let lacking = Recipe { input: vec![file("b.csv", "user\n3\n")], ..Recipe::default() };
    let error = session.append(&out, &lacking).unwrap_err().to_string();
    assert!(
        error.contains("the dataset has the field score, which the new samples lack; pass `fill-missing`"),
        "{error}"
    );
    session.append(&out, &Recipe { fill_missing: true, ..lacking }).unwrap();
    // Each row of this dataset has a score. In a table that says that it may be null, each row may have one too.
    let (whole, nullable) = (file("c.csv", "user,score\n1,2\n"), dir.path().join("nullable"));
    let more = file("d.csv", "user,score\n5,6\n7,\n");
    session.pack(&recipe(&whole, &dir.path().join("whole"))).unwrap();
    session.pack(&recipe(&more, &nullable)).unwrap();
    let add = |input: PathBuf| Recipe { input: vec![input], ..Recipe::default() };
    let error = session.append(dir.path().join("whole"), &add(more)).unwrap_err().to_string();
    assert!(error.contains("the field score is missing in some of the new samples"), "{error}");
    let shard = |out: &Path| out.join("shard-000000.parquet");
    let error = session.append(dir.path().join("whole"), &add(shard(&nullable))).unwrap_err().to_string();
    assert!(error.contains("score is missing, and the plan expects it in every sample"), "{error}");
    // After that one the dataset takes others.
    let full = file("e.csv", "user,score\n8,9\n");
    session.clone().replacing(true).append(dir.path().join("whole"), &add(full)).unwrap();
    assert_eq!(manifest(&dir.path().join("whole")).samples, 2);
}

/// Dropped columns need not be in each table.
#[test]
fn tables_may_lack_what_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    std::fs::write(dir.path().join("in/a.csv"), "id,x,target\n1,2,3\n").unwrap();
    std::fs::write(dir.path().join("in/b.csv"), "id,x\n4,5\n").unwrap();
    let recipe =
        |out: &str| Recipe { from: Some("csv".to_owned()), ..recipe(&dir.path().join("in"), &dir.path().join(out)) };
    let session = packhorse::session();
    assert!(session.pack(&recipe("all")).unwrap_err().to_string().contains("has other columns"));
    session.pack(&Recipe { drop: vec!["target".to_owned()], ..recipe("dropped") }).unwrap();
    session.pack(&Recipe { field: vec!["id".to_owned()], ..recipe("chosen") }).unwrap();
    assert_eq!(manifest(&dir.path().join("chosen")).samples, 2);
}

/// A day without a row has a header, whose types nothing tells.
#[test]
fn a_table_without_rows_fits_the_types_of_others() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    std::fs::write(dir.path().join("in/a.csv"), "id,x\n").unwrap();
    std::fs::write(dir.path().join("in/b.csv"), "id,x\n1,2.5\n").unwrap();
    let out = dir.path().join("out");
    let recipe = Recipe { from: Some("csv".to_owned()), ..recipe(&dir.path().join("in"), &out) };
    packhorse::session().pack(&recipe).unwrap();
    let types: Vec<_> = manifest(&out).schema.into_iter().map(|field| (field.name, field.data_type)).collect();
    let wanted = [("__key__", "Utf8View"), ("id", "Int64"), ("x", "Float64")];
    assert_eq!(types, wanted.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
}

struct Warnings(Mutex<Vec<String>>);

impl Observer for Warnings {
    fn event(&self, event: &Event<'_>) {
        if let Event::Warning(text) = event {
            self.0.lock().unwrap().push((*text).to_owned());
        }
    }
}

fn warnings(recipe: &Recipe) -> Vec<String> {
    let warnings = Arc::new(Warnings(Mutex::default()));
    packhorse::session().observe(warnings.clone()).pack(recipe).unwrap();
    let warnings = warnings.0.lock().unwrap();
    warnings.clone()
}

/// Validation rows among those of training are found late.
#[test]
fn tables_named_as_splits_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let csv = |input: &Path, out: &str| Recipe { from: Some("csv".to_owned()), ..recipe(input, &dir.path().join(out)) };
    let files = dir.path().join("repo/data");
    std::fs::create_dir_all(&files).unwrap();
    for name in ["train-00000-of-00002.csv", "train-00001-of-00002.csv", "validation.csv"] {
        table(&files, name, 0..3, None);
    }
    let told = warnings(&csv(files.parent().unwrap(), "files"));
    assert!(
        told.iter().any(|text| text.contains("validation.csv go into one dataset") && text.contains("`split=names`")),
        "{told:?}"
    );
    let folders = dir.path().join("folders");
    for split in ["train", "test"] {
        std::fs::create_dir_all(folders.join(split)).unwrap();
        table(&folders.join(split), "rows.csv", 0..3, None);
    }
    let told = warnings(&csv(&folders, "one"));
    assert!(told.iter().any(|text| text.contains("pass `split=names`")), "{told:?}");
    let told = warnings(&csv(&folders, "two").split(Splits::Folders));
    assert!(told.is_empty(), "{told:?}");
    // A dataset with splits of its own keeps them.
    assert!(warnings(&recipe(&dir.path().join("two"), &dir.path().join("again"))).is_empty());
}

#[test]
fn a_list_of_records_in_one_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("records.json");
    std::fs::write(&input, "[{\"a\": 1}, {\"a\": 2}]").unwrap();
    let told = warnings(&recipe(&input, &dir.path().join("out")));
    assert!(told.iter().any(|text| text.contains("jq -c '.[]'")), "{told:?}");
}

/// Readers of tars parse members named `.json`.
#[test]
fn a_text_column_named_json_holds_json_in_tars() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("t.csv");
    std::fs::write(&input, "json,n\n\"{\"\"a\"\": NaN}\",1\n[2],2\nInfinity War,3\n").unwrap();
    let recipe = |out: &str| Recipe::new(&input, "webdataset", dir.path().join(out));
    let error = packhorse::session().pack(&recipe("out")).unwrap_err();
    assert!(error.to_string().contains("000000002") && error.to_string().contains("not JSON"), "{error}");
    let renamed = ["json=text".to_owned()];
    packhorse::session().pack(&Recipe { field: renamed.to_vec(), ..recipe("out") }).unwrap();
}

/// Fields that are left out may be damaged.
#[test]
fn fields_that_are_left_out_are_not_decoded() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    std::fs::create_dir(&input).unwrap();
    for (name, bytes) in [("a.txt", &b"x"[..]), ("a.n.cls", b"1"), ("b.txt", b"caf\xe9"), ("b.n.cls", b"2")] {
        std::fs::write(input.join(name), bytes).unwrap();
    }
    let recipe = |out: &str| recipe(&input, &dir.path().join(out));
    let error = packhorse::session().pack(&recipe("all")).unwrap_err();
    assert!(error.to_string().contains("sample b") && error.to_string().contains("txt is not UTF-8"), "{error}");
    let session = packhorse::session();
    session.pack(&Recipe { drop: vec!["txt".to_owned()], ..recipe("dropped") }).unwrap();
    session.pack(&Recipe { field: vec!["n.cls".to_owned()], ..recipe("chosen") }).unwrap();
    for out in ["dropped", "chosen"] {
        let manifest = manifest(&dir.path().join(out));
        let names: Vec<_> = manifest.schema.iter().map(|field| field.name.as_str()).collect();
        assert_eq!((manifest.samples, names), (2, vec!["__key__", "n.cls"]));
    }
}

/// pandas writes lists without a type where all of a file are empty.
#[test]
fn empty_lists_take_the_type_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    std::fs::create_dir(&input).unwrap();
    let write = |name: &str, lists: ListArray| {
        let rows = RecordBatch::try_from_iter([("tags", Arc::new(lists) as ArrayRef)]).unwrap();
        let file = std::fs::File::create(input.join(name)).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
    };
    let typed = || ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), Some(2)]), None]);
    let untyped = |lengths: &[usize]| {
        let mut lists = ListBuilder::new(NullBuilder::new());
        for length in lengths {
            lists.values().append_nulls(*length);
            lists.append(true);
        }
        lists.finish()
    };
    // Before and after the file that tells the type, and alone.
    for (out, names) in [("first", ["a.arrow", "b.arrow"]), ("last", ["b.arrow", "a.arrow"]), ("alone", ["a.arrow"; 2])]
    {
        write(names[0], untyped(&[0, 0]));
        write(names[1], if out == "alone" { untyped(&[0, 0]) } else { typed() });
        let out = dir.path().join(out);
        packhorse::session().pack(&recipe(&input, &out)).unwrap();
        let dataset = packhorse::open(out.to_str().unwrap()).unwrap();
        let kind = FieldType::of(dataset.schema().field_with_name("tags").unwrap()).unwrap();
        let element = if out.ends_with("alone") { DataType::Utf8View } else { DataType::Int64 };
        assert_eq!(kind, FieldType::List { element, depth: 1 });
        assert!(packhorse::session().verify(&out, Depth::Full).unwrap().damages.is_empty());
        std::fs::remove_file(input.join("b.arrow")).unwrap_or_default();
        std::fs::remove_file(input.join("a.arrow")).unwrap();
    }
    write("a.arrow", untyped(&[0, 1]));
    let error = packhorse::session().pack(&recipe(&input, &dir.path().join("null"))).unwrap_err();
    assert!(error.to_string().contains("nulls inside its lists"), "{error}");
}

/// A zone says how times are shown, and not which they are.
#[test]
fn times_of_another_zone_are_added() {
    let dir = tempfile::tempdir().unwrap();
    let input = |name: &str, zone: Option<&str>| {
        let path = dir.path().join(name);
        let times = TimestampSecondArray::from(vec![1, 2]).with_timezone_opt(zone);
        let rows = RecordBatch::try_from_iter([("when", Arc::new(times) as ArrayRef)]).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        path
    };
    let (session, out) = (packhorse::session(), dir.path().join("out"));
    session.pack(&recipe(&input("a.arrow", Some("UTC")), &out)).unwrap();
    let schema = manifest(&out).schema;
    let added = |input: PathBuf| Recipe { input: vec![input], ..Recipe::default() };
    session.append(&out, &added(input("b.arrow", Some("Asia/Tokyo")))).unwrap();
    assert_eq!((manifest(&out).samples, &manifest(&out).schema), (4, &schema));
    assert!(session.verify(&out, Depth::Full).unwrap().damages.is_empty());
    let error = session.append(&out, &added(input("c.arrow", None))).unwrap_err();
    assert!(error.to_string().contains("the field when"), "{error}");
}

/// Parquet has no timestamps in seconds: it counts milliseconds, of which there are fewer years.
#[test]
fn a_time_that_parquet_can_not_hold_costs_its_row_alone() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("times.arrow");
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, 1 << 62, 3]));
    let rows = RecordBatch::try_from_iter([("when", times)]).unwrap();
    let file = std::fs::File::create(&input).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    let out = dir.path().join("out");
    let error = packhorse::session().pack(&recipe(&input, &out)).unwrap_err();
    assert_eq!((error.sample(), error.field()), (Some("times/000000001"), Some("when")), "{error}");
    let skipping = Recipe { on_error: OnError::Skip, ..recipe(&input, &dir.path().join("skipped")) };
    packhorse::session().pack(&skipping).unwrap();
    assert_eq!(manifest(&dir.path().join("skipped")).samples, 2);
}

/// Hugging Face writes tables that name pictures without holding them.
#[test]
fn a_picture_that_a_table_only_names_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("t.arrow");
    let column = |paths: Vec<Option<&str>>| -> ArrayRef {
        let bytes: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![Some(&b"jpeg"[..]), None, None]));
        let paths: ArrayRef = Arc::new(StringArray::from(paths));
        let field = |name, kind: &ArrayRef| Arc::new(Field::new(name, kind.data_type().clone(), true));
        Arc::new(StructArray::from(vec![(field("bytes", &bytes), bytes.clone()), (field("path", &paths), paths)]))
    };
    let write = |paths| {
        let rows = RecordBatch::try_from_iter([("image", column(paths))]).unwrap();
        let file = std::fs::File::create(&input).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
    };
    write(vec![Some("a.jpg"), None, None]);
    packhorse::session().pack(&recipe(&input, &dir.path().join("out"))).unwrap();
    write(vec![Some("a.jpg"), Some("b.jpg"), None]);
    let error = packhorse::session().pack(&recipe(&input, &dir.path().join("paths"))).unwrap_err();
    assert!(error.to_string().contains("column image") && error.to_string().contains("\"b.jpg\""), "{error}");
    let dropped = Recipe { drop: vec!["image".to_owned()], ..recipe(&input, &dir.path().join("dropped")) };
    packhorse::session().pack(&dropped).unwrap();
    assert_eq!(manifest(&dir.path().join("dropped")).samples, 3);
}

/// A row that can't be read costs itself, wherever in its block it lies.
#[test]
fn bad_rows_of_a_table_are_left_out_alone() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("t.arrow");
    let bad = [0, 700, 701, 2999];
    let pictures: Vec<String> = (0..3000).map(|row| format!("jpeg {row}")).collect();
    let bytes = (0..3000).map(|row| (!bad.contains(&row)).then(|| pictures[row].as_bytes())).collect();
    let bytes: ArrayRef = Arc::new(BinaryArray::from_opt_vec(bytes));
    let paths: ArrayRef = Arc::new(StringArray::from_iter_values((0..3000).map(|row| format!("{row}.jpg"))));
    let field = |name, kind: &ArrayRef| Arc::new(Field::new(name, kind.data_type().clone(), true));
    let column = StructArray::from(vec![(field("bytes", &bytes), bytes.clone()), (field("path", &paths), paths)]);
    let rows = RecordBatch::try_from_iter([("image", Arc::new(column) as ArrayRef)]).unwrap();
    let file = std::fs::File::create(&input).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    let out = dir.path().join("out");
    let skipping = Recipe { on_error: OnError::Skip, ..recipe(&input, &out) };
    packhorse::session().pack(&skipping).unwrap();
    let skipped = std::fs::read_to_string(out.join("skipped.jsonl")).unwrap();
    let keys: Vec<String> = bad.iter().map(|row| format!("t/{row:09}")).collect();
    for (line, key) in skipped.lines().zip(&keys) {
        assert!(line.contains(key) && !line.contains("are left out"), "{line}");
    }
    assert_eq!((skipped.lines().count(), manifest(&out).samples), (4, 2996));
}

/// Each has fields of bytes that the others lack, so that no column needs a conversion.
#[test]
fn files_and_tables_of_other_fields_of_bytes_keep_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let folder = |name: &str, file: &str, bytes: &str| {
        std::fs::create_dir_all(at(name)).unwrap();
        std::fs::write(at(name).join(file), bytes).unwrap();
    };
    folder("in", "a.jpg", "A");
    for (table, file, bytes) in [("one", "c.zzz", "C"), ("two", "d.aaa", "D"), ("three", "e.jpg", "E")] {
        folder(table, file, bytes);
        let out = at(&format!("{table}-out"));
        packhorse::session().pack(&Recipe::new(at(table), "parquet", &out)).unwrap();
        std::fs::copy(out.join("shard-000000.parquet"), at("in").join(format!("{table}.parquet"))).unwrap();
    }
    for to in ["webdataset", "parquet", "hdf5", "arrow", "tfrecord"] {
        let out = at(to);
        let recipe = Recipe { fill_missing: true, ..Recipe::new(at("in"), to, &out) };
        packhorse::session().pack(&recipe).unwrap();
        let dataset = packhorse::open(out.to_str().unwrap()).unwrap();
        let columns = ["aaa", "jpg", "zzz"].map(|name| packhorse::read::Column(vec![name.to_owned()])).to_vec();
        let reader = packhorse::read::Reader::new(dataset, columns, Default::default());
        let mut block = Default::default();
        reader.read(0..4, &mut Default::default(), &mut block).unwrap();
        let value = |row, column| match block.value(row, column) {
            None => String::new(),
            Some(packhorse::read::Value::Bytes(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            Some(packhorse::read::Value::Row(array, row)) => {
                let bytes = array.as_any().downcast_ref::<arrow_array::BinaryViewArray>().unwrap().value(row);
                String::from_utf8(bytes.to_vec()).unwrap()
            }
        };
        let found: Vec<(&str, [String; 3])> =
            (0..4).map(|row| (block.key(row).unwrap(), [0, 1, 2].map(|column| value(row, column)))).collect();
        let wanted = [("a", ["", "A", ""]), ("e", ["", "E", ""]), ("c", ["", "", "C"]), ("d", ["D", "", ""])];
        for (key, fields) in wanted {
            let found = found.iter().find(|(found, _)| *found == key).unwrap();
            assert_eq!(found.1, fields, "{to}: {key}");
        }
    }
}
