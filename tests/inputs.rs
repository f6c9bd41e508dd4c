//! Inputs as they lie about: hidden, damaged, with odd names, excluded. None is lost in silence.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
}

use common::process::{Ended, Program, packhorse};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;

const CONFIG: i32 = 2;
const CONTENT: i32 = 3;
const ENVIRONMENT: i32 = 5;
const INCOMPLETE: i32 = 6;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Packs the input below `dir` into `dir/OUT`.
fn pack(dir: &Path, input: &str, out: &str, more: &[&str]) -> Ended {
    let (input, out) = (dir.join(input), dir.join(out));
    packhorse(&[&["pack", text(&input), "--to", "webdataset", "--out", text(&out), "--json"], more].concat()).run()
}

fn samples(ended: &Ended) -> u64 {
    assert_eq!(ended.code(), 0, "{ended:?}");
    serde_json::from_str::<Value>(&ended.printed).unwrap()["samples"].as_u64().unwrap()
}

fn skipped(dir: &Path, out: &str) -> Vec<Value> {
    let lines = fs::read_to_string(dir.join(out).join("skipped.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A tar of numbered texts of 3 kB that hardly compress.
fn tar(count: u32) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut state = 1u32;
    for number in 0..count {
        let mut bytes = Vec::with_capacity(3000);
        bytes.resize_with(3000, || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let mut header = tar::Header::new_ustar();
        header.set_size(3000);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("{number:04}.bin"), &bytes[..]).unwrap();
    }
    tar.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

#[test]
fn a_damaged_compressed_archive_is_left_out_whole() {
    let dir = tempfile::tempdir().unwrap();
    let whole = gzip(&tar(400));
    let (mut cut, mut sum) = (whole.clone(), whole.clone());
    cut.truncate(whole.len() - 5000);
    let at = sum.len() - 6;
    sum[at] ^= 1;
    let other = [&whole[..], b"no gzip"].concat();
    for (name, bytes) in [("cut", cut), ("sum", sum), ("other", other)] {
        let file = format!("{name}.tar.gz");
        let input = format!("in-{name}");
        fs::create_dir(dir.path().join(&input)).unwrap();
        fs::write(dir.path().join(&input).join(&file), bytes).unwrap();
        fs::write(dir.path().join(&input).join("good.tar"), tar(7)).unwrap();
        assert_eq!(pack(dir.path(), &input, "fails", &[]).code(), CONTENT, "{name}");
        let packed = pack(dir.path(), &input, name, &["--on-error", "skip"]);
        assert_eq!(samples(&packed), 7, "{name}: {packed:?}");
        let lost = skipped(dir.path(), name);
        assert!(lost.len() == 1 && lost[0]["input"] == file.as_str(), "{name}: {lost:?}");
        packhorse(&["verify", "--full", text(&dir.path().join(name))]).succeed();
    }
}

/// As tapes and blocked copies leave them.
#[test]
fn zeros_behind_gzip_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let padded = [&gzip(&tar(400))[..], &[0; 512]].concat();
    fs::write(dir.path().join("padded.tar.gz"), padded).unwrap();
    assert_eq!(samples(&pack(dir.path(), "padded.tar.gz", "padded", &[])), 400);
}

#[test]
fn the_last_sample_of_an_archive_that_is_cut_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let whole = tar(10);
    fs::write(dir.path().join("cut.tar"), &whole[..whole.len() - 6000]).unwrap();
    assert_eq!(samples(&pack(dir.path(), "cut.tar", "out", &["--on-error", "skip"])), 8);
    let lost = skipped(dir.path(), "out");
    assert!(lost[0]["reason"].as_str().unwrap().contains("the sample of 0007.bin"), "{lost:?}");
    // Members are listed so many at a time.
    let whole = tar(4098);
    fs::write(dir.path().join("long.tar"), &whole[..whole.len() - 6000]).unwrap();
    assert_eq!(samples(&pack(dir.path(), "long.tar", "of-long", &["--on-error", "skip"])), 4096);
    let lost = skipped(dir.path(), "of-long");
    assert!(lost[0]["reason"].as_str().unwrap().contains("the sample of 4095.bin"), "{lost:?}");
}

#[test]
fn hidden_files_that_are_named_are_not_passed_over_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("in/.cache")).unwrap();
    for name in [".cache/c.txt", "b.txt", ".a.txt"] {
        fs::write(dir.path().join("in").join(name), name).unwrap();
    }
    let list = dir.path().join("list");
    fs::write(&list, ".cache/c.txt\n./b.txt\n").unwrap();
    let from = ["--files-from", text(&list)];
    let refused = pack(dir.path(), "in", "out", &from);
    assert!(refused.code() == CONTENT && refused.said.contains(".cache/c.txt: is hidden"), "{refused:?}");
    assert_eq!(samples(&pack(dir.path(), "in", "out", &[&from[..], &["--on-error", "skip"]].concat())), 1);
    assert!(skipped(dir.path(), "out")[0]["reason"].as_str().unwrap().contains("is hidden"));
    assert_eq!(pack(dir.path(), "in/.a.txt", "one", &[]).code(), CONTENT);
    // In a folder they are none of the samples, and the folder itself may be hidden.
    assert_eq!(samples(&pack(dir.path(), "in", "folder", &[])), 1);
    assert_eq!(samples(&pack(dir.path(), "in/.cache", "cache", &[])), 1);
}

#[test]
fn classes_are_named_as_their_folders() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["x%41", "xA", "v1.5", "a b", "100%"];
    for (number, name) in names.iter().enumerate() {
        let folder = dir.path().join("in").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{number}.txt")), "x").unwrap();
    }
    assert_eq!(samples(&pack(dir.path(), "in", "out", &["--labels", "folders"])), 5);
    let manifest: Value = serde_json::from_slice(&fs::read(dir.path().join("out/dataset.json")).unwrap()).unwrap();
    assert_eq!(manifest["classes"], serde_json::json!(["100%", "a b", "v1.5", "x%41", "xA"]));
}

#[test]
fn globs_that_match_nothing_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["cat/1.txt", "dog/2.txt"] {
        let path = dir.path().join("in").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    for (glob, left) in [("cat/", 1), ("./cat/*", 1), ("cat", 1), ("/cat/*", 2), ("1.txt", 2)] {
        let out = format!("out-{}", glob.replace('/', "_"));
        let packed = pack(dir.path(), "in", &out, &["--exclude", glob]);
        assert_eq!(samples(&packed), left, "{glob}");
        assert_eq!(packed.said.contains("matches none of the inputs"), left == 2, "{glob}: {packed:?}");
    }
}

#[test]
fn a_text_that_hdf5_would_cut_costs_its_sample_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    fs::write(dir.path().join("in/a.txt"), "a\0b").unwrap();
    fs::write(dir.path().join("in/b.txt"), "ok").unwrap();
    fs::write(dir.path().join("t.csv"), "x,s\n1,ok\n2,a\0b\n").unwrap();
    for (input, sample) in [("in", "a"), ("t.csv", "t/000000001")] {
        let (input, out) = (dir.path().join(input), dir.path().join(format!("out-{input}")));
        let args = ["pack", text(&input), "--to", "hdf5", "--out", text(&out), "--json"];
        let refused = packhorse(&args).run();
        assert_eq!(refused.code(), CONTENT, "{refused:?}");
        assert!(refused.said.contains(&format!("sample {sample}: \"a\\0b\" has a zero byte")), "{refused:?}");
        assert_eq!(samples(&packhorse(&[&args[..], &["--on-error", "skip"]].concat()).run()), 1);
        let lines = fs::read_to_string(out.join("skipped.jsonl")).unwrap();
        assert!(lines.contains(&format!("\"sample\":\"{sample}\"")), "{lines}");
    }
}

#[test]
fn a_file_that_grows_beyond_its_limit_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.tar"), tar(400)).unwrap();
    let (program, input, out) = (env!("CARGO_BIN_EXE_packhorse"), dir.path().join("a.tar"), dir.path().join("out"));
    let script = format!("ulimit -f 500; exec {program} pack {} --to webdataset --out {}", text(&input), text(&out));
    let mut shell = common::process::command("bash");
    shell.args(["-c", &script]);
    let ended = Program(shell).run();
    assert!(ended.code() == ENVIRONMENT && ended.said.contains("File too large"), "{ended:?}");
    packhorse(&["pack", text(&input), "--to", "webdataset", "--out", text(&out)]).succeed();
}

#[test]
fn a_dataset_in_an_unknown_format_is_not_packed_as_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    fs::write(dir.path().join("in/a.txt"), "a").unwrap();
    assert_eq!(samples(&pack(dir.path(), "in", "set", &[])), 1);
    let path = dir.path().join("set/dataset.json");
    let mut manifest = packhorse::dataset::Manifest::decode(&fs::read(&path).unwrap()).unwrap();
    manifest.format.format = "newer".to_owned();
    fs::write(&path, manifest.encode().unwrap()).unwrap();
    let refused = pack(dir.path(), "set", "again", &[]);
    assert!(refused.code() == CONFIG && refused.said.contains("no format is called \"newer\""), "{refused:?}");
}

#[test]
fn a_table_with_another_delimiter_is_not_one_column() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.csv"), "id;v\n1;2.5\n").unwrap();
    fs::write(dir.path().join("t.tab"), "id\tv\n1\t2.5\n").unwrap();
    let refused = pack(dir.path(), "s.csv", "s", &[]);
    assert!(refused.code() == CONTENT && refused.said.contains("--read 'delimiter=;'"), "{refused:?}");
    for (input, more) in [
        ("s.csv", &["--from", "csv", "--read", "delimiter=;"][..]),
        ("t.tab", &[]),
        ("s.csv", &["--from", "csv", "--read", "delimiter=,"]),
    ] {
        let out = format!("out-{input}-{}", more.concat());
        assert_eq!(samples(&pack(dir.path(), input, &out, more)), 1, "{input} {more:?}");
    }
}

/// Names that only the key makes one do not make a sample.
#[test]
fn names_that_give_one_key_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| {
        let path = dir.path().join("in").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    };
    ["a b.png", "a b.txt", "A%20c.txt", "A%20c.cls", "d e/x y.txt", "d e/x y.cls"].into_iter().for_each(in_folder);
    assert_eq!(samples(&pack(dir.path(), "in", "right", &[])), 3);
    in_folder("a%20b.json");
    in_folder("d%20e/x y.json");
    let refused = pack(dir.path(), "in", "out", &[]);
    assert!(refused.code() == CONTENT && refused.said.contains("it would have the key of"), "{refused:?}");
    assert_eq!(samples(&pack(dir.path(), "in", "out", &["--on-error", "skip"])), 3);
    assert_eq!(skipped(dir.path(), "out").len(), 2);
    // Also where they have a field twice.
    in_folder("a%20b.png");
    assert_eq!(samples(&pack(dir.path(), "in", "twice", &["--on-error", "skip"])), 3);
    let left_out: Vec<String> = skipped(dir.path(), "twice").iter().map(|one| one["input"].to_string()).collect();
    assert!(left_out.len() == 3 && left_out.iter().all(|input| input.contains("%20")), "{left_out:?}");
}

/// A first line of values does not name columns, also where some are missing or are written as other programs write them.
#[test]
fn a_first_row_is_not_taken_for_names() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [",1.5,2", "NaN,1.5", "1.,2.", "-inf,1", "1.0D+00,2.0", "0x1F,0x20", "1e400,2.5", "01,02"];
    for (number, row) in rows.iter().enumerate() {
        let input = format!("{number}.csv");
        fs::write(dir.path().join(&input), format!("{row}\n{row}\n")).unwrap();
        let refused = pack(dir.path(), &input, "refused", &[]);
        assert!(refused.code() == CONTENT && refused.said.contains("--read header=none"), "{row}: {refused:?}");
        let out = format!("out-{number}");
        assert_eq!(samples(&pack(dir.path(), &input, &out, &["--from", "csv", "--read", "header=none"])), 2, "{row}");
    }
    for (number, names) in
        [",a", "0,1,2", ",0,1", "1999,2000", "2020, 2021", "e,d", "1d5,2d5", "x 1,y 2"].iter().enumerate()
    {
        let input = format!("names-{number}.csv");
        let row = vec!["7"; names.split(',').count()].join(",");
        fs::write(dir.path().join(&input), format!("{names}\n{row}\n")).unwrap();
        assert_eq!(samples(&pack(dir.path(), &input, &format!("named-{number}"), &[])), 1, "{names}");
    }
    fs::write(dir.path().join("numpy.csv"), "0.1 0.2\n0.3 0.4\n").unwrap();
    let refused = pack(dir.path(), "numpy.csv", "refused", &[]);
    let said = "--from csv and --read delimiter=spaces; without a line of names, also --read header=none";
    assert!(refused.code() == CONTENT && refused.said.contains(said), "{refused:?}");
    let read = ["--from", "csv", "--read", "delimiter=spaces", "--read", "header=none"];
    assert_eq!(samples(&pack(dir.path(), "numpy.csv", "numpy", &read)), 2);
    fs::write(dir.path().join("float.csv"), "x\n.5\n1.\n+2\nInfinity\n").unwrap();
    assert_eq!(samples(&pack(dir.path(), "float.csv", "float", &["--schema", "x:float64"])), 4);
}

#[test]
fn a_shard_is_compared_with_its_digest_where_that_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.tar"), tar(20)).unwrap();
    assert_eq!(samples(&pack(dir.path(), "a.tar", "out", &[])), 20);
    let shard = dir.path().join("out/shard-000000.tar");
    let verify = |path: &Path| packhorse(&["verify", "--full", text(path), "--json"]).run();
    assert_eq!(verify(&shard).code(), 0);
    let mut bytes = fs::read(&shard).unwrap();
    bytes[1000] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let found = verify(&shard);
    assert!(found.code() == INCOMPLETE && found.said.contains("do not have the recorded digest"), "{found:?}");
    assert_eq!(verify(&dir.path().join("a.tar")).code(), 0);
}

/// Tars whose keys begin again in each of them: a picture never gets the text of another sample.
#[test]
fn fields_of_samples_that_have_others_twice_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let archive = |name: &str, members: &[(&str, &str)]| {
        let mut tar = tar::Builder::new(Vec::new());
        for (member, content) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, member, content.as_bytes()).unwrap();
        }
        fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        fs::write(dir.path().join(name), tar.into_inner().unwrap()).unwrap();
    };
    archive("two/0.tar", &[("0.jpg", "a0"), ("1.jpg", "a1"), ("1.txt", "a1")]);
    archive("two/1.tar", &[("0.jpg", "b0"), ("0.txt", "b0"), ("1.jpg", "b1")]);
    archive("one/0.tar", &[("a.jpg", "a1"), ("b.jpg", "b"), ("b.txt", "b"), ("a.jpg", "a2"), ("a.txt", "a2")]);
    let cat = |out: &str, member: &str| {
        let ended = packhorse(&["cat", text(&dir.path().join(out)), member]).run();
        (ended.code() == 0).then_some(ended.printed)
    };
    let ended = pack(dir.path(), "two", "out", &["--key-ends", "first-dot"]);
    assert_eq!(ended.code(), CONTENT, "{ended:?}");
    assert!(ended.said.contains("could be of two samples, since both 0.tar and 1.tar are the field jpg"), "{ended:?}");
    assert!(ended.said.contains("pass --archive-folders"), "{ended:?}");
    assert_eq!(samples(&pack(dir.path(), "two", "out", &["--on-error", "skip"])), 2);
    let kept = ["0.jpg", "0.txt", "1.jpg", "1.txt"].map(|member| cat("out", member));
    assert_eq!(kept, [Some("a0".into()), None, Some("a1".into()), Some("a1".into())]);
    assert_eq!(skipped(dir.path(), "out").len(), 3);
    assert_eq!(samples(&pack(dir.path(), "one", "out1", &["--on-error", "skip"])), 1);
    assert_eq!(cat("out1", "b.txt"), Some("b".into()));
    assert_eq!(skipped(dir.path(), "out1").len(), 3);
}

/// Where no shell expands patterns, as in Python, inputs may be patterns.
#[test]
fn inputs_may_be_patterns() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a-1", "a-2", "a-10", "b-1", "{x}"] {
        fs::write(dir.path().join(format!("{name}.csv")), "n\n1\n2\n").unwrap();
    }
    fs::write(dir.path().join(".a-3.csv"), "other\n1\n").unwrap();
    for (number, (pattern, count)) in
        [("*.csv", 10), ("a-?.csv", 4), ("{a,b}-1.csv", 4), ("a-{1..2}.csv", 4), ("{x}.csv", 2)].iter().enumerate()
    {
        assert_eq!(samples(&pack(dir.path(), pattern, &format!("out-{number}"), &[])), *count, "{pattern}");
    }
    for (pattern, why) in [("c*.csv", "matches no file"), ("{c,d}.csv", "no such file"), ("**/*.csv", "any depth")] {
        let refused = pack(dir.path(), pattern, "refused", &[]);
        assert!(refused.code() == CONFIG && refused.said.contains(why), "{refused:?}");
    }
}

/// Documents and indexes of shards are not samples beside them.
#[test]
fn documents_beside_shards_are_not_samples() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.csv"), "x\n1\n2\n").unwrap();
    for to in ["tfrecord", "webdataset"] {
        let (out, input) = (dir.path().join(format!("{to}-out")), dir.path().join(to));
        packhorse(&["pack", text(&dir.path().join("a.csv")), "--to", to, "--out", text(&out)]).succeed();
        fs::create_dir(&input).unwrap();
        for entry in fs::read_dir(&out).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("shard-") && !name.ends_with(".receipt.json") {
                fs::copy(entry.path(), input.join(name)).unwrap();
            }
        }
        if to == "tfrecord" {
            fs::write(input.join("shard-000000.index"), "0 10\n").unwrap();
        }
        assert!(fs::read_dir(&input).unwrap().count() > 1, "{to} has nothing beside its shard");
        assert_eq!(samples(&pack(dir.path(), to, &format!("{to}-again"), &[])), 2, "{to}");
    }
}

/// The tables beside the shards of img2dataset: their rows are samples too, which is told.
#[test]
fn tables_beside_files_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir(&input).unwrap();
    fs::write(input.join("a.jpg"), "x").unwrap();
    assert!(!pack(dir.path(), "in", "files", &[]).said.contains("rows of"));
    packhorse(&["pack", text(&input), "--to", "parquet", "--out", text(&dir.path().join("table"))]).run();
    fs::copy(dir.path().join("table/shard-000000.parquet"), input.join("side.parquet")).unwrap();
    let both = pack(dir.path(), "in", "both", &[]);
    assert!(both.said.contains("side.parquet are samples beside those of files"), "{both:?}");
    assert_eq!(samples(&pack(dir.path(), "in", "out", &["--exclude", "*.parquet"])), 1);
}

/// Shards of others number their samples from 0 in each archive, and class folders are packed as one tar for each.
#[test]
fn archives_that_use_the_same_keys_are_folders_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir_all(input.join("more")).unwrap();
    fs::write(input.join("cat.tar"), tar(3)).unwrap();
    fs::write(input.join("more/dog.v2.tar.gz"), gzip(&tar(2))).unwrap();
    let refused = pack(dir.path(), "in", "refused", &[]);
    assert_eq!(refused.code(), CONTENT, "{refused:?}");
    assert!(refused.said.contains("--archive-folders"), "{refused:?}");

    let asked = ["--archive-folders", "--labels", "folders", "--samples-per-shard", "2"];
    assert_eq!(samples(&pack(dir.path(), "in", "packed", &asked)), 5);
    let manifest = fs::read_to_string(dir.path().join("packed/dataset.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["classes"], serde_json::json!(["cat", "more"]));
    let keys = |shard: &str| {
        let listed = packhorse(&["ls", text(&dir.path().join(shard))]).run();
        listed.printed.lines().filter(|name| name.ends_with(".bin")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(keys("packed/shard-000000.tar"), ["cat/0000.bin", "cat/0001.bin"]);
    let dogs = format!("{:?}", keys("packed/shard-000001.tar"));
    assert!(dogs.contains("more/dog") && dogs.contains("v2/0000.bin"), "{dogs}");

    // In parts it is the same, and samples that are added have keys of the same form.
    let out = dir.path().join("parts");
    for part in ["1/2", "2/2"] {
        let scan = ["scan", text(&input), "--to", "webdataset", "--part", part, "--out", text(&out)];
        let ended = packhorse(&[&scan[..], &asked].concat()).run();
        assert_eq!(ended.code(), 0, "{ended:?}");
    }
    let plan = ["plan", text(&input), "--to", "webdataset", "--out", text(&out), "--from-listings"];
    let ended = packhorse(&[&plan[..], &asked].concat()).run();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(samples(&pack(dir.path(), "in", "parts", &asked)), 5);
    for shard in ["shard-000000.tar", "shard-000001.tar", "shard-000002.tar"] {
        assert_eq!(fs::read(dir.path().join("packed").join(shard)).unwrap(), fs::read(out.join(shard)).unwrap());
    }
    fs::write(dir.path().join("cat2.tar"), tar(1)).unwrap();
    let added = packhorse(&["append", text(&out), text(&dir.path().join("cat2.tar")), "--labels", "folders"]).run();
    assert_eq!(added.code(), CONTENT, "the class list has no cat2: {added:?}");
    let alone = [&asked[..1], &["--samples-per-shard", "2"]].concat();
    assert_eq!(samples(&pack(dir.path(), "in", "alone", &alone)), 5);
    let alone = dir.path().join("alone");
    let added = packhorse(&["append", text(&alone), text(&dir.path().join("cat2.tar"))]).run();
    assert_eq!(added.code(), 0, "{added:?}");
    assert_eq!(keys("alone/shard-000003.tar"), ["cat2/0000.bin"]);
}

/// A download from Hugging Face has a card beside its tables.
#[test]
fn the_card_of_a_dataset_is_not_a_sample_of_its_tables() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir_all(input.join("data")).unwrap();
    fs::write(input.join("README.md"), "# A dataset").unwrap();
    fs::write(input.join("data/train.jsonl"), "{\"text\": \"a\"}\n{\"text\": \"b\"}\n").unwrap();
    for (out, more) in [("out", &[][..]), ("table", &["--from", "jsonl"])] {
        let packed = pack(dir.path(), "in", out, more);
        assert_eq!(samples(&packed), 2);
        assert!(packed.said.contains("README.md, which is about the data"), "{packed:?}");
    }
    // TensorFlow Datasets lists classes so. Beside pictures it may be text.
    fs::create_dir(dir.path().join("pictures")).unwrap();
    fs::write(dir.path().join("pictures/a.jpg"), "a").unwrap();
    for folder in ["in", "pictures"] {
        fs::write(dir.path().join(folder).join("label.labels.txt"), "cat\ndog\n").unwrap();
        assert_eq!(samples(&pack(dir.path(), folder, &format!("{folder}-classes"), &[])), 2);
    }
    fs::remove_file(input.join("label.labels.txt")).unwrap();
    // Where it is named, or others lie beside it, it is a sample.
    let (input, card, out) = (text(&input), text(&input.join("README.md")).to_owned(), dir.path().join("named"));
    let exclude = ["--exclude", "README.md"];
    let named = packhorse(&["pack", &card, "--to", "webdataset", "--out", text(&out), "--json"]).run();
    assert_eq!(samples(&named), 1);
    let mut beside =
        packhorse(&["pack", "./in/README.md", "in/data", "--to", "webdataset", "--out", "beside", "--json"]);
    beside.0.current_dir(dir.path());
    assert_eq!(samples(&beside.run()), 3);
    assert_eq!(samples(&pack(dir.path(), "in", "without", &exclude)), 2);
    fs::write(Path::new(input).join("notes.md"), "one more").unwrap();
    assert_eq!(samples(&pack(dir.path(), "in", "more", &[])), 4);
}

/// The same beside tars, pictures and arrays. Beside text it may be a document.
#[test]
fn the_card_of_a_dataset_is_not_a_sample_of_its_pictures() {
    let dir = tempfile::tempdir().unwrap();
    for (name, count) in [
        ("tars/a.tar", 2),
        ("pictures/cat/a.jpg", 1),
        ("arrays/a.npy", 1),
        ("sounds/a.opus", 1),
        ("films/a.mp4", 1),
        ("text/a.txt", 2),
    ] {
        let (folder, file) = (name.split('/').next().unwrap(), dir.path().join(name));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        match folder {
            "tars" => fs::write(&file, tar(2)).unwrap(),
            _ => fs::write(&file, "a").unwrap(),
        }
        fs::write(dir.path().join(folder).join("ReadMe.md"), "# A dataset").unwrap();
        let packed = pack(dir.path(), folder, &format!("packed-{folder}"), &[]);
        assert_eq!(samples(&packed), count, "{packed:?}");
        assert_eq!(packed.said.contains("ReadMe.md, which is about the data"), folder != "text", "{packed:?}");
    }
}

/// A file and its decompressed copy: the rows are there twice.
#[test]
fn tables_of_one_name_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir_all(input.join("b")).unwrap();
    let line = b"{\"text\": \"a\"}\n";
    fs::write(input.join("a.jsonl.gz"), gzip(line)).unwrap();
    ["a.jsonl", "b/a.jsonl", "aa.jsonl"].into_iter().for_each(|name| fs::write(input.join(name), line).unwrap());
    let to = ["--to", "parquet"];
    // Both would have the key a/000000000000.
    let refused = pack(dir.path(), "in", "out", &to);
    assert!(refused.code() == CONTENT && refused.said.contains("in/a.jsonl; rename one of the two"), "{refused:?}");
    assert!(refused.said.contains("or pack each into a dataset of its own"), "{refused:?}");
    // Ids may differ.
    let ids = pack(dir.path(), "in", "ids", &[&to[..], &["--from", "text", "--read", "id-field=text"]].concat());
    assert_eq!(samples(&ids), 4);
    let packed = pack(dir.path(), "in", "out", &[&to[..], &["--id-field", "text"]].concat());
    assert_eq!(samples(&packed), 4);
    assert!(packed.said.contains("a.jsonl and a.jsonl.gz are both packed; if they hold the same rows"), "{packed:?}");
    let without = pack(dir.path(), "in", "without", &[&to[..], &["--exclude", "a.jsonl.gz"]].concat());
    assert!(!without.said.contains("are both packed"), "{without:?}");
    // Those of several datasets have the names of shards.
    let [one, other, all] = ["out", "without", "all"].map(|name| dir.path().join(name));
    let both = packhorse(&["pack", text(&one), text(&other), "--to", "parquet", "--out", text(&all)]).run();
    assert!(both.code() == 0 && !both.said.contains("are both packed"), "{both:?}");
}

/// Parallel text: the lines of both files would have the same keys.
#[test]
fn documents_of_files_of_one_stem_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["in/train.en", "in/train.de", "apart/en/train.txt", "apart/de/train.txt", "rows/a.csv", "rows/a.jsonl"]
    {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, if name.ends_with("csv") { "text\nx\n" } else { "{\"text\": \"x\"}\n" }).unwrap();
    }
    let lines = ["--from", "text", "--document", "line", "--to", "parquet"];
    let refused = pack(dir.path(), "in", "out", &lines);
    assert!(
        refused.code() == CONTENT && refused.said.contains("in/train.en: its samples would have the keys"),
        "{refused:?}"
    );
    let skipped = pack(dir.path(), "in", "skipped", &[&lines[..], &["--on-error", "skip"]].concat());
    assert_eq!(samples(&skipped), 1);
    assert_eq!(samples(&pack(dir.path(), "apart", "out", &lines)), 2);
    let whole = ["--key-ends", "whole:text", "--to", "parquet"];
    assert_eq!(samples(&pack(dir.path(), "in", "whole", &whole)), 2);
    // Rows have numbers of nine digits.
    assert_eq!(samples(&pack(dir.path(), "rows", "rows-out", &["--to", "parquet"])), 2);
}

#[test]
fn errors_name_the_file_of_a_sample_that_they_are_about() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir(&input).unwrap();
    ["a.cls", "a.json"].into_iter().for_each(|name| fs::write(input.join(name), "5").unwrap());
    let film = fs::File::create(input.join("a.mp4")).unwrap();
    let table = dir.path().join("t.csv");
    fs::write(&table, "f\na.mp4\n").unwrap();
    let refused = pack(dir.path(), "in", "no", &["--metadata", text(&table), "--key", "f"]);
    assert!(refused.said.contains("in/a.json: sample a: has a field json of its own"), "{refused:?}");
    film.set_len(17 << 20).unwrap();
    let refused = pack(dir.path(), "in", "no", &["--to", "parquet", "--memory", "16MiB"]);
    assert!(refused.said.contains("in/a.mp4: sample a: has 17825794 bytes that must be in memory"), "{refused:?}");
    film.set_len(1_000_000_001).unwrap();
    let refused = pack(dir.path(), "in", "no", &["--to", "parquet"]);
    assert!(refused.said.contains("in/a.mp4: ") && refused.said.contains("field mp4 has"), "{refused:?}");
}

/// Folders of years, whose files have the same names.
#[test]
fn inputs_that_hold_files_of_one_path_are_packed_by_the_folder_around_them() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["all/2019/1.csv", "all/2020/1.csv", "more/2021/1.jpg", "more/2022/1.jpg"] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x\n1\n").unwrap();
    }
    let at = |name: &str| dir.path().join(name);
    let refused = pack(dir.path(), "all/2019", "no", &[text(&at("all/2020")), "--from", "csv"]);
    let hint = format!("or give the folder that holds both as the input ({}), so that", text(&at("all")));
    assert!(refused.code() == CONTENT && refused.said.contains(&hint), "{refused:?}");
    let refused = pack(dir.path(), "more/2021", "no", &[text(&at("more/2022"))]);
    assert!(refused.code() == CONTENT && refused.said.contains("--key-ends field-folders"), "{refused:?}");
    assert!(refused.said.contains("or give the folder that holds both as the input"), "{refused:?}");
    assert_eq!(samples(&pack(dir.path(), "all", "out", &["--from", "csv", "--to", "parquet"])), 2);
    assert_eq!(samples(&pack(dir.path(), "more", "more-out", &[])), 2);
    // Archives of one name.
    for name in ["a", "b"] {
        fs::create_dir_all(dir.path().join("tars").join(name)).unwrap();
        fs::write(dir.path().join("tars").join(name).join("0.tar"), tar(2)).unwrap();
    }
    for flags in [&["--archive-folders"][..], &[]] {
        let refused = pack(dir.path(), "tars/a", "no", &[&[text(&at("tars/b"))], flags].concat());
        let hint = "give the folder that holds both archives as the input and pass --archive-folders";
        assert!(refused.code() == CONTENT && refused.said.contains(hint), "{refused:?}");
    }
    assert_eq!(samples(&pack(dir.path(), "tars", "tars-out", &["--archive-folders"])), 4);
}

/// The values of all samples, a line each, as `head` shows them; at least one.
fn rows(dir: &Path, out: &str) -> Vec<String> {
    let shown = packhorse(&["head", text(&dir.join(out)), "-n", "100000"]).run();
    assert_eq!(shown.code(), 0, "{shown:?}");
    let lines = shown.printed.lines().map(|line| line.trim().to_owned());
    let rows: Vec<String> = lines.filter(|line| line.contains(": ")).collect();
    assert!(!rows.is_empty(), "{shown:?}");
    rows
}

/// Each setting of the first packing holds, also where an append gives another one of the same format.
#[test]
fn an_append_keeps_the_settings_that_it_does_not_give() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, out] = ["a.csv", "b.csv", "out"].map(|name| dir.path().join(name));
    fs::write(&a, "x,y\n1,-1\n2,5\n").unwrap();
    fs::write(&b, "x,y\n3,-1\n4,6\n").unwrap();
    let first = ["pack", text(&a), "--from", "csv", "--read", "null=-1", "--to", "parquet", "--out", text(&out)];
    assert_eq!(packhorse(&first).run().code(), 0);
    let more = packhorse(&["append", text(&out), text(&b), "--schema", "x:int64"]).run();
    assert_eq!(more.code(), 0, "{more:?}");
    let nulls = rows(dir.path(), "out").iter().filter(|row| row.contains("-1")).count();
    assert_eq!(nulls, 0);
}

#[test]
fn a_column_whose_values_may_be_missing_may_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, out] = ["a.csv", "b.csv", "out"].map(|name| dir.path().join(name));
    fs::write(&a, "x,y\n1,2\n").unwrap();
    fs::write(&b, "x\n3\n").unwrap();
    let pack = |files: &[&Path], more: &[&str]| {
        let files: Vec<&str> = files.iter().map(|file| text(file)).collect();
        packhorse(&[&["pack"], &files[..], &["--to", "parquet", "--out", text(&out), "--replace"], more].concat()).run()
    };
    let both = pack(&[&a, &b], &["--schema", "y:int64?", "--fill-missing"]);
    assert_eq!(both.code(), 0, "{both:?}");
    assert_eq!(pack(&[&a], &["--schema", "y:int64?"]).code(), 0);
    let more = packhorse(&["append", text(&out), text(&b), "--fill-missing"]).run();
    assert_eq!(more.code(), 0, "{more:?}");
    let needed = pack(&[&b], &["--schema", "y:int64"]);
    assert!(needed.code() != 0 && needed.said.contains("unknown column y"), "{needed:?}");
}

/// A stream has no other way in than its start, so what follows a fault is lost, and nothing before it.
#[test]
fn rows_of_a_stream_before_its_first_fault_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    for (name, more) in
        [("t.csv.gz", &["--schema", "x:int64"][..]), ("t.jsonl.gz", &["--from", "jsonl", "--schema", "x:int64"])]
    {
        let mut table = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let csv = name.starts_with("t.csv");
        if csv {
            writeln!(table, "x").unwrap();
        }
        for number in 0..20_000 {
            match (csv, number == 5000) {
                (true, true) => writeln!(table, "zz").unwrap(),
                (true, false) => writeln!(table, "{number}").unwrap(),
                (false, true) => writeln!(table, "{{\"x\": \"zz\"}}").unwrap(),
                (false, false) => writeln!(table, "{{\"x\": {number}}}").unwrap(),
            }
        }
        fs::write(dir.path().join(name), table.finish().unwrap()).unwrap();
        let out = format!("out-{csv}");
        let ended = pack(dir.path(), name, &out, &[more, &["--on-error", "skip"]].concat());
        assert_eq!(samples(&ended), 5000, "{name}");
        let lost = skipped(dir.path(), &out).iter().filter_map(|skip| skip["samples"].as_u64()).sum::<u64>();
        assert_eq!(lost, 15_000, "{name}");
    }
}

#[test]
fn broken_links_are_told_as_such_and_can_be_excluded() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    fs::create_dir(&photos).unwrap();
    fs::write(photos.join("a.jpg"), "x").unwrap();
    std::os::unix::fs::symlink("/nowhere/font", photos.join("font.ttf")).unwrap();
    let refused = pack(dir.path(), "photos", "a", &[]);
    assert_eq!(refused.code(), CONTENT, "{refused:?}");
    assert!(refused.said.contains("a symbolic link to a missing file") && refused.said.contains("--symlinks skip"));
    for (at, flags) in [["--exclude", "*.ttf"], ["--include", "*.jpg"], ["--symlinks", "skip"]].iter().enumerate() {
        assert_eq!(samples(&pack(dir.path(), "photos", &format!("b{at}"), flags)), 1, "{flags:?}");
    }
}

/// More compressed tars than are kept open at first, taken round and round.
#[test]
fn many_compressed_tars_are_packed_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let tars = dir.path().join("tars");
    fs::create_dir(&tars).unwrap();
    for number in 0..40 {
        let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for sample in 0..10 {
            let mut header = tar::Header::new_ustar();
            header.set_size(4);
            header.set_mode(0o644);
            header.set_cksum();
            let name = format!("{number:02}-{sample}.txt");
            builder.append_data(&mut header, name, format!("{:04}", number * 10 + sample).as_bytes()).unwrap();
        }
        fs::write(tars.join(format!("{number}.tar.gz")), builder.into_inner().unwrap().finish().unwrap()).unwrap();
    }
    for (at, flags) in
        [&["--shuffle", "3"][..], &["--shuffle", "3", "--samples-per-shard", "7", "-j", "8"]].iter().enumerate()
    {
        let out = format!("out{at}");
        let ended = pack(dir.path(), "tars", &out, flags);
        assert_eq!(samples(&ended), 400);
        assert!(!ended.said.contains("decompressed several times"), "{ended:?}");
        let mut values: Vec<String> =
            rows(dir.path(), &out).iter().map(|row| row.rsplit(' ').next().unwrap().to_owned()).collect();
        values.sort();
        assert!(values.len() == 400 && values.windows(2).all(|two| two[0] != two[1]), "{}", values.len());
    }
}

#[test]
fn a_watch_of_an_appended_dataset_counts_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, out] = ["a.csv", "b.csv", "out"].map(|name| dir.path().join(name));
    fs::write(&a, "x\n1\n2\n3\n").unwrap();
    fs::write(&b, "x\n4\n").unwrap();
    assert_eq!(packhorse(&["pack", text(&a), "--to", "parquet", "--out", text(&out)]).run().code(), 0);
    assert_eq!(packhorse(&["append", text(&out), text(&b)]).run().code(), 0);
    let watched = packhorse(&["status", text(&out), "--watch=1"]).run();
    assert!(watched.code() == 0 && watched.printed.contains("2/2 shards, 4 of 4 samples"), "{watched:?}");
    // Of documents no plan knows how many there are.
    let [a, b, out] = ["a.jsonl", "b.jsonl", "documents"].map(|name| dir.path().join(name));
    fs::write(&a, "{\"text\": \"1\"}\n{\"text\": \"2\"}\n").unwrap();
    fs::write(&b, "{\"text\": \"3\"}\n").unwrap();
    assert_eq!(packhorse(&["pack", text(&a), "--to", "parquet", "--out", text(&out)]).run().code(), 0);
    assert_eq!(packhorse(&["append", text(&out), text(&b)]).run().code(), 0);
    let watched = packhorse(&["status", text(&out), "--watch=1"]).run();
    assert!(watched.code() == 0 && watched.printed.contains("2/2 shards, 3 samples"), "{watched:?}");
}

/// As `*/data.csv` names them.
#[test]
fn tables_of_one_name_in_several_folders_have_the_folders_in_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    for year in ["2024", "2025"] {
        fs::create_dir(dir.path().join(year)).unwrap();
        fs::write(dir.path().join(year).join("data.csv"), format!("x\n{year}\n")).unwrap();
    }
    let pack = |inputs: &[&str], out: &str| {
        let mut pack = packhorse(&[&["pack"], inputs, &["--to", "parquet", "--out", out]].concat());
        pack.0.current_dir(dir.path());
        pack.run()
    };
    let absolute: Vec<String> =
        ["2024", "2025"].map(|year| dir.path().join(year).join("data.csv").display().to_string()).to_vec();
    let relative = ["2024/data.csv", "2025/data.csv"];
    for (out, inputs) in [("a", relative), ("b", [&*absolute[0], &*absolute[1]])] {
        let ended = pack(&inputs, out);
        assert_eq!(ended.code(), 0, "{ended:?}");
        let shown = packhorse(&["head", text(&dir.path().join(out))]).run().printed;
        assert!(shown.contains("2024/data/000000000\n  x: 2024") && shown.contains("2025/data/000000000"), "{shown}");
    }
    // One name in one folder is still a fault.
    fs::write(dir.path().join("2024/data.tsv"), "x\n1\n").unwrap();
    let ended = pack(&["2024/data.csv", "2024/data.tsv"], "c");
    assert!(ended.code() == CONTENT && ended.said.contains("would have the keys"), "{ended:?}");
}

#[test]
fn containers_that_are_named_twice_are_packed_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("t.jsonl"), "{\"text\": \"a\", \"id\": \"x\"}\n{\"text\": \"b\", \"id\": \"y\"}\n")
        .unwrap();
    let mut members = tar::Builder::new(Vec::new());
    for name in ["1.jpg", "1.txt", "2.jpg", "2.txt"] {
        let mut header = tar::Header::new_ustar();
        header.set_size(1);
        header.set_mode(0o644);
        members.append_data(&mut header, name, &b"x"[..]).unwrap();
    }
    fs::write(dir.path().join("two.tar"), members.into_inner().unwrap()).unwrap();
    let listed = |file: &str| fs::write(dir.path().join("list"), format!("{file}\n{file}\n")).unwrap();
    let by_list = ["--files-from", "list"];
    for (number, (file, to)) in [("t.jsonl", "parquet"), ("two.tar", "webdataset")].into_iter().enumerate() {
        listed(file);
        let pattern = format!("{}*", &file[..2]);
        let around = [file, &format!("./{file}")];
        for (at, inputs) in [&around[..], &[&pattern, file], &by_list].into_iter().enumerate() {
            let out = format!("out-{number}-{at}");
            let pack = |more: &[&str]| {
                let mut pack =
                    packhorse(&[&["pack"], inputs, &["--to", to, "--out", &out, "--json", "--quiet"], more].concat());
                pack.0.current_dir(dir.path());
                pack.run()
            };
            let refused = pack(&[]);
            let said = format!("{file}: is among the inputs twice; give it once");
            assert!(refused.code() == CONTENT && refused.said.contains(&said), "{refused:?}");
            assert_eq!(samples(&pack(&["--on-error", "skip"])), 2, "{inputs:?}");
            assert_eq!(skipped(dir.path(), &out).len(), 1);
        }
    }
}

#[test]
fn hidden_containers_that_are_named_are_not_passed_over_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join(".v1")).unwrap();
    for (name, bytes) in
        [(".b.csv", &b"x\n1\n"[..]), (".v1/data.csv", b"x\n1\n"), ("a.csv", b"x\n1\n"), (".c.tar", &tar(2))]
    {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    fs::write(dir.path().join("list"), ".v1/data.csv\na.csv\n").unwrap();
    let pack = |words: &[&str]| {
        let mut pack = packhorse(&[&["pack"], words, &["--json", "--quiet"]].concat());
        pack.0.current_dir(dir.path());
        pack.run()
    };
    let archives = ["--to", "webdataset", "--out", "archives", ".c.tar"];
    for (words, hidden) in [
        (&["a.csv", ".b.csv", "--to", "parquet", "--out", "two"][..], ".b.csv"),
        (&["--files-from", "list", "--to", "parquet", "--out", "listed"], ".v1/data.csv"),
        (&[&archives[..], &["--archive-folders"]].concat(), ".c.tar"),
    ] {
        let refused = pack(words);
        let said = format!("{hidden}: is hidden");
        assert!(refused.code() == CONTENT && refused.said.contains(&said), "{refused:?}");
    }
    // The name of an archive is not in the keys of its samples.
    assert_eq!(samples(&pack(&archives)), 2);
}

/// Content is compared within the memory of the job, also that of files which are packed in pieces.
#[test]
fn large_files_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir(&input).unwrap();
    let mut bytes = vec![7u8; 70 << 20];
    for name in ["a", "b", "c"] {
        // The last byte tells one of them from the others.
        *bytes.last_mut().unwrap() = u8::from(name == "b");
        fs::write(input.join(format!("{name}.mp4")), &bytes).unwrap();
    }
    let packed = pack(dir.path(), "in", "out", &["--dedup", "--memory", "256MiB"]);
    assert_eq!(samples(&packed), 2, "{packed:?}");
    let lost = skipped(dir.path(), "out");
    assert!(lost.len() == 1 && lost[0]["sample"] == "c", "{lost:?}");
}

/// Blocks of documents stay together, also where splits choose documents one by one.
#[test]
fn blocks_of_documents_stay_together_in_splits() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..600).map(|n| format!("{{\"text\": \"{n}\"}}\n")).collect();
    fs::write(dir.path().join("t.jsonl"), lines).unwrap();
    let shuffled = ["--shuffle", "7,block:50", "--split", "train=0.9,val=0.1", "--from", "text"];
    let packed = pack(dir.path(), "t.jsonl", "out", &[&shuffled[..], &["--split-by", "hash"]].concat());
    assert_eq!(samples(&packed), 600);
    let train = dir.path().join("out/train-000000.tar");
    let mut archive = tar::Archive::new(fs::File::open(train).unwrap());
    let numbers: Vec<i64> = archive
        .entries()
        .unwrap()
        .map(|entry| std::io::read_to_string(entry.unwrap()).unwrap().parse().unwrap())
        .collect();
    let ascents = numbers.windows(2).filter(|pair| pair[1] > pair[0] && pair[1] - pair[0] < 10).count();
    assert!(numbers.len() > 450 && ascents + 13 > numbers.len() && !numbers.is_sorted(), "{numbers:?}");
}

/// Chunks without the hidden files that describe them can't be decoded.
#[test]
fn zarr_stores_are_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    for (store, document) in [("two.zarr", ".zarray"), ("three.zarr", "zarr.json")] {
        let store = dir.path().join("in").join(store);
        fs::create_dir_all(&store).unwrap();
        fs::write(store.join(document), "{}").unwrap();
        fs::write(store.join("0.0"), "chunk").unwrap();
    }
    fs::write(dir.path().join("in/a.jpg"), "x").unwrap();
    let refused = pack(dir.path(), "in", "out", &[]);
    assert_eq!(refused.code(), CONTENT, "{refused:?}");
    assert!(refused.said.contains(".zarr: is a Zarr store") && refused.said.contains("--exclude"), "{refused:?}");
    assert_eq!(samples(&pack(dir.path(), "in", "out", &["--on-error", "skip"])), 1);
    assert_eq!(skipped(dir.path(), "out").len(), 2);
    assert_eq!(samples(&pack(dir.path(), "in", "pictures", &["--include", "*.jpg"])), 1);
    assert_eq!(samples(&pack(dir.path(), "in", "as-it-is", &["--from", "files"])), 4);
}

/// A table that is one sample, such as a recording.
#[test]
fn tables_and_archives_may_be_files() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir(&input).unwrap();
    for (name, bytes) in
        [("a.h5", &b"not HDF5"[..]), ("b.h5", &tar(2)), ("c.tar", &tar(3)), ("d.idx", b"1:0"), ("d.bin", b"2")]
    {
        fs::write(input.join(name), bytes).unwrap();
    }
    for to in ["webdataset", "parquet"] {
        let out = dir.path().join(to);
        let more = ["--from", "files", "--json"];
        let packed = packhorse(&[&["pack", text(&input), "--to", to, "--out", text(&out)], &more[..]].concat()).run();
        assert_eq!(samples(&packed), 4);
        let listed = packhorse(&["ls", text(&out), "--json"]).run();
        for field in ["h5", "tar", "idx", "bin"] {
            assert!(listed.printed.contains(&format!("\"{field}\"")), "{listed:?}");
        }
    }
    let one = pack(dir.path(), "in/d.bin", "one", &["--from", "files"]);
    assert_eq!(samples(&one), 1);
    let read = fs::read(dir.path().join("one/shard-000000.tar")).unwrap();
    assert!(read.starts_with(b"d.bin"));
    let refused = pack(dir.path(), "in", "none", &["--from", "files", "--read", "text=bytes"]);
    assert_eq!(refused.code(), CONFIG, "{refused:?}");
    let refused = pack(dir.path(), "parquet", "none", &["--from", "files"]);
    assert!(refused.code() == CONFIG && refused.said.contains("is a dataset"), "{refused:?}");
}

#[test]
fn datasets_of_hdf5_are_left_out_behind_an_exclamation_mark() {
    let dir = tempfile::tempdir().unwrap();
    let [table, made] = ["t.csv", "made"].map(|name| dir.path().join(name));
    fs::write(&table, "a,b,c\n1,2,3\n4,5,6\n").unwrap();
    assert_eq!(packhorse(&["pack", text(&table), "--to", "hdf5", "--out", text(&made)]).run().code(), 0);
    let fields = |datasets: &str| {
        let out = dir.path().join("out");
        let options = ["--datasets", datasets, "--to", "parquet", "--replace", "--out", text(&out)];
        let ended = packhorse(&[&["pack", text(&made.join("shard-000000.h5"))], &options[..]].concat()).run();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let listed = packhorse(&["ls", text(&out), "--json"]).run().printed;
        ["\"a\"", "\"b\"", "\"c\""].into_iter().filter(|field| listed.contains(field)).collect::<Vec<_>>()
    };
    assert_eq!(fields("*,!/data/a"), ["\"b\"", "\"c\""]);
    assert_eq!(fields("!/data/a,!/data/c,!/more/*"), ["\"b\""]);
    assert_eq!(fields("/data/b,/data/c,!*/c"), ["\"b\""]);
    let out = dir.path().join("none");
    let options = ["--datasets", "/data/x", "--to", "parquet", "--out", text(&out)];
    let none = packhorse(&[&["pack", text(&made)], &options[..]].concat()).run();
    assert!(none.code() == CONFIG && none.said.contains("there are /data/__key__, /data/a, /data/b"), "{none:?}");
}

/// A file whose groups have datasets of different lengths, as h5py wrote it, twice.
#[test]
fn groups_of_hdf5_are_samples() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("formats/hdf5/tests/data/groups.h5");
    for name in ["in/a.h5", "in/b.h5"] {
        fs::copy(&file, dir.path().join(name)).unwrap();
    }
    let rows = pack(dir.path(), "in", "rows", &[]);
    assert!(rows.code() != 0 && rows.said.contains("pack with --groups '/data/*'"), "{rows:?}");
    let alike = pack(dir.path(), "in/a.h5", "alike", &["--datasets", "/data/demo_0/goal,/data/demo_1/goal"]);
    assert!(alike.said.contains("the groups data/demo_0 and data/demo_1"), "{alike:?}");
    // What looks into a file takes the options of its reader by one flag, and names it so.
    let a = dir.path().join("in/a.h5");
    let look = |more: &[&str]| packhorse(&[&["head", text(&a), "-n", "1"], more].concat()).run();
    let told = look(&[]);
    assert!(told.code() == CONTENT && told.said.contains("--read 'groups=/data/*'"), "{told:?}");
    let seen = look(&["--read", "groups=/data/*"]);
    assert!(seen.code() == 0 && seen.printed.contains("path: data/demo_0"), "{seen:?}");
    let columns = packhorse(&["stat", text(&a), "--read", "datasets=/data/demo_0/goal", "--json"]).run();
    assert!(columns.printed.contains("data.demo_0.goal"), "{columns:?}");
    assert_eq!(look(&["--read", "groups"]).code(), CONFIG);
    let both = pack(dir.path(), "in", "both", &["--groups", "/data/*"]);
    assert_eq!((both.code(), samples(&both)), (0, 24), "{both:?}");
    assert!(!both.said.contains("have datasets of the same names"), "{both:?}");
    let shown = packhorse(&["head", text(&dir.path().join("both")), "-n", "40"]).run().printed;
    for line in ["a/000000002", "b/000000011", "path.txt: data/demo_10", "task.txt: task 10", "note.txt: note 9"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let named = pack(dir.path(), "in/a.h5", "named", &["--groups", "/data/*,!*/demo_?", "--id-field", "path"]);
    assert_eq!(samples(&named), 2, "{named:?}");
    let shown = packhorse(&["head", text(&dir.path().join("named"))]).run().printed;
    assert!(shown.starts_with("data/demo_10\n") && !shown.contains("path.txt"), "{shown}");
    assert!(named.said.contains("env, seed (attributes, which --attributes '*' makes fields)"), "{named:?}");
    let attributes = ["--groups", "/data/*", "--attributes", "env", "--id-field", "path"];
    let chosen = pack(dir.path(), "in/a.h5", "chosen", &attributes);
    assert!(chosen.code() == 0 && !chosen.said.contains("attributes"), "{chosen:?}");
    let shown = packhorse(&["head", text(&dir.path().join("chosen")), "-n", "40"]).run().printed;
    assert!(shown.contains("data/demo_8\n") && shown.contains("env.txt: env 2") && !shown.contains("seed"), "{shown}");
    let whole = pack(dir.path(), "in", "whole", &["--groups", "/", "--datasets", "*/demo_1/*"]);
    assert_eq!((whole.code(), samples(&whole)), (0, 2), "{whole:?}");
    fs::write(dir.path().join("in/t.csv"), "x\n1\n").unwrap();
    let idle = pack(dir.path(), "in/t.csv", "idle", &["--groups", "/"]);
    assert!(idle.code() == CONFIG && idle.said.contains("--groups"), "{idle:?}");
}

/// Arrays whose rows belong together, in a file each, and settings that have no effect on rows.
#[test]
fn rows_of_arrays_beside_each_other_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir(&input).unwrap();
    let array = |name: &str, shape: &str, values: usize| {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({shape}), }}");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{header:<117}\n").into_bytes());
        bytes.resize(bytes.len() + values, 7);
        fs::write(input.join(name), bytes).unwrap();
    };
    array("part-0.npy", "3, 2", 6);
    array("part-1.npy", "3, 2", 6);
    let parts = pack(dir.path(), "in", "parts", &["--rows"]);
    assert!(samples(&parts) == 6 && !parts.said.contains("rows each"), "{parts:?}");
    array("masks.npy", "3, 2", 6);
    let told = pack(dir.path(), "in", "told", &["--rows"]);
    assert!(told.said.contains("masks.npy and part-0.npy have 3 rows each"), "{told:?}");
    let refused = pack(dir.path(), "in", "none", &["--rows", "--key-ends", "sample-folders"]);
    assert!(refused.code() == CONFIG && refused.said.contains("--key-ends has no effect"), "{refused:?}");
    array("labels.npy", "3", 3);
    let refused = pack(dir.path(), "in", "none", &["--rows"]);
    assert!(refused.code() == CONTENT && refused.said.contains("one .npz file"), "{refused:?}");
    fs::write(dir.path().join("few.tar"), tar(2)).unwrap();
    let refused = pack(dir.path(), "few.tar", "none", &["--rows"]);
    assert!(refused.code() == CONFIG && refused.said.contains("--rows has no effect"), "{refused:?}");
}

/// Lines of JSON in compressed files are as those of plain ones; compressed JSON of another name is not taken for lines in silence.
#[test]
fn compressed_lines_of_json_lose_no_field_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let lines = b"{\"text\":\"a\",\"url\":\"u\"}\n{\"text\":\"b\",\"url\":\"v\"}\n";
    let long = [b"{\"text\":\"", &[b'x'; 100_000][..], b"\",\"url\":\"u\"}\n"].concat();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let inputs = [
        ("a.jsonl", lines.to_vec()),
        ("b.jsonl.zst", zstd(lines)),
        ("c.jsonl", long.clone()),
        ("d.jsonl.zst", zstd(&long)),
    ];
    for (name, bytes) in inputs {
        fs::write(dir.path().join(name), bytes).unwrap();
        let told = pack(dir.path(), name, &format!("out-{name}"), &[]);
        assert!(
            told.code() == 0 && told.said.contains("and not url; --from jsonl makes a field of each"),
            "{name}: {told:?}"
        );
    }
    fs::create_dir(dir.path().join("c4")).unwrap();
    for number in 0..2 {
        fs::write(dir.path().join(format!("c4/c4-train.{number:05}-of-01024.json.zst")), zstd(lines)).unwrap();
    }
    let told = pack(dir.path(), "c4", "out-c4", &[]);
    assert!(
        told.code() == 0 && told.said.contains("if it holds JSON lines, --from jsonl makes a sample of each"),
        "{told:?}"
    );
    let rows = pack(dir.path(), "c4", "out-rows", &["--from", "jsonl"]);
    assert_eq!((rows.code(), samples(&rows)), (0, 4), "{rows:?}");
}

/// Keys from a column of strings and numbers are the texts of both.
#[test]
fn keys_of_mixed_types_have_no_quotes() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("a.jsonl"),
        "{\"id\":\"0003\",\"x\":1}\n{\"id\":7,\"x\":2}\n{\"id\":\"a\\u0062\",\"x\":3}\n",
    )
    .unwrap();
    let packed = pack(dir.path(), "a.jsonl", "out", &["--from", "jsonl", "--id-field", "id"]);
    assert_eq!((packed.code(), samples(&packed)), (0, 3), "{packed:?}");
    let shown = packhorse(&["head", text(&dir.path().join("out"))]).run().printed;
    let keys: Vec<&str> = shown.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(keys, ["0003", "7", "ab"]);
}
