//! Tables of metadata of arbitrary bytes: no panic, an error names the table or one of the samples, and a plan has the three
//! samples or, under `on-error=skip`, fewer.
//!
//! The first two bytes choose the kind of the table and the settings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Kind, Registry};
use packhorse_pack::{Recipe, Session};
use std::path::PathBuf;
use std::sync::LazyLock;

const NAMES: [&str; 8] = ["t.csv", "t.tsv", "t.jsonl", "t.json", "t.txt", "t.csv.gz", "t.json.gz", "t.data"];
const SETTINGS: [&[(&str, &str)]; 9] = [
    &[],
    &[("metadata-rows", "list")],
    &[("metadata-read", "header=none")],
    &[("metadata-read", "delimiter=spaces")],
    &[("metadata-read", "delimiter=::"), ("metadata-read", "header=none")],
    &[("metadata-read", "delimiter=;"), ("metadata-read", "quote=none"), ("metadata-read", "skip=1")],
    &[("metadata-read", "columns=2"), ("metadata-read", "null=NA")],
    &[("metadata-read", "records=a.b")],
    &[("labels", "column:c"), ("on-error", "skip")],
];
const KEYS: [&str; 3] = ["file_name", "column1", "a"];

/// Three samples in two folders.
static INPUT: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let home = tempfile::tempdir().expect("a folder");
    let input = home.path().join("input");
    std::fs::create_dir_all(input.join("b")).expect("a folder");
    for name in ["1.txt", "2.txt", "b/3.txt"] {
        std::fs::write(input.join(name), name).expect("a file");
    }
    (home, input)
});

fuzz_target!(|bytes: &[u8]| {
    let [kind, settings, bytes @ ..] = bytes else { return };
    let (home, input) = &*INPUT;
    let name = NAMES[usize::from(kind % 8)];
    let table = home.path().join(name);
    std::fs::write(&table, bytes).expect("a file");
    let settings = usize::from(*settings);
    let recipe = Recipe::new(input, "webdataset", home.path().join("out"));
    let mut recipe = recipe.with("metadata", &table).expect("a setting");
    recipe = recipe.with("key", KEYS[settings / SETTINGS.len() % 3]).expect("a setting");
    for (name, value) in SETTINGS[settings % SETTINGS.len()] {
        recipe = recipe.with(name, value).expect("a setting");
    }
    let registry = Registry::new().with(packhorse_files::Files).with(packhorse_webdataset::WebDataset);
    match Session::new(registry).jobs(1).plan(&recipe) {
        Ok(plan) => assert!(plan.samples().is_some_and(|samples| (1..=3).contains(&samples))),
        Err(error) => {
            assert_ne!(error.kind(), Kind::Bug, "{error}");
            assert!(error.input().is_some() || error.kind() == Kind::Config, "{error}");
        }
    }
});
