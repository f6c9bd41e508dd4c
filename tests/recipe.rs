//! One recipe, three ways in: as a value of the library, as flags, as TOML. All give the same dataset, byte for byte.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod process;
    pub(crate) mod tree;
}

use common::process::packhorse;
use common::tree::{assert_equal, tree};
use packhorse::core::{Code, Kind, Registry};
use packhorse::pack::{Setting, Takes};
use packhorse::{Labels, Recipe, Session, Shuffle};
use proptest::prelude::*;
use serde_json::Value;
use std::path::Path;

/// Names and values of what `recipe` has otherwise than the default, without where it goes.
fn given(recipe: &Recipe) -> Vec<(String, Value)> {
    let values = |recipe: &Recipe| match serde_json::to_value(recipe).unwrap() {
        Value::Object(values) => values,
        other => panic!("{other}"),
    };
    let default = values(&Recipe::default());
    values(recipe).into_iter().filter(|(name, value)| default[name] != *value && name != "out").collect()
}

fn as_flags(recipe: &Recipe) -> Vec<String> {
    let one = |name: &str, value: &Value| match (name, value) {
        ("input", Value::String(path)) => path.clone(),
        (_, Value::Bool(true)) => format!("--{name}"),
        (_, Value::String(text)) => format!("--{name}={text}"),
        (_, value) => format!("--{name}={value}"),
    };
    let each = |(name, value): (String, Value)| match value {
        Value::Array(list) => list.iter().map(|value| one(&name, value)).collect::<Vec<_>>(),
        value => vec![one(&name, &value)],
    };
    given(recipe).into_iter().flat_map(each).collect()
}

/// JSON's text of strings, numbers, booleans and lists is TOML's.
fn as_toml(recipe: &Recipe) -> String {
    given(recipe).iter().map(|(name, value)| format!("{name} = {value}\n")).collect()
}

/// Packs `recipe` all three ways into folders below `dir`, which must be equal.
fn packs_alike(recipe: &Recipe, dir: &Path) {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let [library, flags, toml] = ["library", "flags", "toml"].map(|name| dir.path().join(name));
    let packed = packhorse::session().pack(&Recipe { out: Some(library.clone()), ..recipe.clone() });
    let packed = packed.unwrap_or_else(|e| panic!("{e}: {recipe:?}"));

    let mut line = as_flags(recipe);
    line.extend(["pack".to_owned(), format!("--out={}", flags.display())]);
    line.rotate_right(2);
    packhorse(&line.iter().map(String::as_str).collect::<Vec<_>>()).succeed();

    let file = dir.path().join("recipe.toml");
    std::fs::write(&file, as_toml(recipe)).unwrap();
    let (file, out) = (file.to_str().unwrap(), toml.to_str().unwrap());
    packhorse(&["pack", "--config", file, "--out", out]).succeed();

    assert!(packed.manifest.samples > 0);
    let wanted = tree(&library);
    assert_equal(&wanted, &tree(&flags), "flags");
    assert_equal(&wanted, &tree(&toml), "toml");
    let text = serde_json::to_string(recipe).unwrap();
    assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), *recipe);
}

/// Inputs that every sink takes one kind of: pictures in folders, rows of numbers, text.
fn inputs(dir: &Path) {
    for i in 0..24 {
        let class = dir.join("files").join(["cat", "dog", "hen"][i % 3]);
        std::fs::create_dir_all(&class).unwrap();
        std::fs::write(class.join(format!("{i:02}.bin")), vec![i as u8; 50 + i]).unwrap();
        std::fs::write(class.join(format!("{i:02}.txt")), format!("number {i}")).unwrap();
    }
    std::fs::create_dir(dir.join("rows")).unwrap();
    let rows: String = (0..40).map(|i| format!("{i},{}.5\n", i * i)).collect();
    std::fs::write(dir.join("rows/a.csv"), format!("n,x\n{rows}")).unwrap();
    std::fs::create_dir(dir.join("text")).unwrap();
    let line = |i: usize| serde_json::json!({"id": format!("d{i}"), "text": "word ".repeat(i % 7)}).to_string() + "\n";
    std::fs::write(dir.join("text/a.jsonl"), (0..40).map(line).collect::<String>()).unwrap();
    std::fs::write(dir.join("tokenizer.json"), common::bytes::tokenizer()).unwrap();
}

/// What all sinks have in common.
fn common_settings() -> impl Strategy<Value = Recipe> {
    let shuffle = prop_oneof![
        Just(Shuffle::No),
        any::<u64>().prop_map(|seed| Shuffle::Global { seed }),
        (any::<u64>(), 1u32..9).prop_map(|(seed, size)| Shuffle::Blocks { seed, size }),
    ];
    let split = prop_oneof![Just("keep"), Just("none"), Just("train=0.5,val=0.5")];
    let size = prop_oneof![Just(("samples-per-shard", "7")), Just(("shard-size", "2000B")), Just(("shard-count", "3"))];
    let limit = prop_oneof![Just(None), (5u64..30).prop_map(Some)];
    let rest = ("[a-z]{1,6}", any::<bool>(), any::<bool>());
    (shuffle, split, size, limit, rest).prop_map(|(shuffle, split, (size, n), limit, (name, by_order, hashes))| {
        let recipe = Recipe { shuffle, limit, name, ..Recipe::default() };
        let recipe = recipe.with("split", split).unwrap().with(size, n).unwrap();
        let recipe = recipe.with("split-by", if by_order { "order" } else { "hash" }).unwrap();
        recipe.with("long-keys", if hashes { "hash" } else { "refuse" }).unwrap()
    })
}

/// A recipe for the sink `to`, with settings of its own.
fn of_sink(common: Recipe, to: &str, own: bool, dir: &Path) -> Recipe {
    let recipe = Recipe { to: Some(to.to_owned()), ..common };
    let with = |recipe: Recipe, settings: &[(&str, &str)]| {
        let settings = if own { settings } else { &[] };
        settings.iter().fold(recipe, |recipe, (name, text)| recipe.with(name, text).unwrap())
    };
    let rows = || recipe.clone().and(dir.join("rows")).with("from", "csv").unwrap();
    match to {
        "webdataset" => {
            let recipe =
                with(recipe.and(dir.join("files")), &[("index", "wids"), ("include", "*.txt"), ("include", "*/0*")]);
            if own { recipe.labels(Labels::Folders) } else { recipe }
        }
        "tokens" => {
            let recipe = recipe.and(dir.join("text")).tokenizer(dir.join("tokenizer.json"));
            with(recipe, &[("append-eod", "true"), ("id-field", "id"), ("empty", "eod"), ("special", "none")])
        }
        "hdf5" => with(rows(), &[("filter", "gzip"), ("level", "2"), ("chunk", "5"), ("drop", "n")]),
        "parquet" => with(rows(), &[("row-group", "6"), ("cast", "n=i16"), ("field", "x=y")]),
        "arrow" => with(rows(), &[("tensor-ext", "true"), ("schema", "n:float64")]),
        "tfrecord" => with(rows(), &[("compression", "gzip"), ("fill-missing", "true")]),
        other => panic!("{other} is a new sink: give it settings here"),
    }
}

/// The formats that can be written, without those that a test below cannot feed.
fn sinks() -> Vec<&'static str> {
    let registry: Registry = packhorse::registry();
    let writes = |format: &&std::sync::Arc<dyn packhorse::core::Format>| {
        format.sink(&Default::default()).map_or_else(|e| e.kind() != Kind::Unsupported, |_| true)
    };
    registry.iter().filter(writes).map(|format| format.info().id).collect()
}

#[test]
fn library_flags_and_toml_pack_alike() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    for to in sinks() {
        let config = ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(common in common_settings(), own: bool)| {
            packs_alike(&of_sink(common, to, own, dir.path()), dir.path());
        });
    }
}

#[test]
fn an_unknown_setting_is_refused_with_the_name_that_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    let file = dir.path().join("recipe.toml");
    std::fs::write(&file, "to = \"webdataset\"\nshard-sise = \"1GB\"\n").unwrap();
    let (input, out) = (dir.path().join("files"), dir.path().join("out"));
    let line = ["pack", input.to_str().unwrap(), "--config", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let ended = packhorse(&line).run();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.said.contains("did you mean shard-size?"), "{ended:?}");
    let error = serde_json::from_str::<Recipe>(r#"{"shard-sise": "1GB"}"#).unwrap_err().to_string();
    assert!(error.contains("shard-sise"), "{error}");
}

#[test]
fn what_the_command_line_refuses_is_refused_of_a_value_and_of_a_document() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    let (input, out) = (dir.path().join("files"), dir.path().join("out"));
    let session = packhorse::session();
    let base = || Recipe::new(&input, "webdataset", &out);
    for (name, recipe, flags) in [
        ("key", Recipe { metadata: Some("t.csv".into()), ..base() }, &["--metadata", "t.csv"][..]),
        ("from", Recipe { read: vec!["a=b".to_owned()], ..base() }, &["--read", "a=b"]),
        ("tokenizer", Recipe { append_eod: true, ..base() }, &["--append-eod"]),
        ("limit", Recipe { limit: Some(0), ..base() }, &["--limit", "0"]),
        ("quality", Recipe { quality: 200, ..base() }, &["--quality", "200"]),
        (
            "classes",
            Recipe { classes: Some("c".into()), classes_from: Some("d".into()), ..base().labels(Labels::Folders) },
            &["--labels", "folders", "--classes", "c", "--classes-from", "d"],
        ),
    ] {
        let refused =
            [session.plan(&recipe).map(drop), session.pack(&recipe).map(drop), session.scan(&recipe).map(drop)];
        for error in refused.map(Result::unwrap_err) {
            assert_eq!((error.kind(), error.code()), (Kind::Config, Code::BadSetting), "{error}");
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
        let document = serde_json::to_string(&recipe).unwrap();
        let read = serde_json::from_str::<Recipe>(&document);
        assert!(read.map_or(true, |recipe| recipe.check().is_err()), "{document}");
        let line = [&["pack", input.to_str().unwrap(), "--to", "webdataset", "--out", out.to_str().unwrap()], flags];
        let ended = packhorse(&line.concat()).run();
        assert_eq!(ended.code(), 2, "{ended:?}");
        assert!(ended.said.contains(&format!("--{name}")), "{ended:?}");
    }
    assert!(!out.exists());
}

#[test]
fn a_session_tells_the_same_plan_each_time_and_fills_it_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    let [whole, parts] = ["whole", "parts"].map(|name| dir.path().join(name));
    let recipe = |out: &Path| {
        let recipe = Recipe::new(dir.path().join("files"), "webdataset", out).labels(Labels::Folders).shuffle(7);
        recipe.samples_per_shard(5)
    };
    let session = Session::new(packhorse::registry()).jobs(2);
    session.pack(&recipe(&whole)).unwrap();
    let plan = session.plan(&recipe(&parts)).unwrap();
    session.store_plan(&recipe(&parts), &plan).unwrap();
    for part in ["2/2", "1/2"] {
        session.fill(&parts, part.parse().unwrap()).unwrap();
    }
    session.seal(&parts).unwrap();
    assert_equal(&tree(&whole), &tree(&parts), "in parts");
}

/// The table of settings, as docs/settings.md has it.
fn table() -> String {
    let mut text = String::new();
    let mut group = "";
    for setting in Recipe::SETTINGS {
        if setting.group != group {
            group = setting.group;
            text.push_str(&format!("\n## {group}\n\n| setting | values | default | |\n| --- | --- | --- | --- |\n"));
        }
        let cell = |text: &str| text.trim().replace('|', "\\|").replace('<', "&lt;").replace("  ", " ");
        let default = setting.default.map(|default| format!("`{default}`")).unwrap_or_default();
        text.push_str(&format!(
            "| `{}` | {} | {default} | {} |\n",
            setting.name,
            cell(&values(setting)),
            cell(setting.about)
        ));
    }
    text
}

fn values(setting: &Setting) -> String {
    let many = if setting.repeats { ", repeatable" } else { "" };
    match setting.takes {
        Takes::Switch => "true, false".to_owned(),
        Takes::OneOf(words) => words.join(", "),
        Takes::Number(from, u64::MAX) => format!("whole number, {from} or more"),
        Takes::Number(from, to) => format!("whole number, {from} to {to}"),
        Takes::File => format!("path of a file{many}"),
        Takes::Folder => format!("path of a folder{many}"),
        Takes::Path => format!("path{many}"),
        Takes::Text | Takes::Texts => format!("{}{many}", setting.value),
    }
}

/// The settings as keys of a `TypedDict`, as crates/python/python/packhorse/_settings.py has them.
fn typed_settings() -> String {
    // These are arguments of their own.
    let is_key = |setting: &&Setting| !["input", "to", "out", "tokenizer"].contains(&setting.field);
    let mut text = String::new();
    let mut group = "";
    for setting in Recipe::SETTINGS.iter().filter(is_key) {
        if setting.group != group {
            group = setting.group;
            text.push_str(&format!("\n    # {group}.\n"));
        }
        // `from` is a keyword of Python.
        let name = if setting.field == "from" { "from_" } else { setting.field };
        let about = setting.about.trim().replace('\\', "\\\\").replace("  ", " ");
        text.push_str(&format!("    {name}: {} | None\n    \"\"\"{about}.\"\"\"\n", python_type(setting)));
    }
    text
}

fn python_type(setting: &Setting) -> String {
    let words = |words: &[&str]| {
        format!("Literal[{}]", words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", "))
    };
    match setting.takes {
        Takes::Switch => "bool".to_owned(),
        Takes::OneOf(["yes", "no"]) => format!("bool | {}", words(&["yes", "no"])),
        Takes::OneOf(allowed) => words(allowed),
        Takes::Number(..) => "int".to_owned(),
        Takes::File | Takes::Folder | Takes::Path => if setting.repeats { "Paths" } else { "Path" }.to_owned(),
        Takes::Text | Takes::Texts => "Text".to_owned(),
    }
}

/// Compares what the file `path` has after the line `mark` with `expected`; `PACKHORSE_WRITE=1` writes it.
fn printed_after(path: &str, mark: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, printed) = page.split_once(mark).unwrap();
    if std::env::var_os("PACKHORSE_WRITE").is_some() {
        std::fs::write(path, format!("{head}{mark}{expected}")).unwrap();
    } else {
        assert_eq!(printed, expected, "write it with PACKHORSE_WRITE=1 cargo test --test recipe");
    }
}

#[test]
fn the_docs_show_every_setting() {
    let mark = "<!-- From here on this page is printed from the declaration. -->\n";
    printed_after("docs/settings.md", mark, &table());
}

#[test]
fn python_types_every_setting() {
    let mark = "    # From here on this class is printed from the declaration.\n";
    printed_after("crates/python/python/packhorse/_settings.py", mark, &typed_settings());
}
