//! The ecosystem's own readers read what packhorse writes, and packhorse reads what they write.
//!
//! `PACKHORSE_PYTHON` names a Python that has `tests/interop/requirements.txt` installed, and
//! `PACKHORSE_TEST_DATA` the folder with `clothing-train.tar`. Where one is unset the tests
//! that need it are skipped.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse_testkit::external::{data, python};
use std::path::{Path, PathBuf};
use std::process::Command;

const READERS: [&str; 7] = ["webdataset", "tarfile", "gnutar", "wids", "datasets", "dali", "energon"];

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}");
    text
}

fn packhorse(args: &[&str]) -> String {
    run(Command::new(env!("CARGO_BIN_EXE_packhorse")).args(args).arg("--quiet"))
}

fn script(python: &Path, name: &str, args: &[&Path]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name);
    run(Command::new(python).arg(path).args(args))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The photos, unpacked: `train/CLASS/*.jpg`.
fn photos(data: &Path, dir: &Path) -> PathBuf {
    run(Command::new("tar").arg("xf").arg(data.join("clothing-train.tar")).arg("-C").arg(dir));
    dir.join("train")
}

/// What a reader must find, in the form that the scripts take: made from the folder, not from a shard.
fn expected(photos: &Path, to: &Path) {
    use std::fmt::Write;
    let sorted = |dir: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        names
    };
    let mut lines = String::new();
    for (label, class) in sorted(photos).iter().enumerate() {
        for file in sorted(class) {
            let key = format!(
                "{}/{}",
                class.file_name().unwrap().to_str().unwrap(),
                file.file_stem().unwrap().to_str().unwrap()
            );
            let bytes = std::fs::read(&file).unwrap();
            let sha256 = sha256(&file);
            let fields = serde_json::json!({"jpg": {"sha256": sha256, "bytes": bytes.len()}, "cls": {"text": label.to_string()}});
            writeln!(lines, "{}", serde_json::json!({"key": key, "split": null, "fields": fields})).unwrap();
        }
    }
    std::fs::write(to, lines).unwrap();
}

/// Whether torch is installed, which wids, Energon and a snippet of docs/hdf5.md import.
fn has_torch(python: &Path) -> bool {
    let found = Command::new(python).args(["-c", "import torch"]).output().unwrap().status.success();
    if !found {
        packhorse_testkit::external::skip("torch is not installed");
    }
    found
}

fn sha256(file: &Path) -> String {
    let text = run(Command::new("sha256sum").arg(file));
    text.trim_start_matches('\\').split(' ').next().unwrap().to_owned()
}

#[test]
fn every_reader_reads_every_sample_and_every_index_is_right() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let photos = photos(&data, dir.path());
    let (out, list) = (dir.path().join("shards"), dir.path().join("expected.jsonl"));
    expected(&photos, &list);
    let index = ["--index", "wids:md5,dali,energon", "--labels", "folders", "--shuffle", "7", "--shard-count", "16"];
    packhorse(&[&["pack", text(&photos), "--to", "webdataset", "--out", text(&out)][..], &index].concat());
    let torch = has_torch(&python);
    for reader in READERS.into_iter().filter(|reader| torch || !["wids", "energon"].contains(reader)) {
        let said = script(&python, &format!("check_{reader}.py"), &[&out, &list]);
        assert!(said.contains(&format!("{reader}: 3068 samples equal")), "{said}");
    }
    let said = script(&python, "oracle_indexes.py", &[&out]);
    assert!(said.contains("3068 samples in 16 shards equal"), "{said}");
    packhorse(&["verify", text(&out), "--full"]);
    packhorse(&["verify", text(&out), "--for", "webdataset,wids,hf,dali,energon"]);
}

#[test]
fn splits_reach_wids_and_energon() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let photos = photos(&data, dir.path());
    let out = dir.path().join("shards");
    let split = ["--split", "train=0.8,val=0.1,test=0.1", "--shard-size", "10MB", "--index", "wids,dali,energon"];
    packhorse(&[&["pack", text(&photos), "--to", "webdataset", "--out", text(&out)][..], &split].concat());
    script(&python, "oracle_indexes.py", &[&out, Path::new("--only"), Path::new("dali,energon")]);
    for split in ["train", "val", "test"] {
        let index = std::fs::read_to_string(out.join(format!("shardindex-{split}.json"))).unwrap();
        assert!(index.contains(&format!("\"{split}-000000.tar\"")), "{index}");
    }
}

#[test]
fn foreign_tars_come_out_canonical() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    script(&python, "make_foreign.py", &[&foreign]);
    let mut seen = 0;
    for path in std::fs::read_dir(&foreign).unwrap().map(|e| e.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".jsonl") {
            continue;
        }
        let stem = [".tar.gz", ".tar.zst", ".tar"].iter().find_map(|ext| name.strip_suffix(ext)).unwrap_or(name);
        let list = [format!("{name}.expected.jsonl"), format!("{stem}.expected.jsonl")]
            .map(|name| foreign.join(name))
            .into_iter()
            .find(|list| list.exists())
            .unwrap_or_else(|| panic!("no list for {name}"));
        let out = dir.path().join("out").join(name);
        let how = ["--to", "webdataset", "--on-error", "skip", "--long-keys", "hash", "--out", text(&out)];
        packhorse(&[&["pack", text(&path)][..], &how].concat());
        let list = shortened(&list, dir.path());
        for reader in ["tarfile", "webdataset"] {
            script(&python, &format!("check_{reader}.py"), &[&out, &list]);
        }
        seen += 1;
    }
    assert!(seen >= 8, "{seen} foreign tars");
}

/// The list with long keys as `--long-keys hash` is documented to make them.
fn shortened(list: &Path, dir: &Path) -> PathBuf {
    let short = |key: &str, longest: usize| {
        let start: String =
            key.char_indices().take_while(|(i, c)| i + c.len_utf8() <= longest - 17).map(|(_, c)| c).collect();
        format!("{start}~{}", &blake3::hash(key.as_bytes()).to_hex()[..16])
    };
    let line = |line: &str| {
        let mut sample: serde_json::Value = serde_json::from_str(line).unwrap();
        let longest = sample["fields"].as_object().unwrap().keys().map(|field| 99 - field.len()).min().unwrap();
        let key = sample["key"].as_str().unwrap().to_owned();
        if key.len() > longest {
            sample["key"] = short(&key, longest).into();
        }
        format!("{sample}\n")
    };
    let to = dir.join("shortened.jsonl");
    std::fs::write(&to, std::fs::read_to_string(list).unwrap().lines().map(line).collect::<String>()).unwrap();
    to
}

#[test]
fn the_snippets_of_the_hdf5_page_read_what_is_packed() {
    let Some(python) = python().filter(|python| has_torch(python)) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (runs, out) = (dir.path().join("runs"), dir.path().join("shards"));
    script(&python, "check_hdf5_docs.py", &[Path::new("make"), &runs]);
    packhorse(&["pack", text(&runs), "--to", "hdf5", "--out", text(&out), "--ragged"]);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/hdf5.md");
    let said = script(&python, "check_hdf5_docs.py", &[Path::new("run"), &runs, &page, dir.path()]);
    assert!(said.contains("3 snippets read 12 samples"), "{said}");
}

#[test]
fn a_filter_that_plain_readers_lack_says_what_they_need() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    packhorse(&["synth", "npz", "--count", "3", "--out", text(&runs)]);
    let said = |filter: &str| {
        let out = dir.path().join(filter);
        let args = ["pack", text(&runs), "--to", "hdf5", "--ragged", "--filter", filter, "--out", text(&out)];
        run(Command::new(env!("CARGO_BIN_EXE_packhorse")).args(args))
    };
    assert!(said("zstd").contains("import hdf5plugin"));
    assert!(!said("gzip").contains("plugin"));
}

#[test]
fn every_array_that_numpy_saves_is_the_same_to_every_reader() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let arrays = dir.path().join("npz");
    script(&python, "arrays.py", &[Path::new("make"), &arrays]);
    let check = |input: &Path, format: &str| {
        let out = dir.path().join(format!("{format} of {}", input.file_name().unwrap().display()));
        packhorse(&["pack", text(input), "--to", format, "--out", text(&out), "--samples-per-shard", "2"]);
        packhorse(&["verify", text(&out), "--full"]);
        let manifest: serde_json::Value =
            serde_json::from_slice(&std::fs::read(out.join("dataset.json")).unwrap()).unwrap();
        let shards = manifest["shards"].as_array().unwrap().iter();
        let shards: Vec<PathBuf> = shards.map(|shard| out.join(shard["file"].as_str().unwrap())).collect();
        let args: Vec<&Path> = [Path::new("check"), &arrays, Path::new(format)]
            .into_iter()
            .chain(shards.iter().map(PathBuf::as_path))
            .collect();
        let said = script(&python, "arrays.py", &args);
        assert!(said.contains("3 samples of 404 arrays"), "{said}");
        shards[0].parent().unwrap().to_owned()
    };
    check(&arrays, "webdataset");
    let parquet = check(&arrays, "parquet");
    let hdf5 = check(&arrays, "hdf5");
    // And from one container to another.
    check(&hdf5, "parquet");
    check(&parquet, "hdf5");
}

/// A dataset's folder is one that Hugging Face loads by its name alone, whatever lies beside the shards.
#[test]
fn load_dataset_finds_the_shards_of_a_folder() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    for i in 0..9 {
        let class = input.join(["cat", "dog"][i % 2]);
        std::fs::create_dir_all(&class).unwrap();
        std::fs::write(class.join(format!("{i}.txt")), format!("text {i}")).unwrap();
    }
    for (format, split) in [("webdataset", true), ("parquet", true), ("arrow", true), ("parquet", false)] {
        let out = dir.path().join(format!("{format}-{split}"));
        let flags: &[&str] = if split { &["--split", "train=0.6,val=0.4", "--split-by", "order"] } else { &[] };
        let pack = ["pack", text(&input), "--to", format, "--out", text(&out), "--labels", "folders", "--quiet"];
        packhorse(&[&pack[..], &["--samples-per-shard", "2"], flags].concat());
        let counts: &[&str] = if split { &["train=6", "val=3"] } else { &["train=9"] };
        let args: Vec<&Path> = std::iter::once(&*out).chain(counts.iter().map(Path::new)).collect();
        script(&python, "check_load_dataset.py", &args);
    }
}
