//! Labels from a column of the metadata.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use packhorse::core::{
    CLASSES, Code, DataType, Error, Event, FieldType, HUGGINGFACE, KEY, Observer, Options, Schema, with_metadata,
};
use packhorse::dataset::Manifest;
use packhorse::{Labels, OnError, Recipe, Splits};
use packhorse_testkit::typed;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Photos in a folder without classes.
fn photos(dir: &Path, count: usize) -> PathBuf {
    let photos = dir.join("photos");
    std::fs::create_dir_all(&photos).unwrap();
    for n in 0..count {
        std::fs::write(photos.join(format!("{n:02}.jpg")), format!("picture {n}")).unwrap();
    }
    photos
}

/// A recipe with the table `lines` in a file of this name.
fn recipe(dir: &Path, count: usize, table: (&str, &str), out: &str) -> Recipe {
    let path = dir.join(table.0);
    std::fs::write(&path, table.1).unwrap();
    let recipe = Recipe::new(photos(dir, count), "webdataset", dir.join(out));
    let recipe = recipe.labels(Labels::Column("breed".to_owned()));
    Recipe { metadata: Some(path), key: Some("id".to_owned()), ..recipe }
}

/// The class list, and the key and label of every sample.
fn packed(recipe: &Recipe) -> (Vec<String>, Vec<(String, i64)>) {
    packhorse::session().pack(recipe).unwrap();
    labels(recipe.out.as_ref().unwrap())
}

fn labels(out: &Path) -> (Vec<String>, Vec<(String, i64)>) {
    let manifest = Manifest::decode(&std::fs::read(out.join("dataset.json")).unwrap()).unwrap();
    let mut found = Vec::new();
    for shard in &manifest.shards {
        let mut shard = tar::Archive::new(std::fs::File::open(out.join(format!("{}.tar", shard.name))).unwrap());
        for member in shard.entries().unwrap() {
            let mut member = member.unwrap();
            let name = member.path().unwrap().to_str().unwrap().to_owned();
            let Some(key) = name.strip_suffix(".cls") else { continue };
            let mut label = String::new();
            member.read_to_string(&mut label).unwrap();
            found.push((key.to_owned(), label.parse().unwrap()));
        }
    }
    (manifest.classes, found)
}

/// The classes of columns of tars are known from the datasets alone.
#[test]
fn columns_with_other_classes_are_not_packed_together() {
    let dir = tempfile::tempdir().unwrap();
    let sealed = |name: &str, classes: [&str; 2]| {
        let column = |name: &str, classes: [&str; 2]| {
            let feature = serde_json::json!({"names": classes, "_type": "ClassLabel"}).to_string();
            let field = FieldType::Scalar(DataType::Int64).field(name, false);
            with_metadata(field, HUGGINGFACE, &feature)
        };
        let schema = Arc::new(Schema::new(vec![
            FieldType::Text.field(KEY, false),
            column("l", classes),
            column("coarse", ["x", "y"]),
        ]));
        let numbers = || Arc::new(Int64Array::from(vec![0, 1])) as ArrayRef;
        let keys = Arc::new(StringViewArray::from(vec![format!("{name}0"), format!("{name}1")]));
        let rows = RecordBatch::try_new(schema.clone(), vec![keys, numbers(), numbers()]).unwrap();
        let out = dir.path().join(name);
        let mut writer = packhorse::session().writer(&Recipe::for_writer("webdataset", &out), &schema).unwrap();
        writer.push(&rows).unwrap();
        writer.finish().unwrap();
        out
    };
    let [one, same, other] = [("one", ["cat", "dog"]), ("same", ["cat", "dog"]), ("other", ["dog", "cat"])]
        .map(|(name, classes)| sealed(name, classes));
    let pack = |inputs: [&Path; 2], out: &str, drop: &[&str]| {
        let recipe = Recipe::new(inputs[0], "parquet", dir.path().join(out));
        let input = inputs.iter().map(|input| input.to_path_buf()).collect();
        let drop = drop.iter().map(|&name| name.to_owned()).collect();
        packhorse::session().pack(&Recipe { input, drop, ..recipe })
    };
    assert_eq!(pack([&one, &same], "good", &[]).unwrap().report.samples, 4);
    assert_eq!(pack([&one, &other], "without", &["l"]).unwrap().report.samples, 4);
    let error = pack([&one, &other], "bad", &[]).err().unwrap();
    assert!(error.message().contains("one number would name two classes"), "{error}");
    assert!(error.message().contains("the classes dog, cat here") && error.field() == Some("l"), "{error}");
}

/// Class lists of tables contradict each other, also where a table without one lies between them.
#[test]
fn tables_with_other_classes_are_not_packed_together() {
    let dir = tempfile::tempdir().unwrap();
    let sink = packhorse::registry().get("arrow").unwrap().sink(&Options::new()).unwrap();
    let (cats, fish) = (r#"["cat","dog"]"#, r#"["bird","fish"]"#);
    for (out, lists) in [("good", [Some(cats), None, Some(cats)]), ("bad", [Some(cats), None, Some(fish)])] {
        let input = dir.path().join(format!("in-{out}"));
        std::fs::create_dir(&input).unwrap();
        for (number, list) in lists.iter().enumerate() {
            let metadata: BTreeMap<_, _> = list.map(|list| (CLASSES.to_owned(), list.to_owned())).into_iter().collect();
            let fields = vec![FieldType::Text.field(KEY, false), FieldType::Scalar(DataType::Int64).field("y", false)];
            let schema = Arc::new(Schema::new(fields).with_metadata(metadata));
            let keys = Arc::new(StringViewArray::from(vec![number.to_string()]));
            let rows = RecordBatch::try_new(schema, vec![keys, Arc::new(Int64Array::from(vec![0]))]).unwrap();
            let written = typed::write(&*sink, &rows, &[1]);
            let (_, bytes) = written.into_iter().find(|(suffix, _)| *suffix == sink.suffix()).unwrap();
            std::fs::write(input.join(format!("{number}.arrow")), bytes).unwrap();
        }
        let packed = packhorse::session().pack(&Recipe::new(&input, "parquet", dir.path().join(out)));
        let packed = packed.map(|packed| packed.report.samples).map_err(|e| e.message().to_owned());
        match out {
            "good" => assert_eq!(packed, Ok(3)),
            _ => assert!(packed.unwrap_err().contains("one number would name two classes")),
        }
    }
}

struct Warnings(Mutex<Vec<String>>);

impl Observer for Warnings {
    fn event(&self, event: &Event<'_>) {
        if let Event::Warning(text) = event {
            self.0.lock().unwrap().push((*text).to_owned());
        }
    }
}

fn refused(recipe: &Recipe) -> Error {
    packhorse::session().pack(recipe).unwrap_err()
}

#[test]
fn text_is_sorted_and_numbers_count_by_value() {
    let dir = tempfile::tempdir().unwrap();
    let dogs = "id,breed\n00.jpg,pug\n01.jpg,akita\n02,pug\n";
    let (classes, found) = packed(&recipe(dir.path(), 3, ("dogs.csv", dogs), "dogs"));
    assert_eq!(classes, ["akita", "pug"]);
    assert_eq!(found, [("00".to_owned(), 1), ("01".to_owned(), 0), ("02".to_owned(), 1)]);
    // 10 is after 9, and each number is its own label, in all kinds of tables.
    let csv: String = (0..12).map(|n| format!("{n:02},{n}\n")).collect();
    let jsonl: String = (0..12).map(|n| format!("{{\"id\":\"{n:02}\",\"breed\":{n}}}\n")).collect();
    for (name, table) in [("n.csv", format!("id,breed\n{csv}")), ("n.jsonl", jsonl)] {
        let (classes, found) = packed(&recipe(dir.path(), 12, (name, &table), &format!("{name}.shards")));
        assert_eq!(classes, (0..12).map(|n| n.to_string()).collect::<Vec<_>>());
        assert!(found.iter().all(|(key, label)| key.parse::<i64>().unwrap() == *label), "{found:?}");
    }
}

#[test]
fn a_class_list_decides_the_numbers_and_append_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("classes.txt"), "pug\nakita\nbeagle\n").unwrap();
    let first = Recipe {
        classes: Some(dir.path().join("classes.txt")),
        ..recipe(dir.path(), 2, ("a.csv", "id,breed\n00,pug\n01,akita\n"), "dogs")
    };
    assert_eq!(packed(&first).1, [("00".to_owned(), 0), ("01".to_owned(), 1)]);
    let more = tempfile::tempdir().unwrap();
    let added = recipe(more.path(), 1, ("b.csv", "id,breed\n00,beagle\n"), "unused");
    std::fs::rename(more.path().join("photos/00.jpg"), more.path().join("photos/77.jpg")).unwrap();
    std::fs::write(added.metadata.as_ref().unwrap(), "id,breed\n77,beagle\n").unwrap();
    let out = first.out.clone().unwrap();
    packhorse::session().append(&out, &Recipe { out: None, to: None, ..added }).unwrap();
    let (classes, found) = labels(&out);
    assert_eq!(classes, ["pug", "akita", "beagle"]);
    assert_eq!(found.last().unwrap(), &("77".to_owned(), 2));
}

#[test]
fn samples_without_a_class_are_bad_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let table = "{\"id\":\"00\",\"breed\":\"pug\"}\n{\"id\":\"01\"}\n{\"id\":\"02\",\"breed\":null}\n";
    let recipe = recipe(dir.path(), 3, ("t.jsonl", table), "out");
    let error = refused(&recipe);
    assert_eq!(error.code(), Code::NoMetadata);
    for part in ["column breed", "01.jpg", "2 inputs", "`on-error=skip`"] {
        assert!(error.to_string().contains(part), "no {part} in {error}");
    }
    let skipping = recipe.on_error(OnError::Skip);
    assert_eq!(packed(&skipping).1, [("00".to_owned(), 0)]);
    let skipped = std::fs::read_to_string(skipping.out.as_ref().unwrap().join("skipped.jsonl")).unwrap();
    assert_eq!(skipped.lines().filter(|line| line.contains("column breed")).count(), 2, "{skipped}");
}

#[test]
fn where_every_sample_is_left_out_the_error_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let none = recipe(dir.path(), 2, ("t.csv", "id,breed\nother,pug\n"), "out").on_error(OnError::Skip);
    let recipe = Recipe { labels: None, ..none };
    let said = refused(&recipe).to_string();
    assert!(said.contains("every sample was left out"), "{said}");
}

#[test]
fn what_names_no_class_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let with = |name: &str, table: &str| refused(&recipe(dir.path(), 1, (name, table), "out")).to_string();
    let said = with("a.csv", "id,bread\n00,pug\n");
    assert!(said.contains("column breed") && said.contains("did you mean `labels=column:bread`?"), "{said}");
    let table = "{\"id\":\"00\",\"breed\":1.5}\n{\"id\":\"01\",\"breed\":-1.0}\n{\"id\":\"02\",\"breed\":10}\n";
    let half = recipe(dir.path(), 3, ("b.jsonl", table), "half");
    let said = refused(&half).to_string();
    assert!(said.contains("breed") && said.contains("1.5, which names no class") && said.contains("00"), "{said}");
    // The others are packed, and a number with .0 is whole.
    let (classes, found) = packed(&half.on_error(OnError::Skip));
    assert_eq!((classes, found), (vec!["-1".into(), "10".into()], vec![("01".into(), 0), ("02".into(), 1)]));
    let asked = |recipe: Recipe| recipe.check().unwrap_err().to_string();
    let base = || recipe(dir.path(), 1, ("c.csv", "id,breed,age\n00,pug,3\n"), "out");
    let said = asked(Recipe { metadata: None, key: None, ..base() });
    assert!(said.contains("needs `metadata`"), "{said}");
    let said = asked(Recipe { columns: vec!["age".to_owned()], ..base() });
    assert!(said.contains("not in `columns`"), "{said}");
}

#[test]
fn numbers_that_are_not_their_labels_are_told() {
    let dir = tempfile::tempdir().unwrap();
    for (at, (table, told)) in [
        ("id,breed\n00,1\n01,2\n", Some("class 1 becomes label 0: labels count from 0")),
        ("id,breed\n00,-1\n01,0\n", Some("class -1 becomes label 0: labels count from 0")),
        ("id,breed\n00,1\n01,0\n02,NA\n", Some("sorted as text, since NA is none of the numbers")),
        ("id,breed\n00,1\n01,0\n", None),
    ]
    .into_iter()
    .enumerate()
    {
        let warnings = Arc::new(Warnings(Mutex::default()));
        let count = table.lines().count() - 1;
        let place = tempfile::tempdir_in(dir.path()).unwrap();
        let recipe = recipe(place.path(), count, ("t.csv", table), &at.to_string());
        packhorse::session().observe(warnings.clone()).pack(&recipe).unwrap();
        let said = warnings.0.lock().unwrap().join("\n");
        assert_eq!(told.is_some_and(|told| said.contains(told)), !said.is_empty(), "{said}");
    }
}

#[test]
fn a_zip_is_told_to_be_a_field() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(photos(dir.path(), 2).join("more.ZIP"), "PK").unwrap();
    let said = Arc::new(Warnings(Mutex::default()));
    let recipe = Recipe::new(dir.path().join("photos"), "webdataset", dir.path().join("out"));
    packhorse::session().observe(said.clone()).pack(&recipe).unwrap();
    let said = said.0.lock().unwrap().join("\n");
    assert!(said.contains("zip archives are not opened") && said.contains("(1)"), "{said}");
}

#[test]
fn folders_keep_their_names_in_the_class_list() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["a b", "dog's", "dog.s", "v1-5", "v1.5", "Große Katze"];
    for name in names {
        std::fs::create_dir_all(dir.path().join("in").join(name)).unwrap();
        std::fs::write(dir.path().join("in").join(name).join("1.jpg"), name).unwrap();
    }
    let recipe = Recipe::new(dir.path().join("in"), "webdataset", dir.path().join("out")).labels(Labels::Folders);
    let mut sorted = names.map(str::to_owned);
    sorted.sort();
    assert_eq!(packed(&recipe).0, sorted);
    // So a class list has the names that folders have.
    std::fs::write(dir.path().join("list"), "\u{feff}v1.5\na b\nGroße Katze\ndog's\ndog.s\nv1-5\n").unwrap();
    let listed = Recipe { classes: Some(dir.path().join("list")), out: Some(dir.path().join("listed")), ..recipe };
    assert_eq!(packed(&listed).0, ["v1.5", "a b", "Große Katze", "dog's", "dog.s", "v1-5"]);
}

#[test]
fn duplicates_of_another_class_are_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    for (name, bytes) in [("cat/1.jpg", "one"), ("cat/2.jpg", "two"), ("dog/3.jpg", "one"), ("dog/4.jpg", "four")] {
        std::fs::create_dir_all(input.join(name).parent().unwrap()).unwrap();
        std::fs::write(input.join(name), bytes).unwrap();
    }
    let warned = |labels: Option<Labels>, out: &str| {
        let recipe = Recipe { dedup: true, labels, ..Recipe::new(&input, "webdataset", dir.path().join(out)) };
        let warnings = Arc::new(Warnings(Mutex::default()));
        packhorse::session().observe(warnings.clone()).pack(&recipe).unwrap();
        let said = warnings.0.lock().unwrap().join("\n");
        said.contains("1 sample left out as equal to another of another class, such as dog/3, which is cat/1")
    };
    assert!(warned(Some(Labels::Folders), "a") && !warned(None, "b"));
}

/// The splits of a dataset, and the keys of each.
fn splits(out: &Path) -> Vec<(String, Vec<String>)> {
    let manifest = Manifest::decode(&std::fs::read(out.join("dataset.json")).unwrap()).unwrap();
    let keys = |split: &str| {
        let mut keys = Vec::new();
        for shard in manifest.shards.iter().filter(|shard| shard.split.as_deref() == Some(split)) {
            let mut shard = tar::Archive::new(std::fs::File::open(out.join(format!("{}.tar", shard.name))).unwrap());
            let names = shard.entries().unwrap().map(|member| member.unwrap().path().unwrap().into_owned());
            let photos = names.filter(|name| name.extension().is_some_and(|end| end == "jpg"));
            keys.extend(photos.map(|name| name.with_extension("").to_str().unwrap().to_owned()));
        }
        keys
    };
    manifest.splits.iter().map(|split| (split.name.clone(), keys(&split.name))).collect()
}

#[test]
fn a_column_names_the_splits_and_append_adds_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let table = "id,breed,fold\n00,pug,train\n01,akita,val\n02,pug,train\n";
    let recipe = recipe(dir.path(), 3, ("t.csv", table), "out");
    let recipe = Recipe { split: Splits::Column("fold".to_owned()), ..recipe };
    let (classes, found) = packed(&recipe);
    let out = recipe.out.clone().unwrap();
    assert_eq!((classes.len(), found.len()), (2, 3));
    let of =
        |split: &str, keys: &[&str]| (split.to_owned(), keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
    assert_eq!(splits(&out), [of("train", &["00", "02"]), of("val", &["01"])]);
    // Folds by number, without labels.
    let numbers = dir.path().join("numbers.jsonl");
    std::fs::write(&numbers, "{\"id\":\"00\",\"k\":2}\n{\"id\":\"01\",\"k\":1.0}\n{\"id\":\"02\"}\n").unwrap();
    let folds = Recipe { metadata: Some(numbers), labels: None, split: "column:k".parse().unwrap(), ..recipe.clone() };
    let folds = Recipe { out: Some(dir.path().join("folds")), ..folds };
    let error = refused(&folds);
    assert!(error.code() == Code::NoMetadata && error.to_string().contains("column k") && error.input().is_some());
    packhorse::session().pack(&folds.clone().on_error(OnError::Skip)).unwrap();
    assert_eq!(splits(&folds.out.unwrap()), [of("1", &["01"]), of("2", &["00"])]);
    // More of the same.
    let (more, table) = (dir.path().join("more"), dir.path().join("more.csv"));
    std::fs::create_dir(&more).unwrap();
    std::fs::write(more.join("77.jpg"), "more").unwrap();
    std::fs::write(&table, "id,breed,fold\n77,pug,val\n").unwrap();
    let append = Recipe { input: vec![more], metadata: Some(table), out: None, to: None, ..recipe };
    packhorse::session().append(&out, &append).unwrap();
    assert_eq!(splits(&out), [of("train", &["00", "02"]), of("val", &["01", "77"])]);
}

#[test]
fn columns_that_name_no_split_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let with = |table: &str, split: &str| {
        let recipe = recipe(dir.path(), 1, ("t.csv", table), "out");
        refused(&Recipe { labels: None, split: split.parse().unwrap(), ..recipe }).to_string()
    };
    let said = with("id,splitt\n00,train\n", "column:split");
    assert!(said.contains("which `split` takes") && said.contains("did you mean `split=column:splitt`?"), "{said}");
    let said = with("id,split\n00,held out\n", "column:split");
    assert!(said.contains("\"held out\" can't name a split"), "{said}");
    let alone = Recipe { split: Splits::Column("split".to_owned()), ..Recipe::new(dir.path(), "webdataset", "out") };
    assert!(alone.check().unwrap_err().to_string().contains("`split=column:split` needs `metadata`"));
}

#[test]
fn an_id_with_a_dot_is_not_a_file_of_another_sample() {
    let dir = tempfile::tempdir().unwrap();
    let base = recipe(dir.path(), 3, ("t.csv", "id,breed\n00.5,pug\n01.5,akita\n02,pug\n"), "out");
    let error = refused(&base);
    assert!(error.code() == Code::NoMetadata && error.to_string().contains("00.jpg"), "{error}");
    // Slices are numbered by what follows their dots.
    let slices = dir.path().join("slices");
    std::fs::create_dir(&slices).unwrap();
    for name in ["scan.001", "other.002"] {
        std::fs::write(slices.join(name), name).unwrap();
    }
    let table = dir.path().join("slices.csv");
    std::fs::write(&table, "id,breed\nscan.001,pug\nother.002,akita\n").unwrap();
    let slices =
        Recipe { input: vec![slices], metadata: Some(table), out: Some(dir.path().join("slices-out")), ..base };
    assert_eq!(packed(&slices).1, [("other".to_owned(), 0), ("scan".to_owned(), 1)]);
}

/// Downloaders leave a table beside each archive.
#[test]
fn a_pattern_names_several_tables() {
    let dir = tempfile::tempdir().unwrap();
    let two = ("b.csv", "id,breed\n02,pug\n03,cat\n");
    std::fs::write(dir.path().join(two.0), two.1).unwrap();
    let recipe = recipe(dir.path(), 4, ("a.csv", "id,breed\n00,pug\n01,cat\n"), "out");
    let recipe = Recipe { metadata: Some(dir.path().join("[ab].csv")), ..recipe };
    let (classes, found) = packed(&recipe);
    assert_eq!(classes, ["cat", "pug"]);
    assert_eq!(found, [("00", 1), ("01", 0), ("02", 1), ("03", 0)].map(|(key, label)| (key.to_owned(), label)));
    std::fs::write(dir.path().join("b.csv"), "id,breed\n01,pug\n").unwrap();
    let out = Some(dir.path().join("twice"));
    let error = refused(&Recipe { out, ..recipe.clone() });
    assert!(error.code() == Code::KeyTwice && error.to_string().contains("b.csv"), "{error}");
    let none = Some(dir.path().join("c*.csv"));
    assert!(refused(&Recipe { metadata: none, ..recipe }).to_string().contains("matches no file"));
}

/// Files whose names differ in their extensions alone are one sample, unlike in torchvision's ImageFolder.
#[test]
fn pictures_that_become_one_sample_are_told() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["cat/x.JPG", "cat/x.jpeg", "dog/y.tif"] {
        let path = dir.path().join("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    let heard = Arc::new(Warnings(Mutex::default()));
    let recipe = Recipe::new(dir.path().join("in"), "webdataset", dir.path().join("out")).labels(Labels::Folders);
    packhorse::session().observe(heard.clone()).pack(&recipe).unwrap();
    let told = |text: &str| heard.0.lock().unwrap().iter().any(|warning| warning.contains(text));
    let ends = "regex:(?i)^(.*[.](jpg|jpeg|png|ppm|bmp|pgm|tif|tiff|webp))$";
    assert!(told("the sample cat/x has 2 pictures") && told(&format!("key-ends={ends}")), "{:?}", heard.0);
    assert_eq!(labels(&dir.path().join("out")).1.len(), 2);
    let mut alone = Recipe::new(dir.path().join("in"), "webdataset", dir.path().join("alone")).labels(Labels::Folders);
    alone.take("key-ends", ends.as_ref()).unwrap();
    heard.0.lock().unwrap().clear();
    packhorse::session().observe(heard.clone()).pack(&alone).unwrap();
    assert!(!told("pictures"));
    assert_eq!(labels(&dir.path().join("alone")).1.len(), 3);
}

/// Of equal samples the first one that has a row, a class and a split stays.
#[test]
fn duplicates_are_looked_for_among_labelled_samples() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = recipe(dir.path(), 3, ("t.csv", "id,breed\n01,pug\n02,akita\n"), "out");
    std::fs::write(dir.path().join("photos/00.jpg"), "picture 1").unwrap();
    let recipe = Recipe { dedup: true, on_error: OnError::Skip, ..recipe };
    assert_eq!(packed(&recipe).1, [("01".to_owned(), 1), ("02".to_owned(), 0)]);
    std::fs::write(dir.path().join("t.csv"), "id,breed\n00,akita\n01,pug\n02,akita\n").unwrap();
    let warnings = Arc::new(Warnings(Mutex::default()));
    let recipe = Recipe { out: Some(dir.path().join("told")), ..recipe };
    packhorse::session().observe(warnings.clone()).pack(&recipe).unwrap();
    let said = warnings.0.lock().unwrap().join("\n");
    assert!(said.contains("equal to another of another class, such as 01, which is 00"), "{said}");
}

/// The class list is about the labels, also where another field would take their name.
#[test]
fn labels_keep_their_name_beside_their_classes() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    for (name, bytes) in [("cat/1.jpg", "1"), ("cat/1.num", "7"), ("dog/2.jpg", "2"), ("dog/2.num", "8")] {
        std::fs::create_dir_all(input.join(name).parent().unwrap()).unwrap();
        std::fs::write(input.join(name), bytes).unwrap();
    }
    let recipe = Recipe::new(&input, "webdataset", dir.path().join("out")).labels(Labels::Folders);
    let field = ["cls=label", "num=cls"].map(str::to_owned);
    let renamed = Recipe { field: field.to_vec(), ..recipe.clone() };
    assert!(refused(&renamed).to_string().contains("another field takes the name cls of the labels"));
    let twice = Recipe { field: vec!["num=a".to_owned(), "num=b".to_owned()], ..recipe };
    assert!(refused(&twice).to_string().contains("`field` gives num two values, a and b"));
}
