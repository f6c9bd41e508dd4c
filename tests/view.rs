//! Views: some samples and fields of a sealed dataset, read from its shards.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    #[cfg(feature = "remote")]
    pub(crate) mod moto;
    pub(crate) mod process;
}

use arrow_array::{ArrayRef, BinaryViewArray, Float64Array, Int64Array, RecordBatch, StringViewArray};
use common::process::{Ended, packhorse};
use packhorse::core::{Code, DataType, FieldType, KEY, Kind, Limits, Options, Schema, Store};
use packhorse::dataset::{DatasetView, MANIFEST, Manifest, SELECTION, VIEW};
use packhorse::read::order::{Rank, Shuffle};
use packhorse::read::{BatchDecoder, Condition, Dataset, FieldKind, FieldOptions, LoaderOptions, Remainder};
use packhorse::storage::Local;
use packhorse::{Recipe, Session};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const CONFIG: i32 = 2;
const CHANGED: i32 = 4;
const DAMAGED: i32 = 6;

/// Samples of the dataset, in shards of seven.
const COUNT: usize = 60;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn label(i: usize) -> i64 {
    (i * 7 % 5) as i64
}

fn width(i: usize) -> f64 {
    (i * 31 % 97) as f64 + 0.5
}

fn caption(i: usize) -> String {
    format!("caption {}", i % 4)
}

/// A dataset of bytes, as files of samples make it.
fn tars(dir: &Path) -> PathBuf {
    let (input, out) = (dir.join("in"), dir.join("out"));
    std::fs::create_dir(&input).unwrap();
    for i in 0..COUNT {
        let write = |field: &str, bytes: &str| std::fs::write(input.join(format!("s{i:04}.{field}")), bytes).unwrap();
        write("cls", &label(i).to_string());
        write("txt", &caption(i));
        let odd = ["", r#", "odd": null"#, "", r#", "odd": 1"#].get(i).copied().unwrap_or_default();
        write("json", &format!(r#"{{"width": {}, "size": {{"name": "n{}"}}, "list": [{i}]{odd}}}"#, width(i), i % 3));
        write("bin", &"x".repeat(i * 37 % 500));
        write("num", &format!("{}\n", i as f64 / 2.0));
    }
    packhorse(&["pack", text(&input), "--to", "webdataset", "--out", text(&out), "--samples-per-shard", "7"]).succeed();
    out
}

/// A dataset of columns.
fn columns(dir: &Path, format: &str) -> PathBuf {
    let out = dir.join(format!("out-{format}"));
    let schema = Schema::new(vec![
        FieldType::Text.field(KEY, false),
        FieldType::Scalar(DataType::Int64).field("cls", false),
        FieldType::Scalar(DataType::Float64).field("width", false),
        FieldType::Text.field("txt", false),
        FieldType::Blob.field("bin", false),
    ]);
    let recipe = Recipe::for_writer(format, &out).samples_per_shard(7);
    let session: Session = packhorse::session();
    let mut writer = session.writer(&recipe, &Arc::new(schema)).unwrap();
    let all = || 0..COUNT;
    let columns: [(&str, ArrayRef); 5] = [
        (KEY, Arc::new(StringViewArray::from_iter_values(all().map(|i| format!("s{i:04}"))))),
        ("cls", Arc::new(Int64Array::from_iter_values(all().map(label)))),
        ("width", Arc::new(Float64Array::from_iter_values(all().map(width)))),
        ("txt", Arc::new(StringViewArray::from_iter_values(all().map(caption)))),
        ("bin", Arc::new(BinaryViewArray::from_iter_values(all().map(|i| vec![b'x'; i * 37 % 500])))),
    ];
    writer.push(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    writer.finish().unwrap();
    out
}

/// A dataset of each kind of format.
fn datasets(dir: &TempDir) -> Vec<PathBuf> {
    vec![tars(dir.path()), columns(dir.path(), "hdf5"), columns(dir.path(), "parquet")]
}

fn open(dir: &Path) -> Dataset {
    packhorse::open(text(dir)).unwrap()
}

fn view(base: &Path, out: &Path, more: &[&str]) -> Ended {
    packhorse(&[&["view", text(base), "--out", text(out)], more].concat()).run()
}

#[track_caller]
fn viewed(base: &Path, out: &Path, more: &[&str]) -> PathBuf {
    let ended = view(base, out, more);
    assert_eq!(ended.code(), 0, "{ended:?}");
    out.to_owned()
}

fn keys(dataset: &Dataset) -> Vec<String> {
    let mut keys = Vec::new();
    dataset
        .each_key(|_, key| {
            keys.push(key.to_owned());
            Ok(())
        })
        .unwrap();
    keys
}

/// The key of a sample, and all bytes of all its fields.
type Sample = (String, BTreeMap<String, Vec<u8>>);

/// All samples, in order.
fn samples(dataset: &Dataset) -> Vec<Sample> {
    let fields: Vec<FieldOptions> = Vec::new();
    let decoder = BatchDecoder::new(dataset, &fields, &LoaderOptions::new(1)).unwrap();
    let names: Vec<String> = dataset.schema().fields().iter().map(|field| field.name().clone()).collect();
    let one = |number| {
        let batch = decoder.decode(&[number], 0).unwrap();
        let fields = names.iter().map(|name| (name.clone(), batch.row(name, 0).unwrap().to_vec()));
        (batch.key(0).unwrap().to_owned(), fields.collect())
    };
    (0..dataset.len()).map(one).collect()
}

fn lines(path: &Path, lines: impl IntoIterator<Item = impl ToString>) -> PathBuf {
    let text: String = lines.into_iter().map(|line| line.to_string() + "\n").collect();
    std::fs::write(path, text).unwrap();
    path.to_owned()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at % bytes.len();
    bytes[at] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

const CHOSEN: [u64; 11] = [3, 4, 5, 59, 0, 20, 21, 3, 40, 41, 42];

#[test]
fn samples_are_those_of_the_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = lines(&dir.path().join("numbers"), CHOSEN);
    for (i, base) in datasets(&dir).iter().enumerate() {
        let out = viewed(base, &dir.path().join(format!("views/{i}")), &["--numbers", text(&numbers)]);
        let (whole, chosen) = (open(base), open(&out));
        assert_eq!(samples(&chosen), samples(&whole.subset(CHOSEN).unwrap()), "{base:?}");
        assert_eq!(chosen.schema(), whole.schema());
        assert_eq!(open(&out.join(VIEW)).len(), CHOSEN.len() as u64);
        let size: u64 = [VIEW, SELECTION].iter().map(|name| std::fs::metadata(out.join(name)).unwrap().len()).sum();
        assert!(size < 2000, "{size}");
        // A view of a view is one of the dataset.
        let again = viewed(&out, &dir.path().join(format!("again-{i}")), &["--select", "cls,txt"]);
        let document = DatasetView::read(&Local, &again).unwrap().unwrap();
        assert_eq!(
            dir.path().join(format!("again-{i}")).join(&document.base).canonicalize().unwrap(),
            base.canonicalize().unwrap()
        );
        let narrow = open(&again);
        assert_eq!(samples(&narrow), samples(&whole.subset(CHOSEN).unwrap().select(&["cls", "txt"]).unwrap()));
        assert_eq!(narrow.schema().fields().len(), 2);
    }
}

/// A source of some fields reads no others, and keys.
#[test]
fn fields_that_are_not_chosen_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    for (format, file) in [("hdf5", "shard-000000.h5"), ("parquet", "shard-000000.parquet")] {
        let out = columns(dir.path(), format);
        let registry = packhorse::registry();
        let source = registry.get(format).unwrap().source(&Options::new(), Limits::default()).unwrap();
        let narrow = source.narrowed(&["cls".to_owned(), "txt".to_owned()]).unwrap();
        let table = narrow.open(Arc::from(Local.open(&out.join(file)).unwrap())).unwrap();
        let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let info = table.info().unwrap();
        assert_eq!((names(&info.schema), info.items), (vec![KEY.into(), "cls".into(), "txt".into()], 7), "{format}");
        let rows: Vec<_> = table.rows(2..5).unwrap().map(|rows| rows.unwrap()).collect();
        assert!(rows.iter().all(|rows| rows.num_columns() == 3));
        assert_eq!(rows.iter().map(|rows| rows.num_rows()).sum::<usize>(), 3);
    }
}

#[test]
fn a_loader_gives_every_sample_once_an_epoch() {
    let dir = tempfile::tempdir().unwrap();
    for (i, base) in datasets(&dir).iter().enumerate() {
        let out = viewed(base, &dir.path().join(format!("v{i}")), &["--where", "cls != 2"]);
        let dataset = open(&out);
        let mut seen: BTreeMap<(u64, String), usize> = BTreeMap::new();
        for rank in 0..3 {
            let options = LoaderOptions {
                rank: Rank { rank, world_size: 3 },
                shuffle: Some(Shuffle::Blocks { shards: 2 }),
                remainder: Remainder::Uneven,
                epochs: Some(2),
                ..LoaderOptions::new(4)
            };
            let loader = dataset.loader(4).configure(|all| *all = options.clone()).rank(options.rank).build().unwrap();
            for batch in loader {
                let batch = batch.unwrap();
                for row in 0..batch.rows() {
                    *seen.entry((batch.epoch(), batch.key(row).unwrap().to_owned())).or_default() += 1;
                }
            }
        }
        let wanted =
            (0..COUNT).filter(|i| label(*i) != 2).flat_map(|i| [0, 1].map(|epoch| ((epoch, format!("s{i:04}")), 1)));
        assert_eq!(seen, wanted.collect(), "{base:?}");
    }
}

#[test]
fn conditions_choose_by_values() {
    let dir = tempfile::tempdir().unwrap();
    let of = |dataset: &Dataset, condition: &str| {
        let chosen = dataset.filter(&condition.parse::<Condition>().unwrap()).map_err(|e| e.to_string())?;
        Ok::<_, String>(keys(&chosen))
    };
    let wanted = |holds: &dyn Fn(usize) -> bool| {
        (0..COUNT).filter(|i| holds(*i)).map(|i| format!("s{i:04}")).collect::<Vec<_>>()
    };
    for base in datasets(&dir) {
        let dataset = open(&base);
        let is_tar = dataset.schema().column_with_name("json").is_some();
        let width_of = if is_tar { "json.width" } else { "width" };
        assert_eq!(of(&dataset, "cls == 3").unwrap(), wanted(&|i| label(i) == 3));
        let both = format!("cls >= 2 and {width_of} < 40.5 and txt != 'caption 1'");
        assert_eq!(of(&dataset, &both).unwrap(), wanted(&|i| label(i) >= 2 && width(i) < 40.5 && i % 4 != 1));
        assert_eq!(of(&dataset, "cls > 100").unwrap(), Vec::<String>::new());
        let wrong = |condition: &str| of(&dataset, condition).unwrap_err();
        assert!(wrong("colour == 3").contains("no field colour"), "{}", wrong("colour == 3"));
        assert!(wrong("cls == 'three'").contains("is a number"), "{}", wrong("cls == 'three'"));
        assert!(wrong("txt == 3").contains("is text"), "{}", wrong("txt == 3"));
        if is_tar {
            assert_eq!(of(&dataset, "num < 5").unwrap(), wanted(&|i| i < 10));
            assert_eq!(of(&dataset, "json.size.name == 'n2'").unwrap(), wanted(&|i| i % 3 == 2));
            assert_eq!(of(&dataset, "json.list.0 == 7 and json.width > 0").unwrap(), ["s0007"]);
            // Nothing is there to compare in all samples but one.
            assert_eq!(of(&dataset, "json.odd == 1").unwrap(), ["s0003"]);
            assert_eq!(of(&dataset, "json.odd != 2 and json.odd > 0").unwrap(), ["s0003"]);
            // Samples that a comparison before left out may have one.
            assert_eq!(of(&dataset, "cls == 0 and json.odd == 1").unwrap(), Vec::<String>::new());
            assert!(wrong("json.size == 3").contains("neither a number nor text"), "{}", wrong("json.size == 3"));
            assert!(
                wrong("json.depth == 3").contains("no sample has a value of depth in its field json"),
                "{}",
                wrong("json.depth == 3")
            );
        }
    }
}

/// Samples of which every third lacks its caption, or has a null.
#[test]
fn conditions_on_what_samples_lack() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    std::fs::create_dir(&input).unwrap();
    for i in 0..12 {
        let write = |field: &str, bytes: String| std::fs::write(input.join(format!("{i:02}.{field}")), bytes).unwrap();
        write("cls", (i % 2).to_string());
        write("json", format!(r#"{{"score": {}}}"#, if i % 4 == 0 { "null".to_owned() } else { i.to_string() }));
        if i % 3 != 0 {
            write("txt", format!("caption {i}"));
        }
    }
    let webdataset = dir.path().join("webdataset");
    packhorse(&["pack", text(&input), "--to", "webdataset", "--out", text(&webdataset)]).succeed();
    let mut outs = vec![webdataset];
    for format in ["parquet", "arrow", "tfrecord", "hdf5"] {
        let out = dir.path().join(format);
        packhorse(&["pack", text(&outs[0]), "--to", format, "--out", text(&out)]).succeed();
        outs.push(out);
    }
    for out in &outs {
        for (condition, wanted) in [
            ("txt == 'caption 4' or cls == 0", "00 02 04 06 08 10"),
            ("txt is null and (cls == 1 or json.score >= 6)", "03 06 09"),
            ("txt is not null and not cls == 1", "02 04 08 10"),
            ("not txt == 'caption 4' and cls == 0", "02 08 10"),
            ("json.score is null", "00 04 08"),
            ("json.score not in [1, 2, 3] and txt is not null", "05 07 10 11"),
            ("json is null or txt is null", "00 03 06 09"),
        ] {
            let dataset = open(out);
            let chosen = dataset.filter(&condition.parse::<Condition>().unwrap()).unwrap();
            assert_eq!(keys(&chosen).join(" "), wanted, "{condition} of {}", out.display());
        }
    }
}

#[test]
fn keys_that_are_missing_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let base = tars(dir.path());
    let list = lines(&dir.path().join("keys"), ["s0041", "s0007", "s0008"]);
    let out = viewed(&base, &dir.path().join("v"), &["--keys", text(&list)]);
    assert_eq!(keys(&open(&out)), ["s0007", "s0008", "s0041"]);
    let wrong = lines(&dir.path().join("wrong"), ["s0007", "x1", "x2", "x3", "x4"]);
    let ended = view(&base, &dir.path().join("w"), &["--keys", text(&wrong)]);
    assert_eq!(ended.code(), CONFIG, "{ended:?}");
    assert!(ended.said.contains(r#"4 of 5 keys are not in the dataset: "x1", "x2", "x3", …"#), "{ended:?}");
    assert!(!dir.path().join("w").exists());
    for (file, what) in [("60", "beyond the 60 samples"), ("1\nx", "line 2"), ("-1", "line 1")] {
        let numbers = lines(&dir.path().join("numbers"), [file]);
        let ended = view(&base, &dir.path().join("w"), &["--numbers", text(&numbers)]);
        assert!(ended.code() == CONFIG && ended.said.contains(what), "{ended:?}");
    }
    let ended = view(&base, &dir.path().join("w"), &["--where", "cls == 77"]);
    assert!(ended.code() == CONFIG && ended.said.contains("no sample is chosen"), "{ended:?}");
}

/// Writes the manifest of the first `shards` shards in place of the whole one, which it returns: an earlier state of a
/// dataset that grows.
fn shrink(base: &Path, shards: usize) -> Vec<u8> {
    let whole = std::fs::read(base.join(MANIFEST)).unwrap();
    let mut manifest = Manifest::decode(&whole).unwrap();
    manifest.shards.truncate(shards);
    manifest.samples = manifest.shards.iter().map(|shard| shard.samples).sum();
    manifest.root = manifest.root_of_shards();
    std::fs::write(base.join(MANIFEST), manifest.encode().unwrap()).unwrap();
    whole
}

#[test]
fn folds_are_disjoint_complete_and_stay() {
    let dir = tempfile::tempdir().unwrap();
    for (i, base) in datasets(&dir).iter().enumerate() {
        let all = keys(&open(base));
        let mut seen = Vec::new();
        for fold in 1..=4 {
            let place = dir.path().join(format!("{i}-{fold}"));
            let fold = format!("{fold}/4");
            let held = keys(&open(&viewed(base, &place.join("a"), &["--fold", &fold, "--seed", "3"])));
            let rest = keys(&open(&viewed(base, &place.join("b"), &["--without-fold", &fold, "--seed", "3"])));
            assert!(!held.is_empty() && held.iter().all(|key| !rest.contains(key)));
            assert_eq!(held.len() + rest.len(), all.len());
            seen.extend(held);
        }
        seen.sort();
        assert_eq!(seen, all);
        let fold = |seed| keys(&open(base).fold(2, 4, seed).unwrap());
        let now = fold(3);
        assert_ne!(now, fold(4));
        let whole = shrink(base, 4);
        let before = fold(3);
        assert!(before.len() < now.len() && now.starts_with(&before));
        std::fs::write(base.join(MANIFEST), whole).unwrap();
        assert_eq!(open(base).fold(0, 4, 3).unwrap_err().kind(), Kind::Config);
    }
}

#[test]
fn a_dataset_may_grow_and_move_and_not_change() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    let base = tars(&dir.path().join("a"));
    let whole = shrink(&base, 4);
    let out = viewed(&base, &dir.path().join("a/v"), &["--where", "cls == 3"]);
    let before = samples(&open(&out));
    let root = DatasetView::read(&Local, &out).unwrap().unwrap().root;
    std::fs::write(base.join(MANIFEST), &whole).unwrap();
    assert_eq!(samples(&open(&out)), before);
    packhorse(&["verify", text(&out), "--full"]).succeed();
    let stat = packhorse(&["stat", text(&out), "--json"]).succeed();
    assert!(stat.printed.contains(&root.to_string()), "{stat:?}");
    // Both move, and then the dataset alone.
    std::fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
    let (base, out) = (dir.path().join("b/out"), dir.path().join("b/v"));
    assert_eq!(samples(&open(&out)), before);
    std::fs::rename(&base, dir.path().join("elsewhere")).unwrap();
    let gone = packhorse::open(text(&out)).unwrap_err();
    assert_eq!((gone.kind(), gone.code()), (Kind::Changed, Code::BaseChanged));
    assert!(gone.to_string().contains("../out"), "{gone}");
    assert_eq!(packhorse(&["stat", text(&out)]).run().code(), CHANGED);
    assert_eq!(packhorse(&["verify", text(&out)]).run().code(), DAMAGED);
    // Another dataset in its place.
    let input = dir.path().join("b/in");
    packhorse(&["pack", text(&input), "--to", "webdataset", "--out", text(&base), "--samples-per-shard", "8"])
        .succeed();
    let other = packhorse::open(text(&out)).unwrap_err();
    assert_eq!((other.kind(), other.code()), (Kind::Changed, Code::BaseChanged));
    assert!(other.to_string().contains("v/view.json") && other.to_string().contains("now holds another"), "{other}");
}

#[test]
fn verify_finds_damage() {
    let dir = tempfile::tempdir().unwrap();
    let base = tars(dir.path());
    let numbers = lines(&dir.path().join("numbers"), [8, 9, 50]);
    let out = viewed(&base, &dir.path().join("v"), &["--numbers", text(&numbers)]);
    let verify = |more: &[&str]| {
        let ended = packhorse(&[&["verify", text(&out), "--json"], more].concat()).run();
        let value: Value = serde_json::from_str(&ended.printed).unwrap();
        let files = value["damages"].as_array().unwrap().iter().map(|d| d["file"].as_str().unwrap().to_owned());
        let (code, files) = (ended.code(), files.collect::<Vec<_>>());
        assert_eq!((code == 0, code == DAMAGED), (files.is_empty(), !files.is_empty()), "{ended:?}");
        (files, value)
    };
    let (files, value) = verify(&["--full"]);
    assert!(
        files.is_empty() && value["samples"] == 3 && value["shards"] == 2 && value["bytes"].as_u64() > Some(10_000)
    );
    for name in [VIEW, SELECTION] {
        let path = out.join(name);
        let good = std::fs::read(&path).unwrap();
        for at in [0, 20, good.len() / 2, good.len() - 5] {
            flip(&path, at);
            assert_eq!(verify(&[]).0, [name], "byte {at}");
            assert!(packhorse::open(text(&out)).is_err());
            std::fs::write(&path, &good).unwrap();
        }
        std::fs::remove_file(&path).unwrap();
        assert_ne!(packhorse(&["verify", text(&out)]).run().code(), 0);
        std::fs::write(&path, &good).unwrap();
    }
    std::fs::write(out.join("stray"), "x").unwrap();
    assert_eq!(verify(&[]).0, ["stray"]);
    std::fs::remove_file(out.join("stray")).unwrap();
    // Shards without a sample of the view do not matter, others do.
    flip(&base.join("shard-000004.tar"), 3000);
    assert!(verify(&["--full"]).0.is_empty());
    flip(&base.join("shard-000001.tar"), 3000);
    assert!(verify(&[]).0.is_empty());
    let files = verify(&["--full"]).0;
    assert!(!files.is_empty() && files.iter().all(|file| file.ends_with("out/shard-000001.tar")), "{files:?}");
    let said = packhorse(&["verify", text(&out), "--full", "--json"]).run();
    assert_eq!(said.code(), DAMAGED);
    packhorse(&["repair", text(&base)]).succeed();
    assert!(verify(&["--full"]).0.is_empty());
    flip(&base.join(MANIFEST), 300);
    assert_eq!(verify(&[]).0.len(), 1);
}

#[test]
fn a_view_is_not_a_dataset_to_work_on() {
    let dir = tempfile::tempdir().unwrap();
    let base = tars(dir.path());
    let out = viewed(&base, &dir.path().join("v"), &["--where", "cls == 3"]);
    let (v, input, other) = (text(&out).to_owned(), dir.path().join("in"), dir.path().join("other"));
    let above = dir.path().join("above");
    std::fs::create_dir(&above).unwrap();
    viewed(&base, &above.join("v"), &["--where", "cls == 3"]);
    let pack = ["pack", text(&input), "--to", "webdataset", "--out"];
    for words in [
        &["status", v.as_str(), "--watch"][..],
        &["seal", &v],
        &["repair", &v],
        &["pack", "--plan", &v],
        &[&pack[..], &[v.as_str()]].concat(),
        &[&pack[..], &[v.as_str(), "--replace"]].concat(),
        &["pack", text(&above), "--to", "webdataset", "--out", text(&other)],
        &["merge", &v, "--out", text(&other)],
        &["order", &v, "--out", text(&other)],
        &["verify", &v, "--for", "webdataset"],
    ] {
        let ended = packhorse(&[words, &["--log", "json"]].concat()).run();
        let error: Value =
            ended.said.lines().filter_map(|line| serde_json::from_str(line).ok()).next_back().unwrap_or_default();
        assert_eq!((ended.code(), &error["code"]), (CONFIG, &Value::from("is-view")), "{words:?} {ended:?}");
        assert!(error["input"].as_str().unwrap().ends_with('v'), "{words:?} {ended:?}");
        let packed = other.join("dataset.json").exists() || other.join("shard-000000.tar").exists();
        assert!(!packed, "{words:?}");
    }
    assert_eq!(keys(&open(&out)).len(), (0..COUNT).filter(|i| label(*i) == 3).count());
    packhorse(&["verify", &v, "--full"]).succeed();
}

#[test]
fn a_folder_that_is_taken_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = tars(dir.path());
    let out = viewed(&base, &dir.path().join("v"), &["--where", "cls == 3"]);
    let bytes = || [VIEW, SELECTION].map(|name| std::fs::read(out.join(name)).unwrap());
    let before = bytes();
    // The same again, and after an interruption.
    viewed(&base, &out, &["--where", "cls == 3"]);
    std::fs::remove_file(out.join(VIEW)).unwrap();
    viewed(&base, &out, &["--where", "cls == 3"]);
    assert_eq!(bytes(), before);
    let names: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let ended = view(&base, &out, &["--where", "cls == 2"]);
    assert!(ended.code() == CONFIG && ended.said.contains("another view"), "{ended:?}");
    assert_eq!(bytes(), before);
    for taken in [&dir.path().join("in"), &base, &base.join("v"), &base.join("a/v")] {
        let ended = view(&base, taken, &["--where", "cls == 2"]);
        assert!(ended.code() == CONFIG && !taken.join(VIEW).exists(), "{ended:?}");
    }
    packhorse(&["verify", text(&base)]).succeed();
    let files = dir.path().join("in");
    let ended = view(&files, &dir.path().join("w"), &["--fold", "1/2"]);
    assert_ne!(ended.code(), 0, "{ended:?}");
}

#[test]
fn splits_and_classes_are_those_of_the_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    for class in ["cat", "dog"] {
        std::fs::create_dir_all(input.join(class)).unwrap();
        (0..40).for_each(|i| std::fs::write(input.join(class).join(format!("{i}.txt")), class).unwrap());
    }
    let to =
        ["--to", "webdataset", "--labels", "folders", "--split", "train=0.75,val=0.25", "--samples-per-shard", "9"];
    packhorse(&[&["pack", text(&input), "--out", text(&out)], &to[..]].concat()).succeed();
    let cats = open(&viewed(&out, &dir.path().join("cats"), &["--where", "cls == 0"]));
    assert_eq!(
        (cats.len(), cats.classes(), cats.splits()),
        (40, open(&out).classes(), vec!["train".into(), "val".into()])
    );
    let (train, val) = (keys(&cats.split("train").unwrap()), keys(&cats.split("val").unwrap()));
    assert_eq!(train.len() + val.len(), 40);
    let only = open(&viewed(&out, &dir.path().join("only"), &["--where", "cls == 0", "--split", "val"]));
    assert_eq!((keys(&only), only.splits()), (val, vec!["val".to_owned()]));
    let mut command = common::process::command(env!("CARGO_BIN_EXE_packhorse"));
    command.args(["stat", text(&dir.path().join("only"))]);
    let stat = String::from_utf8(command.output().unwrap().stdout).unwrap();
    for line in [format!(": {} of 80 samples", only.len()), "split train: 0 samples".into(), "  cls\n  txt\n".into()] {
        assert!(stat.contains(&line), "{line}: {stat}");
    }
}

fn printed(words: &[&str]) -> String {
    packhorse(words).succeed().printed
}

/// What people see, which `--quiet` leaves out.
fn shown(words: &[&str]) -> String {
    let output = common::process::command(env!("CARGO_BIN_EXE_packhorse")).args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn head_cat_and_ls_show_the_samples_of_the_view() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = lines(&dir.path().join("numbers"), CHOSEN);
    for (i, base) in datasets(&dir).iter().enumerate() {
        let out =
            viewed(base, &dir.path().join(format!("v{i}")), &["--numbers", text(&numbers), "--select", "cls,txt"]);
        let whole: Vec<Value> = printed(&["head", text(base), "--samples", "60", "--json"])
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let head: Vec<Value> = printed(&["head", text(&out), "--samples", "9", "--json"])
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(head.len(), 9);
        for (found, number) in head.iter().zip(CHOSEN) {
            let wanted = &whole[number as usize];
            assert_eq!(found["key"], wanted["key"], "{base:?}");
            let fields = found["fields"].as_object().unwrap();
            assert_eq!(fields.keys().collect::<Vec<_>>(), ["cls", "txt"]);
            fields.iter().for_each(|(name, value)| assert_eq!(*value, wanted["fields"][name]));
        }
        assert_eq!(printed(&["cat", text(&out), "s0059.txt"]), caption(59));
        for missing in ["s0001.txt", "s0059.bin", "nothing.txt"] {
            let ended = packhorse(&["cat", text(&out), missing]).run();
            assert!(ended.code() == CONFIG && ended.said.contains("holds no"), "{missing} {ended:?}");
        }
        let ls = shown(&["ls", text(&out)]);
        if i == 0 {
            let wanted: String = CHOSEN.iter().map(|n| format!("s{n:04}.cls\ns{n:04}.txt\n")).collect();
            assert_eq!(ls, wanted);
            let line: Value =
                serde_json::from_str(printed(&["ls", text(&out), "--json"]).lines().next().unwrap()).unwrap();
            assert_eq!((&line["file"], &line["bytes"]), (&Value::from("shard-000000.tar"), &Value::from(1)));
        } else {
            assert!(ls.starts_with("11 samples\n") && ls.contains("cls") && !ls.contains("width"), "{ls}");
        }
    }
}

/// Every file below `dir`, by name.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        let name = PathBuf::from(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path()).into_iter().map(|(below, bytes)| (name.join(below), bytes))),
            false => drop(found.insert(name, std::fs::read(entry.path()).unwrap())),
        }
    }
    found
}

/// A staged view opens as the same view, without its dataset.
#[test]
fn a_staged_view_is_the_view() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = lines(&dir.path().join("numbers"), [3u64, 4, 59, 20]);
    for (i, base) in datasets(&dir).iter().enumerate() {
        let place = dir.path().join(format!("{i}"));
        let out = viewed(base, &place.join("v"), &["--numbers", text(&numbers), "--select", "cls,txt"]);
        let (wanted, to) = (samples(&open(&out)), place.join("staged"));
        let stage =
            |more: &[&str]| packhorse(&[&["stage", text(&out), "--to", text(&to), "--json"], more].concat()).run();
        let refused = stage(&["--fraction", "0.5"]);
        assert!(refused.code() == CONFIG && refused.said.contains("staged whole"), "{refused:?}");
        for copied in [true, false] {
            let ended = stage(&["--verify"]);
            assert_eq!(ended.code(), 0, "{ended:?}");
            let told: Value = serde_json::from_str(&ended.printed).unwrap();
            assert_eq!((&told["shards"], &told["whole"]), (&Value::from(3), &Value::from(true)));
            assert_eq!(told["copied"] != 0, copied, "{told}");
        }
        let is_data = |name: &PathBuf| {
            let name = name.to_string_lossy();
            name.starts_with("base/shard-") && !name.ends_with(".json") && !name.ends_with(".members")
        };
        assert_eq!(files(&to).into_keys().filter(is_data).count(), 3);
        let root = |dir: &Path| DatasetView::read(&Local, dir).unwrap().unwrap().root;
        assert_eq!(root(&to), root(&out));
        // Elsewhere, and without the dataset.
        let (moved, gone) = (place.join("moved"), place.join("gone"));
        std::fs::rename(&to, &moved).unwrap();
        std::fs::rename(base, &gone).unwrap();
        assert_eq!(samples(&open(&moved)), wanted);
        let value = |words: &[&str]| serde_json::from_str::<Value>(&printed(words)).unwrap();
        let verified = value(&["verify", text(&moved), "--full", "--json"]);
        assert!(verified["whole"] == true && verified["shards"] == 3 && verified["samples"] == 4, "{verified}");
        let status = value(&["status", text(&moved), "--json"]);
        assert!(status["shards"] == 3 && status["samples"] == 4 && status["packed"] == 4, "{status}");
        assert!(shown(&["stat", text(&moved)]).contains("4 of 60 samples"));
        assert_eq!(printed(&["cat", text(&moved), "s0059.txt"]), caption(59));
        // A view of it, and a copy of the copy, are those of the view.
        let again = viewed(&moved, &place.join("again"), &["--where", "cls >= 0"]);
        assert_eq!((root(&again), samples(&open(&again))), (root(&out), wanted.clone()));
        packhorse(&["stage", text(&again), "--to", text(&place.join("third"))]).succeed();
        assert_eq!(files(&place.join("third")), files(&moved));
        // Damage of the copy is found.
        flip(&moved.join(files(&moved).into_keys().rfind(is_data).unwrap()), 1000);
        let damaged = packhorse(&["verify", text(&moved), "--full"]).run();
        assert_eq!(damaged.code(), DAMAGED, "{damaged:?}");
        std::fs::remove_dir_all(moved.join("base")).unwrap();
        assert_eq!(packhorse::open(text(&moved)).unwrap_err().code(), Code::BaseChanged);
        std::fs::rename(&gone, base).unwrap();
    }
}

#[test]
fn the_status_of_a_view_is_that_of_its_shards() {
    let dir = tempfile::tempdir().unwrap();
    let base = tars(dir.path());
    let numbers = lines(&dir.path().join("numbers"), [8, 9, 50]);
    let out = viewed(&base, &dir.path().join("v"), &["--numbers", text(&numbers)]);
    let status = |code: i32| {
        let ended = packhorse(&["status", text(&out), "--json"]).run();
        assert_eq!(ended.code(), code, "{ended:?}");
        serde_json::from_str::<Value>(&ended.printed).unwrap()
    };
    let whole = status(0);
    assert!(whole["shards"] == 2 && whole["samples"] == 3 && whole["packed"] == 3, "{whole}");
    assert!(whole["base"].as_str().unwrap().ends_with("out"), "{whole}");
    std::fs::remove_file(base.join("shard-000004.tar")).unwrap();
    assert_eq!(status(0), whole);
    std::fs::remove_file(base.join("shard-000001.tar")).unwrap();
    let damaged = status(DAMAGED);
    assert!(damaged["packed"] == 1 && damaged["missing"][0] == "shard-000001", "{damaged}");
}

/// All files of a dataset but its plan and what names it.
fn shards(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_shard = |name: &Path| {
        let name = name.to_string_lossy();
        name.contains("-0") && !name.ends_with(".receipt.json")
    };
    files(dir).into_iter().filter(|(name, _)| is_shard(name)).collect()
}

/// A packed view has the bytes of a packed dataset of just its samples, in one process and in parts.
#[test]
fn a_view_packs_like_a_dataset_of_its_samples() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = lines(&dir.path().join("numbers"), [3u64, 4, 5, 59, 0, 20, 21, 40, 41, 42]);
    for (i, base) in datasets(&dir).iter().enumerate() {
        for (n, chosen) in
            [&["--numbers", text(&numbers)][..], &["--where", "cls != 2"], &["--fold", "1/3", "--select", "cls,txt"]]
                .iter()
                .enumerate()
        {
            let place = dir.path().join(format!("{i}-{n}"));
            let view = viewed(base, &place.join("v"), chosen);
            let (first, wanted) = (place.join("first"), samples(&open(&view)));
            let format = ["webdataset", "hdf5", "parquet"][i];
            packhorse(&["pack", text(&view), "--to", format, "--out", text(&first), "--samples-per-shard", "1000"])
                .succeed();
            assert_eq!(samples(&open(&first)), wanted, "{base:?} {chosen:?}");
            // All formats of shards once, and one for each choice.
            for to in ["webdataset", "parquet", "hdf5"].into_iter().skip(n).take(if n == 0 { 3 } else { 1 }) {
                let (a, b, c) =
                    (place.join(format!("a-{to}")), place.join(format!("b-{to}")), place.join(format!("c-{to}")));
                let pack = |input: &Path, out: &Path, verb: &str| {
                    let words = [verb, text(input), "--to", to, "--out", text(out), "--samples-per-shard", "4"];
                    packhorse(&words).succeed();
                };
                pack(&view, &a, "pack");
                pack(&first, &b, "pack");
                assert!(shards(&a) == shards(&b) && shards(&a).len() >= 3, "{base:?} {chosen:?} {to}");
                pack(&view, &c, "plan");
                for part in ["2/2", "1/2"] {
                    packhorse(&["pack", "--plan", text(&c), "--part", part]).succeed();
                }
                packhorse(&["seal", text(&c)]).succeed();
                assert_eq!(files(&c), files(&a));
                packhorse(&["verify", text(&c), "--full"]).succeed();
            }
        }
    }
}

/// Shuffled, every sample of a view is packed once.
#[test]
fn a_shuffled_view_keeps_its_samples() {
    let dir = tempfile::tempdir().unwrap();
    for (i, base) in datasets(&dir).iter().enumerate() {
        let view = viewed(base, &dir.path().join(format!("v{i}")), &["--where", "cls != 2"]);
        let mut wanted = samples(&open(&view));
        wanted.sort();
        let mut orders = Vec::new();
        for shuffle in ["7", "8", "7,block:2"] {
            let out = dir.path().join(format!("{i}-{shuffle}"));
            let to = ["webdataset", "hdf5", "parquet"][i];
            let words =
                ["pack", text(&view), "--to", to, "--out", text(&out), "--shuffle", shuffle, "--split", "a=0.5,b=0.5"];
            packhorse(&words).succeed();
            let found = samples(&open(&out));
            orders.push(found.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
            let mut found = found;
            found.sort();
            assert_eq!(found, wanted, "{base:?} {shuffle}");
        }
        assert_ne!(orders[0], orders[1], "{base:?}");
    }
}

#[test]
fn a_packed_view_keeps_splits_classes_and_skipped_samples() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    for class in ["cat", "dog"] {
        std::fs::create_dir_all(input.join(class)).unwrap();
        (0..40).for_each(|i| std::fs::write(input.join(class).join(format!("{i}.txt")), class).unwrap());
    }
    std::os::unix::fs::symlink("nowhere", input.join("cat/bad.txt")).unwrap();
    let to =
        ["--to", "webdataset", "--labels", "folders", "--split", "train=0.75,val=0.25", "--samples-per-shard", "9"];
    packhorse(&[&["pack", text(&input), "--out", text(&out), "--on-error", "skip"], &to[..]].concat()).succeed();
    let view = viewed(&out, &dir.path().join("cats"), &["--where", "cls == 0"]);
    let staged = dir.path().join("staged");
    packhorse(&["stage", text(&view), "--to", text(&staged)]).succeed();
    let mut packed = Vec::new();
    for (i, from) in [&view, &staged].into_iter().enumerate() {
        let again = dir.path().join(format!("again{i}"));
        packhorse(&["pack", text(from), "--to", "parquet", "--out", text(&again)]).succeed();
        let dataset = open(&again);
        assert_eq!(
            (dataset.len(), dataset.classes(), dataset.splits()),
            (40, open(&out).classes(), open(&out).splits())
        );
        let manifest = Manifest::read(&Local, &again).unwrap().unwrap();
        assert_eq!(manifest.skipped, 1);
        packed.push(manifest.root);
    }
    assert_eq!(packed[0], packed[1]);
}

#[test]
fn packing_a_view_reads_only_sound_shards_and_names_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let base = tars(dir.path());
    let numbers = lines(&dir.path().join("numbers"), [8, 9, 50]);
    let view = viewed(&base, &dir.path().join("v"), &["--numbers", text(&numbers)]);
    let pack = |input: &[&Path], out: &str| {
        let out = dir.path().join(out);
        let inputs: Vec<&str> = input.iter().map(|path| text(path)).collect();
        let ended = packhorse(&[&["pack"], &inputs[..], &["--to", "parquet", "--out", text(&out)]].concat()).run();
        (ended.code(), ended.said)
    };
    // A sample that a view has twice.
    let twice = lines(&dir.path().join("twice"), [3, 4, 3]);
    let twice = viewed(&base, &dir.path().join("w"), &["--numbers", text(&twice)]);
    let (code, said) = pack(&[&twice], "a");
    assert!(code == CONFIG && said.contains("has sample 3 of shard-000000.tar twice"), "{said}");
    for other in [&base, &twice] {
        let (code, said) = pack(&[&view, other], "b");
        assert!(code == CONFIG && said.contains("twice") | said.contains("another input too"), "{said}");
    }
    // Damage in a shard that the view does not read.
    flip(&base.join("shard-000004.tar"), 3000);
    assert_eq!(pack(&[&view], "c").0, 0);
    let index = base.join("shard-000001.members");
    flip(&index, 60);
    let (code, said) = pack(&[&view], "d");
    assert!(code == DAMAGED && said.contains("shard-000001.members"), "{said}");
    flip(&index, 60);
    flip(&base.join("shard-000001.tar"), 3000);
    let (code, said) = pack(&[&view], "e");
    assert!(code == DAMAGED && said.contains("shard-000001.tar"), "{said}");
}

/// A view of a dataset that grew, before and after that.
#[test]
fn views_of_datasets_that_grew_are_packed() {
    let dir = tempfile::tempdir().unwrap();
    let base = tars(dir.path());
    let before = viewed(&base, &dir.path().join("before"), &["--where", "cls == 3"]);
    let wanted = samples(&open(&before));
    let more = dir.path().join("more");
    std::fs::create_dir(&more).unwrap();
    for i in COUNT..COUNT + 10 {
        for (field, bytes) in [
            ("cls", "3"),
            ("txt", "new"),
            ("json", r#"{"width": 1, "size": {"name": "n"}, "list": [1]}"#),
            ("bin", ""),
            ("num", "1"),
        ] {
            std::fs::write(more.join(format!("s{i:04}.{field}")), bytes).unwrap();
        }
    }
    packhorse(&["append", text(&base), text(&more), "--samples-per-shard", "7"]).succeed();
    let after = viewed(&base, &dir.path().join("after"), &["--where", "cls == 3"]);
    for (view, wanted) in [(&before, wanted.clone()), (&after, samples(&open(&after)))] {
        let out = view.with_extension("packed");
        packhorse(&["pack", text(view), "--to", "webdataset", "--out", text(&out)]).succeed();
        assert_eq!(samples(&open(&out)), wanted);
        let staged = view.with_extension("staged");
        packhorse(&["stage", text(view), "--to", text(&staged)]).succeed();
        assert_eq!(samples(&open(&staged)), wanted);
    }
    assert_eq!(samples(&open(&after)).len(), wanted.len() + 10);
}

fn score(i: usize) -> f64 {
    (i * 13 % 60) as f64 / 4.0
}

/// A row of a table: key, score, grade and note.
type Scored = (String, f64, i64, String);

/// A table of scores, grades and notes for the samples of these numbers, and for one that does not exist.
fn scores(dir: &Path, name: &str, numbers: impl Iterator<Item = usize>) -> PathBuf {
    let row = |i: usize| (format!("s{i:04}"), score(i), i as i64 - 30, format!("note {}", i % 3));
    let rows: Vec<_> = numbers.map(row).chain([("other".into(), 0.25, 1, "no".into())]).collect();
    let path = dir.join(name);
    let text = |line: &dyn Fn(&Scored) -> String| rows.iter().rev().map(line).collect::<String>();
    match name.rsplit_once('.').unwrap().1 {
        "csv" => {
            let lines = text(&|(key, score, grade, note)| format!("{score:.2},{key},{grade},{note}\n"));
            std::fs::write(&path, format!("score,key,grade,note\n{lines}")).unwrap();
        }
        _ => {
            let line = |(key, score, grade, note): &Scored| {
                format!(
                    "{}\n",
                    serde_json::json!({"id": key, "score": score, "grade": grade, "note": note, "list": [1]})
                )
            };
            std::fs::write(&path, text(&line)).unwrap();
        }
    }
    path
}

/// The samples of a view of `base` with joined columns, as they must be.
fn with_scores(samples: Vec<Sample>) -> Vec<Sample> {
    let joined = |(key, mut fields): Sample| {
        let i: usize = key[1..].parse().unwrap();
        fields.insert("score".into(), score(i).to_le_bytes().to_vec());
        fields.insert("grade".into(), (i as i64 - 30).to_le_bytes().to_vec());
        fields.insert("note".into(), format!("note {}", i % 3).into_bytes());
        (key, fields)
    };
    samples.into_iter().map(joined).collect()
}

#[test]
fn joined_columns_are_fields() {
    let dir = tempfile::tempdir().unwrap();
    let table = scores(dir.path(), "scores.csv", 0..COUNT);
    let lines_of = scores(dir.path(), "scores.jsonl", 0..COUNT);
    let numbers = lines(&dir.path().join("numbers"), CHOSEN);
    for (i, base) in datasets(&dir).iter().enumerate() {
        let place = dir.path().join(format!("{i}"));
        let whole = with_scores(samples(&open(base)));
        let out = viewed(base, &place.join("v"), &["--join", text(&table)]);
        let dataset = open(&out);
        assert_eq!(samples(&dataset), whole, "{base:?}");
        let by_lines = ["--join", text(&lines_of), "--join-key", "id", "--join-columns", "note,score,grade"];
        let same = viewed(base, &place.join("w"), &by_lines);
        let root = |dir: &Path| DatasetView::read(&Local, dir).unwrap().unwrap().root;
        assert_eq!((samples(&open(&same)), root(&same)), (whole.clone(), root(&out)));
        // Some samples, in another order and twice, in one command and in two.
        let chosen: Vec<_> = CHOSEN.iter().map(|n| whole[*n as usize].clone()).collect();
        let both = ["--numbers", text(&numbers), "--join", text(&table)];
        let (once, twice) = (viewed(base, &place.join("once"), &both), viewed(&out, &place.join("twice"), &both[..2]));
        assert_eq!((samples(&open(&once)), samples(&open(&twice))), (chosen.clone(), chosen));
        assert_eq!(root(&once), root(&twice));
        // Conditions on columns of both, and a selection of both.
        let condition = "score >= 5 and cls != 2 and note == 'note 1'";
        let wanted: Vec<_> = whole
            .iter()
            .filter(|(key, _)| {
                let n: usize = key[1..].parse().unwrap();
                score(n) >= 5.0 && label(n) != 2 && n % 3 == 1
            })
            .map(|(key, fields)| {
                let some = fields.iter().filter(|(name, _)| ["grade", "cls"].contains(&name.as_str()));
                (key.clone(), some.map(|(name, bytes)| (name.clone(), bytes.clone())).collect::<BTreeMap<_, _>>())
            })
            .collect();
        let found = viewed(
            base,
            &place.join("found"),
            &["--join", text(&table), "--where", condition, "--select", "grade,cls"],
        );
        assert!(!wanted.is_empty());
        assert_eq!(samples(&open(&found)), wanted);
        let without = viewed(&out, &place.join("without"), &["--select", "cls"]);
        assert!(!without.join("joined.parquet").exists() && open(&without).schema().fields().len() == 1);
        // More columns on those.
        let more = place.join("more.csv");
        std::fs::write(&more, (0..COUNT).fold("key,rank\n".into(), |all: String, n| format!("{all}s{n:04},{n}\n")))
            .unwrap();
        let two =
            viewed(&out, &place.join("two"), &["--join", text(&more), "--where", "rank < 3", "--select", "rank,score"]);
        let ranks: Vec<u8> = samples(&open(&two)).iter().map(|(_, fields)| fields["rank"][0]).collect();
        assert_eq!((ranks, open(&two).schema().fields().len()), (vec![0, 1, 2], 2));
        // For people.
        let head = printed(&["head", text(&once), "--samples", "2", "--json"]);
        let second: Value = serde_json::from_str(head.lines().nth(1).unwrap()).unwrap();
        assert!(second["key"] == "s0004" && second["fields"]["score"] == format!("{:?}", score(4)), "{second}");
        assert_eq!(printed(&["cat", text(&once), "s0059.note"]), "note 2");
        assert_eq!(packhorse(&["cat", text(&once), "s0001.note"]).run().code(), CONFIG);
        assert!(["score", "grade", "note", "cls"].iter().all(|name| shown(&["stat", text(&once)]).contains(name)));
    }
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = tars(dir.path());
    let refused = |table: &Path, more: &[&str], what: &[&str]| {
        let ended = view(&base, &dir.path().join("v"), &[&["--join", text(table)], more].concat());
        assert!(ended.code() != 0 && what.iter().all(|what| ended.said.contains(what)), "{what:?} {ended:?}");
        assert!(!dir.path().join("v").exists());
    };
    let some = scores(dir.path(), "some.csv", 2..COUNT);
    refused(&some, &[], &["2 of 60 samples have no row", "\"s0000\", \"s0001\"", "--fill-missing", "some.csv"]);
    refused(&some, &["--join-key", "id"], &["no column", "\"key\""]);
    refused(&some, &["--join-columns", "score,colour"], &["no column", "colour"]);
    let write = |name: &str, bytes: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let all = |value: &str| (0..COUNT).fold("key,cls\n".to_owned(), |all, i| format!("{all}s{i:04},{value}\n"));
    refused(&write("twice.csv", &format!("{}s0007,2\n", all("1"))), &[], &["\"s0007\"", "same key"]);
    refused(&write("cls.csv", &all("1")), &[], &["has a field cls already", "another name"]);
    let lists = scores(dir.path(), "lists.jsonl", 0..COUNT);
    refused(&lists, &["--join-key", "id"], &["column list", "lists or objects", "--join-columns"]);
    let empty = write("empty.csv", &all("").replace("cls", "x"));
    refused(&empty, &[], &["has no column with values to join"]);
    refused(&empty, &["--join-columns", "x"], &["column x holds no value"]);
    // Beside others it is left out.
    let beside = write("beside.csv", &all("1,").replace("key,cls", "key,y,x"));
    let joined = viewed(&base, &dir.path().join("beside"), &["--join", text(&beside)]);
    assert!(
        open(&joined).schema().field_with_name("y").is_ok() && open(&joined).schema().field_with_name("x").is_err()
    );
    let filled = viewed(&base, &dir.path().join("filled"), &["--join", text(&some), "--fill-missing"]);
    let dataset = open(&filled);
    assert!(dataset.schema().field_with_name("score").unwrap().is_nullable());
    let first = printed(&["head", text(&filled), "--samples", "1", "--json"]);
    assert!(!first.contains("score") && first.contains("cls"), "{first}");
    let optional = FieldOptions { required: false, ..FieldOptions::new("grade", packhorse::read::FieldKind::Auto) };
    let decoder = BatchDecoder::new(&dataset, &[optional], &LoaderOptions::new(3)).unwrap();
    let batch = decoder.decode(&[0, 2, 59], 0).unwrap();
    assert_eq!([0, 1, 2].map(|row| batch.row("grade", row).unwrap()[0] as i8), [0, -28, 29]);
}

#[test]
fn the_digests_of_a_view_cover_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let base = columns(dir.path(), "parquet");
    let table = scores(dir.path(), "scores.csv", 0..COUNT);
    let out = viewed(&base, &dir.path().join("v"), &["--join", text(&table)]);
    let changed = std::fs::read_to_string(&table).unwrap().replace("s0007,-23", "s0007,-22");
    std::fs::write(&table, changed).unwrap();
    let other = viewed(&base, &dir.path().join("w"), &["--join", text(&table)]);
    let root = |dir: &Path| DatasetView::read(&Local, dir).unwrap().unwrap().root;
    assert_ne!(root(&out), root(&other));
    let loader = |dir: &Path| open(dir).loader(7).configure(|all| all.threads = 1);
    let mut running = loader(&out).build().unwrap();
    running.next().unwrap().unwrap();
    let state = running.state();
    assert!(loader(&out).configure(|all| all.state = Some(state)).build().is_ok());
    assert!(loader(&other).configure(|all| all.state = Some(state)).build().is_err());
    // Every bit.
    let path = out.join("joined.parquet");
    let good = std::fs::read(&path).unwrap();
    packhorse(&["verify", text(&out)]).succeed();
    for at in (0..good.len()).step_by(good.len() / 40) {
        flip(&path, at);
        let ended = packhorse(&["verify", text(&out), "--json"]).run();
        let found: Value = serde_json::from_str(&ended.printed).unwrap();
        assert!(
            ended.code() == DAMAGED && found["damages"][0]["file"].as_str().unwrap().ends_with("joined.parquet"),
            "{ended:?}"
        );
        let packed = dir.path().join("packed");
        let pack = packhorse(&["pack", text(&out), "--to", "parquet", "--out", text(&packed)]).run();
        assert_ne!(pack.code(), 0, "byte {at}");
        let staged = packhorse(&["stage", text(&out), "--to", text(&dir.path().join("staged"))]).run();
        assert_ne!(staged.code(), 0, "byte {at}");
        std::fs::write(&path, &good).unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(packhorse(&["verify", text(&out)]).run().code(), DAMAGED);
    assert!(packhorse::open(text(&out)).unwrap_err().to_string().contains("joined.parquet"));
}

#[test]
fn joined_columns_are_packed_and_staged() {
    let dir = tempfile::tempdir().unwrap();
    let table = scores(dir.path(), "scores.csv", 0..COUNT);
    for (i, base) in datasets(&dir).iter().enumerate() {
        let place = dir.path().join(format!("{i}"));
        let view = viewed(
            base,
            &place.join("v"),
            &["--join", text(&table), "--where", "score > 3 and cls != 1", "--select", "cls,note,score"],
        );
        let wanted = samples(&open(&view));
        let staged = place.join("staged");
        packhorse(&["stage", text(&view), "--to", text(&staged)]).succeed();
        assert_eq!(samples(&open(&staged)), wanted);
        packhorse(&["verify", text(&staged), "--full"]).succeed();
        let score_of = |name: &str| {
            let scores = wanted.iter().map(|(key, fields)| (key.clone(), fields["score"].clone()));
            let mut scores: Vec<_> = scores.collect();
            if name == "shuffled" {
                scores.sort();
            }
            scores
        };
        for (to, from) in [("parquet", &view), ("hdf5", &staged), ("webdataset", &view)] {
            for (name, more) in [("plain", &[][..]), ("shuffled", &["--shuffle", "3"])] {
                let out = place.join(format!("{to}-{name}"));
                let words = ["pack", text(from), "--to", to, "--out", text(&out), "--samples-per-shard", "5"];
                packhorse(&[&words[..], more].concat()).succeed();
                let packed = open(&out);
                let field = if to == "webdataset" { "score.npy" } else { "score" };
                let mut found: Vec<_> =
                    samples(&packed).into_iter().map(|(key, fields)| (key, fields[field].clone())).collect();
                if name == "shuffled" {
                    found.sort();
                }
                assert_eq!(found, score_of(name), "{base:?} {to} {name}");
                packhorse(&["verify", text(&out), "--full"]).succeed();
            }
        }
        // In parts.
        let (whole, parts) = (place.join("parquet-plain"), place.join("parts"));
        packhorse(&["plan", text(&view), "--to", "parquet", "--out", text(&parts), "--samples-per-shard", "5"])
            .succeed();
        for part in ["1/2", "2/2"] {
            packhorse(&["pack", "--plan", text(&parts), "--part", part]).succeed();
        }
        packhorse(&["seal", text(&parts)]).succeed();
        assert_eq!(files(&parts), files(&whole));
    }
}

/// A dataset in a bucket, its views in a folder and in the bucket.
#[cfg(feature = "remote")]
#[test]
fn views_and_datasets_may_be_in_a_bucket() {
    let Some(server) = common::moto::Moto::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let here = tars(dir.path());
    let run = |words: &[&str]| {
        let mut program = packhorse(words);
        program.0.envs(server.settings());
        program.run()
    };
    let ok = |words: &[&str]| {
        let ended = run(words);
        assert_eq!(ended.code(), 0, "{words:?} {ended:?}");
        ended.printed
    };
    let (input, base) = (dir.path().join("in"), "s3://bucket/data/out");
    ok(&["pack", text(&input), "--to", "webdataset", "--out", base, "--samples-per-shard", "7"]);
    let chosen = ["--where", "cls == 3 and json.width < 60"];
    let wanted = std::fs::read(viewed(&here, &dir.path().join("w"), &chosen).join(SELECTION)).unwrap();
    let out = dir.path().join("v");
    ok(&[&["view", base, "--out", text(&out)], &chosen[..]].concat());
    assert_eq!(std::fs::read(out.join(SELECTION)).unwrap(), wanted);
    assert_eq!(DatasetView::read(&Local, &out).unwrap().unwrap().base, base);
    let there = "s3://bucket/views/v";
    for _ in 0..2 {
        ok(&[&["view", base, "--out", there], &chosen[..]].concat());
    }
    for place in [text(&out), there] {
        let verified: Value = serde_json::from_str(&ok(&["verify", place, "--full", "--json"])).unwrap();
        assert!(verified["whole"] == true && verified["bytes"].as_u64() > Some(1000), "{verified}");
        let again = dir.path().join("again").join(place.replace('/', "-"));
        ok(&["view", place, "--out", text(&again), "--without-fold", "1/2"]);
        let document = DatasetView::read(&Local, &again).unwrap().unwrap();
        assert!(document.base == base && document.samples > 0, "{document:?}");
        assert_eq!(run(&["seal", place]).code(), CONFIG);
        let packed = dir.path().join("packed").join(place.replace('/', "-"));
        ok(&["pack", place, "--to", "webdataset", "--out", text(&packed)]);
        let document = DatasetView::read(&Local, &out).unwrap().unwrap();
        assert_eq!(open(&packed).len(), document.samples);
    }
    let other = run(&["view", base, "--out", there, "--where", "cls == 1"]);
    assert!(other.code() == CONFIG && other.said.contains("another view"), "{other:?}");
    let inside = run(&["view", base, "--out", "s3://bucket/data/out/v", "--where", "cls == 1"]);
    assert!(inside.code() == CONFIG && inside.said.contains("the dataset itself"), "{inside:?}");
}

/// Tables write moments as text, with a `T` between date and time.
#[test]
fn joined_moments_are_compared_as_moments() {
    let dir = tempfile::tempdir().unwrap();
    let base = tars(dir.path());
    let day = |i: usize| format!("s{i:04},2024-05-{:02}T{:02}:30:00Z", 1 + i / 24, i % 24);
    let halves = [("when0.csv", 0..30), ("when1.csv", 30..COUNT)];
    for (name, numbers) in halves {
        let rows: String = numbers.map(|i| day(i) + "\n").collect();
        std::fs::write(dir.path().join(name), format!("key,when\n{rows}")).unwrap();
    }
    let pattern = dir.path().join("when?.csv");
    let chosen = |condition: &str, out: &str| {
        keys(&open(&viewed(&base, &dir.path().join(out), &["--join", text(&pattern), "--where", condition])))
    };
    let from = |first: usize| (first..COUNT).map(|i| format!("s{i:04}")).collect::<Vec<_>>();
    assert_eq!(chosen("when >= '2024-05-01 12:00'", "a"), from(12));
    assert_eq!(chosen("when >= '2024-05-01 14:00+02:00'", "b"), from(12));
    assert_eq!(chosen("when == '2024-05-02 00:30'", "c"), ["s0024"]);
    assert_eq!(chosen("when >= '2024-05-02'", "d"), from(24));
    let one = dir.path().join("when0.csv");
    let ended = view(&base, &dir.path().join("e"), &["--join", text(&one), "--join", text(&pattern)]);
    assert!(ended.code() == CONFIG && ended.said.contains("--join is given 2 times"), "{ended:?}");
}

/// Parts of one dataset that are put together are a part of it.
#[test]
fn parts_of_one_dataset_are_one_view() {
    let dir = tempfile::tempdir().unwrap();
    for (number, base) in datasets(&dir).into_iter().enumerate() {
        let dataset = open(&base);
        let filter = |condition: &str| dataset.filter(&condition.parse().unwrap()).unwrap();
        let (one, two) = (filter("cls == 1"), filter("cls == 2"));
        let both = Dataset::concat(&[two.clone(), one.clone()]).unwrap();
        assert_eq!(keys(&both), [keys(&two), keys(&one)].concat());
        let out = dir.path().join(format!("both-{number}"));
        both.write_view(&out).unwrap();
        assert_eq!(samples(&open(&out)), samples(&both));
        let mut listed = keys(&filter("cls in [1, 2]"));
        let mut all = keys(&both);
        listed.sort();
        all.sort();
        assert_eq!(listed, all);
        // Of other fields they are several datasets, as before.
        let narrow = one.select(&["cls"]).unwrap();
        assert_eq!(Dataset::concat(&[two, narrow]).unwrap().len(), both.len());
    }
}

/// Joined text may be of any of Arrow's types.
#[test]
fn text_of_every_type_is_joined() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = open(&columns(dir.path(), "parquet"));
    let words: Vec<String> = (0..COUNT).map(|i| format!("word {i}")).collect();
    let arrays: [ArrayRef; 3] = [
        Arc::new(arrow_array::StringArray::from(words.clone())),
        Arc::new(arrow_array::LargeStringArray::from(words.clone())),
        Arc::new(StringViewArray::from_iter_values(&words)),
    ];
    for (number, array) in arrays.into_iter().enumerate() {
        let rows = RecordBatch::try_from_iter([("word", array)]).unwrap();
        let joined = dataset.with_columns(&rows.schema(), std::iter::once(Ok(rows.clone()))).unwrap();
        let out = dir.path().join(format!("view-{number}"));
        joined.write_view(&out).unwrap();
        for (found, wanted) in samples(&open(&out)).iter().zip(&words) {
            assert_eq!(found.1["word"], wanted.as_bytes());
        }
        let short = dataset.with_columns(&rows.schema(), std::iter::once(Ok(rows.slice(1, 2)))).unwrap_err();
        assert!(short.message().contains("2 rows were given for"), "{short}");
    }
}

/// A column may take the place of a field that a view left out, also of another type, and of a joined column.
#[test]
fn joined_columns_take_the_place_of_fields() {
    let dir = tempfile::tempdir().unwrap();
    let table = |name: &str, of: &dyn Fn(usize) -> i64| {
        let rows = (0..COUNT).fold("key,width\n".to_owned(), |all, i| format!("{all}s{i:04},{}\n", of(i)));
        let path = dir.path().join(name);
        std::fs::write(&path, rows).unwrap();
        path
    };
    let (first, second) = (table("first.csv", &|i| 1000 * i as i64), table("second.csv", &|i| -(i as i64)));
    for base in datasets(&dir) {
        let place = dir.path().join(format!("views-{}", base.file_name().unwrap().display()));
        let others: Vec<Sample> = samples(&open(&base).select(&["cls", "txt"]).unwrap());
        let with = |of: &dyn Fn(usize) -> i64| -> Vec<Sample> {
            let one = |(i, (key, fields)): (usize, &Sample)| {
                let mut fields = fields.clone();
                fields.insert("width".into(), of(i).to_le_bytes().to_vec());
                (key.clone(), fields)
            };
            others.iter().enumerate().map(one).collect()
        };
        let narrow = viewed(&base, &place.join("narrow"), &["--select", "cls,txt"]);
        let joined = viewed(&narrow, &place.join("joined"), &["--join", text(&first)]);
        assert_eq!(samples(&open(&joined)), with(&|i| 1000 * i as i64), "{base:?}");
        let few = viewed(&joined, &place.join("few"), &["--where", "width >= 58000"]);
        assert_eq!(keys(&open(&few)), ["s0058", "s0059"]);
        let head = printed(&["head", text(&joined), "--samples", "2", "--json"]);
        let fields: Value = serde_json::from_str(head.lines().nth(1).unwrap()).unwrap();
        assert_eq!(fields["fields"]["width"], "1000", "{head}");
        let again = viewed(&joined, &place.join("again"), &["--select", "cls,txt"]);
        let again = viewed(&again, &place.join("twice"), &["--join", text(&second)]);
        assert_eq!(samples(&open(&again)), with(&|i| -(i as i64)), "{base:?}");
        // In one process.
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..COUNT).map(|i| -(i as i64))));
        let rows = RecordBatch::try_from_iter([("width", values)]).unwrap();
        let other = open(&joined).select(&["cls", "txt"]).unwrap();
        let other = other.with_columns(&rows.schema(), std::iter::once(Ok(rows))).unwrap();
        assert_eq!(samples(&other), with(&|i| -(i as i64)), "{base:?}");
        let packed = place.join("packed");
        packhorse(&["pack", text(&joined), "--to", "parquet", "--out", text(&packed)]).succeed();
        let packed = open(&packed);
        assert_eq!(packed.schema().field_with_name("width").unwrap().data_type(), &DataType::Int64);
        let widths: Vec<Vec<u8>> = samples(&packed).iter().map(|(_, fields)| fields["width"].clone()).collect();
        assert!(widths.iter().enumerate().all(|(i, width)| *width == (1000 * i as i64).to_le_bytes()), "{base:?}");
    }
}

/// Of a field of several names, each sample has the first that it has a value of, joined or stored.
#[test]
fn joined_columns_are_among_several_names() {
    let dir = tempfile::tempdir().unwrap();
    let rows = (0..COUNT).step_by(2).fold("key,fixed\n".to_owned(), |all, i| format!("{all}s{i:04},{}\n", 100 + i));
    let table = dir.path().join("fixed.csv");
    std::fs::write(&table, rows).unwrap();
    for format in ["parquet", "hdf5"] {
        let base = columns(dir.path(), format);
        let out =
            viewed(&base, &dir.path().join(format!("view-{format}")), &["--join", text(&table), "--fill-missing"]);
        let dataset = open(&out);
        let read = |names: &str| -> Vec<i64> {
            let decoder =
                BatchDecoder::new(&dataset, &[FieldOptions::new(names, FieldKind::Auto)], &LoaderOptions::new(1))
                    .unwrap();
            let value = |number| {
                let batch = decoder.decode(&[number], 0).unwrap();
                i64::from_le_bytes(batch.row(names, 0).unwrap().try_into().unwrap())
            };
            (0..dataset.len()).map(value).collect()
        };
        let fixed = |i: usize| if i.is_multiple_of(2) { 100 + i as i64 } else { label(i) };
        assert_eq!(read("fixed;cls"), (0..COUNT).map(fixed).collect::<Vec<_>>(), "{format}");
        assert_eq!(read("cls;fixed"), (0..COUNT).map(label).collect::<Vec<_>>(), "{format}");
    }
}

/// A column that a view joins is not taken for the field of that name of other inputs, nor for a column of another type.
#[test]
fn joined_columns_are_apart_from_fields_of_other_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let rows = |name: &str, of: &dyn Fn(usize) -> String| {
        let rows = (0..COUNT).fold("key,rank\n".to_owned(), |all, i| format!("{all}s{i:04},{}\n", of(i)));
        std::fs::write(at(name), rows).unwrap();
        at(name)
    };
    let numbers = rows("numbers.csv", &|i| if i == 3 { "nan".to_owned() } else { i.to_string() });
    let words = rows("words.csv", &|i| format!("w{i}"));
    let base = tars(dir.path());
    let (few, rest) = (lines(&at("few"), [0, 1, 2, 3]), lines(&at("rest"), [4, 5]));
    let ranked = viewed(&base, &at("ranked"), &["--numbers", text(&few), "--join", text(&numbers)]);
    std::fs::create_dir(at("other")).unwrap();
    let named = viewed(&tars(&at("other")), &at("named"), &["--numbers", text(&rest), "--join", text(&words)]);
    let pack = |inputs: &[&Path], out: &str| {
        let inputs: Vec<&str> = inputs.iter().map(|input| text(input)).collect();
        packhorse(&[&["pack"], &inputs[..], &["--to", "parquet", "--out", text(&at(out))]].concat()).run()
    };
    let refused = |inputs: &[&Path], what: &str| {
        let ended = pack(inputs, "refused");
        assert!(ended.code() == CONFIG && ended.said.contains(what), "{what}: {ended:?}");
    };
    refused(&[&ranked, &named], "column rank is joined by a view, and is Int64 in one view and Utf8View in another");
    std::fs::create_dir(at("own")).unwrap();
    std::fs::write(at("own/a.rank"), "its own").unwrap();
    std::fs::write(at("own/a.txt"), "text").unwrap();
    refused(&[&ranked, &at("own")], "column rank is joined by a view, and other inputs have a field of that name");
    // A shard of the dataset of the view has the samples again.
    let shard = base.join("shard-000000.tar");
    assert!(shard.exists(), "{:?}", files(&base).keys());
    refused(&[&ranked, &shard], "give one of them");
    assert_eq!(pack(&[&ranked], "packed").code(), 0);
    let head = printed(&["head", text(&at("packed")), "--samples", "4", "--json"]);
    let rank = |line: &str| serde_json::from_str::<Value>(line).unwrap()["fields"]["rank"].clone();
    let ranks: Vec<Value> = head.lines().map(rank).collect();
    assert_eq!(ranks, ["0".into(), "1".into(), "2".into(), Value::Null], "{head}");
}

/// Whether a sample has a field is in the index: no byte of the field is read, which here is larger than a value may be.
#[test]
fn presence_reads_no_field() {
    use std::io::{Seek as _, SeekFrom, Write as _};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let mut tar = std::fs::File::create(&path).unwrap();
    for (name, size) in [("a.mp4", 3u64 << 30), ("a.cls", 512), ("b.cls", 512)] {
        let mut header = tar::Header::new_ustar();
        header.set_path(name).unwrap();
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        tar.write_all(header.as_bytes()).unwrap();
        tar.seek(SeekFrom::Current(i64::try_from(size).unwrap())).unwrap();
    }
    tar.write_all(&[0; 1024]).unwrap();
    let dataset = open(&path);
    let chosen = |condition: &str| keys(&dataset.filter(&condition.parse::<Condition>().unwrap()).unwrap());
    assert_eq!((chosen("mp4 is not null"), chosen("mp4 is null")), (vec!["a".to_owned()], vec!["b".to_owned()]));
}
