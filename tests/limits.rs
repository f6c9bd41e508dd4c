//! `packhorse bench limits`, `bench pack` and `bench read --limits`: their figures, what they leave behind, and what they
//! refuse.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test, or is skipped with a word")]

use packhorse_machine::Quantity;
use packhorse_testkit::cuda::FakeDriver;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn packhorse(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_packhorse")).current_dir(dir).args(args).output().unwrap()
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let output = packhorse(dir, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The names in a folder, hidden ones too.
fn names(dir: &Path) -> BTreeSet<String> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// 40 pictures of `synth`, in `photos`.
fn photos(dir: &Path) -> PathBuf {
    let made = packhorse(dir, &["synth", "images", "--quiet", "--count", "40", "--out", "photos"]);
    assert!(made.status.success(), "{}", said(&made));
    dir.join("photos")
}

/// Files below a folder and their bytes.
fn sizes(dir: &Path) -> (u64, u64) {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| if path.is_dir() { sizes(&path) } else { (1, path.metadata().unwrap().len()) };
    entries.map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

const SHORT: [&str; 8] = ["--size", "8MiB", "--seconds", "0.3", "--jobs", "2", "--io-threads", "3"];

fn check_limits(found: &Value) {
    let limits = found["limits"].as_array().unwrap();
    let known: BTreeSet<&str> = Quantity::all().map(|quantity| quantity.name()).collect();
    for limit in limits {
        let of = |key: &str| limit[key].as_f64().unwrap();
        assert!(known.contains(limit["limit"].as_str().unwrap()), "{limit}");
        assert!(0.0 < of("min") && of("min") <= of("median") && of("median") <= of("max"), "{limit}");
        assert!(of("threads") >= 1.0 && of("rounds") >= 4.0, "{limit}");
        let unit = limit["unit"].as_str().unwrap();
        assert_eq!(limit["bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0), unit != "files/s", "{limit}");
        assert_eq!(limit["pixels_per_s"].as_f64().is_some_and(|rate| rate > 0.0), unit == "pictures/s", "{limit}");
    }
    let names: Vec<&str> = limits.iter().map(|limit| limit["limit"].as_str().unwrap()).collect();
    let always = known.iter().filter(|name| !name.ends_with("cold") && !name.ends_with("gpu"));
    for name in always {
        let once = ["write", "headers_warm"].contains(name);
        let count = names.iter().filter(|found| *found == name).count();
        assert_eq!(count, if once { 1 } else { 2 }, "{name}");
    }
    let is_cold = names.iter().any(|name| ["read_cold", "random_4k_cold"].contains(name));
    assert_eq!(is_cold, found["cold"] != "none");
    assert_eq!(names.contains(&"to_gpu") && names.contains(&"from_gpu"), found["gpu"].is_string());
}

#[test]
fn every_limit_is_a_positive_number_and_nothing_stays() {
    let dir = tempfile::tempdir().unwrap();
    let found = json(dir.path(), &[&["bench", "limits", "."][..], &SHORT].concat());
    check_limits(&found);
    assert_eq!((found["size"].as_u64(), found["threads"].as_u64()), (Some(8 << 20), Some(2)));
    assert!(found["seconds"].as_f64().unwrap() > 0.0);
    assert!(names(dir.path()).is_empty());
    let shown = packhorse(dir.path(), &[&["bench", "limits", "."][..], &SHORT].concat());
    let shown = String::from_utf8(shown.stdout).unwrap();
    for quantity in Quantity::all().filter(|quantity| !quantity.name().ends_with("cold")) {
        assert_eq!(shown.contains(quantity.says()), !quantity.name().ends_with("gpu"), "{shown}");
    }
    assert!(shown.contains("no GPU"), "{shown}");
}

#[test]
fn a_gpu_is_measured_both_ways() {
    let Some(driver) = FakeDriver::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    driver.drive(&mut command);
    let output = command.args(["bench", "limits", text(dir.path()), "--json"]).args(SHORT).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["gpu"].is_string(), "{found}");
    check_limits(&found);
}

#[test]
fn what_can_not_be_measured_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let output = packhorse(dir.path(), &[&["bench", "limits"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(words.iter().all(|word| said(&output).contains(word)), "{args:?}: {}", said(&output));
    };
    refused(&["nowhere"], 5, &["nowhere", "No such file"]);
    refused(&["file"], 2, &["file", "not a folder"]);
    refused(&[".", "--size", "1000TB"], 5, &["free space", "--size"]);
    refused(&[".", "--size", "1MiB"], 2, &["--size"]);
    refused(&[".", "--seconds", "0"], 2, &["--seconds"]);
    refused(&["s3://bucket/x"], 8, &["s3://bucket/x"]);
    for seconds in ["0", "-1", "nan", "inf", "86401", "1e20"] {
        let output = packhorse(dir.path(), &["bench", "read", "nowhere", &format!("--seconds={seconds}")]);
        assert!(output.status.code() == Some(2) && said(&output).contains("--seconds"), "{seconds}: {}", said(&output));
    }
    assert_eq!(names(dir.path()).len(), 1);
}

#[test]
fn a_folder_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    if std::fs::create_dir(closed.join("x")).is_ok() {
        // The superuser may write anywhere.
        return;
    }
    let output = packhorse(dir.path(), &[&["bench", "limits", "closed"][..], &SHORT].concat());
    assert_eq!(output.status.code(), Some(5));
    assert!(said(&output).contains("closed") && said(&output).contains("ermission"), "{}", said(&output));
}

/// Starts the command, stops it when its folder is there, and waits for its end.
fn stopped(dir: &Path, args: &[&str], signal: &str) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    let mut child = command.current_dir(dir).args(args).stderr(Stdio::null()).spawn().unwrap();
    let before = names(dir);
    let begin = Instant::now();
    while names(dir) == before && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    child.wait().unwrap().code()
}

#[test]
fn a_signal_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path());
    let limits = ["bench", "limits", ".", "--size", "64MiB", "--seconds", "120"];
    let pack = ["bench", "pack", "photos", "--to", "webdataset", "--out", "shards", "--repeat", "1000"];
    for args in [&limits[..], &pack] {
        for signal in ["INT", "TERM"] {
            assert_eq!(stopped(dir.path(), args, signal), Some(130), "{args:?}");
            assert_eq!(names(dir.path()), BTreeSet::from(["photos".to_owned()]), "{args:?}");
        }
    }
}

#[test]
fn packing_adds_up_and_what_is_kept_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let photos = photos(dir.path());
    let (files, bytes) = sizes(&photos);
    let args = ["bench", "pack", "photos", "--to", "webdataset", "--out", "shards", "--shard-size", "200KB"];
    let found = json(dir.path(), &[&args[..], &["--repeat", "2", "--keep", "--jobs", "2"]].concat());
    let of = |key: &str| found[key].as_u64().unwrap();
    assert_eq!((of("samples"), of("input_bytes"), of("files"), of("file_bytes")), (40, bytes, files, bytes));
    assert!(of("shards") > 1 && of("bytes") > bytes && of("rounds") == 2, "{found}");
    let seconds = |key: &str| found["seconds"][key]["median"].as_f64().unwrap();
    for key in ["pack", "plan", "fill", "seal", "reading", "writing", "cpu", "floor_read", "floor_write"] {
        assert!(seconds(key) > 0.0, "{key}: {found}");
    }
    for key in ["of_floor", "of_floor_read", "of_floor_write"] {
        assert!(found[key]["min"].as_f64().unwrap() > 0.0, "{key}: {found}");
    }
    for phase in ["plan", "fill", "seal"] {
        assert!(found["seconds"][phase]["max"].as_f64() <= found["seconds"]["pack"]["max"].as_f64(), "{found}");
    }
    assert_eq!(names(dir.path()), BTreeSet::from(["photos".to_owned(), "shards".to_owned()]));
    let verified = packhorse(dir.path(), &["verify", "shards", "--full"]);
    assert!(verified.status.success(), "{}", said(&verified));
    let packed = json(dir.path(), &["pack", "photos", "--to", "webdataset", "--out", "again", "--shard-size", "200KB"]);
    let kept: Value = serde_json::from_slice(&std::fs::read(dir.path().join("shards/dataset.json")).unwrap()).unwrap();
    assert_eq!(packed["root"], kept["root"]);
}

/// Their headers are read by the scan too: a file that is opened twice counts once.
#[test]
fn arrays_count_once() {
    let dir = tempfile::tempdir().unwrap();
    let made = packhorse(dir.path(), &["synth", "npz", "--quiet", "--count", "20", "--out", "npz"]);
    assert!(made.status.success(), "{}", said(&made));
    let (files, bytes) = sizes(&dir.path().join("npz"));
    for input in ["npz", "./npz/../npz"] {
        let found = json(dir.path(), &["bench", "pack", input, "--to", "hdf5", "--ragged", "--repeat", "1"]);
        let of = |key: &str| found[key].as_u64().unwrap();
        assert_eq!((of("samples"), of("files"), of("file_bytes")), (20, files, bytes), "{found}");
    }
}

#[test]
fn packing_leaves_nothing_and_refuses_a_folder_that_exists() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path());
    let temporary = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    command.current_dir(dir.path()).env("TMPDIR", temporary.path());
    let output = command.args(["bench", "pack", "photos", "--to", "webdataset", "--repeat", "1"]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in ["40 samples", "plan", "fill", "seal", "plain read", "plain write", "of the floor"] {
        assert!(shown.contains(words), "{shown}{}", said(&output));
    }
    assert!(names(temporary.path()).is_empty());
    let refused = |args: &[&str], code: i32, words: &str| {
        let output = packhorse(dir.path(), &[&["bench", "pack"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    };
    refused(&["photos", "--to", "webdataset", "--out", "photos"], 2, "exists");
    refused(&["photos", "--to", "webdataset", "--out", "s3://bucket/x"], 8, "object store");
    refused(&["photos", "--to", "webdataset", "--keep"], 2, "--out");
    refused(&["photos"], 2, "--to");
    refused(&["nowhere", "--to", "webdataset"], 2, "nowhere");
    assert_eq!(names(dir.path()), BTreeSet::from(["photos".to_owned()]));
}

#[test]
fn stages_of_reading_are_shares_of_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path());
    json(dir.path(), &["pack", "photos", "--to", "webdataset", "--out", "shards"]);
    let args = ["bench", "read", "shards", "--seconds", "0.1", "--batch", "8", "--jobs", "2", "--limits"];
    let before = names(dir.path());
    for (more, compute) in [(&["--size", "64"][..], "jpeg_224"), (&[], "copy")] {
        let found = json(dir.path(), &[&args[..], more].concat());
        check_limits(&found["limits"]);
        let shares = |stage: usize| found["stages"][stage]["of_limits"].as_object().unwrap();
        let expected: [&[&str]; 4] = [&["read_warm"], &["read_warm"], &[compute], &["read_warm", compute]];
        for (stage, expected) in expected.into_iter().enumerate() {
            let cold = found["limits"]["cold"] != "none" && stage != 2;
            let names: BTreeSet<&str> = shares(stage).keys().map(String::as_str).collect();
            let expected: BTreeSet<&str> = expected.iter().copied().chain(cold.then_some("read_cold")).collect();
            assert_eq!(names, expected, "{found}");
            assert!(shares(stage).values().all(|share| share.as_f64().unwrap() > 0.0), "{found}");
        }
    }
    assert_eq!(names(dir.path()), before);
    let without = json(dir.path(), &args[..args.len() - 1]);
    assert!(without["limits"].is_null() && without["stages"][0]["of_limits"].is_null(), "{without}");
}

/// `plan --feed` of the photos, 16 GPUs with 100 samples/s each, with a temporary folder of its own.
fn forecast(dir: &Path, more: &[&str]) -> Output {
    let temporary = dir.join("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let args = ["plan", "photos", "--to", "webdataset", "--out", "shards", "--feed", "16x100/s", "--jobs", "2"];
    let program = env!("CARGO_BIN_EXE_packhorse");
    Command::new(program).current_dir(dir).env("TMPDIR", temporary).args(args).args(more).output().unwrap()
}

#[test]
fn a_plan_says_what_a_feed_needs() {
    let dir = tempfile::tempdir().unwrap();
    let (files, bytes) = sizes(&photos(dir.path()));
    let output = forecast(dir.path(), &["--size", "64", "--dry-run", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!dir.path().join("shards").exists() && names(&dir.path().join("temporary")).is_empty());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |key: &str| found["feed"][key].as_f64().unwrap();
    let of_sample = |key: &str| found["feed"]["of_a_sample"][key].as_f64().unwrap();
    assert_eq!((of("gpus"), of("nodes"), of("samples_per_s"), of("shards_at_least")), (16.0, 2.0, 1600.0, 32.0));
    assert_eq!(of("epoch_seconds"), files as f64 / 1600.0);
    // A member of a tar has a header of 512 bytes and is padded to 512.
    let mean = bytes as f64 / files as f64;
    assert!((mean..mean + 2000.0).contains(&of_sample("stored_bytes")), "{mean} {found}");
    assert!((of("dataset_bytes") - files as f64 * of_sample("stored_bytes")).abs() < 1.0, "{found}");
    // 64 x 64 pixels of 3 channels; and little beside them.
    assert!((12_288.0..13_000.0).contains(&of_sample("batch_bytes")), "{found}");
    assert!((of("processors_a_gpu") - 100.0 * of_sample("processor_seconds")).abs() < 1e-9, "{found}");
    assert!(of_sample("processor_seconds") > 0.0 && of_sample("processor_seconds") < 1.0, "{found}");
}

#[test]
fn a_feed_is_forecast_for_people_too_and_decoding_costs() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path());
    let cost = |more: &[&str]| {
        let output = forecast(dir.path(), &[&["--dry-run", "--json"], more].concat());
        assert!(output.status.success(), "{}", said(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        found["feed"]["processors_a_gpu"].as_f64().unwrap()
    };
    let (plain, decoded) = (cost(&[]), cost(&["--size", "224"]));
    assert!(decoded > 2.0 * plain, "bytes {plain}, pixels {decoded}");

    let output = forecast(dir.path(), &["--gpus-per-node", "4"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for wanted in ["feed: 100 samples/s to each of 16 GPUs on 4 nodes, an epoch in 0.0 s", "processors", "storage"] {
        assert!(text.contains(wanted), "{text}");
    }
    assert!(dir.path().join("shards").exists() && names(&dir.path().join("temporary")).is_empty(), "{text}");
}

#[test]
fn a_feed_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path());
    for wrong in ["0x5/s", "8", "8x0/s"] {
        let output = packhorse(dir.path(), &["plan", "photos", "--out", "shards", "--feed", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(said(&output).contains("such as 64x4200/s"), "{}", said(&output));
    }
}
