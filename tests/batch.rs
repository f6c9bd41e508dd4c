//! `packhorse batch`: the samples of any batch of a run, by arithmetic, are those that a loader gives.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
}

use common::process::packhorse;
use packhorse::read::order::{Rank, Shuffle};
use packhorse::read::{Dataset, FieldKind, LoaderOptions, Remainder};
use packhorse::{Labels, OnError, Recipe};
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};

const CONFIG: i32 = 2;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder of `count` small files in three classes.
fn files(dir: &Path, count: usize) -> PathBuf {
    let input = dir.join("in");
    for i in 0..count {
        let folder = input.join(["cat", "dog", "eel"][i % 3]);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{i:03}.txt")), format!("text {i}")).unwrap();
    }
    input
}

/// Shards of seven samples, with labels.
fn packed(dir: &Path, format: &str, count: usize) -> PathBuf {
    let (input, out) = (files(dir, count), dir.join(format));
    let recipe = Recipe::new(&input, format, &out).labels(Labels::Folders).shuffle(3).samples_per_shard(7);
    packhorse::session().pack(&recipe).unwrap();
    out
}

fn open(dir: &Path) -> Dataset {
    packhorse::open(text(dir)).unwrap()
}

/// The keys and numbers of every batch that the rank of `options` gets in two epochs.
fn loaded(dataset: &Dataset, options: &LoaderOptions) -> Vec<Vec<(String, u64)>> {
    let own = options.clone();
    let builder = dataset.loader(own.batch).rank(own.rank).field_as("label", "cls", FieldKind::Auto);
    let loader = builder.configure(|options| *options = own).threads(0).epochs(2).build().unwrap();
    let rows = |batch: packhorse::read::Batch<_>| {
        (0..batch.rows()).map(|row| (batch.key(row).unwrap().to_owned(), batch.numbers()[row])).collect()
    };
    loader.map(|batch| rows(batch.unwrap())).collect()
}

fn computed(dataset: &Dataset, step: u64, options: &LoaderOptions) -> Vec<(String, u64)> {
    let batch = dataset.batch_samples(step, options).unwrap();
    batch.samples.into_iter().map(|sample| (sample.key, sample.number)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_batch_of_a_run_is_known(
        typed: bool, seed in 0u64..1000, batch in 1u32..9, world_size in 1u32..5, shuffle in 0usize..4, remainder in 0usize..3,
        skipped in proptest::collection::btree_set(0u64..45, 0..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let dataset = open(&packed(dir.path(), if typed { "parquet" } else { "webdataset" }, 45));
        let shuffle = ["sequential", "full", "blocks:1", "blocks:3"][shuffle].parse::<Shuffle>().unwrap();
        let remainder = [Remainder::Drop, Remainder::Pad, Remainder::Uneven][remainder];
        let skip: Vec<u64> = skipped.into_iter().collect();
        for rank in 0..world_size {
            let rank = Rank { rank, world_size };
            let options =
                LoaderOptions { seed, rank, shuffle: Some(shuffle), remainder, skip: skip.clone().into(), ..LoaderOptions::new(batch) };
            for (step, given) in (0..).zip(loaded(&dataset, &options)) {
                prop_assert_eq!(computed(&dataset, step, &options), given, "step {} of {:?}", step, rank);
            }
        }
    }
}

#[test]
fn batches_after_a_state_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let out = packed(dir.path(), "webdataset", 45);
    let dataset = open(&out);
    let mut loader = dataset.loader(4).seed(5).rank(Rank { rank: 1, world_size: 2 }).epochs(3).build().unwrap();
    for _ in 0..7 {
        loader.next().unwrap().unwrap();
    }
    let state = loader.state();
    // On another number of ranks.
    let options = LoaderOptions {
        seed: 5,
        rank: Rank { rank: 2, world_size: 3 },
        state: Some(state),
        epochs: Some(3),
        ..LoaderOptions::new(3)
    };
    let own = options.clone();
    let resumed = dataset.loader(3).rank(own.rank).configure(|options| *options = own).threads(0).build().unwrap();
    let mut steps = 0;
    for (step, batch) in (0..).zip(resumed) {
        let batch = batch.unwrap();
        let given: Vec<u64> = batch.numbers().to_vec();
        let known = dataset.batch_samples(step, &options).unwrap();
        assert_eq!(known.samples.iter().map(|sample| sample.number).collect::<Vec<_>>(), given);
        assert_eq!((known.epoch, known.positions), (batch.epoch(), batch.positions()));
        steps += 1;
    }
    assert!(steps > 5, "{steps}");
    let json = state.to_json();
    let all = ["batch", text(&out), "--json", "--step", "4", "--batch", "3", "--rank", "2"];
    let said = packhorse(&[&all[..], &["--world", "3", "--state", &json]].concat()).succeed();
    let value: Value = serde_json::from_str(&said.printed).unwrap();
    let numbers: Vec<u64> =
        value["samples"].as_array().unwrap().iter().map(|s| s["number"].as_u64().unwrap()).collect();
    let known = dataset.batch_samples(4, &options).unwrap();
    assert_eq!(numbers, known.samples.iter().map(|sample| sample.number).collect::<Vec<_>>());
    // A state of another seed is refused.
    let ended = packhorse(&[&all[..], &["--world", "3", "--state", &json, "--seed", "6"]].concat()).run();
    assert_eq!(ended.code(), CONFIG, "{ended:?}");
}

/// The samples that the command names, as JSON.
fn named(dataset: &Path, more: &[&str]) -> Vec<Value> {
    let said = packhorse(&[&["batch", text(dataset), "--json"], more].concat()).succeed();
    serde_json::from_str::<Value>(&said.printed).unwrap()["samples"].as_array().unwrap().clone()
}

#[test]
fn inputs_are_those_that_samples_were_packed_from() {
    let dir = tempfile::tempdir().unwrap();
    let out = packed(dir.path(), "webdataset", 45);
    let check = |samples: &[Value], expected: usize| {
        assert_eq!(samples.len(), expected);
        for sample in samples {
            let inputs = sample["inputs"].as_array().unwrap();
            assert_eq!(inputs.len(), 1, "{sample}");
            let bytes = std::fs::read(inputs[0]["input"].as_str().unwrap()).unwrap();
            let (shard, key) = (sample["shard"].as_str().unwrap(), sample["key"].as_str().unwrap());
            let stored = packhorse(&["cat", text(&out.join(shard)), &format!("{key}.txt")]).succeed();
            assert_eq!(stored.printed.as_bytes(), bytes);
        }
    };
    let flags = ["--step", "3", "--batch", "8", "--seed", "9"];
    check(&named(&out, &flags), 8);
    // A view names the inputs of its dataset.
    let view = dir.path().join("view");
    packhorse(&["view", text(&out), "--out", text(&view), "--where", "cls == 1"]).succeed();
    check(&named(&view, &["--step", "1", "--batch", "5"]), 5);
    // After an append too.
    let more = dir.path().join("more/cat");
    std::fs::create_dir_all(&more).unwrap();
    for i in 0..9 {
        std::fs::write(more.join(format!("new{i}.txt")), format!("new {i}")).unwrap();
    }
    let more = more.parent().unwrap();
    packhorse(&["append", text(&out), text(more), "--labels", "folders"]).succeed();
    check(&named(&out, &["--step", "0", "--batch", "54", "--shuffle", "full"]), 54);
}

#[test]
fn inputs_whose_names_are_no_text_are_named() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::create_dir(&input).unwrap();
    for name in [&b"a\xff.txt"[..], b"plain.txt"].map(std::ffi::OsStr::from_bytes) {
        std::fs::write(input.join(name), "text").unwrap();
    }
    packhorse::session().pack(&Recipe::new(&input, "webdataset", &out)).unwrap();
    let said = packhorse(&["batch", text(&out), "--step", "0", "--batch", "2", "--json"]).run();
    assert_eq!(said.code(), 0, "{said:?}");
    assert!(said.printed.contains("a\u{fffd}.txt"), "{said:?}");
}

#[test]
fn rows_of_tables_are_named_by_their_number() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    let rows: String = (0..50).map(|i| format!("{},{}\n", i, i * i)).collect();
    std::fs::write(&table, format!("x,y\n{rows}")).unwrap();
    packhorse(&[
        "pack",
        text(&table),
        "--to",
        "parquet",
        "--out",
        text(&out),
        "--samples-per-shard",
        "8",
        "--shuffle",
        "4",
    ])
    .succeed();
    for sample in named(&out, &["--step", "2", "--batch", "9", "--shuffle", "full"]) {
        let origin = &sample["inputs"][0];
        assert_eq!(origin["input"].as_str().unwrap(), text(&table));
        let row = origin["row"].as_u64().unwrap();
        let number = sample["number"].as_u64().unwrap();
        let value =
            open(&out).loader(1).field("x", "x").threads(0).configure(|o| o.shuffle = Some(Shuffle::Sequential));
        let batch = value.build().unwrap().nth(number as usize).unwrap().unwrap();
        assert_eq!(batch.integers("x").next(), Some(row as i64), "{sample}");
    }
}

#[test]
fn samples_whose_inputs_are_not_known_have_none() {
    let dir = tempfile::tempdir().unwrap();
    let out = packed(dir.path(), "webdataset", 20);
    for file in ["dataset.json", "plan.jsonl.zst"] {
        std::fs::remove_file(out.join(file)).unwrap();
    }
    let pattern = out.join("*.tar");
    let samples = named(&pattern, &["--step", "1", "--batch", "4"]);
    assert_eq!(samples.len(), 4);
    assert!(samples.iter().all(|sample| sample["inputs"].as_array().unwrap().is_empty()), "{samples:?}");
}

#[test]
fn skipped_keys_leave_the_order_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let out = packed(dir.path(), "webdataset", 45);
    let list = dir.path().join("skip.txt");
    let flags = ["batch", text(&out), "--step", "2", "--batch", "6", "--seed", "1"];
    let culprits = packhorse(&[&flags[..], &["--keys"]].concat()).succeed().printed;
    assert_eq!(culprits.lines().count(), 6);
    let wrong: Vec<&str> = culprits.lines().take(2).collect();
    std::fs::write(&list, wrong.join("\n")).unwrap();
    let rest = packhorse(&[&flags[..], &["--keys", "--skip", text(&list)]].concat()).succeed().printed;
    assert_eq!(rest.lines().collect::<Vec<_>>(), culprits.lines().skip(2).collect::<Vec<_>>());
    let dataset = open(&out);
    let run = |skip: &[&str]| {
        let builder = dataset.loader(6).field("label", "cls").seed(1).threads(2).skip_keys(skip.iter().copied());
        let mut loader = builder.build().unwrap();
        let mut seen = Vec::new();
        while let Some(batch) = loader.next() {
            let batch = batch.unwrap();
            seen.push((batch.numbers().to_vec(), loader.state()));
        }
        seen
    };
    let (all, some) = (run(&[]), run(&wrong));
    assert_eq!(all.len(), some.len());
    for (step, ((all, before), (some, after))) in all.iter().zip(&some).enumerate() {
        assert_eq!(before, after);
        assert_eq!(some.len(), all.len() - if step == 2 { 2 } else { 0 });
        assert!(some.iter().all(|number| all.contains(number)));
    }
    std::fs::write(&list, "no such key\n").unwrap();
    let ended = packhorse(&[&flags[..], &["--skip", text(&list)]].concat()).run();
    assert_eq!(ended.code(), CONFIG);
    assert!(ended.said.contains("no such key"), "{ended:?}");
}

#[test]
fn a_page_shows_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let (photos, out, page) = (dir.path().join("photos"), dir.path().join("out"), dir.path().join("page.html"));
    packhorse(&["synth", "images", "--count", "30", "--out", text(&photos)]).succeed();
    // A picture that can't be decoded has a card that says so.
    let broken = photos.join("broken <b>");
    std::fs::create_dir(&broken).unwrap();
    for i in 0..30 {
        std::fs::write(broken.join(format!("{i}.jpg")), "not a picture").unwrap();
    }
    let recipe = Recipe::new(&photos, "webdataset", &out).labels(Labels::Folders).shuffle(3).on_error(OnError::Fail);
    packhorse::session().pack(&recipe).unwrap();
    let said = packhorse(&["batch", text(&out), "--step", "0", "--batch", "60", "-o", text(&page)]).succeed();
    let html = std::fs::read_to_string(&page).unwrap();
    assert_eq!(html.matches("<img src=\"data:image/jpeg;base64,").count(), 30);
    assert_eq!(html.matches("<dt>error</dt>").count(), 30);
    assert!(!html.contains("<b>") && html.contains("broken &lt;b&gt;"), "{html}");
    assert!(html.contains("(broken &lt;b&gt;)"), "classes have their names: {html}");
    assert_eq!(said.printed.lines().count(), 61);
}

#[test]
fn steps_that_do_not_exist_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = packed(dir.path(), "webdataset", 20);
    let refused = |more: &[&str], part: &str| {
        let ended = packhorse(&[&["batch", text(&out)], more].concat()).run();
        assert_eq!(ended.code(), CONFIG, "{ended:?}");
        assert!(ended.said.contains(part), "{ended:?}");
    };
    refused(&["--step", "0", "--batch", "21"], "20 samples");
    refused(&["--step", "0", "--rank", "2", "--world", "2"], "rank 2 of 2");
    refused(&["--step", "0", "--split", "val"], "no split val");
    refused(&["--step", "0", "--state", "{}"], "not a state");
}

/// The headers of a tar tell what its member index tells, but for checksums.
#[test]
fn a_shard_without_its_member_index_is_read_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let out = packed(dir.path(), "webdataset", 45);
    let read = |verify: packhorse::read::Verify| {
        let loader = open(&out).loader(4).field("txt", "txt").threads(0).epochs(1).verify(verify).build().unwrap();
        let rows = |batch: packhorse::read::Batch<_>| -> Vec<_> {
            (0..batch.rows())
                .map(|row| (batch.key(row).unwrap().to_owned(), batch.row("txt", row).unwrap().to_vec()))
                .collect()
        };
        loader.map(|batch| batch.map(rows)).collect::<Result<Vec<_>, _>>()
    };
    let wanted = read(packhorse::read::Verify::Header).unwrap();
    for lost in ["shard-000003.members", "shard-000000.members"] {
        std::fs::remove_file(out.join(lost)).unwrap();
        assert_eq!(read(packhorse::read::Verify::Header).unwrap(), wanted);
        assert_eq!(read(packhorse::read::Verify::Full).unwrap(), wanted);
    }
    // Without checksums the whole shard is compared.
    let shard = out.join("shard-000003.tar");
    let mut bytes = std::fs::read(&shard).unwrap();
    let at = bytes.windows(5).position(|window| window == b"text ").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    assert_eq!(read(packhorse::read::Verify::Full).unwrap_err().kind(), packhorse::core::Kind::Content);
}

/// Typed values are members under other names than their fields, which members tell where the index does not.
#[test]
fn typed_fields_are_found_without_the_first_member_index() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    std::fs::write(&table, "x,s\n1.5,a\n2.5,b\n3.5,c\n").unwrap();
    let recipe = Recipe::new(&table, "webdataset", &out).samples_per_shard(1);
    packhorse::session().pack(&recipe).unwrap();
    for shard in 0..3 {
        std::fs::remove_file(out.join(format!("shard-{shard:06}.members"))).unwrap();
        let loader = open(&out).loader(3).field("x", "x.npy").field("s", "s.txt").threads(0).epochs(1).build().unwrap();
        let rows = |batch: packhorse::read::Batch<_>| -> Vec<_> {
            (0..batch.rows()).map(|row| batch.row("s", row).unwrap().to_vec()).collect()
        };
        let mut texts: Vec<_> = loader.flat_map(|batch| batch.map(rows).unwrap()).collect();
        texts.sort();
        assert_eq!(texts, [b"a", b"b", b"c"], "{shard} removed");
    }
}

#[derive(Default)]
struct Warnings(std::sync::Mutex<Vec<String>>);

impl packhorse::core::Observer for Warnings {
    fn event(&self, event: &packhorse::core::Event<'_>) {
        if let packhorse::core::Event::Warning(text) = event {
            self.0.lock().unwrap().push((*text).to_owned());
        }
    }
}

/// A cache too small for the rows that are shuffled together changes no batch, and is named once.
#[test]
fn rows_that_fit_into_no_cache_are_the_same_and_a_warning_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    let line = |i: usize| format!("{i},{},{}\n", "text of some length ".repeat(1 + i % 4), i as f64 / 8.0);
    std::fs::write(&table, "n,t,x\n".to_owned() + &(0..40_000).map(line).collect::<String>()).unwrap();
    let recipe = Recipe::new(&table, "parquet", &out).with("samples-per-shard", "2500").unwrap();
    packhorse::session().pack(&recipe).unwrap();
    let dataset = open(&out);
    let read = |rows: usize, threads: usize| {
        let warnings = std::sync::Arc::new(Warnings::default());
        let builder = dataset.loader(400).field("n", "n").field("t", "t").field("x", "x").threads(threads).epochs(1);
        let observer: std::sync::Arc<dyn packhorse::core::Observer> = warnings.clone();
        let builder = builder.observe(observer).configure(|options| options.read.rows = rows);
        let batches: Vec<String> = builder
            .build()
            .unwrap()
            .map(|batch| {
                let batch = batch.unwrap();
                let value =
                    |row: usize| (batch.key(row).unwrap().to_owned(), batch.row("t", row).unwrap_or_default().to_vec());
                format!(
                    "{:?}{:?}",
                    batch.integers("n").collect::<Vec<_>>(),
                    (0..batch.rows()).map(value).collect::<Vec<_>>()
                )
            })
            .collect();
        let said = warnings.0.lock().unwrap().clone();
        (batches, said)
    };
    let (wanted, silent) = read(1 << 30, 0);
    assert_eq!((wanted.len(), silent.len()), (100, 0));
    // Without a shuffle no row is wanted twice.
    let in_order = std::sync::Arc::new(Warnings::default());
    let observer: std::sync::Arc<dyn packhorse::core::Observer> = in_order.clone();
    let builder = dataset.loader(40_000).field("n", "n").threads(0).epochs(12).observe(observer);
    let builder =
        builder.configure(|options| (options.shuffle, options.read.rows) = (Some(Shuffle::Sequential), 4 << 20));
    assert_eq!(builder.build().unwrap().map(Result::unwrap).count(), 12);
    assert!(in_order.0.lock().unwrap().is_empty());
    for threads in [0, 2] {
        let (batches, mut said) = read(1 << 16, threads);
        said.retain(|text| !text.contains("CPU"));
        assert!(batches == wanted);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said.iter().all(|text| text.contains("each batch decodes most of them again")), "{said:?}");
    }
}

/// A batch over more shards than a process may have open files is read in groups of shards.
#[test]
fn a_batch_needs_few_open_files() {
    let dir = tempfile::tempdir().unwrap();
    for format in ["webdataset", "parquet"] {
        let out = dir.path().join(format);
        let recipe = Recipe::new(files(dir.path(), 300), format, &out).samples_per_shard(1);
        packhorse::session().pack(&recipe).unwrap();
        let program = env!("CARGO_BIN_EXE_packhorse");
        let script =
            format!("ulimit -n 100; exec {program} batch {} --batch 250 --step 0 --shuffle full --json", text(&out));
        let ended = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(ended.status.success(), "{format}: {}", String::from_utf8_lossy(&ended.stderr));
        let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let options = LoaderOptions { shuffle: Some(Shuffle::Full), ..LoaderOptions::new(250) };
        assert_eq!(found["samples"].as_array().map(Vec::len), Some(250), "{found}");
        let keys = found["samples"].as_array().unwrap().iter().map(|sample| sample["key"].as_str().unwrap().to_owned());
        let wanted: Vec<String> = computed(&open(&out), 0, &options).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys.collect::<Vec<_>>(), wanted, "{format}");
    }
}
