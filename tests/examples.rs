//! The examples run, and do what they say.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::path::Path;
use std::process::Command;

fn example(name: &str, arguments: &[&Path]) -> String {
    example_with(name, arguments, &[])
}

fn example_with(name: &str, arguments: &[&Path], environment: &[(&str, &str)]) -> String {
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    // With the features of the whole workspace and without cargo's variable for this test, of which the build scripts of
    // dependencies take notice: otherwise half of them are built again.
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--workspace", "--profile", profile, "--example", name])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .env_remove("CARGO_MANIFEST_DIR")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let program = Path::new(env!("CARGO_BIN_EXE_packhorse")).with_file_name("examples").join(name);
    let output = Command::new(program).args(arguments).envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn packhorse(arguments: &[&Path]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_packhorse")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pack_images_packs_what_the_command_line_would() {
    let dir = tempfile::tempdir().unwrap();
    let [photos, ours, theirs] = ["photos", "ours", "theirs"].map(|name| dir.path().join(name));
    packhorse(
        &["synth", "images", "--count", "5", "--out"].map(Path::new).into_iter().chain([&*photos]).collect::<Vec<_>>(),
    );
    let said = example("pack_images", &[&photos, &ours]);
    assert!(said.contains("5 samples in 1 shards"), "{said}");
    let command = ["pack", "--labels", "folders", "--shuffle", "7", "--to", "webdataset", "--out"].map(Path::new);
    let printed = packhorse(&command.into_iter().chain([&*theirs, &*photos]).collect::<Vec<_>>());
    let root = said.lines().find_map(|line| line.strip_prefix("root ")).unwrap();
    assert!(printed.contains(root), "{said}\n{printed}");
}

#[test]
fn add_a_format_conforms_and_reads_back_what_it_packed() {
    let said = example("add_a_format", &[]);
    assert!(said.contains("cat: jpg \u{1f408}, txt a cat\ndog: jpg \u{1f415}, txt nothing"), "{said}");
}

#[test]
fn read_tokens_reads_a_pair() {
    let dir = tempfile::tempdir().unwrap();
    let idx = dir.path().join("a.idx");
    let numbers = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let lengths: Vec<u8> = [60i32, 45].into_iter().flat_map(i32::to_le_bytes).collect();
    let bytes = [&b"MMIDIDX\0\0"[..], &numbers(&[1]), &[8], &numbers(&[2, 3]), &lengths, &numbers(&[0, 120, 0, 1, 2])];
    std::fs::write(&idx, bytes.concat()).unwrap();
    std::fs::write(idx.with_extension("bin"), [7; 210]).unwrap();
    let said = example("read_tokens", &[&idx, Path::new("4")]);
    assert!(said.contains("3 batches") && said.contains("tokens UInt16 [8, 5] at byte 0"), "{said}");
    assert!(said.contains(r#"{"version":2,"consumed":8,"samples":26,"order":""#), "{said}");
}

#[test]
fn gpu_stream_sends_every_image() {
    let dir = tempfile::tempdir().unwrap();
    let [photos, shards] = ["photos", "shards"].map(|name| dir.path().join(name));
    packhorse(
        &["synth", "images", "--count", "70", "--out"].map(Path::new).into_iter().chain([&*photos]).collect::<Vec<_>>(),
    );
    let command = ["pack", "--to", "webdataset", "--labels", "folders", "--out"].map(Path::new);
    packhorse(&command.into_iter().chain([&*shards, &*photos]).collect::<Vec<_>>());
    let said = example("gpu_stream", &[&shards]);
    // Two epochs of two batches of 32.
    assert!(said.contains("128 images in 4 steps"), "{said}");
}

#[test]
fn train_loop_stops_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let [photos, shards] = ["photos", "shards"].map(|name| dir.path().join(name));
    packhorse(
        &["synth", "images", "--count", "200", "--out"]
            .map(Path::new)
            .into_iter()
            .chain([&*photos])
            .collect::<Vec<_>>(),
    );
    let command = ["pack", "--labels", "folders", "--to", "webdataset", "--out"].map(Path::new);
    packhorse(&command.into_iter().chain([&*shards, &*photos]).collect::<Vec<_>>());
    let said = example("train_loop", &[&shards]);
    assert!(said.contains("6 batches, then {\"version\":1,") && said.contains("6 batches more"), "{said}");
    let said = example_with("train_loop", &[&shards], &[("RANK", "1"), ("WORLD_SIZE", "2")]);
    assert!(said.contains("3 batches, then {\"version\":1,") && said.contains("3 batches more"), "{said}");
}
