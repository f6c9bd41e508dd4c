//! The command line, as scripts depend on it: members, results, exit codes.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder with `cat/{1,2,3}.txt` and `dog/{1,2}.txt`, each holding its own name.
fn inputs() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["cat/1", "cat/2", "cat/3", "dog/1", "dog/2"] {
        let path = dir.path().join("in").join(name).with_extension("txt");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    dir
}

fn run(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_packhorse")).current_dir(dir).args(args).output().unwrap()
}

fn stdout(dir: &Path, args: &[&str]) -> String {
    let output = run(dir, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Packs `in` with `flags` and returns the report.
fn pack(dir: &TempDir, out: &str, flags: &[&str]) -> Value {
    let args = ["pack", "in", "--to", "webdataset", "--json", "--quiet", "--out", out];
    serde_json::from_str(&stdout(dir.path(), &[&args[..], flags].concat())).unwrap()
}

/// The members of all shards, in order.
fn members(dir: &TempDir, out: &str) -> Vec<String> {
    let mut shards: Vec<_> = std::fs::read_dir(dir.path().join(out)).unwrap().map(|e| e.unwrap().path()).collect();
    shards.retain(|path| path.extension().is_some_and(|ext| ext == "tar"));
    shards.sort();
    let list = |shard: &std::path::PathBuf| stdout(dir.path(), &["ls", shard.to_str().unwrap()]);
    shards.iter().flat_map(|shard| list(shard).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn fails(dir: &Path, args: &[&str], code: i32, fragment: &str) {
    let output = run(dir, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(fragment), "{args:?}: {said}");
}

#[test]
fn samples_are_sorted_and_labels_are_class_numbers() {
    let dir = inputs();
    let report = pack(&dir, "out", &["--labels", "folders"]);
    assert_eq!(
        (report["samples"].as_u64(), report["shards"].as_u64(), report["skipped"].as_u64()),
        (Some(5), Some(1), Some(0))
    );
    assert_eq!(members(&dir, "out")[..4], ["cat/1.cls", "cat/1.txt", "cat/2.cls", "cat/2.txt"]);
    assert_eq!(stdout(dir.path(), &["cat", "out/shard-000000.tar", "dog/2.cls"]), "1");
    assert_eq!(stdout(dir.path(), &["cat", "out/shard-000000.tar", "dog/2.txt"]), "dog/2");
    let stat: Value = serde_json::from_str(&stdout(dir.path(), &["stat", "out", "--json"])).unwrap();
    assert_eq!(stat["classes"], serde_json::json!(["cat", "dog"]));
}

#[test]
fn a_second_run_reuses_every_shard_and_another_plan_is_refused_by_name() {
    let dir = inputs();
    let first = pack(&dir, "out", &["--samples-per-shard", "2"]);
    let again = pack(&dir, "out", &["--samples-per-shard", "2"]);
    assert_eq!((first["reused"].as_u64(), again["reused"].as_u64()), (Some(0), Some(3)));
    assert_eq!(first["root"], again["root"]);
    let whole = ["pack", "in", "--to", "webdataset", "--out", "out", "--samples-per-shard", "2"];
    let said = stdout(dir.path(), &whole);
    assert!(
        said.starts_with("complete already: 5 samples in 3 shards (") && said.contains("no shard was written"),
        "{said}"
    );
    let said = stdout(dir.path(), &["pack", "--plan", "out"]);
    assert!(said.starts_with("complete already") && !said.contains("packhorse seal"), "{said}");
    std::fs::remove_file(dir.path().join("out/shard-000001.receipt.json")).unwrap();
    let said = stdout(dir.path(), &whole);
    assert!(
        said.starts_with("packed 5 samples (") && said.contains("/s, with 2 shards that were there already"),
        "{said}"
    );
    let other = ["pack", "in", "--to", "webdataset", "--out", "out", "--samples-per-shard", "3"];
    fails(dir.path(), &other, 2, "--samples-per-shard: 2 there, 3 now");
}

#[test]
fn lists_globs_and_limits_choose_inputs() {
    let dir = inputs();
    std::fs::write(dir.path().join("list"), "cat/2.txt\ndog/1.txt\n").unwrap();
    pack(&dir, "listed", &["--files-from", "list"]);
    assert_eq!(members(&dir, "listed"), ["cat/2.txt", "dog/1.txt"]);
    pack(&dir, "globbed", &["--include", "*.txt", "--exclude", "cat/*"]);
    assert_eq!(members(&dir, "globbed"), ["dog/1.txt", "dog/2.txt"]);
    pack(&dir, "limited", &["--limit", "2"]);
    assert_eq!(members(&dir, "limited"), ["cat/1.txt", "cat/2.txt"]);
}

#[test]
fn equal_content_is_kept_once_and_recorded() {
    let dir = inputs();
    std::fs::write(dir.path().join("in/dog/3.txt"), "cat/1").unwrap();
    assert_eq!(pack(&dir, "out", &["--dedup"])["skipped"].as_u64(), Some(1));
    assert_eq!(members(&dir, "out").len(), 5);
    let skipped = std::fs::read_to_string(dir.path().join("out/skipped.jsonl")).unwrap();
    assert!(skipped.contains("dog/3") && skipped.contains("has the same content as sample cat/1"), "{skipped}");
}

#[test]
fn splits_stay_when_samples_are_added() {
    let dir = inputs();
    let split = ["--split", "train=0.5,val=0.5"];
    let of = |out: &str, split: &str| {
        let path = dir.path().join(out).join(format!("{split}-000000.tar"));
        let list = if path.exists() { stdout(dir.path(), &["ls", path.to_str().unwrap()]) } else { String::new() };
        list.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    pack(&dir, "few", &split);
    std::fs::write(dir.path().join("in/dog/9.txt"), "new").unwrap();
    pack(&dir, "many", &split);
    for name in ["train", "val"] {
        let (few, many) = (of("few", name), of("many", name));
        assert!(few.iter().all(|member| many.contains(member)), "{name}: {few:?} {many:?}");
    }
    assert_eq!(of("many", "train").len() + of("many", "val").len(), 6);
}

#[test]
fn rows_of_a_table_become_json_fields() {
    let dir = inputs();
    std::fs::write(dir.path().join("t.csv"), "file,n,caption\ncat/1.txt,007,a\ncat/2,8,\"b, c\"\n").unwrap();
    let flags = ["--metadata", "t.csv", "--key", "file", "--on-error", "skip"];
    assert_eq!(pack(&dir, "out", &flags)["skipped"].as_u64(), Some(3));
    let row: Value = serde_json::from_str(&stdout(dir.path(), &["cat", "out/shard-000000.tar", "cat/2.json"])).unwrap();
    assert_eq!(row, serde_json::json!({"file": "cat/2", "n": "8", "caption": "b, c"}));
    let all = ["pack", "in", "--to", "webdataset", "--out", "o", "--metadata", "t.csv", "--key", "file"];
    fails(dir.path(), &all, 3, "has no row in the metadata");
    let wrong = ["pack", "in", "--to", "webdataset", "--out", "o", "--metadata", "t.csv", "--key", "nope"];
    fails(dir.path(), &wrong, 2, "caption");
}

#[test]
fn a_config_file_is_the_same_as_flags_and_flags_win() {
    let dir = inputs();
    let toml = "input = \"in\"\nto = \"webdataset\"\nlabels = \"folders\"\nshuffle = \"7\"\nout = \"never\"\n";
    std::fs::write(dir.path().join("job.toml"), toml).unwrap();
    stdout(dir.path(), &["pack", "--config", "job.toml", "--out", "a", "--quiet"]);
    pack(&dir, "b", &["--labels", "folders", "--shuffle", "7"]);
    assert!(!dir.path().join("never").exists());
    assert_eq!(
        std::fs::read(dir.path().join("a/dataset.json")).unwrap(),
        std::fs::read(dir.path().join("b/dataset.json")).unwrap()
    );
}

/// A second file was passed over in silence.
#[test]
fn a_second_config_file_is_refused() {
    let dir = inputs();
    std::fs::write(dir.path().join("a.toml"), "input = \"in\"\nto = \"webdataset\"\nout = \"o\"\n").unwrap();
    std::fs::write(dir.path().join("b.toml"), "limit = 1\n").unwrap();
    fails(dir.path(), &["pack", "--config", "a.toml", "--config=b.toml"], 2, "--config is given twice");
}

/// Damage is passed over where that is asked for, also while planning, which reads members for their labels.
#[test]
fn damage_of_a_sealed_input_is_passed_over_where_it_is_asked_for() {
    let dir = inputs();
    pack(&dir, "a", &["--labels", "folders"]);
    let shard = dir.path().join("a/shard-000000.tar");
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[512 + 3] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    for to in ["parquet", "webdataset"] {
        fails(dir.path(), &["pack", "a", "--to", to, "--out", "b"], 6, "recorded digest");
        stdout(dir.path(), &["pack", "a", "--to", to, "--out", &format!("b-{to}"), "--verify", "off", "--quiet"]);
    }
}

/// A shard in the place of another one is noticed, also if it is compressed as a whole.
#[test]
fn compressed_shards_are_compared_with_their_digests() {
    let dir = inputs();
    let gzip = ["--compression", "gzip", "--shard-count", "2"];
    stdout(dir.path(), &[&["pack", "in", "--to", "tfrecord", "--out", "a"][..], &gzip].concat());
    let [one, other] = [0, 1].map(|number| dir.path().join(format!("a/shard-00000{number}.tfrecord.gz")));
    std::fs::copy(other, one).unwrap();
    fails(dir.path(), &["pack", "a", "--to", "parquet", "--out", "b"], 6, "recorded");
}

/// `verify` would call them damage.
#[test]
fn no_command_writes_its_result_into_a_sealed_dataset() {
    let dir = inputs();
    pack(&dir, "a", &[]);
    for args in [
        &["report", "a", "-o", "a/page.html"][..],
        &["batch", "a", "--step", "0", "-o", "a/page.html"],
        &["diagnose", "a", "--ranks", "a"],
    ] {
        fails(dir.path(), args, 2, "lies in the folder of the dataset");
    }
    stdout(dir.path(), &["verify", "a"]);
}

#[test]
fn a_dry_run_writes_nothing_and_says_what_would_be() {
    let dir = inputs();
    let args =
        ["plan", "in", "--to", "webdataset", "--out", "out", "--labels", "folders", "--dry-run", "--quiet", "--json"];
    let plan: Value = serde_json::from_str(&stdout(dir.path(), &args)).unwrap();
    assert_eq!((&plan["samples"], &plan["class_counts"]), (&serde_json::json!(5), &serde_json::json!([3, 2])));
    let [pack, plan] = ["pack", "plan"]
        .map(|verb| stdout(dir.path(), &[verb, "in", "--to", "webdataset", "--out", "out", "--dry-run", "--quiet"]));
    assert!(pack.starts_with("planned 5 samples") && plan == pack, "{pack}{plan}");
    assert!(!dir.path().join("out").exists());
}

#[test]
fn every_line_of_the_log_is_json() {
    let dir = inputs();
    std::fs::write(dir.path().join("in/bad\u{1b}.jpg"), "no picture").unwrap();
    let args =
        ["pack", "in", "--to", "webdataset", "--out", "out", "--image", "check", "--on-error", "skip", "--log", "json"];
    let output = run(dir.path(), &args);
    assert!(output.status.success());
    let events: Vec<Value> =
        String::from_utf8(output.stderr).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in ["planned", "shard", "skipped"] {
        assert!(events.iter().any(|e| e["event"] == event), "{event}");
    }
}

#[test]
fn names_in_backticks_are_data_and_settings_in_messages_are_flags() {
    let dir = inputs();
    std::fs::create_dir(dir.path().join("in/`jobs`")).unwrap();
    std::fs::write(dir.path().join("in/`jobs`/`shuffle`.jpg"), "no picture").unwrap();
    let json = |output: Output| -> Vec<Value> {
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let pack = ["pack", "in", "--to", "webdataset", "--out", "out", "--labels", "parent", "--log", "json"];

    let message = |args: &[&str]| -> String {
        let lines = json(run(dir.path(), &[&pack[..], args].concat()));
        lines.last().unwrap()["message"].as_str().unwrap().to_owned()
    };
    let refused = message(&["--key-ends", "regex:it's"]);
    assert!(refused.contains("\"regex:it's\" has 0 groups"), "{refused}");
    let refused = message(&["--name", "it's"]);
    assert!(refused.starts_with(r"--name 'it'\''s': names of shards"), "{refused}");
    let refused = message(&["--name", &"n".repeat(201)]);
    assert!(refused.contains("1 to 200 letters"), "{refused}");
    assert!(!dir.path().join("out").exists());

    let skips = json(run(dir.path(), &[&pack[..], &["--image", "check", "--on-error", "skip"]].concat()));
    let skip = skips.iter().find(|event| event["event"] == "skipped").unwrap();
    assert!(skip["input"].as_str().unwrap().ends_with("`jobs`/`shuffle`.jpg"), "{skip}");
    let plan = ["plan", "in", "--to", "webdataset", "--out", "x", "--labels", "parent", "--dry-run", "--json"];
    let plan: Value = serde_json::from_str(&stdout(dir.path(), &plan)).unwrap();
    assert!(plan["classes"].as_array().unwrap().contains(&"`jobs`".into()), "{plan}");
}

#[test]
fn a_skipped_sample_has_the_code_of_its_fault() {
    let dir = tempfile::tempdir().unwrap();
    stdout(dir.path(), &["synth", "images", "--count", "2", "--out", "in", "--quiet"]);
    let class = std::fs::read_dir(dir.path().join("in")).unwrap().next().unwrap().unwrap().path();
    let picture = std::fs::read_dir(class).unwrap().next().unwrap().unwrap().path();
    std::fs::File::options().write(true).open(&picture).unwrap().set_len(2000).unwrap();
    let args =
        ["pack", "in", "--to", "webdataset", "--out", "out", "--image", "check", "--on-error", "skip", "--log", "json"];
    let log = String::from_utf8(run(dir.path(), &args).stderr).unwrap();
    let mut events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let skip = events.find(|event| event["event"] == "skipped").unwrap();
    assert_eq!((&skip["kind"], &skip["code"]), (&"content".into(), &"cut-short".into()), "{skip}");
    assert!(!skip["field"].is_null() && skip["input"].as_str().unwrap().ends_with(".jpg"), "{skip}");
}

#[test]
fn without_a_terminal_the_log_is_text_and_json_only_on_request() {
    let dir = inputs();
    std::fs::write(dir.path().join("in/noext"), "").unwrap();
    let pack = ["pack", "in", "--to", "webdataset", "--out", "out"];
    let log = |args: &[&str]| String::from_utf8(run(dir.path(), args).stderr).unwrap();
    let text = log(&pack);
    assert!(text.starts_with("warning: ") && text.lines().count() == 1, "{text}");
    let errors =
        [&["pack", "in", "--nope", "--log", "json"][..], &["--log=json", "verify"], &["nope", "--log", "json"]];
    for args in errors.into_iter().chain([&["pack", "--config", "no.toml", "--log", "json"][..]]) {
        assert_eq!(run(dir.path(), args).status.code(), Some(2), "{args:?}");
        for line in log(args).lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&event["event"], &event["kind"]), (&"error".into(), &"config".into()), "{args:?}: {line}");
        }
    }
    assert!(log(errors[0]).contains("--nope"), "{}", log(errors[0]));
}

#[test]
fn samples_that_are_not_counted_are_null() {
    let dir = inputs();
    std::fs::write(dir.path().join("a.jsonl"), "{\"text\": \"a\"}\n{\"text\": \"b\"}\n").unwrap();
    let planned = |input: &str, out: &str| -> Value {
        let output = run(dir.path(), &["pack", input, "--to", "webdataset", "--out", out, "--log", "json"]);
        let log = String::from_utf8(output.stderr).unwrap();
        let mut events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.find(|event| event["event"] == "planned").unwrap()["samples"].clone()
    };
    assert_eq!((planned("a.jsonl", "lines"), planned("in", "files")), (Value::Null, 5.into()));
}

#[test]
fn an_error_line_has_code_and_hint() {
    let dir = inputs();
    let output = run(dir.path(), &["pack", "inn", "--to", "webdataset", "--out", "out", "--log", "json"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let error: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&error["event"], &error["kind"], &error["code"]),
        (&"error".into(), &"config".into(), &"no-such-file".into())
    );
    assert_eq!((&error["message"], &error["hint"]), (&"no such file or folder".into(), &"did you mean in?".into()));
    assert_eq!((&error["input"], &error["field"], &error["row"]), (&"inn".into(), &Value::Null, &Value::Null));
}

#[test]
fn the_field_that_is_bad_is_blamed() {
    let dir = inputs();
    std::fs::create_dir(dir.path().join("both")).unwrap();
    let array =
        [&b"\x93NUMPY\x01\x00\x38\x00"[..], b"{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}\n", &[0; 8]]
            .concat();
    for key in ["a", "b"] {
        std::fs::write(dir.path().join(format!("both/{key}.jpg")), "not looked at").unwrap();
        std::fs::write(dir.path().join(format!("both/{key}.npy")), &array).unwrap();
    }
    let plan = ["plan", "both", "--to", "hdf5", "--out", "out"];
    stdout(dir.path(), &plan);
    // As long as before, and its time too: only decoding shows it.
    let bad = dir.path().join("both/b.npy");
    let modified = std::fs::metadata(&bad).unwrap().modified().unwrap();
    std::fs::write(&bad, [&b"NOT NUMPY"[..], &array[9..]].concat()).unwrap();
    std::fs::File::options().write(true).open(&bad).unwrap().set_modified(modified).unwrap();
    let output = run(dir.path(), &["pack", "--plan", "out", "--log", "json"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let error: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
    assert!(error["input"].as_str().unwrap().ends_with("both/b.npy"), "{error}");
    assert_eq!((&error["sample"], &error["field"]), (&"b".into(), &"npy".into()), "{error}");
}

#[test]
fn exit_codes() {
    let dir = inputs();
    let pack = ["pack", "in", "--to", "webdataset", "--out", "out"];
    fails(dir.path(), &["pack", "in", "--out", "out"], 2, "--to");
    fails(dir.path(), &["pack", "in", "--to", "hdf6", "--out", "out"], 2, "webdataset");
    fails(dir.path(), &["pack", "nowhere", "--to", "webdataset", "--out", "out"], 2, "nowhere");
    fails(dir.path(), &["pack", "in", "--to", "webdataset", "--out", "in"], 2, "is not empty");
    fails(dir.path(), &[&pack[..], &["--shard-size", "many"]].concat(), 2, "many");
    fails(dir.path(), &["verify", "in"], 2, "is a folder without a dataset");
    stdout(dir.path(), &[&["plan"], &pack[1..]].concat());
    fails(dir.path(), &["seal", "out"], 6, "shard-000000");
    std::fs::write(dir.path().join("in/cat/1.txt"), "longer than before").unwrap();
    fails(dir.path(), &["pack", "--plan", "out"], 4, "cat/1.txt");
    fails(dir.path(), &["ls", "in/cat/1.txt"], 8, "is not a shard");
}

#[test]
fn what_was_meant_is_said() {
    let dir = inputs();
    let pack = |to: &'static str| ["pack", "in", "--to", to, "--out", "out"];
    fails(dir.path(), &["pack", "in", "--out", "out"], 2, "webdataset, hdf5, tfrecord, tokens, parquet, arrow");
    fails(dir.path(), &pack("webdatset"), 2, "did you mean webdataset?");
    fails(dir.path(), &["pack", "in", "--resize", "256", "--to", "wds", "--out", "out"], 2, "--image resize=256");
    fails(dir.path(), &["pack", "in", "--seed=7", "--to", "wds", "--out", "out"], 2, "--shuffle 7");
    let other = String::from_utf8(run(dir.path(), &["status", "in", "--seed=7"]).stderr).unwrap();
    assert!(other.contains("--seed") && !other.contains("--shuffle"), "{other}");
    fails(dir.path(), &pack("root"), 8, "root can be read but not written; --to takes webdataset");
    fails(dir.path(), &["pack", "inn", "--to", "wds", "--out", "out"], 2, "no such file or folder; did you mean in?");
    fails(dir.path(), &["ls", "inn"], 2, "did you mean in?");
    std::os::unix::fs::symlink("nothing", dir.path().join("link")).unwrap();
    fails(dir.path(), &["pack", "link", "--to", "wds", "--out", "out"], 2, "link: no such file or folder\n");
    std::fs::write(dir.path().join("file"), "").unwrap();
    for out in ["file", "file/below", "/dev/full"] {
        fails(dir.path(), &["pack", "in", "--to", "wds", "--out", out], 2, "is not a folder; give --out a folder");
    }
    for (to, format) in [("wds", "webdataset"), ("tar", "webdataset"), ("h5", "hdf5"), ("feather", "arrow")] {
        let planned = ["plan", "in", "--to", to, "--out", to, "--json"];
        stdout(dir.path(), &planned);
        assert!(stdout(dir.path(), &["pack", "--plan", to, "--json"]).contains("samples"), "{to}");
        stdout(dir.path(), &["seal", to]);
        let manifest: Value = serde_json::from_str(&stdout(dir.path(), &["stat", to, "--json"])).unwrap();
        assert_eq!(manifest["format"]["format"], format);
    }
}

#[test]
fn what_is_in_a_dataset_is_listed_and_shown_as_of_one_file() {
    let dir = inputs();
    pack(&dir, "tars", &["--samples-per-shard", "2"]);
    let names = stdout(dir.path(), &["ls", "tars"]);
    let of = |shard: &str| stdout(dir.path(), &["ls", &format!("tars/shard-{shard}.tar")]);
    assert_eq!(names, ["000000", "000001", "000002"].map(of).concat());
    let last = names.lines().last().unwrap();
    assert_eq!(stdout(dir.path(), &["cat", "tars", last]), stdout(dir.path(), &["cat", "tars/shard-000002.tar", last]));
    fails(dir.path(), &["cat", "tars", "nothing.txt"], 2, "holds no nothing.txt");
    stdout(dir.path(), &["pack", "in", "--to", "parquet", "--out", "rows", "--samples-per-shard", "2", "--quiet"]);
    assert!(stdout(dir.path(), &["ls", "rows"]).starts_with("5 samples\n"));
    assert_eq!(stdout(dir.path(), &["cat", "rows", last]), stdout(dir.path(), &["cat", "tars", last]));
    fails(dir.path(), &["ls", "in"], 2, "is a folder without a dataset");
}

#[test]
fn a_folder_with_shards_of_others_is_looked_into() {
    let dir = inputs();
    pack(&dir, "tars", &["--samples-per-shard", "2"]);
    let others = dir.path().join("others");
    std::fs::create_dir(&others).unwrap();
    for shard in 0..3 {
        let from = dir.path().join(format!("tars/shard-{shard:06}.tar"));
        std::fs::copy(from, others.join(format!("{shard}.tar"))).unwrap();
    }
    std::fs::write(others.join("README.md"), "tars").unwrap();
    for args in [&["ls"][..], &["head"], &["cat"]] {
        let last = if args == ["cat"] { &["dog/2.txt"][..] } else { &[] };
        let of = |folder| stdout(dir.path(), &[args, &[folder], last].concat());
        assert_eq!(of("others"), of("tars"), "{args:?}");
    }
    let stat: Value = serde_json::from_str(&stdout(dir.path(), &["stat", "others", "--json"])).unwrap();
    assert_eq!(stat, serde_json::json!({"samples": 5, "fields": {"txt": {"count": 5, "bytes": 25}}}));
    assert!(stdout(dir.path(), &["stat", "others"]).starts_with("others: 5 samples in 3 shards\n  txt: 5, 25 B\n"));
    std::fs::write(others.join("t.csv"), "x\n1\n").unwrap();
    fails(dir.path(), &["stat", "others"], 2, "holds files of webdataset and of csv");
    let photos = dir.path().join("photos");
    std::fs::create_dir(&photos).unwrap();
    ["a.jpg", "b.jpg", "labels.csv"].iter().for_each(|name| std::fs::write(photos.join(name), "x\n1\n").unwrap());
    fails(dir.path(), &["stat", "photos"], 2, "is a folder without a dataset");
}

#[test]
fn the_first_samples_are_shown() {
    let dir = inputs();
    std::fs::write(dir.path().join("in/cat/1.bin"), [0, 255]).unwrap();
    pack(&dir, "tars", &["--samples-per-shard", "1"]);
    let head = stdout(dir.path(), &["head", "tars", "-n", "2"]);
    assert_eq!(head, "cat/1\n  bin: 2 bytes\n  txt: cat/1\ncat/2\n  txt: cat/2\n");
    assert_eq!(stdout(dir.path(), &["head", "tars/shard-000004.tar"]), "dog/2\n  txt: dog/2\n");
    std::fs::write(dir.path().join("t.csv"), "x,note\n7,a\n8,\"b\nc\"\n").unwrap();
    stdout(dir.path(), &["pack", "t.csv", "--out", "t.parquet", "--quiet"]);
    let shown = stdout(dir.path(), &["head", "t.parquet"]);
    assert!(shown.contains("  note: a\n  x: 7\n") && shown.contains("  note: b c\n  x: 8\n"), "{shown}");
    let lines = stdout(dir.path(), &["head", "t.parquet", "--json", "-n", "1"]);
    let first: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(first["fields"], serde_json::json!({"x": "7", "note": "a"}));
    fails(dir.path(), &["head", "in"], 2, "is a folder without a dataset");
    fails(dir.path(), &["head", "in/cat/1.txt"], 8, "is not a shard");
    stdout(dir.path(), &["synth", "npz", "--count", "2", "--out", "npz", "--quiet"]);
    stdout(dir.path(), &["pack", "npz", "--ragged", "--out", "n.h5", "--quiet"]);
    let shown = stdout(dir.path(), &["head", "n.h5", "-n", "1"]);
    stdout(dir.path(), &["pack", "npz", "--ragged", "--to", "webdataset", "--out", "encoded", "--quiet"]);
    assert_eq!(stdout(dir.path(), &["head", "encoded", "-n", "1"]).replace(".npy: ", ": "), shown);
    let array = regex::Regex::new(r"\n  t: \[-?[0-9.e-]+(, -?[0-9.e-]+){7}, …\] Float32\[24\]\n").unwrap();
    assert!(array.is_match(&shown) && shown.lines().all(|line| line.len() < 200), "{shown}");
}

#[test]
fn the_format_follows_from_the_name_of_the_output() {
    let dir = inputs();
    for (out, format) in [("x.parquet", "parquet"), ("y.tar", "webdataset"), ("z.h5", "hdf5")] {
        stdout(dir.path(), &["pack", "in", "-o", out, "--quiet"]);
        let manifest: Value = serde_json::from_str(&stdout(dir.path(), &["stat", out, "--json"])).unwrap();
        assert_eq!(manifest["format"]["format"], format);
    }
    fails(dir.path(), &["pack", "in", "--out", "x.v2"], 2, "--to webdataset");
    stdout(dir.path(), &["pack", "in", "--to", "webdataset", "--out", "w.parquet", "--quiet"]);
    assert!(dir.path().join("w.parquet/shard-000000.tar").exists());
}

#[test]
fn a_result_says_how_to_look_into_it_and_where_its_name_is_that_of_a_file_that_it_is_a_folder() {
    let dir = inputs();
    let said = stdout(dir.path(), &["pack", "in", "--to", "webdataset", "--out", "out"]);
    assert!(said.contains("\n  sealed out, root digest ") && !said.contains("is a folder"), "{said}");
    let command = said.lines().last().and_then(|line| line.strip_prefix("  look into it: packhorse ")).unwrap();
    assert!(stdout(dir.path(), &command.split(' ').collect::<Vec<_>>()).starts_with("cat/1\n"), "{said}");
    for out in ["x.parquet", "y.tar", "z.h5", "w.TFRecord"] {
        let said = stdout(dir.path(), &["pack", "in", "--to", "webdataset", "--out", out]);
        assert!(
            said.contains(&format!("\n  {out} is a folder; its first shard is {out}/shard-000000.tar\n")),
            "{said}"
        );
    }
}

#[test]
fn a_dataset_below_an_input_is_named_and_can_be_left_out() {
    let dir = inputs();
    pack(&dir, "in/out1", &[]);
    let again = ["pack", "in", "--to", "webdataset", "--out", "in/out2"];
    let warning = "in/out1 is a dataset of packhorse among the inputs, so its 5 samples are packed too; to leave it \
                   out, pass --exclude out1";
    fails(dir.path(), &again, 3, warning);
    let without = run(dir.path(), &[&again[..], &["--exclude=out1"]].concat());
    assert!(without.status.success(), "{without:?}");
    assert_eq!(members(&dir, "in/out2"), members(&dir, "in/out1"));
    let texts = run(dir.path(), &[&again[..5], &["in/out3", "--include=*.txt"]].concat());
    assert!(
        texts.status.success() && !String::from_utf8_lossy(&texts.stderr).contains("among the inputs"),
        "{texts:?}"
    );
    std::fs::create_dir(dir.path().join("sets")).unwrap();
    std::fs::rename(dir.path().join("in/out1"), dir.path().join("sets/a")).unwrap();
    let alone = run(dir.path(), &["pack", "sets", "--to", "webdataset", "--out", "all"]);
    assert!(alone.status.success() && !String::from_utf8_lossy(&alone.stderr).contains("warning"), "{alone:?}");
}

#[test]
fn samples_with_other_fields_are_named_whatever_the_format() {
    let dir = inputs();
    std::fs::write(dir.path().join("in/dog/1.json"), "{}").unwrap();
    std::fs::write(dir.path().join("in/dog/1.text"), "x").unwrap();
    for to in ["webdataset", "parquet", "hdf5"] {
        let packed = run(dir.path(), &["pack", "in", "--to", to, "--out", to]);
        let said = String::from_utf8(packed.stderr).unwrap();
        let warning = "warning: only 1 of 5 samples has the field json, such as dog/1, and others such as cat/1 do not (and 1 \
                       more field so)";
        assert!(packed.status.success() && said.contains(warning), "{to}: {said}");
    }
    std::fs::remove_file(dir.path().join("in/dog/1.json")).unwrap();
    std::fs::remove_file(dir.path().join("in/dog/1.text")).unwrap();
    assert!(
        !String::from_utf8(run(dir.path(), &["pack", "in", "--to", "tar", "--out", "same"]).stderr)
            .unwrap()
            .contains("only")
    );
}

#[test]
fn tables_of_text_that_are_packed_whole_are_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    std::fs::write(dir.path().join("in/a.csv"), "x\n1\n").unwrap();
    std::fs::write(dir.path().join("in/b.tsv"), "x\n1\n").unwrap();
    let said = |more: &[&str]| {
        let packed = run(dir.path(), &[&["pack", "in", "--to", "parquet", "--dry-run", "--out", "out"], more].concat());
        assert!(packed.status.success(), "{packed:?}");
        String::from_utf8(packed.stderr).unwrap()
    };
    let warning = "each file is packed as one sample; if their rows are the samples, pass --from csv";
    assert!(said(&[]).contains(warning), "{}", said(&[]));
    assert!(!said(&["--from", "csv"]).contains("one sample"));
    std::fs::write(dir.path().join("in/a.jpg"), "").unwrap();
    std::fs::write(dir.path().join("in/b.jpg"), "").unwrap();
    assert!(!said(&[]).contains("one sample"));
    ["a.csv", "b.tsv", "a.jpg", "b.jpg"]
        .iter()
        .for_each(|name| std::fs::remove_file(dir.path().join("in").join(name)).unwrap());
    (0..3).for_each(|i| std::fs::write(dir.path().join(format!("in/coco.record-0000{i}-of-00003")), "x").unwrap());
    assert!(said(&[]).contains("--from tfrecord makes a sample of each record"), "{}", said(&[]));
}

#[test]
fn stat_names_the_shards_that_are_missing_and_fails_as_status_does() {
    let dir = inputs();
    pack(&dir, "out", &["--samples-per-shard", "1"]);
    let shard = |n: u32| dir.path().join(format!("out/shard-00000{n}.tar"));
    std::fs::remove_file(shard(1)).unwrap();
    std::fs::write(shard(3), "short").unwrap();
    let found = run(dir.path(), &["stat", "out"]);
    let said = String::from_utf8(found.stdout).unwrap();
    assert_eq!(found.status.code(), run(dir.path(), &["status", "out"]).status.code());
    assert_eq!(found.status.code(), Some(6), "{said}");
    assert!(said.contains("\n  shard-000001.tar: is missing\n  shard-000003.tar: has 5 bytes instead of "), "{said}");
    assert!(said.ends_with("  2 shards missing or damaged; see what to do with: packhorse verify out\n"), "{said}");
    assert_eq!(run(dir.path(), &["stat", "out", "--json"]).status.code(), Some(6));
    stdout(dir.path(), &["repair", "out"]);
    assert!(!stdout(dir.path(), &["stat", "out"]).contains("shard-0"));
}

#[test]
fn stat_names_types_as_users_do() {
    let dir = inputs();
    pack(&dir, "out", &["--labels", "folders"]);
    let shown = stdout(dir.path(), &["stat", "out"]);
    assert!(shown.starts_with("webdataset: 5 samples in 1 shard"), "{shown}");
    assert!(shown.contains("\n  txt blob\n") && !shown.contains("View"), "{shown}");
    pack(&dir, "named", &["--name", "pets"]);
    assert!(stdout(dir.path(), &["stat", "named"]).starts_with("webdataset pets: 5 samples"));
}

/// A tar has no column `y`, but a member `y.npy`.
#[test]
fn stat_names_fields_as_readers_do() {
    let dir = inputs();
    std::fs::write(dir.path().join("t.csv"), "id,y,note\n1,2,a\n2,3,b\n").unwrap();
    for (to, line) in [("webdataset", "y Int64, read as y.npy"), ("parquet", "y Int64")] {
        let made = run(dir.path(), &["pack", "t.csv", "--to", to, "--out", to]);
        assert!(made.status.success(), "{made:?}");
        let shown = stdout(dir.path(), &["stat", to]);
        assert!(shown.contains(&format!("\n  {line}\n")), "{shown}");
    }
    let wrong = run(dir.path(), &["view", "webdataset", "--where", "y>2", "--out", "v"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("did you mean y.npy?"), "{said}");
}

#[test]
fn a_version_has_formats_and_features() {
    let dir = inputs();
    let version = stdout(dir.path(), &["--version"]);
    let [first, formats, features] = version.lines().collect::<Vec<_>>()[..] else { unreachable!("{version}") };
    let release = format!("packhorse {}", env!("CARGO_PKG_VERSION"));
    let git = |args: &[&str]| {
        let folder = env!("CARGO_MANIFEST_DIR");
        let output = std::process::Command::new("git").args(args).current_dir(folder).output().ok()?;
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    match git(&["ls-files", "--error-unmatch", "Cargo.toml"]).and_then(|_| git(&["rev-parse", "--short=12", "HEAD"])) {
        Some(commit) => assert_eq!(first, format!("{release} ({commit})")),
        None => assert_eq!(first, release),
    }
    assert!(formats.starts_with("formats: ") && formats.contains("webdataset") && formats.contains("tokens"));
    assert!(features.starts_with("features: "), "{features}");
    assert_eq!(features.contains("remote"), cfg!(feature = "remote"), "{features}");
    assert_eq!(stdout(dir.path(), &["-V"]).trim_end(), first);
}

#[test]
fn short_help_fits_a_screen_and_long_help_lists_values() {
    let dir = inputs();
    let short = stdout(dir.path(), &["pack", "-h"]);
    for flag in ["to", "out", "labels", "shuffle", "shard-size", "split", "image", "tokenizer", "on-error", "jobs"] {
        assert!(short.contains(&format!("--{flag} ")), "--{flag} is missing in {short}");
    }
    assert!(short.lines().count() <= 48 && short.contains("--help shows all flags"), "{short}");
    let long = stdout(dir.path(), &["pack", "--help"]);
    for flag in ["--row-group", "--plan", "--io-threads", "Examples:"] {
        assert!(long.contains(flag) && !short.contains(flag), "{flag}");
    }
    let of =
        |flag: &str| long.split(&format!("--{flag} <")).nth(1).unwrap().split("      --").next().unwrap().to_owned();
    for (flag, values) in [
        ("to", ["webdataset", "hdf5", "parquet", "arrow", "tfrecord", "tokens"]),
        ("from", ["webdataset", "hdf5", "root", "npz", "jsonl", "record"]),
        ("compression", ["Parquet", "zstd", "snappy", "gzip", "lz4", "none"]),
    ] {
        for value in values {
            assert!(of(flag).contains(value), "{flag} {value}: {}", of(flag));
        }
    }
    assert!(of("shard-size").contains("[default: 1GiB]"));
}

#[test]
fn quiet_checks_for_readers_say_what_they_found() {
    let dir = inputs();
    pack(&dir, "out", &[]);
    let shard = dir.path().join("out/shard-000000.tar");
    let bytes = std::fs::read(&shard).unwrap();
    std::fs::write(&shard, &bytes[..bytes.len() / 2 / 512 * 512]).unwrap();
    fails(dir.path(), &["verify", "out/shard-000000.tar", "--for", "webdataset", "-q"], 3, "the first: ");
}

#[test]
fn a_stop_is_announced_at_once() {
    let dir = inputs();
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    command.current_dir(dir.path()).args(["pack", "--files-from", "-", "--to", "webdataset", "--out", "out"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let catches_interrupts = || {
        let text = std::fs::read_to_string(&status).unwrap();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() & 2 != 0
    };
    while !catches_interrupts() {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    // Standard input is still open, and the work waits for it.
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("stopping; "), "{said}");
    child.stdin.take().unwrap().write_all(b"in/cat/1.txt\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    let dir = inputs();
    pack(&dir, "out", &[]);
    let script = format!("{} ls out/shard-000000.tar | head -1", env!("CARGO_BIN_EXE_packhorse"));
    let output = Command::new("sh").current_dir(dir.path()).args(["-c", &script]).output().unwrap();
    assert_eq!((String::from_utf8_lossy(&output.stdout).trim(), output.stderr.len()), ("cat/1.txt", 0));
}

#[test]
fn manuals_and_completions_know_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let script = stdout(dir.path(), &["completions", "bash"]);
    stdout(dir.path(), &["man", "--out", "man"]);
    for command in ["pack", "plan", "seal", "status", "verify", "ls", "cat", "stat", "synth"] {
        assert!(
            script.contains(&format!("packhorse__{command}"))
                || script.contains(&format!("packhorse__subcmd__{command}")),
            "{command}"
        );
        assert!(dir.path().join(format!("man/packhorse-{command}.1")).exists(), "{command}");
    }
}

#[test]
fn a_resized_picture_has_its_size_and_a_small_one_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    stdout(dir.path(), &["synth", "images", "--count", "3", "--out", "in", "--quiet"]);
    pack(&dir, "out", &["--image", "resize=100", "--limit", "1"]);
    pack(&dir, "same", &["--image", "resize=5000", "--limit", "1"]);
    let member = members(&dir, "out").remove(0);
    let cat = |out: &str| run(dir.path(), &["cat", &format!("{out}/shard-000000.tar"), &member]).stdout;
    let pixels = packhorse::transform::image::decode(&cat("out"), &Default::default()).unwrap();
    assert_eq!(pixels.width.min(pixels.height), 100);
    assert_eq!(cat("same"), std::fs::read(dir.path().join("in").join(&member)).unwrap());
}

#[test]
fn json_lines_are_a_table_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let chat = r#"[{"role": "user", "content": "hi"}]"#;
    std::fs::create_dir(at("in")).unwrap();
    std::fs::write(at("in/a.jsonl"), format!("{{\"id\": 1, \"messages\": {chat}, \"meta\": {{\"n\": 1}}}}\n")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(b"{\"id\": 2, \"messages\": [], \"tags\": [\"x\", \"y\"]}\n").unwrap();
    std::fs::write(at("in/b.jsonl.gz"), gz.finish().unwrap()).unwrap();
    let pack = ["pack", "in", "--from", "jsonl", "--schema", "messages:json", "--quiet"];
    fails(dir.path(), &[&pack[..], &["--to", "parquet", "--out", "out"]].concat(), 2, "--fill-missing");
    for to in ["parquet", "arrow", "hdf5", "webdataset", "tfrecord"] {
        stdout(dir.path(), &[&pack[..], &["--fill-missing", "--to", to, "--out", to]].concat());
        let shown = stdout(dir.path(), &["head", to]);
        let wanted = match to {
            "webdataset" => ["id: 1", "id: 2", "meta.n.npy", "tags.npy", "messages.txt: [{", "messages.txt: []"],
            _ => ["id: 1", "id: 2", "meta.n: 1", "tags: [\"x\", \"y\"]", "messages: [{", "messages: []"],
        };
        let missing = wanted.into_iter().find(|value| !shown.contains(value));
        assert!(missing.is_none() && shown.contains(chat), "{to}: {missing:?} in {shown}");
    }
    std::fs::write(at("bad.jsonl"), "{\"a\": 1}\n{\"a\": 1").unwrap();
    let args = ["pack", "bad.jsonl", "--from", "jsonl", "--to", "hdf5", "--out", "bad"];
    fails(dir.path(), &args, 3, "bad.jsonl: line 2, byte 16: is not valid JSON");
    // Text in one file, and text that is JSON in another.
    std::fs::write(at("in/a.jsonl"), "{\"id\": \"x1\"}\n").unwrap();
    std::fs::remove_file(at("in/b.jsonl.gz")).unwrap();
    std::fs::write(at("in/b.jsonl"), "{\"id\": \"x2\"}\n{\"id\": 3}\n").unwrap();
    std::fs::write(at("in/c.jsonl"), "").unwrap();
    let args = ["pack", "in", "--from", "jsonl", "--to", "hdf5", "--quiet", "--out", "mixed"];
    fails(dir.path(), &args, 2, "field id has JSON here and other values in");
    stdout(dir.path(), &[&args[..], &["--schema", "id:json"]].concat());
    assert!(stdout(dir.path(), &["head", "mixed"]).contains("id: \"x1\""));
    // A line without text says what the other way is.
    fails(dir.path(), &["pack", "in", "--to", "parquet", "--out", "text"], 3, "--from jsonl makes a field of each");
}

#[test]
fn a_table_of_csv_is_rows_where_it_is_named_and_a_field_in_a_folder() {
    let dir = inputs();
    let text = "id,x,note\n007,1.5,\"two\nlines\"\n008,,b\n";
    std::fs::write(dir.path().join("in/cat/1.csv"), text).unwrap();
    pack(&dir, "fields", &[]);
    assert!(members(&dir, "fields").contains(&"cat/1.csv".to_owned()), "{:?}", members(&dir, "fields"));

    let args = ["pack", "in/cat/1.csv", "--to", "webdataset", "--json", "--quiet", "--out"];
    let report: Value = serde_json::from_str(&stdout(dir.path(), &[&args[..], &["rows"]].concat())).unwrap();
    assert_eq!(report["samples"], 2, "{report}");
    let found = members(&dir, "rows");
    assert!(found.iter().any(|name| name.ends_with(".note.txt") || name.ends_with(".note")), "{found:?}");

    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, text.as_bytes()).unwrap();
    std::fs::write(dir.path().join("t.csv.gz"), gz.finish().unwrap()).unwrap();
    let args = ["pack", "t.csv.gz", "--schema", "x:text", "--to", "hdf5", "--quiet", "--json", "--out", "gz"];
    let report: Value = serde_json::from_str(&stdout(dir.path(), &args)).unwrap();
    assert_eq!(report["samples"], 2, "{report}");

    std::fs::write(dir.path().join("bad.csv"), "a,b\n1,2\n3\n").unwrap();
    let args = ["pack", "bad.csv", "--to", "hdf5", "--out", "bad"];
    fails(dir.path(), &args, 3, "bad.csv: line 3: has 1 field, but the first line has 2");

    // No value of the first file tells a type.
    std::fs::write(dir.path().join("none.csv"), "a,b\n1,\n").unwrap();
    std::fs::write(dir.path().join("some.csv"), "a,b\n1,2\n").unwrap();
    let args = ["pack", "none.csv", "some.csv", "--to", "hdf5", "--out", "both"];
    fails(dir.path(), &args, 2, "--schema b:TYPE sets one type for all files");
    assert!(run(dir.path(), &[&args[..], &["--schema=b:int64"]].concat()).status.success());
}

/// The standard error of a command that succeeds.
fn warned(dir: &Path, args: &[&str]) -> String {
    let output = run(dir, args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

#[test]
fn what_may_be_meant_otherwise_is_said() {
    let dir = inputs();
    let place = dir.path();
    for (number, name) in ["0/a", "2/a", "10/a"].iter().enumerate() {
        let path = place.join("numbered").join(name).with_extension("txt");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, number.to_string()).unwrap();
    }
    let line = r#"{"text":"a","label":3,"meta":{}}"#;
    std::fs::write(place.join("a.jsonl"), format!("{line}\n{line}\n")).unwrap();
    let pack = |input: &str, out: &str, flags: &[&str]| {
        warned(place, &[&["pack", input, "--to", "webdataset", "--out", out], flags].concat())
    };
    let said = pack("numbered", "o1", &["--labels", "folders"]);
    assert!(said.contains("class 10 becomes label 1") && said.contains("--classes"), "{said}");
    let said = pack("in", "o2", &["--split", "folders"]);
    assert!(said.contains("splits are cat, dog, which look like classes"), "{said}");
    let said = pack("in", "o3", &["--shard-count", "20"]);
    assert!(said.contains("5 shards are planned and not 20"), "{said}");
    let said = pack("in", "o3-1", &["--shard-count", "20", "--limit", "1"]);
    assert!(said.contains("1 shard is planned and not 20"), "{said}");
    std::fs::write(place.join("t.csv"), "key,v\n0/a,1\n2/a,2\n10/a,3\n11/a,4\n").unwrap();
    let said = warned(place, &["view", "o1", "--join", "t.csv", "--out", "joined"]);
    assert!(said.contains("1 row of t.csv belongs to no sample, such as that of 11/a"), "{said}");
    std::fs::rename(place.join("t.csv"), place.join("t.txt")).unwrap();
    let args = ["view", "o1", "--join", "t.txt", "--out", "other"];
    fails(place, &args, 2, "its name must end in .csv, .tsv, .jsonl, .json or .parquet");
    let said = pack("a.jsonl", "o4", &[]);
    assert!(
        said.contains("the text alone is taken, and not label, meta; --from jsonl makes a field of each"),
        "{said}"
    );
    assert!(!pack("a.jsonl", "o7", &["--from", "jsonl"]).contains("warning"));
    // Nothing to say.
    for (input, out, flags) in [("in", "o5", &["--labels", "folders"][..]), ("in", "o6", &["--shard-count", "2"])] {
        assert!(!pack(input, out, flags).contains("warning"));
    }
}

#[test]
fn a_row_of_metadata_is_for_one_sample_and_its_table_is_no_input() {
    let dir = inputs();
    let table = |rows: &str| std::fs::write(dir.path().join("in/meta.csv"), format!("file,caption\n{rows}")).unwrap();
    let flags = ["--metadata", "in/meta.csv", "--key", "file", "--labels", "folders"];
    table("cat/1.txt,a\ncat/2.txt,b\n3.txt,c\ndog/1.txt,d\ndog/2.txt,e\n");
    pack(&dir, "out", &flags);
    assert!(stdout(dir.path(), &["cat", "out/shard-000000.tar", "cat/3.json"]).contains(r#""caption":"c""#));
    assert!(!members(&dir, "out").iter().any(|member| member.contains("meta")));
    table("1.txt,a\n2.txt,b\n3.txt,c\n");
    let args = ["pack", "in", "--to", "webdataset", "--out", "o2"];
    fails(dir.path(), &[&args[..], &flags].concat(), 2, "fits several samples");
    // Also if the other sample has a row of its whole key.
    table("cat/1.txt,a\n1.txt,b\n2.txt,c\n3.txt,c\ndog/2.txt,e\n");
    fails(dir.path(), &[&args[..], &flags].concat(), 2, "fits several samples");
    // Paths that begin with the last folders of the input's, up to all of them.
    for (i, folders) in ["in".to_owned(), dir.path().join("in").display().to_string()].into_iter().enumerate() {
        let row = |key: &str| format!("{folders}/{key}.txt,of {key}\n");
        table(&["cat/1", "cat/2", "cat/3", "dog/1", "dog/2"].map(row).concat());
        let out = format!("below{i}");
        pack(&dir, &out, &flags);
        let json = stdout(dir.path(), &["cat", &format!("{out}/shard-000000.tar"), "dog/2.json"]);
        assert!(json.contains(r#""caption":"of dog/2""#), "{json}");
    }
    // Quotes that a table has not meant to open.
    for text in ["\"Open\ndog/1.txt,the end\" she said", "\"Hello,\" he said", "\"He\"y"] {
        table(&format!("cat/1.txt,{text}\n"));
        fails(dir.path(), &[&args[..], &flags].concat(), 3, "has text behind a closing quote");
    }
}

#[test]
fn an_input_in_another_one_is_refused() {
    let dir = inputs();
    let args = |inputs: &[&'static str]| [&["pack"][..], inputs, &["--to", "webdataset", "--out", "o"]].concat();
    for inputs in
        [&["in", "in/cat"][..], &["in/cat", "in"], &["in", "in"], &["in", "in/dog/1.txt"], &["in", "./in/../in"]]
    {
        fails(dir.path(), &args(inputs), 2, "which is an input too");
    }
    std::fs::create_dir(dir.path().join("in2")).unwrap();
    std::fs::write(dir.path().join("in2/9.txt"), "9").unwrap();
    stdout(dir.path(), &args(&["in/cat", "in2"]));
}

#[test]
fn a_folder_that_is_not_sealed_is_no_input() {
    let dir = inputs();
    pack(&dir, "whole", &["--samples-per-shard", "2"]);
    std::fs::remove_file(dir.path().join("whole/dataset.json")).unwrap();
    let again = |input| ["pack", input, "--to", "webdataset", "--out", "again", "--on-error", "skip"];
    fails(dir.path(), &again("whole"), 6, "whole: is not sealed");
    stdout(dir.path(), &again("whole/shard-000000.tar"));
}

#[test]
fn a_member_that_is_damaged_is_shown_with_an_error() {
    let dir = inputs();
    pack(&dir, "out", &[]);
    let shard = dir.path().join("out/shard-000000.tar");
    let cat = ["cat", "out/shard-000000.tar", "dog/1.txt"];
    assert_eq!(stdout(dir.path(), &cat), "dog/1");
    let mut bytes = std::fs::read(&shard).unwrap();
    let at = bytes.windows(5).rposition(|window| window == b"dog/1").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    stdout(dir.path(), &["view", "out", "--select", "txt", "--out", "view"]);
    let by_view = ["cat", "view", "dog/1.txt"];
    fails(dir.path(), &cat, 6, "dog/1.txt is damaged");
    fails(dir.path(), &by_view, 6, "dog/1.txt is damaged");
    // Headers are sound: only digests tell.
    let all = ["verify", "out", "--for", "webdataset"];
    stdout(dir.path(), &all);
    fails(dir.path(), &[&all[..], &["--full"]].concat(), 6, "shard-000000.tar");
    assert_eq!(stdout(dir.path(), &["cat", "out/shard-000000.tar", "cat/1.txt"]), "cat/1");
}

#[test]
fn a_list_of_the_command_line_replaces_that_of_the_file() {
    let dir = inputs();
    std::fs::write(dir.path().join("c.toml"), "include = [\"cat/*\"]\nsamples-per-shard = 1\n").unwrap();
    let args = ["pack", "--config", "c.toml", "in", "--to", "webdataset", "--json", "--quiet", "--out"];
    let report =
        |more: &[&str]| -> Value { serde_json::from_str(&stdout(dir.path(), &[&args[..], more].concat())).unwrap() };
    let counts = |report: &Value| (report["samples"].as_u64().unwrap(), report["shards"].as_u64().unwrap());
    assert_eq!(counts(&report(&["o1"])), (3, 3));
    assert_eq!(counts(&report(&["o2", "--include", "dog/*"])), (2, 2));
    assert_eq!(counts(&report(&["o3", "--include=dog/1*", "--include=cat/1*", "--samples-per-shard", "2"])), (2, 1));
    // Whichever comes first.
    pack(&dir, "o4", &[]);
    assert!(stdout(dir.path(), &["status", "--watch", "o4"]).contains("sealed"));
}

/// A pipe whose reader is gone, as `| head -0` leaves it.
#[test]
fn damage_is_damage_though_no_one_reads_of_it() {
    let dir = inputs();
    pack(&dir, "out", &[]);
    let code = |args: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
        let command = command.current_dir(dir.path()).args(args).stdout(writer).stderr(Stdio::null());
        command.status().unwrap().code()
    };
    let commands: [&[&str]; 4] = [
        &["verify", "out", "--full"],
        &["verify", "out", "--full", "--json"],
        &["verify", "out/shard-000000.tar", "--for", "webdataset"],
        &["status", "out"],
    ];
    assert!(commands.iter().all(|args| code(args) == Some(0)));
    let shard = dir.path().join("out/shard-000000.tar");
    let bytes = std::fs::read(&shard).unwrap();
    std::fs::write(&shard, &bytes[..700]).unwrap();
    assert_eq!(commands.map(code), [Some(6), Some(6), Some(3), Some(6)]);
    assert_eq!(code(&["stat", "out"]), Some(6));
}

#[cfg(target_os = "linux")]
#[test]
fn folders_whose_names_are_no_text_are_taken_or_refused() {
    use std::os::unix::ffi::OsStrExt;
    let dir = inputs();
    pack(&dir, "out", &[]);
    let odd = |name: &[u8]| dir.path().join(std::ffi::OsStr::from_bytes(name));
    let ended = |args: &[&std::ffi::OsStr]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
        let output = command.current_dir(dir.path()).args(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (there, view) = (odd(b"copy\xff"), odd(b"view\xff"));
    let word = std::ffi::OsStr::new;
    let staged = ended(&[word("stage"), word("out"), word("--to"), there.as_os_str(), word("--json")]);
    assert_eq!(staged.0, Some(0), "{}", staged.1);
    let viewed = ended(&[word("view"), word("out"), word("--fold"), word("1/2"), word("--out"), view.as_os_str()]);
    assert_eq!(viewed.0, Some(0), "{}", viewed.1);
    assert_eq!(ended(&[word("verify"), view.as_os_str()]).0, Some(0));
    // A view names its dataset in text.
    let (code, said) = ended(&[word("view"), there.as_os_str(), word("--fold"), word("1/2"), word("--out"), word("v")]);
    assert!(code == Some(8) && said.contains("is not UTF-8"), "{code:?}: {said}");
    assert!(!dir.path().join("v").exists());
}

#[test]
fn an_input_that_differs_from_the_plan_is_named() {
    let dir = inputs();
    let args = ["pack", "in", "--to", "webdataset", "--out", "out", "--shuffle", "3", "--samples-per-shard", "2"];
    stdout(dir.path(), &args);
    let file = |name: &str| dir.path().join("in").join(name);
    let differs = |said: &str, code| fails(dir.path(), &args, code, said);
    let first = std::fs::read(file("dog/1.txt")).unwrap();
    let modified = std::fs::metadata(file("dog/1.txt")).unwrap().modified().unwrap();
    let restore = || {
        std::fs::write(file("dog/1.txt"), &first).unwrap();
        std::fs::File::options().write(true).open(file("dog/1.txt")).unwrap().set_modified(modified).unwrap();
    };
    std::fs::write(file("dog/1.txt"), "longer").unwrap();
    differs("holds finished shards of another plan (dog/1.txt had 5 bytes and has 6 now)", 2);
    std::fs::write(file("dog/1.txt"), "other").unwrap();
    differs("though none changed its size (dog/1.txt was modified)", 4);
    std::fs::remove_file(file("dog/1.txt")).unwrap();
    differs("(dog/1.txt is gone, or left out now)", 2);
    restore();
    std::fs::write(file("dog/9.txt"), "new").unwrap();
    differs("(dog/9.txt is new)", 2);
    std::fs::remove_file(file("dog/9.txt")).unwrap();
    stdout(dir.path(), &args);

    let table = |ages: &str| std::fs::write(dir.path().join("t.csv"), format!("file,age\n{ages}")).unwrap();
    let args = ["pack", "in", "--to", "webdataset", "--out", "aged", "--metadata", "t.csv", "--key", "file"];
    let rows = |last: u32| format!("cat/1.txt,1\ncat/2.txt,2\ncat/3.txt,2\ndog/1.txt,3\ndog/2.txt,{last}\n");
    table(&rows(4));
    stdout(dir.path(), &args);
    table(&rows(5));
    fails(dir.path(), &args, 2, "(dog/2.txt has another key or label, or other metadata)");

    // A tar of several samples says nothing of the one that differs.
    let tar = |name: &str, more: &[&str]| {
        let mut builder = tar::Builder::new(std::fs::File::create(dir.path().join(name)).unwrap());
        for member in ["1.txt", "2.txt"].iter().chain(more) {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            builder.append_data(&mut header, format!("{name}/{member}"), &b"x"[..]).unwrap();
        }
        builder.finish().unwrap();
    };
    let args = ["pack", "a.tar", "b.tar", "--to", "webdataset", "--out", "tars"];
    tar("a.tar", &[]);
    tar("b.tar", &[]);
    stdout(dir.path(), &args);
    tar("b.tar", &["3.txt"]);
    let said = String::from_utf8(run(dir.path(), &args).stderr).unwrap();
    assert!(said.contains("another plan (") && !said.contains("a.tar"), "{said}");
}

#[test]
fn standard_output_is_no_folder() {
    let dir = inputs();
    fails(dir.path(), &["pack", "in", "--to", "webdataset", "--out", "-"], 2, "a folder, not standard output");
    stdout(dir.path(), &["pack", "in", "--to", "webdataset", "--out", "./-", "--quiet"]);
    assert!(dir.path().join("-/dataset.json").exists());
}

#[test]
fn conditions_name_classes() {
    let dir = inputs();
    for to in ["webdataset", "parquet", "hdf5"] {
        stdout(dir.path(), &["pack", "in", "--to", to, "--labels", "folders", "--out", to, "--quiet"]);
        let count = |condition: &str, samples: u64| {
            let out = format!("{to}-{}", condition.replace(|c: char| !c.is_alphanumeric(), "-"));
            let view = ["view", to, "--out", &out, "--where", condition, "--json", "--quiet"];
            let report: Value = serde_json::from_str(&stdout(dir.path(), &view)).unwrap();
            assert_eq!(report["samples"], samples, "{condition}");
        };
        count("cls == 'cat'", 3);
        count("cls != 'cat' and txt != 'dog/1'", 1);
        count("cls in ['dog', 'cat']", 5);
        count("cls == 1", 2);
        let view = |condition: &'static str| ["view", to, "--out", "none", "--where", condition];
        fails(dir.path(), &view("cls == 'cats'"), 2, "no class is called \"cats\"; did you mean 'cat'?");
        fails(dir.path(), &view("cls > 'cat'"), 2, "is a number and can't be compared with the text");
    }
}
