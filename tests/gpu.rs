//! `packhorse bench upload`: its figures, its words, and what it says where there is no GPU.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test, or is skipped with a word")]

#[path = "../crates/gpu/tests/common/compiled.rs"]
mod compiled;

use packhorse::core::SplitMix64;
use packhorse_testkit::cuda::FakeDriver;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn packhorse() -> Command {
    Command::new(env!("CARGO_BIN_EXE_packhorse"))
}

fn shards(dir: &Path) -> PathBuf {
    let (photos, shards) = (dir.join("photos"), dir.join("shards"));
    let synth = packhorse().args(["synth", "images", "--quiet", "--count", "60", "--out"]).arg(&photos).status();
    assert!(synth.unwrap().success());
    let pack = ["pack", "--quiet", "--to", "webdataset", "--labels", "folders", "--out"];
    assert!(packhorse().args(pack).arg(&shards).arg(&photos).status().unwrap().success());
    shards
}

/// Shards of pictures of noise: processors take several times as long to decode them as the fake nvJPEG, which goes by their size.
fn noise(dir: &Path) -> PathBuf {
    let (pictures, shards) = (dir.join("noise"), dir.join("shards"));
    std::fs::create_dir(&pictures).unwrap();
    let mut generator = SplitMix64::new(0);
    for number in 0..60 {
        let mut picture = b"P6\n128 128\n255\n".to_vec();
        picture.extend((0..128 * 128 * 3 / 8).flat_map(|_| generator.next().to_le_bytes()));
        std::fs::write(pictures.join(format!("{number:02}.ppm")), picture).unwrap();
    }
    let pack = ["pack", "--quiet", "--to", "webdataset", "--image", "jpeg=ppm", "--quality", "100", "--out"];
    assert!(packhorse().args(pack).arg(&shards).arg(&pictures).status().unwrap().success());
    shards
}

fn upload(command: &mut Command, shards: &Path, arguments: &[&str]) -> Output {
    let usual = ["--batch", "8", "--size", "32", "--step", "1", "--seconds", "0.2", "--jobs", "2"];
    command.args(["bench", "upload"]).arg(shards).args(usual).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_stage_is_measured_on_a_simulated_gpu() {
    let dir = tempfile::tempdir().unwrap();
    let output = upload(&mut packhorse(), &shards(dir.path()), &["--device", "host", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stages = found["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["copy", "ring", "raw", "decode", "device", "cached", "loader"]);
    for stage in stages {
        let (name, of) = (stage["stage"].as_str().unwrap(), |what: &str| stage[what].as_f64().unwrap());
        assert!(of("steps") > 0.0 && of("steps_per_s") > 0.0, "{stage}");
        assert_eq!(of("bytes") > 0.0, name != "device", "{stage}");
        assert_eq!(of("samples"), if name == "copy" { 0.0 } else { 8.0 * of("steps") }, "{stage}");
        // A step takes a millisecond at least.
        assert!(!["device", "cached", "loader"].contains(&name) || of("steps_per_s") < 1100.0, "{stage}");
        assert_eq!(stage["of_limit"].is_number(), ["ring", "cached", "loader"].contains(&name), "{stage}");
    }
    assert_eq!((&found["simulated"], &found["batch"]), (&true.into(), &8.into()));
}

/// Several GPUs at the same time: each has its own loader, of its rank, and a share of the threads.
#[test]
fn gpus_are_measured_together() {
    let dir = tempfile::tempdir().unwrap();
    let shards = shards(dir.path());
    let output = upload(&mut packhorse(), &shards, &["--devices", "host,host", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["gpus"], &found["threads"]), (&2.into(), &2.into()));
    let stages = found["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["copy", "alone", "ring", "raw", "decode", "device", "cached", "loader"]);
    for stage in stages {
        let each = stage["each"].as_array().unwrap();
        let sum = |what: &str| each.iter().map(|one| one[what].as_u64().unwrap()).sum::<u64>();
        assert!(each.len() == 2 && each.iter().all(|one| one["steps"].as_u64().unwrap() > 0), "{stage}");
        assert_eq!(
            (sum("steps"), sum("samples")),
            (stage["steps"].as_u64().unwrap(), stage["samples"].as_u64().unwrap())
        );
        let limited = ["copy", "ring", "cached", "loader"].contains(&stage["stage"].as_str().unwrap());
        assert_eq!(stage["of_limit"].is_number(), limited, "{stage}");
    }
    // 60 samples have no batch of eight for each of nine ranks.
    let nine = ["host"; 9].join(",");
    let output = upload(&mut packhorse(), &shards, &["--devices", &nine, "--json"]);
    assert!(!output.status.success() && said(&output).contains("too few samples for a batch"), "{}", said(&output));
    let output = upload(&mut packhorse(), &shards, &["--devices", "host,cuda:0"]);
    assert!(said(&output).contains("--device takes cuda, cuda:N, cuda:0,cuda:1, cuda:all or host, not host,cuda:0"));
}

#[test]
fn gpus_are_measured_together_over_the_driver() {
    let (Some(driver), Some(kernels)) = (FakeDriver::new(), compiled::libraries()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let shards = shards(dir.path());
    let mut command = packhorse();
    driver.drive(&mut command);
    command.env("FAKE_CUDA_KERNELS", std::env::join_paths(kernels).unwrap()).env("PACKHORSE_NVJPEG", driver.nvjpeg());
    let output = upload(&mut command, &shards, &["--devices", "cuda:all"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("2 GPUs, Fake GPU 0: 60 samples in"), "{text}");
    for stage in ["copy", "alone", "ring+finish", "nvjpeg+cpu", "device", "cached", "loader", "resident", "made"] {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{stage} ")));
        assert!(line.unwrap().contains("; of each "), "{stage}\n{text}");
    }
    let calls = driver.calls();
    assert_eq!((calls.of("left.pinned"), calls.of("left.device"), calls.of("left.contexts")), (0, 0, 0));
}

/// The way of a GPU, from the driver to the figures, over a driver of threads and kernels compiled for the host.
#[test]
fn each_stage_is_measured_over_the_driver() {
    let (Some(driver), Some(kernels)) = (FakeDriver::new(), compiled::libraries()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut command = packhorse();
    driver.drive(&mut command);
    command.env("FAKE_CUDA_KERNELS", std::env::join_paths(kernels).unwrap()).env("PACKHORSE_NVJPEG", driver.nvjpeg());
    let trace = dir.path().join("trace.json");
    let flags = ["--device", "cuda:1", "--augment", "--trace", trace.to_str().unwrap()];
    let output = upload(&mut command, &shards(dir.path()), &flags);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Fake GPU 1: 60 samples in"), "{text}");
    for stage in [
        "copy",
        "device",
        "ring",
        "ring+finish",
        "cached",
        "raw",
        "decode",
        "nvjpeg",
        "nvjpeg+cpu",
        "loader",
        "resident",
        "made",
    ] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(&format!("{stage} "))), "{stage}\n{text}");
    }
    let calls = driver.calls();
    assert!(calls.of("cuLaunchKernel") > 0 && calls.of("cuEventElapsedTime") > 0);
    copies_have_the_times_of_the_driver(&trace);
    assert_eq!((calls.of("left.pinned"), calls.of("left.device"), calls.of("left.contexts")), (0, 0, 0));
}

/// On a GPU with room for all samples one remedy is to keep them there; with less room it is not.
#[test]
fn a_diagnosis_says_that_the_samples_fit_the_gpu() {
    let (Some(driver), Some(kernels)) = (FakeDriver::new(), compiled::libraries()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let shards = shards(dir.path());
    for (free, fits) in [("100000000000", true), ("1000000", false)] {
        let mut command = packhorse();
        driver.drive(&mut command);
        command.env("FAKE_CUDA_KERNELS", std::env::join_paths(&kernels).unwrap()).env("FAKE_CUDA_FREE", free);
        let usual = [
            "--device",
            "cuda:0",
            "--batch",
            "8",
            "--size",
            "128",
            "--augment",
            "--seconds",
            "0.3",
            "--jobs",
            "1",
            "--json",
        ];
        let output = command.arg("diagnose").arg(&shards).args(usual).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let remedies = found["remedies"].as_array().unwrap();
        let resident = remedies.iter().find(|remedy| remedy["name"] == "resident");
        assert_eq!(resident.is_some(), fits, "{found:#}");
        let Some(resident) = resident else { continue };
        // Whole pictures, which the GPU cuts: 60 of at least 224 x 224 pixels.
        let says = resident["says"].as_str().unwrap();
        assert!(
            says.starts_with("keep all samples in the memory of the GPU (") && says.contains(" MB of 100000 MB"),
            "{says}"
        );
        let megabytes: u64 = says[says.find('(').unwrap() + 1..].split(' ').next().unwrap().parse().unwrap();
        assert!((9..40).contains(&megabytes), "{says}");
        assert!(resident["predicted"].as_f64().unwrap() > 100.0, "{resident}");
    }
    let calls = driver.calls();
    assert_eq!((calls.of("left.pinned"), calls.of("left.device"), calls.of("left.contexts")), (0, 0, 0));
}

/// Where the loop waits for decoded pictures, what nvJPEG gains is measured and tried; without the library it says so.
#[test]
fn a_diagnosis_decodes_on_the_gpu() {
    let (Some(driver), Some(kernels)) = (FakeDriver::new(), compiled::libraries()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let shards = noise(dir.path());
    let diagnosis = |library: &Path| -> Value {
        let mut command = packhorse();
        driver.drive(&mut command);
        command.env("FAKE_CUDA_KERNELS", std::env::join_paths(&kernels).unwrap()).env("PACKHORSE_NVJPEG", library);
        let usual = ["--device", "cuda:0", "--batch", "8", "--size", "16", "--seconds", "0.3", "--jobs", "1"];
        let output = command.arg("diagnose").arg(&shards).args(usual).args(["--apply", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // A machine with much else to do may see something else than decoding as the bottleneck.
    let until = |library: &Path, wanted: &dyn Fn(&Value) -> bool| {
        (0..5).map(|_| diagnosis(library)).find(|found| wanted(found)).unwrap()
    };
    let decoding = |found: &Value| {
        let remedies = found["remedies"].as_array().unwrap();
        remedies.iter().find(|remedy| remedy["name"] == "gpu decoding").cloned()
    };
    let found = until(&driver.nvjpeg(), &|found| decoding(found).is_some());
    let remedy = decoding(&found).unwrap();
    assert!(remedy["says"].as_str().unwrap().starts_with("let the GPU decode jpg, by nvJPEG"), "{remedy}");
    // The fake library only adds up bytes.
    let now = found["cuts"].as_array().unwrap().last().unwrap()["steps_per_s"]["median"].as_f64().unwrap();
    assert!(remedy["predicted"].as_f64().unwrap() > now, "{now} {remedy}");
    assert!(remedy["observed"]["median"].as_f64().unwrap() > 0.0, "{remedy}");
    // Its pixels are others, so it is not taken.
    assert!(found["applied"].as_array().unwrap().iter().all(|taken| taken["remedy"]["name"] != "gpu decoding"));
    let decodes = |found: &Value| found["costs"].as_array().unwrap().iter().any(|cost| cost["stage"] == "decode");
    let without = until(Path::new("/no/libnvjpeg.so"), &decodes);
    let notes = without["notes"].as_array().unwrap();
    let note = notes.iter().find_map(|note| note.as_str().filter(|note| note.starts_with("gpu decoding")));
    assert!(note.is_some_and(|note| note.contains("was not tried: ") && note.contains("nvidia-nvjpeg")), "{notes:?}");
    assert_eq!(decoding(&without), None);
    let calls = driver.calls();
    assert_eq!((calls.of("left.pinned"), calls.of("left.device"), calls.of("left.nvjpeg")), (0, 0, 0));
}

/// Between any two events of the fake driver is a millisecond.
fn copies_have_the_times_of_the_driver(trace: &Path) {
    let events: Vec<Value> = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    for (name, track) in [("copy", "GPU: copies"), ("transform", "GPU: transforms")] {
        let row = &events.iter().find(|event| event["args"]["name"] == track).unwrap()["tid"];
        let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == *row).collect();
        assert!(spans.iter().all(|span| span["name"] == name && span["args"]["samples"] == 8), "{name}");
        // Those that would overlap the one before are cut.
        assert!(spans.iter().all(|span| span["dur"].as_f64().unwrap() <= 1000.0), "{name}");
        assert!(spans.iter().any(|span| span["dur"].as_f64().unwrap() == 1000.0), "{name}");
    }
}

#[test]
fn without_a_gpu_it_says_so_and_what_to_do() {
    let Some(driver) = FakeDriver::new() else { return };
    for (fail, wanted) in [
        (
            "cuInit:1:100",
            "the driver finds no GPU; nvidia-smi and CUDA_VISIBLE_DEVICES say which GPUs this process may use; --device host simulates one",
        ),
        ("cuInit:1:3", "the driver does not start"),
    ] {
        let mut command = packhorse();
        driver.drive(&mut command);
        // Nothing is opened before that is known.
        let output = upload(command.env("FAKE_CUDA_FAIL", fail), Path::new("nowhere"), &[]);
        assert!(output.stdout.is_empty() && said(&output).contains(wanted), "{}", said(&output));
        assert_eq!(output.status.code(), Some(8));
    }
    let mut command = packhorse();
    driver.drive(&mut command);
    let output = upload(&mut command, Path::new("nowhere"), &["--device", "cuda:7"]);
    assert!(said(&output).contains("there is no GPU 7: there are 2"), "{}", said(&output));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let shards = shards(dir.path());
    for (arguments, wanted) in [
        (&["--device", "tpu"][..], "--device takes cuda, cuda:N, cuda:0,cuda:1, cuda:all or host"),
        (&["--device", "host", "--step", "0"], "--step takes 0.001 to 100000 milliseconds"),
        (&["--device", "host", "--batch", "100"], "too few samples for a batch"),
        (&["--device", "host", "--fields", "png"], "no field png"),
    ] {
        let output = packhorse().args(["bench", "upload"]).arg(&shards).args(arguments).output().unwrap();
        assert!(said(&output).contains(wanted), "{arguments:?}: {}", said(&output));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
