//! What a dataset holds comes through another packing: keys, missing values, names of classes, members of tars.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
}

use common::process::{Ended, packhorse};
use packhorse::dataset::{MANIFEST, Manifest};
use std::fs;
use std::path::{Path, PathBuf};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn pack(input: &Path, to: &str, out: &Path, more: &[&str]) -> Ended {
    packhorse(&[&["pack", text(input), "--to", to, "--out", text(out), "-q"], more].concat()).run()
}

fn packed(input: &Path, to: &str, out: &Path, more: &[&str]) {
    let ended = pack(input, to, out, more);
    assert_eq!(ended.code(), 0, "{ended:?}");
}

/// The samples as `head` shows them.
fn shown(dataset: &Path) -> String {
    let ended = packhorse(&["head", text(dataset), "-n", "1000"]).run();
    assert_eq!(ended.code(), 0, "{ended:?}");
    ended.printed
}

fn table(dir: &Path) -> PathBuf {
    let table = dir.join("t.csv");
    fs::write(&table, "__key__,score,name\ns-7/a,1,x\ns-7/b,,\ns-9/a,3,z\n").unwrap();
    table
}

#[test]
fn keys_stay_where_fields_are_selected() {
    let dir = tempfile::tempdir().unwrap();
    let table = table(dir.path());
    for to in ["parquet", "arrow"] {
        let [whole, part] = ["whole", "part"].map(|name| dir.path().join(format!("{name}-{to}")));
        packed(&table, to, &whole, &[]);
        packed(&whole, to, &part, &["--select", "score"]);
        let part = shown(&part);
        for key in ["s-7/a\n", "s-7/b\n", "s-9/a\n"] {
            assert!(part.contains(key) && !part.contains("name"), "{part}");
        }
    }
}

/// The datasets of a shard are the parts of its fields, whose missing values are not zeros.
#[test]
fn missing_values_stay_where_datasets_are_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, part] = ["whole", "part"].map(|name| dir.path().join(name));
    packed(&table(dir.path()), "hdf5", &whole, &[]);
    packed(&whole, "parquet", &part, &["--datasets", "/data/score"]);
    assert_eq!(shown(&part).split_whitespace().collect::<Vec<_>>().join(" "), "s-7/a score: 1 s-7/b s-9/a score: 3");
}

fn pictures(dir: &Path) -> PathBuf {
    let input = dir.join("in");
    for name in ["cat/1.jpg", "cat/2.jpg", "dog/3.jpg"] {
        fs::create_dir_all(input.join(name).parent().unwrap()).unwrap();
        fs::write(input.join(name), name).unwrap();
    }
    input
}

/// The samples that a condition chooses.
fn chosen(dataset: &Path, condition: &str, out: &Path) -> u64 {
    let ended = packhorse(&["view", text(dataset), "--where", condition, "--out", text(out), "--json"]).run();
    assert_eq!(ended.code(), 0, "{ended:?}");
    serde_json::from_str::<serde_json::Value>(&ended.printed).unwrap()["samples"].as_u64().unwrap()
}

#[test]
fn labels_keep_the_names_of_their_classes_under_another_name_and_through_tars() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let renamed = ["--field", "cls=label"];
    packed(&pictures(dir.path()), "parquet", &at("parquet"), &[&["--labels", "folders"], &renamed[..]].concat());
    for (from, to) in
        [("parquet", "webdataset"), ("webdataset", "webdataset-2"), ("webdataset-2", "hdf5"), ("hdf5", "arrow")]
    {
        packed(&at(from), to.trim_end_matches("-2"), &at(to), &[]);
    }
    for name in ["parquet", "webdataset", "webdataset-2", "hdf5", "arrow"] {
        let field = if name.starts_with("webdataset") { "label.npy" } else { "label" };
        let view = at(&format!("view-{name}"));
        assert_eq!(chosen(&at(name), &format!("{field} == 'cat'"), &view), 2, "{name}");
        let manifest = Manifest::decode(&fs::read(at(name).join(MANIFEST)).unwrap()).unwrap();
        let label = manifest.schema.iter().find(|field| field.name == "label").unwrap();
        let feature = label.metadata.values().find(|text| text.contains("ClassLabel")).unwrap();
        assert!(feature.contains(r#"["cat","dog"]"#), "{name}: {feature}");
        assert_eq!(manifest.classes, ["cat", "dog"], "{name}");
    }
}

/// What tells JSON from other text is the note of the column, which a tar has no place for.
#[test]
fn json_is_json_behind_a_tar_too() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("chats.jsonl"), "{\"chat\": [{\"role\": \"user\", \"tool\": null}]}\n").unwrap();
    packed(&at("chats.jsonl"), "webdataset", &at("tars"), &["--from", "jsonl"]);
    packed(&at("tars"), "webdataset", &at("again-tars"), &[]);
    packed(&at("again-tars"), "parquet", &at("tables"), &[]);
    packed(&at("chats.jsonl"), "parquet", &at("more"), &["--from", "jsonl"]);
    let both =
        packhorse(&["pack", text(&at("tables")), text(&at("more")), "--to", "arrow", "--out", text(&at("both"))]);
    assert_eq!(both.run().code(), 0);
    // It is not encoded twice.
    packed(&at("tables"), "parquet", &at("again"), &["--from", "parquet", "--read", "json=chat"]);
    assert_eq!(shown(&at("again")), shown(&at("tables")));
    for name in ["tables", "again", "both"] {
        let manifest = Manifest::decode(&fs::read(at(name).join(MANIFEST)).unwrap()).unwrap();
        let chat = manifest.schema.iter().find(|field| field.name == "chat").unwrap();
        assert!(chat.metadata.values().any(|note| note == "json"), "{name}: {chat:?}");
    }
}

/// A list of classes may go on in later samples.
#[test]
fn lists_of_classes_go_on_under_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (first, more, classes) = (pictures(dir.path()), at("more"), at("classes.txt"));
    fs::create_dir_all(more.join("emu")).unwrap();
    fs::write(more.join("emu/4.jpg"), "emu").unwrap();
    fs::write(&classes, "cat\ndog\nemu\n").unwrap();
    let labels = ["--labels", "folders", "--field", "cls=label"];
    for (to, field) in [("parquet", "label"), ("webdataset", "label.npy")] {
        let [out, apart, both] = ["out", "apart", "both"].map(|name| at(&format!("{name}-{to}")));
        packed(&first, to, &out, &labels);
        packed(&more, to, &apart, &[&labels[..], &["--classes", text(&classes)]].concat());
        let args = ["pack", text(&out), text(&apart), "--to", to, "--out", text(&both)];
        let ended = packhorse(&args).run();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let args = ["append", text(&out), text(&more), "--labels", "folders", "--classes", text(&classes)];
        let ended = packhorse(&args).run();
        assert_eq!(ended.code(), 0, "{ended:?}");
        for out in [out, both] {
            let view = out.with_extension("view");
            assert_eq!(chosen(&out, &format!("{field} == 'emu'"), &view), 1, "{}", out.display());
        }
    }
}

/// What was packed before a column was known to be JSON or to have classes takes more samples.
#[test]
fn tars_take_members_of_tars() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (name, key) in [("a", "x"), ("b", "y")] {
        fs::write(at(name).with_extension("jsonl"), format!("{{\"__key__\": \"{key}\", \"chat\": [1, null]}}\n"))
            .unwrap();
        packed(&at(name).with_extension("jsonl"), "webdataset", &at(name), &["--from", "jsonl"]);
    }
    // The tars alone, as others would have made them.
    fs::create_dir(at("bare")).unwrap();
    fs::copy(at("a/shard-000000.tar"), at("bare/a.tar")).unwrap();
    for to in ["webdataset", "parquet"] {
        packed(&at("bare"), to, &at(to), &[]);
        let more = packhorse(&["append", text(&at(to)), text(&at("b"))]).run();
        assert_eq!(more.code(), 0, "{more:?}");
        let shown = shown(&at(to)).replace([' ', '\n'], "");
        assert_eq!(shown.matches("[1,null]").count(), 2, "{shown}");
    }
}

/// Of mixed values each is JSON, and a condition need not know.
#[test]
fn strings_among_numbers_are_compared_without_quotes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("mixed.jsonl"), "{\"id\": \"s2\"}\n{\"id\": 3}\n{\"id\": \"a \\\"b\\\"\"}\n").unwrap();
    packed(&at("mixed.jsonl"), "parquet", &at("out"), &["--from", "jsonl", "--schema", "id:json"]);
    for (number, (condition, samples)) in
        [("id == 's2'", 1), ("id == '\"s2\"'", 1), ("id != 's2'", 2), ("id == '3'", 1), ("id in ['s2', 'a \"b\"']", 2)]
            .into_iter()
            .enumerate()
    {
        assert_eq!(chosen(&at("out"), condition, &at(&format!("view-{number}"))), samples, "{condition}");
    }
}

/// The width of NumPy text is that of the longest one, which the next samples may exceed.
#[test]
fn longer_text_can_be_appended() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (name, text) in [("short", "S1"), ("long", "S10")] {
        let header = format!("{{'descr': '<U{}', 'fortran_order': False, 'shape': (), }}", text.len());
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(text.chars().flat_map(|c| u32::from(c).to_le_bytes()));
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join(format!("{name}.subject.npy")), bytes).unwrap();
    }
    for to in ["webdataset", "hdf5", "parquet", "arrow", "tfrecord"] {
        let out = at(to);
        packed(&at("short"), to, &out, &[]);
        let more = packhorse(&["append", text(&out), text(&at("long"))]).run();
        assert_eq!(more.code(), 0, "{to}: {more:?}");
        let shown = shown(&out);
        assert!(shown.contains("S1\n") && shown.contains("S10"), "{to}: {shown}");
    }
}

/// The names of folders are columns where that is asked for, and where more is appended.
#[test]
fn folders_of_partitions_are_columns() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (file, x) in
        [("in/year=2023/city=New%20York/a.csv", 1), ("in/year=2024/city=__HIVE_DEFAULT_PARTITION__/a.csv", 2)]
    {
        fs::create_dir_all(at(file).parent().unwrap()).unwrap();
        fs::write(at(file), format!("x\n{x}\n")).unwrap();
    }
    fs::create_dir_all(at("more/year=2025/city=Rome")).unwrap();
    fs::write(at("more/year=2025/city=Rome/b.csv"), "x\n3\n").unwrap();
    let csv = ["--from", "csv"];
    let without = pack(&at("in"), "parquet", &at("without"), &csv);
    assert!(without.said.contains("--partitions"), "{without:?}");
    for to in ["parquet", "webdataset"] {
        let out = at(to);
        packed(&at("in"), to, &out, &[&csv[..], &["--partitions", "--cast", "year=i32"]].concat());
        let more = packhorse(&["append", text(&out), text(&at("more")), "--from", "csv"]).run();
        assert!(more.code() == 0 && !more.said.contains("partition"), "{more:?}");
        let ends = [".npy", ".txt"].iter().fold(shown(&out), |shown, end| shown.replace(end, ""));
        let values: Vec<&str> = ends.lines().filter(|line| line.starts_with("  ")).map(str::trim).collect();
        let wanted = ["city: New York", "x: 1", "year: 2023", "x: 2", "year: 2024", "city: Rome", "x: 3", "year: 2025"];
        assert_eq!(values, wanted, "{to}");
    }
    fs::write(at("more/year=2025/city=Rome/b.csv"), "x,year\n3,1999\n").unwrap();
    let twice = pack(&at("more"), "parquet", &at("twice"), &[&csv[..], &["--partitions"]].concat());
    assert!(twice.code() == 2 && twice.said.contains("has a column year, and lies in a folder"), "{twice:?}");
}

/// From tar to tar, members of several arrays stay as they are, unless that is asked for. To a container with types they are fields.
#[test]
fn members_of_several_arrays_stay_whole_in_tars() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let made = packhorse(&["synth", "npz", "--count", "2", "--out", text(&at("arrays")), "-q"]).run();
    assert_eq!(made.code(), 0, "{made:?}");
    fs::create_dir(at("tars")).unwrap();
    let mut tar = tar::Builder::new(fs::File::create(at("tars/a.tar")).unwrap());
    let folder = fs::read_dir(at("arrays")).unwrap().next().unwrap().unwrap().path();
    let folder = if folder.is_dir() { folder } else { at("arrays") };
    for (number, name) in fs::read_dir(folder).unwrap().enumerate() {
        tar.append_path_with_name(name.unwrap().path(), format!("{number}.feat.npz")).unwrap();
    }
    tar.finish().unwrap();
    let members = |out: &str| {
        let listed = packhorse(&["ls", text(&at(out)), "--json"]).run();
        assert_eq!(listed.code(), 0, "{listed:?}");
        let lines = listed.printed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|line| line["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    packed(&at("tars"), "webdataset", &at("same"), &[]);
    assert_eq!(members("same"), ["feat.npz", "feat.npz"]);
    packed(&at("same"), "webdataset", &at("again"), &["--decode", "auto"]);
    assert_eq!(members("again"), ["feat.npz", "feat.npz"]);
    packed(&at("tars"), "webdataset", &at("split"), &["--decode", "always", "--ragged"]);
    let split = members("split");
    assert!(
        split.len() >= 4 && split.iter().all(|member| member.starts_with("feat.") && member.ends_with(".npy")),
        "{split:?}"
    );
    packed(&at("tars"), "parquet", &at("typed"), &["--ragged"]);
    assert!(!shown(&at("typed")).contains("npz"));
    // Those of files have no member to stay.
    packed(&at("arrays"), "webdataset", &at("files"), &["--ragged"]);
    assert!(members("files").iter().all(|member| member.ends_with(".npy")));
}
