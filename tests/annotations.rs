//! Annotations and splits as public datasets have them: lists, several rows of a sample, COCO, names that say splits.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse::core::{Event, Observer};
use packhorse::dataset::Manifest;
use packhorse::{Labels, MetadataRows, Recipe, Splits};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Writes files of their own names.
fn files(dir: &Path, names: &[&str]) -> PathBuf {
    for name in names {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    dir.to_owned()
}

#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Observer for Warnings {
    fn event(&self, event: &Event<'_>) {
        if let Event::Warning(text) = event {
            self.0.lock().unwrap().push((*text).to_owned());
        }
    }
}

/// Packs, and returns what was warned of.
fn warnings(recipe: &Recipe) -> Vec<String> {
    let told = Arc::new(Warnings::default());
    packhorse::session().observe(told.clone()).pack(recipe).unwrap();
    told.0.lock().unwrap().clone()
}

/// The members of the shards of a dataset by name, each with the split of its shard.
fn members(out: &Path) -> BTreeMap<String, (Option<String>, String)> {
    let manifest = Manifest::decode(&std::fs::read(out.join("dataset.json")).unwrap()).unwrap();
    let mut found = BTreeMap::new();
    for shard in &manifest.shards {
        let mut tar = tar::Archive::new(std::fs::File::open(out.join(format!("{}.tar", shard.name))).unwrap());
        for member in tar.entries().unwrap() {
            let mut member = member.unwrap();
            let (name, mut text) = (member.path().unwrap().to_str().unwrap().to_owned(), String::new());
            member.read_to_string(&mut text).unwrap();
            found.insert(name, (shard.split.clone(), text));
        }
    }
    found
}

fn packed(recipe: &Recipe) -> BTreeMap<String, (Option<String>, String)> {
    packhorse::session().pack(recipe).unwrap();
    members(recipe.out.as_ref().unwrap())
}

/// The splits of samples, by the names of their members.
fn splits(recipe: &Recipe) -> Vec<(String, String)> {
    packed(recipe).into_iter().map(|(name, (split, _))| (name, split.unwrap_or_default())).collect()
}

/// A recipe with the table `text` in a file of this name, whose rows are found by `key`.
fn with_table(input: &Path, (name, text): (&str, &str), key: &str, read: &[&str]) -> Recipe {
    let (table, out) = (input.with_file_name(name), input.with_file_name(format!("out-{name}")));
    std::fs::write(&table, text).unwrap();
    let metadata_read = read.iter().map(|text| (*text).to_owned()).collect();
    let recipe = Recipe::new(input, "webdataset", out);
    Recipe { metadata: Some(table), key: Some(key.to_owned()), metadata_read, ..recipe }
}

#[test]
fn a_list_of_files_and_classes_labels_them() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("val"), &["v_1.JPEG", "v_2.JPEG", "v_3.JPEG"]);
    let list = "v_1.JPEG 65\nv_2.JPEG 970\nv_3.JPEG 65\n";
    let recipe = with_table(&input, ("val.txt", list), "column1", &["delimiter=spaces", "header=none"]);
    let found = packed(&Recipe { labels: Some(Labels::Column("column2".to_owned())), ..recipe });
    assert_eq!(found["v_1.json"].1, r#"{"column1":"v_1.JPEG","column2":65}"#);
    // Two classes, 65 and 970.
    assert_eq!(["v_1.cls", "v_2.cls", "v_3.cls"].map(|name| found[name].1.as_str()), ["0", "1", "0"]);
    // A list is only read if settings say how it is written.
    let error = packhorse::session().pack(&with_table(&input, ("b.txt", list), "column1", &[])).unwrap_err();
    assert!(error.to_string().contains("`metadata-read=delimiter=spaces`"), "{error}");
    // Tables of several folders are metadata too.
    let table = with_table(&input, ("val/m.csv", "name;class\nv_1.JPEG;65\n"), "name", &[]);
    let pattern = Recipe { metadata: Some(dir.path().join("*/m.csv")), ..table };
    let error = packhorse::session().pack(&pattern).unwrap_err();
    assert!(error.to_string().contains("`metadata-read=delimiter=…`"), "{error}");
}

#[test]
fn transcripts_take_the_rest_of_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("84"), &["121/84-121-0000.flac", "121/84-121-0001.flac"]);
    let text = "84-121-0000 GO \"NOW\" DO YOU HEAR\n84-121-0001 STOP\n";
    let recipe = with_table(&input, ("t.txt", text), "column1", &["delimiter= ", "header=none", "columns=2"]);
    let found = packed(&recipe);
    assert_eq!(found["121/84-121-0000.json"].1, r#"{"column1":"84-121-0000","column2":"GO \"NOW\" DO YOU HEAR"}"#);
    assert_eq!(found["121/84-121-0001.json"].1, r#"{"column1":"84-121-0001","column2":"STOP"}"#);
}

#[test]
fn compressed_tables_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("in"), &["a.jpg", "b.jpg"]);
    for (name, text) in [
        ("t.csv.gz", "id,x\na,1.50\nb,\n"),
        ("t.jsonl.gz", "{\"id\":\"a\",\"x\":1.50}\n{\"id\":\"b\",\"x\":null}\n"),
        ("t.json.gz", "[{\"id\":\"a\",\"x\":1.50},{\"id\":\"b\",\"x\":null}]"),
    ] {
        let recipe = with_table(&input, (name, ""), "id", &[]);
        let file = std::fs::File::create(recipe.metadata.as_ref().unwrap()).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap();
        let found = packed(&recipe);
        assert_eq!(found["a.json"].1, r#"{"id":"a","x":1.50}"#);
        assert_eq!(found["b.json"].1, r#"{"id":"b","x":null}"#);
    }
}

/// Boxes, captions: any number of rows for each picture, in their order.
#[test]
fn several_rows_of_a_sample_are_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("in"), &["x/a.jpg", "x/b.jpg", "x/c.jpg"]);
    let boxes = "ImageID,Label,XMin\nb,/m/1,0.5\na,/m/2,0.25\nb,/m/3,0.75\nz,/m/4,1\n";
    let recipe = with_table(&input, ("boxes.csv", boxes), "ImageID", &[]);
    let error = packhorse::session().pack(&recipe).unwrap_err();
    assert!(error.to_string().contains("lines 2 and 4") && error.to_string().contains("metadata-rows=list"), "{error}");
    let recipe = Recipe { metadata_rows: MetadataRows::List, ..recipe };
    let told = warnings(&recipe);
    assert!(told.iter().any(|text| text == "the rows of z in the metadata belong to no sample"), "{told:?}");
    let found = members(recipe.out.as_ref().unwrap());
    assert_eq!(found["x/a.json"].1, r#"[{"ImageID":"a","Label":"/m/2","XMin":0.25}]"#);
    let of_b = r#"[{"ImageID":"b","Label":"/m/1","XMin":0.5},{"ImageID":"b","Label":"/m/3","XMin":0.75}]"#;
    assert_eq!(found["x/b.json"].1, of_b);
    // A picture without boxes has none, and does not fail.
    assert_eq!(found["x/c.json"].1, "[]");
    assert!(
        told.iter().any(|text| text.starts_with("1 sample without a row in the metadata") && text.contains("c.jpg"))
    );
    // Where the key finds no sample at all, it is wrong.
    let wrong = with_table(&input, ("wrong.csv", boxes), "Label", &[]);
    let error = packhorse::session().pack(&Recipe { metadata_rows: MetadataRows::List, ..wrong }).unwrap_err();
    assert!(error.to_string().contains("has no row in the metadata"), "{error}");
    // A label needs one row.
    let labels = with_table(&input, ("labels.csv", boxes), "ImageID", &[]);
    let labels = Recipe { metadata_rows: MetadataRows::List, ..labels }.labels(Labels::Column("Label".to_owned()));
    let error = packhorse::session().pack(&labels).unwrap_err();
    assert!(error.to_string().contains("takes one row for each sample"), "{error}");
}

#[test]
fn annotations_of_coco_go_to_their_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("val2017"), &["000000000139.jpg", "000000000285.jpg", "000000000632.jpg"]);
    let coco = r#"{"info": {"year": 2017}, "licenses": [], "images": [
        {"license": 2, "file_name": "000000000139.jpg", "height": 426, "id": 139},
        {"license": 4, "file_name": "000000000285.jpg", "height": 640, "id": 285},
        {"license": 6, "file_name": "000000000632.jpg", "height": 483, "id": 632}],
        "annotations": [{"id": 1, "image_id": 139, "category_id": 64, "bbox": [236.98, 142.51, 24.7, 69.5]},
        {"id": 2, "image_id": 632, "category_id": 70, "bbox": [1, 2, 3, 4]},
        {"id": 3, "image_id": 139, "category_id": 72, "bbox": [7.03, 167.76, 149.32, 94.87]}],
        "categories": [{"id": 64, "name": "potted plant"}]}"#;
    let found = packed(&with_table(&input, ("instances.json", coco), "file_name", &[]));
    let row = |name: &str| serde_json::from_str::<serde_json::Value>(&found[name].1).unwrap();
    let of = |row: serde_json::Value| {
        row["annotations"].as_array().unwrap().iter().map(|a| a["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(row("000000000139.json")["height"], 426);
    assert_eq!(of(row("000000000139.json")), [1, 3]);
    assert_eq!((of(row("000000000285.json")), of(row("000000000632.json"))), (vec![], vec![2.into()]));
    // Columns choose members, as those of other tables.
    let recipe = with_table(&input, ("chosen.json", coco), "file_name", &[]);
    let found = packed(&Recipe { columns: vec!["annotations".to_owned()], ..recipe });
    assert_eq!(found["000000000285.json"].1, r#"{"annotations":[]}"#);
}

/// Settings that say nothing about a table are refused.
#[test]
fn settings_without_an_effect_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("in"), &["a.jpg"]);
    for (name, text, read) in [
        ("t.jsonl", "{\"id\":\"a\"}\n", "null=NA"),
        ("t.json", "[{\"id\":\"a\"}]", "delimiter=;"),
        ("t.csv", "id\na\n", "records=x"),
        ("t.parquet", "", "header=none"),
    ] {
        let error = packhorse::session().pack(&with_table(&input, (name, text), "id", &[read])).unwrap_err();
        assert!(error.to_string().contains("`metadata-read`"), "{name}: {error}");
    }
}

/// Objects of several lines, and what programs write into `.json` files that are JSON lines.
#[test]
fn json_of_any_shape_is_packed() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("in"), &["1.jpg", "2.jpg"]);
    let pretty = "[\n  {\n    \"f\": \"1.jpg\",\n    \"t\": \"a  b\"\n  },\n  {\"f\": \"2.jpg\", \"n\": 1.50}\n]\n";
    let found = packed(&with_table(&input, ("pretty.json", pretty), "f", &[]));
    assert_eq!(found["1.json"].1, r#"{"f":"1.jpg","t":"a  b"}"#);
    assert_eq!(found["2.json"].1, r#"{"f": "2.jpg", "n": 1.50}"#);
    let lines = "{\"f\": \"1.jpg\"}\n{\"f\": \"2.jpg\"}\n";
    assert_eq!(packed(&with_table(&input, ("lines.json", lines), "f", &[]))["2.json"].1, r#"{"f": "2.jpg"}"#);
}

/// Conversations of which some have no picture.
#[test]
fn rows_without_a_key_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("in"), &["coco/1.jpg", "coco/2.jpg"]);
    let list = r#"[{"id": "x", "conversations": []}, {"id": "1", "image": "coco/1.jpg"},
        {"id": "2", "image": "coco/2.jpg"}, {"id": "3", "image": null}]"#;
    let recipe = with_table(&input, ("llava.json", list), "image", &[]);
    let told = warnings(&recipe);
    assert!(
        told.iter().any(|text| text.starts_with("2 rows of the metadata without a key, the first in record 1")),
        "{told:?}"
    );
    assert_eq!(members(recipe.out.as_ref().unwrap())["coco/1.json"].1, r#"{"id": "1", "image": "coco/1.jpg"}"#);
    // A list inside of an object is named.
    let inside = format!("{{\"version\": 1, \"data\": {list}}}");
    let error = packhorse::session().pack(&with_table(&input, ("no.json", &inside), "image", &[])).unwrap_err();
    assert!(error.to_string().contains("`metadata-read=records=NAME`; there are data"), "{error}");
    assert_eq!(packed(&with_table(&input, ("yes.json", &inside), "image", &["records=data"])).len(), 4);
}

#[test]
fn numbers_with_nan_stay_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("in"), &["01.jpg", "02.jpg"]);
    let found = packed(&with_table(&input, ("t.csv", "f,n\n01,NaN\n02,1\n"), "f", &[]));
    assert_eq!(["01.json", "02.json"].map(|name| &*found[name].1), [r#"{"f":"01","n":null}"#, r#"{"f":"02","n":1}"#]);
}

/// The same with patients that a table names.
#[test]
fn groups_of_a_column_stay_in_one_split() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..200).map(|scan| format!("{scan:03}.png")).collect();
    let input = files(&dir.path().join("in"), &names.iter().map(String::as_str).collect::<Vec<_>>());
    let rows = |missing: u32| {
        let line = |scan: u32| match scan == missing {
            true => format!("{scan:03},\n"),
            false => format!("{scan:03},p{}\n", scan * 7 % 40),
        };
        (0..200).map(line).fold("scan,patient\n".to_owned(), |all, line| all + &line)
    };
    let recipe = |table: &str, column: &str| {
        let recipe = with_table(&input, ("t.csv", table), "scan", &[]).split("train=0.5,val=0.5".parse().unwrap());
        recipe.with("split-by", format!("column:{column}")).unwrap()
    };
    let mut found: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for (member, split) in
        splits(&recipe(&rows(999), "patient")).into_iter().filter(|(member, _)| member.ends_with(".png"))
    {
        found.entry(member[..3].parse::<u32>().unwrap() * 7 % 40).or_default().insert(split);
    }
    assert!(found.len() == 40 && found.values().all(|splits| splits.len() == 1), "{found:?}");
    let trained = found.values().filter(|splits| splits.contains("train")).count();
    assert!((10..=30).contains(&trained), "{trained} of 40 patients");
    let refused = |recipe: &Recipe| packhorse::session().pack(recipe).unwrap_err().to_string();
    assert!(refused(&recipe(&rows(7), "patient")).contains("has no value in the column patient"));
    let unknown = refused(&recipe(&rows(999), "pateint"));
    assert!(unknown.contains("pateint") && unknown.contains("patient"), "{unknown}");
    let alone = Recipe { metadata: None, key: None, ..recipe("", "patient") };
    assert!(refused(&alone).contains("needs `metadata`"));
    let idle = Recipe { split: Splits::Names, ..recipe(&rows(999), "patient") };
    assert!(refused(&idle).contains("`split-by=column:patient` takes shares"));
}

/// All samples of a patient are in one split, and shares are those of patients.
#[test]
fn groups_stay_in_one_split() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> =
        (0..40).flat_map(|patient| (0..5).map(move |scan| format!("sub-{patient:02}/anat/{scan}.nii"))).collect();
    let input = files(&dir.path().join("bids"), &names.iter().map(String::as_str).collect::<Vec<_>>());
    let recipe = |by: &str| {
        let recipe = Recipe::new(&input, "webdataset", dir.path().join(by.replace('/', "-")));
        recipe.split("train=0.5,val=0.5".parse().unwrap()).with("split-by", by).unwrap()
    };
    let of_patients = |by: &str| {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (member, split) in splits(&recipe(by)) {
            found.entry(member[..6].to_owned()).or_default().insert(split);
        }
        found
    };
    let found = of_patients("group:/(sub-[0-9]+)/");
    assert!(found.len() == 40 && found.values().all(|splits| splits.len() == 1), "{found:?}");
    let trained = found.values().filter(|splits| splits.contains("train")).count();
    assert!((10..=30).contains(&trained), "{trained} of 40 patients");
    assert!(of_patients("hash").values().any(|splits| splits.len() == 2));
    let error = packhorse::session().pack(&recipe("group:/(pat-[0-9]+)/")).unwrap_err();
    assert!(error.to_string().contains("is in no group by the expression of `split-by`"), "{error}");
    assert!("group:sub".parse::<packhorse::pack::SplitBy>().is_err());
    let idle = Recipe { split: Splits::Names, ..recipe("group:/(sub-[0-9]+)/") };
    assert!(packhorse::session().pack(&idle).unwrap_err().to_string().contains("takes shares, such as"));
    // Of members of archives the path goes on inside.
    let archive = dir.path().join("bids.tar");
    let ran =
        std::process::Command::new("tar").arg("cf").arg(&archive).arg("-C").arg(&input).arg(".").status().unwrap();
    assert!(ran.success());
    let members = Recipe { input: vec![archive], ..recipe("group:/(sub-[0-9]+)/anat/[0-4]") };
    let members = Recipe { out: Some(dir.path().join("members")), ..members };
    assert_eq!(splits(&members).len(), 200);
}

#[test]
fn names_say_splits() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["train2017/a.jpg", "train2017/cat/test_b.jpg", "val2017/c.jpg"];
    let input = files(&dir.path().join("coco"), &names);
    let recipe = Recipe::new(&input, "webdataset", dir.path().join("one"));
    let told = warnings(&recipe);
    assert!(told.iter().any(|text| text.contains("into one dataset without splits; pass `split=names`")), "{told:?}");
    let recipe = |out: &str| Recipe::new(&input, "webdataset", dir.path().join(out));
    let of = |name: &str, split: &str| (name.to_owned(), split.to_owned());
    assert_eq!(
        splits(&recipe("two").split(Splits::Names)),
        [of("train2017/a.jpg", "train"), of("train2017/cat/test_b.jpg", "train"), of("val2017/c.jpg", "val")]
    );
    assert_eq!(
        splits(&recipe("three").split("path:/(?:train|val)(2017)/.*[.](?:jpg)".parse().unwrap())),
        [of("train2017/a.jpg", "2017"), of("train2017/cat/test_b.jpg", "2017"), of("val2017/c.jpg", "2017")]
    );
    let error = packhorse::session().pack(&recipe("four").split("path:(val)2017".parse().unwrap())).unwrap_err();
    assert!(error.to_string().contains("train2017/a.jpg: has no split by the expression"), "{error}");
    // A folder that only begins with a split, and the name of an input, count less than a folder that is one.
    let data = files(&dir.path().join("training-data"), &["val/test_station/1.jpg", "train/x/2.jpg"]);
    let found = splits(&Recipe { input: vec![data], ..recipe("data") }.split(Splits::Names));
    assert_eq!(found, [of("train/x/2.jpg", "train"), of("val/test_station/1.jpg", "val")]);
    // Files of two splits make no sample.
    let mixed = files(&dir.path().join("mixed"), &["train/1.jpg", "val/1.txt", "val/2.jpg", "train/2.jpg"]);
    let inputs = |names: [&str; 2]| names.map(|name| mixed.join(name)).to_vec();
    let error =
        packhorse::session().pack(&Recipe { input: inputs(["train", "val"]), ..recipe("no") }.split(Splits::Names));
    assert!(error.unwrap_err().to_string().contains("give the folder that holds both"));
    std::fs::remove_file(mixed.join("train/2.jpg")).unwrap();
    let error =
        packhorse::session().pack(&Recipe { input: inputs(["train", "val"]), ..recipe("no") }.split(Splits::Names));
    assert!(error.unwrap_err().to_string().contains("is of the splits train and val"));
    // Each input may be a split.
    let apart = Recipe { input: ["train2017", "val2017"].map(|name| input.join(name)).to_vec(), ..recipe("five") };
    assert_eq!(
        splits(&apart.split(Splits::Names)),
        [of("a.jpg", "train"), of("c.jpg", "val"), of("cat/test_b.jpg", "train")]
    );
}

/// Folders of classes above or below those of splits.
#[test]
fn classes_are_beside_splits() {
    let dir = tempfile::tempdir().unwrap();
    for (name, paths) in [
        ("above", ["bed/train/1.off", "bed/test/2.off", "desk/train/3.off"]),
        ("below", ["train/bed/1.off", "test/bed/2.off", "train/desk/3.off"]),
    ] {
        let input = files(&dir.path().join(name), &paths);
        let recipe = Recipe::new(&input, "webdataset", dir.path().join(format!("out-{name}")));
        packhorse::session().pack(&recipe.labels(Labels::Folders).split(Splits::Names)).unwrap();
        let found = members(&dir.path().join(format!("out-{name}")));
        let of = |number: &str| {
            let (_, (split, label)) = found.iter().find(|(name, _)| name.ends_with(&format!("{number}.cls"))).unwrap();
            (split.clone().unwrap(), label.clone())
        };
        let wanted =
            [("train", "0"), ("test", "0"), ("train", "1")].map(|(split, label)| (split.to_owned(), label.to_owned()));
        assert_eq!(["1", "2", "3"].map(of), wanted, "{name}");
    }
}

#[test]
fn names_of_archives_and_tables_say_splits() {
    let dir = tempfile::tempdir().unwrap();
    let shards = dir.path().join("shards");
    for name in ["c4-train-0.tar", "c4-validation-0.tar"] {
        std::fs::create_dir_all(&shards).unwrap();
        let mut tar = tar::Builder::new(std::fs::File::create(shards.join(name)).unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("{}/x.txt", name.len()), &b"x"[..]).unwrap();
        tar.finish().unwrap();
    }
    let recipe = |out: &str| Recipe::new(&shards, "webdataset", dir.path().join(out));
    let told = warnings(&recipe("one"));
    assert!(
        told.iter().any(|text| text.contains("c4-validation-0.tar/19 go into one dataset without splits")),
        "{told:?}"
    );
    let found = splits(&recipe("two").split(Splits::Names));
    assert_eq!(found.iter().map(|(_, split)| split.as_str()).collect::<Vec<_>>(), ["train", "validation"]);
    // Tables are divided as archives.
    let tables = dir.path().join("tables");
    std::fs::create_dir_all(&tables).unwrap();
    for name in ["c4-train.csv", "c4-test.csv"] {
        std::fs::write(tables.join(name), "a,b\n1,2\n").unwrap();
    }
    let csv = Recipe { from: Some("csv".to_owned()), ..Recipe::new(&tables, "parquet", dir.path().join("csv")) };
    packhorse::session().pack(&csv.split(Splits::Names)).unwrap();
    let manifest = Manifest::decode(&std::fs::read(dir.path().join("csv/dataset.json")).unwrap()).unwrap();
    assert_eq!(manifest.splits.iter().map(|split| split.name.as_str()).collect::<Vec<_>>(), ["test", "train"]);
    // Archives lie in folders too.
    let apart = dir.path().join("apart");
    for (from, to) in [("c4-train-0.tar", "a/x.tar"), ("c4-validation-0.tar", "b/y.tar")] {
        std::fs::create_dir_all(apart.join(to).parent().unwrap()).unwrap();
        std::fs::copy(shards.join(from), apart.join(to)).unwrap();
    }
    let inside = Recipe::new(&apart, "webdataset", dir.path().join("three")).split(Splits::Folders);
    let found = splits(&inside);
    // The folders inside are first.
    assert_eq!(found.iter().map(|(_, split)| split.as_str()).collect::<Vec<_>>(), ["14", "19"]);
    for (number, name) in ["a/x.tar", "b/y.tar"].into_iter().enumerate() {
        let mut tar = tar::Builder::new(std::fs::File::create(apart.join(name)).unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("{number}.txt"), &b"x"[..]).unwrap();
        tar.finish().unwrap();
    }
    let flat = Recipe::new(&apart, "webdataset", dir.path().join("four")).split(Splits::Folders);
    assert_eq!(splits(&flat).iter().map(|(_, split)| split.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    // Files that lie in no folder have none, whatever makes their keys.
    let fields = files(&dir.path().join("fields"), &["images/1.png", "masks/1.png"]);
    let fields = Recipe {
        key_ends: "field-folders".parse().unwrap(),
        ..Recipe::new(&fields, "webdataset", dir.path().join("five"))
    };
    let error = packhorse::session().pack(&fields.split(Splits::Folders)).unwrap_err();
    assert!(error.to_string().contains("lies in no folder that names its split"), "{error}");
}

/// Lists of stems, as those of Pascal VOC, and of files with their labels.
#[test]
fn lists_say_splits() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["JPEGImages/1.jpg", "JPEGImages/2.jpg", "JPEGImages/3.jpg", "JPEGImages/4.jpg"];
    let input = files(&dir.path().join("voc"), &names);
    let list = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (train, val) =
        (list("train.txt", "1  1\n3 -1\n"), list("val.txt", "\u{feff}JPEGImages/2.jpg 0\r\n\r\n9 1\r\n"));
    let recipe = |out: &str, lists: &str| {
        Recipe::new(&input, "webdataset", dir.path().join(out)).split(format!("lists:{lists}").parse().unwrap())
    };
    let lists = format!("train={train},val={val}");
    let told = warnings(&recipe("one", &lists));
    assert!(told.iter().any(|text| text.contains("left out 1 sample on no list of `split`, such as")), "{told:?}");
    assert!(
        told.iter().any(|text| text.contains("1 line of the lists of `split` without a sample, such as 9")),
        "{told:?}"
    );
    let found: Vec<_> =
        members(&dir.path().join("one")).into_iter().map(|(name, (split, _))| (name, split.unwrap())).collect();
    let of = |name: &str, split: &str| (format!("JPEGImages/{name}.jpg"), split.to_owned());
    assert_eq!(found, [of("1", "train"), of("2", "val"), of("3", "train")]);
    // A shuffled dataset has the same splits.
    let shuffled = splits(&recipe("two", &lists).shuffle(3));
    assert_eq!(shuffled, found);
    for (lists, message) in [
        (format!("train={train},val={train}"), "is on the lists of `split` twice"),
        (format!("train={train},val={}", list("bare.txt", "2\n3\n")), "line 2: 3 is on the lists of `split` twice"),
        (
            format!("train={}", list("no.txt", "x\ny\n")),
            "no sample is on a list of `split`; the lists name samples such as x",
        ),
        (format!("train={}/none.txt", dir.path().display()), "none.txt"),
    ] {
        let error = packhorse::session().pack(&recipe("no", &lists)).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    // The last part of a key is enough where only one sample has it.
    let two = files(&dir.path().join("two-folders"), &["a/1.jpg", "b/1.jpg"]);
    let error = packhorse::session().pack(&Recipe { input: vec![two], ..recipe("three", &lists) }).unwrap_err();
    assert!(error.to_string().contains("1 fits several samples"), "{error}");
    // Names may have spaces. Lists that lie among the inputs are left alone.
    let cats =
        files(&dir.path().join("breeds"), &["British Shorthair/a 1.jpg", "British Shorthair/b.jpg", "British.jpg"]);
    let list = |name: &str, text: &str| {
        std::fs::write(cats.join(name), text).unwrap();
        format!("{}/{name}", cats.display())
    };
    let train = list("train.txt", "British Shorthair/a 1.jpg\nBritish Shorthair/gone.jpg\n");
    let test = list("test.txt", "British Shorthair/b.jpg 1\nBritish 2\n");
    let cats = Recipe { input: vec![cats.clone()], ..recipe("cats", &format!("train={train},test={test}")) };
    let told = warnings(&cats);
    assert!(
        told.contains(
            &"1 line of the lists of `split` without a sample, such as British Shorthair/gone.jpg".to_owned()
        ),
        "{told:?}"
    );
    let found: Vec<_> =
        members(&dir.path().join("cats")).into_iter().map(|(name, (split, _))| (name, split.unwrap())).collect();
    let wanted =
        [("British%20Shorthair/a%201.jpg", "train"), ("British%20Shorthair/b.jpg", "test"), ("British.jpg", "test")];
    assert_eq!(found, wanted.map(|(name, split)| (name.to_owned(), split.to_owned())));
}

/// A file that is not there is not another one whose name is its first word.
#[test]
fn lines_of_names_with_spaces_are_of_whole_names() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("in"), &["Rain.wav", "Rain falling.wav", "Wind.wav", "Sea.wav"]);
    let list = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let train = list("train.txt", "Rain falling.wav\nRain.wav\n");
    // Labels may be numbers, or other files.
    let test = list("test.txt", "Rain heavy.wav\nWind 0.75\nSea.wav Sea mask.png\n");
    let recipe = Recipe::new(&input, "webdataset", dir.path().join("out"));
    let recipe = recipe.split(format!("lists:train={train},test={test}").parse().unwrap());
    let told = warnings(&recipe);
    let line = "1 line of the lists of `split` without a sample, such as Rain heavy.wav";
    assert!(told.contains(&line.to_owned()), "{told:?}");
    let found: Vec<_> =
        members(&dir.path().join("out")).into_iter().map(|(name, (split, _))| (name, split.unwrap())).collect();
    let wanted = [("Rain%20falling.wav", "train"), ("Rain.wav", "train"), ("Sea.wav", "test"), ("Wind.wav", "test")];
    assert_eq!(found, wanted.map(|(name, split)| (name.to_owned(), split.to_owned())));
}

/// A recipe with the tables that `pattern` finds in folders, and rows called `id`.
fn with_pattern(inputs: &[PathBuf], pattern: PathBuf, out: &str) -> Recipe {
    let out = inputs[0].parent().unwrap().join(out);
    let recipe = Recipe { input: inputs.to_vec(), ..Recipe::new(&inputs[0], "webdataset", out) };
    Recipe { metadata: Some(pattern), key: Some("id".to_owned()), ..recipe }
}

/// A training set that is not unpacked yet, beside a test set without a table.
#[test]
fn rows_of_a_table_in_a_folder_are_for_the_samples_there() {
    let dir = tempfile::tempdir().unwrap();
    let names =
        ["hf/test/1.wav", "hf/test/2.wav", "hf/train/m.csv", "sp/1/b.wav", "sp/2/a.wav", "sp/1/m.csv", "sp/2/m.csv"];
    files(dir.path(), &names);
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("hf/train/m.csv", "id,n\n1.wav,1\n2.wav,2\n");
    let at = |name: &str| dir.path().join(name);
    for (inputs, key) in [(&["hf"][..], "train/1"), (&["hf/train", "hf/test"], "1"), (&["hf/*"], "1")] {
        let inputs: Vec<PathBuf> = inputs.iter().map(|name| at(name)).collect();
        let error = packhorse::session().pack(&with_pattern(&inputs, at("hf/*/m.csv"), "no")).unwrap_err().to_string();
        assert!(error.contains("test/1.wav") && error.contains("has no row in the metadata"), "{error}");
        let hint =
            format!("by keys such as {key}; tables that a pattern finds in folders are for the samples in these");
        assert!(error.contains(&hint), "{error}");
    }
    // Each text went to the other speaker.
    write("sp/1/m.csv", "id,n\na.wav,1\n");
    write("sp/2/m.csv", "id,n\nb.wav,2\n");
    let error = packhorse::session().pack(&with_pattern(&[at("sp")], at("sp/*/m.csv"), "no")).unwrap_err().to_string();
    assert!(error.contains("1/b.wav") && error.contains("2 inputs can't be packed"), "{error}");
    // Links are folders as others.
    std::os::unix::fs::symlink("../hf/train", at("sp/train")).unwrap();
    std::os::unix::fs::symlink("../hf/test", at("sp/test")).unwrap();
    let links = with_pattern(&[at("sp")], at("sp/t*/m.csv"), "no");
    let links = packhorse::session().pack(&links).unwrap_err().to_string();
    assert!(links.contains("6 inputs can't be packed"), "{links}");
    // One table for all.
    write("hf/train/m.csv", "id,n\n1.wav,1\n2.wav,2\n");
    let recipe = with_pattern(&[at("hf")], at("hf/train/m.csv"), "one");
    assert_eq!(packed(&recipe)["test/2.json"].1, r#"{"id":"2.wav","n":2}"#);
    std::fs::rename(at("hf/train"), at("elsewhere")).unwrap();
    let recipe = with_pattern(&[at("hf")], at("else*/m.csv"), "outside");
    assert_eq!(packed(&recipe)["test/2.json"].1, r#"{"id":"2.wav","n":2}"#);
}

/// LJSpeech's layout for each speaker, whose numbers begin again.
#[test]
fn ids_of_tables_in_folders_may_be_alike() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["p1/wavs/L1.wav", "p1/wavs/L2.wav", "p2/wavs/L1.wav", "p2/wavs/L2.wav", "q/__1.wav", "q/L2.wav"];
    let input = files(&dir.path().join("tts"), &names);
    let table = |name: &str, rows: &str| std::fs::write(input.join(name), format!("id,n\n{rows}")).unwrap();
    table("p1/m.csv", "L1,1\nL2,2\n");
    table("p2/m.csv", "p2/wavs/L1,3\ntts/p2/wavs/L2,4\n");
    table("q/m.csv", "__1,5\nL2,6\nx,7\n");
    let recipe = with_pattern(std::slice::from_ref(&input), input.join("*/m.csv"), "out");
    let told = warnings(&recipe);
    assert!(told.contains(&"1 row of the metadata belongs to no sample, that of q/x".to_owned()), "{told:?}");
    let found = members(recipe.out.as_ref().unwrap());
    for (sample, row) in [
        ("p1/wavs/L1", r#"{"id":"L1","n":1}"#),
        ("p1/wavs/L2", r#"{"id":"L2","n":2}"#),
        ("p2/wavs/L1", r#"{"id":"p2/wavs/L1","n":3}"#),
        ("p2/wavs/L2", r#"{"id":"tts/p2/wavs/L2","n":4}"#),
        ("q/__1", r#"{"id":"__1","n":5}"#),
        ("q/L2", r#"{"id":"L2","n":6}"#),
    ] {
        assert_eq!(found[&format!("{sample}.json")].1, row, "{sample}");
    }
    let lists = with_pattern(std::slice::from_ref(&input), input.join("*/m.csv"), "lists");
    let found = packed(&Recipe { metadata_rows: MetadataRows::List, ..lists });
    assert_eq!(found["p1/wavs/L2.json"].1, r#"[{"id":"L2","n":2}]"#);
    assert_eq!(found["q/L2.json"].1, r#"[{"id":"L2","n":6}]"#);
    // The folder of the sounds alone, below that of its table.
    let recipe = with_pattern(&[input.join("p1/wavs")], input.join("*/m.csv"), "../../alone");
    assert_eq!(packed(&recipe)["L1.json"].1, r#"{"id":"L1","n":1}"#);
    let error = |pattern: &str| {
        let recipe = with_pattern(std::slice::from_ref(&input), input.join(pattern), "no");
        packhorse::session().pack(&recipe).unwrap_err().to_string()
    };
    files(&input, &["p1/old/L2.wav"]);
    let twice = error("*/m.csv");
    assert!(twice.contains("L2 fits several samples"), "{twice}");
    std::fs::remove_dir_all(input.join("p1/old")).unwrap();
    table("p1/m.csv", "wavs/L1,1\nwavs/L2,2\n");
    table("p1/wavs/m.csv", "L1,1\n");
    assert!(error("p1/{.,wavs}/m.csv").contains("has rows in the tables of two folders"));
}

#[test]
fn files_without_extensions_are_samples() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(&dir.path().join("in"), &["p1/IM00001", "p1/IM00002", "p2/IM00001", "p2/.DS_Store"]);
    let recipe = |out: &str| Recipe::new(&input, "webdataset", dir.path().join(out)).labels(Labels::Folders);
    let error = packhorse::session().pack(&recipe("one")).unwrap_err();
    assert!(error.to_string().contains("3 without an extension") && error.to_string().contains("whole:dcm"), "{error}");
    let found = packed(&Recipe { key_ends: "whole:dcm".parse().unwrap(), ..recipe("two") });
    assert_eq!(found.len(), 6);
    assert_eq!((found["p1/IM00002.dcm"].1.as_str(), found["p2/IM00001.cls"].1.as_str()), ("p1/IM00002", "1"));
}
