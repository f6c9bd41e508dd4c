//! Shards have the size that was asked for, whatever becomes of the samples on the way.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod process;
}

use common::process::packhorse;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

struct Inputs(TempDir);

impl Inputs {
    fn new() -> Self {
        let inputs = Self(tempfile::tempdir().unwrap());
        let synth = |what: &str, flags: &[&str]| {
            packhorse(&[&["synth", what, "--out", &inputs.path(what)], flags].concat()).succeed();
        };
        synth("images", &["--count", "160"]);
        synth("npz", &["--count", "1600"]);
        // Half of it has lines of one kind, half of another: a byte of them is not as many tokens.
        let text = inputs.path("text");
        fs::create_dir(&text).unwrap();
        let line = |i: u32| match i < 3000 {
            true => format!("{{\"text\": \"document number {i} about mules, horses and what they carry\"}}\n"),
            false => format!("{{\"text\": \"{}\"}}\n", format!("{}µß€ ", i * i).repeat(8)),
        };
        fs::write(Path::new(&text).join("a.jsonl"), (0..6000).map(line).collect::<String>()).unwrap();
        fs::write(inputs.path("tokenizer.json"), common::bytes::tokenizer()).unwrap();
        inputs
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// The bytes of the shards that `flags` make of `input`, in order, and what `plan` says of the largest.
    fn shards(&self, input: &str, flags: &[&str]) -> (Vec<u64>, f64) {
        let (input, out) = (self.path(input), self.path("out"));
        let _ = fs::remove_dir_all(&out);
        let run = |command: &str, jobs: &str| -> Value {
            let args = [&[command, &input, "--out", &out, "--json", "--jobs", jobs], flags].concat();
            serde_json::from_str(&packhorse(&args).succeed().printed).unwrap()
        };
        let planned = run("plan", "1")["largest_shard"]["bytes"].as_f64().unwrap();
        assert_eq!(run("pack", "2")["resumed"], true, "{flags:?}: plans differ");
        let manifest: Value = serde_json::from_slice(&fs::read(Path::new(&out).join("dataset.json")).unwrap()).unwrap();
        let bytes = |shard: &Value| shard["bytes"].as_u64().unwrap();
        (manifest["shards"].as_array().unwrap().iter().map(bytes).collect(), planned)
    }
}

#[test]
fn shards_stay_within_a_tenth_of_the_size_that_was_asked_for() {
    let inputs = Inputs::new();
    let tokenizer = inputs.path("tokenizer.json");
    let resize = ["--image", "resize=96"];
    let cases: [(&str, &str, &[&str], u64); 10] = [
        ("images", "webdataset", &resize, 100_000),
        ("images", "webdataset", &["--image", "resize=96", "--quality", "100", "--shuffle", "3"], 300_000),
        ("images", "hdf5", &resize, 100_000),
        ("images", "tfrecord", &resize, 100_000),
        ("npz", "hdf5", &["--ragged", "--filter", "gzip"], 1_000_000),
        ("npz", "parquet", &["--ragged"], 1_000_000),
        ("npz", "arrow", &["--ragged"], 1_000_000),
        ("npz", "tfrecord", &["--ragged", "--compression", "gzip"], 500_000),
        ("text", "tokens", &["--tokenizer", &tokenizer, "--append-eod"], 100_000),
        ("text", "parquet", &[], 30_000),
    ];
    for (input, to, flags, size) in cases {
        let asked = format!("{size}B");
        let (shards, planned) = inputs.shards(input, &[&["--to", to, "--shard-size", &asked], flags].concat());
        let largest = *shards.iter().max().unwrap();
        let found = format!("{input} to {to} {flags:?}: {shards:?} of {size}, planned {planned}");
        assert!(shards.len() > 1 && largest <= size + size / 10, "{found}");
        assert!((largest as f64 / planned - 1.0).abs() < 0.1, "{found}");
        // And not many small ones either: as few as there can be, give or take one of ten.
        let fewest = shards.iter().sum::<u64>().div_ceil(size);
        assert!(shards.len() as u64 <= fewest + fewest.div_ceil(8), "{found}");
    }
}

/// The bytes of the largest of at least `least` shards that `packhorse pack` makes of JSON lines with these texts.
fn largest_of_lines(texts: impl Iterator<Item = String>, flags: &[&str], least: usize) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("a.jsonl"), dir.path().join("out"));
    fs::write(&input, texts.map(|text| format!("{{\"text\":\"{text}\"}}\n")).collect::<String>()).unwrap();
    packhorse(&[&["pack", input.to_str().unwrap(), "--out", out.to_str().unwrap()], flags].concat()).succeed();
    let manifest: Value = serde_json::from_slice(&fs::read(out.join("dataset.json")).unwrap()).unwrap();
    let bytes: Vec<u64> = manifest["shards"].as_array().unwrap().iter().map(|s| s["bytes"].as_u64().unwrap()).collect();
    assert!(bytes.len() >= least, "{flags:?}: {bytes:?}");
    bytes.into_iter().max().unwrap()
}

#[test]
fn of_documents_longer_than_a_megabyte_few_are_in_a_shard() {
    // They are too few for pieces of text to hold as many as usual.
    let texts = (0..20).map(|i| "x".repeat(1_600_000 + i * 7919 % 11 * 80_000));
    let largest = largest_of_lines(texts, &["--to", "arrow", "--shard-size", "4MiB"], 8);
    // A document more, since only their starts lie within a shard's part of the file.
    assert!(largest < (4 << 20) + 2_500_000, "{largest}");
}

#[test]
fn samples_that_grow_seventyfold_are_divided_too() {
    let texts = (0..10_000).map(|_| "a1".to_owned());
    let largest = largest_of_lines(texts, &["--to", "webdataset", "--shard-size", "2MB"], 5);
    assert!(largest <= 2_000_000, "{largest}");
}

#[test]
fn the_end_of_a_tar_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    fs::create_dir(&input).unwrap();
    (0..20).for_each(|i| fs::write(input.join(format!("{i}.bin")), [0; 512]).unwrap());
    let flags = ["--to", "webdataset", "--shard-size", "5120B", "--out", out.to_str().unwrap()];
    packhorse(&[&["pack", input.to_str().unwrap()], &flags[..]].concat()).succeed();
    let shards = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let tars: Vec<u64> = shards
        .filter(|path| path.extension().is_some_and(|end| end == "tar"))
        .map(|path| path.metadata().unwrap().len())
        .collect();
    assert!(tars.len() == 5 && tars.iter().all(|bytes| *bytes == 5120), "{tars:?}");
}

#[test]
fn shards_without_a_document_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("a.jsonl"), dir.path().join("out"));
    let line = |text: String| format!("{{\"text\":\"{text}\"}}\n");
    fs::write(&input, line("x".repeat(6000)) + &(0..9).map(|i| line(i.to_string())).collect::<String>()).unwrap();
    let pack = |more: &[&str]| {
        let args = ["pack", input.to_str().unwrap(), "--out", out.to_str().unwrap(), "--to", "webdataset"];
        let mut program = common::process::command(env!("CARGO_BIN_EXE_packhorse"));
        program.args(args).args(more);
        common::process::Program(program).succeed().said
    };
    let said = pack(&["--shard-count", "4"]);
    assert!(said.contains("2 shards hold no sample") && said.contains("--samples-per-shard"), "{said}");
    fs::remove_dir_all(&out).unwrap();
    assert!(!pack(&["--samples-per-shard", "3"]).contains("no sample"));
}
