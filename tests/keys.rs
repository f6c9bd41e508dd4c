//! Rows into WebDataset: every row is a sample that readers find by its key, or the command says why not.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use arrow_array::{ArrayRef, BinaryViewArray, Float32Array, StringViewArray};
use packhorse::core::{DataType, FieldType, KEY, Options, Rows, Schema};
use packhorse::dataset::{Digest, MANIFEST, Manifest, Receipt};
use packhorse_testkit::program::{self, Ran};
use packhorse_testkit::typed;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const DONE: Option<i32> = Some(0);
const CONTENT: Option<i32> = Some(3);
const DAMAGED: Option<i32> = Some(6);

fn run(args: &[&str]) -> Ran {
    program::run(Command::new(env!("CARGO_BIN_EXE_packhorse")).args(args), Duration::from_secs(120))
}

/// A table of these keys, with one blob each, or none.
fn table(file: &Path, rows: &[(&str, Option<&str>)]) {
    let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(rows.iter().map(|(key, _)| key)));
    let blobs: ArrayRef = Arc::new(BinaryViewArray::from_iter(rows.iter().map(|(_, blob)| blob.map(str::as_bytes))));
    let schema = Schema::new(vec![FieldType::Text.field(KEY, false), FieldType::Blob.field("txt", true)]);
    let rows = Rows::try_new(Arc::new(schema), vec![keys, blobs]).unwrap();
    let sink = packhorse::registry().get("arrow").unwrap().sink(&Options::new()).unwrap();
    let written = typed::write(&*sink, &rows, &[rows.num_rows()]);
    let (_, bytes) = written.into_iter().find(|(suffix, _)| *suffix == sink.suffix()).unwrap();
    fs::write(file, bytes).unwrap();
}

fn input(dir: &Path, tables: &[&[(&str, Option<&str>)]]) -> PathBuf {
    let input = dir.join("in");
    fs::create_dir(&input).unwrap();
    for (i, rows) in tables.iter().enumerate() {
        table(&input.join(format!("{i}.arrow")), rows);
    }
    input
}

fn pack(input: &Path, out: &Path, more: &[&str]) -> Ran {
    let fixed = ["pack", input.to_str().unwrap(), "--to", "webdataset", "--quiet", "--out", out.to_str().unwrap()];
    run(&[&fixed[..], more].concat())
}

/// The names of all members.
fn members(out: &Path) -> Vec<String> {
    let shard = out.join("shard-000000.tar");
    let listed = run(&["ls", shard.to_str().unwrap()]);
    assert_eq!(listed.code, DONE, "{}", listed.stderr);
    listed.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_row_that_no_tar_can_hold_is_refused_or_left_out_on_record() {
    for (bad, why) in [
        (("b", None), "no field that is not null"),
        (("", Some("x")), "an empty key"),
        (("/b", Some("x")), "a slash at its start"),
        (("b/", Some("x")), "a slash at its start, at its end"),
        (("b//c", Some("x")), "or after another"),
        ((".b", Some("x")), "is hidden"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let input = input(dir.path(), &[&[("a", Some("1")), bad, ("c d", Some("3"))]]);
        let ran = pack(&input, &dir.path().join("fail"), &[]);
        assert_eq!(ran.code, CONTENT, "{bad:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(why) && ran.stderr.contains("0.arrow"), "{bad:?}: {}", ran.stderr);
        let out = dir.path().join("skip");
        let ran = pack(&input, &out, &["--on-error", "skip"]);
        assert_eq!(ran.code, DONE, "{bad:?}: {}", ran.stderr);
        assert_eq!(members(&out), ["a.txt", "c%20d.txt"], "{bad:?}");
        let skipped = fs::read_to_string(out.join("skipped.jsonl")).unwrap();
        assert!(skipped.lines().count() == 1 && skipped.contains(why), "{skipped}");
    }
}

#[test]
fn keys_that_come_twice_are_refused_in_one_shard_and_over_shards_and_inputs() {
    let some = Some("x");
    type Table = [(&'static str, Option<&'static str>)];
    let tables: [(&str, &[&Table]); 4] = [
        ("a", &[&[("a", some), ("a", some)]]),
        ("a", &[&[("a", some), ("b", some), ("c", some), ("a", some)]]),
        ("a", &[&[("a", some), ("b", some)], &[("c", some), ("a", some)]]),
        ("c%20d", &[&[("c d", some), ("b", some), ("c%20d", some)]]),
    ];
    for (key, tables) in tables {
        for samples in ["1", "100"] {
            let dir = tempfile::tempdir().unwrap();
            let input = input(dir.path(), tables);
            let out = dir.path().join("out");
            let ran = pack(&input, &out, &["--samples-per-shard", samples]);
            assert_eq!(ran.code, CONTENT, "{tables:?}: {}", ran.stderr);
            assert!(
                ran.stderr.contains(&format!("sample {key}: ")) && ran.stderr.contains("came twice"),
                "{}",
                ran.stderr
            );
            assert!(!out.join("dataset.json").exists(), "{tables:?}");
        }
    }
}

#[test]
fn verify_finds_keys_that_come_twice() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    let by_one = ["--samples-per-shard", "1"];
    // Shards of one key that were never sealed, under the manifest of shards of two.
    let good = dir.path().join("good");
    assert_eq!(pack(&input(&other, &[&[("a", Some("1")), ("b", Some("2"))]]), &good, &by_one).code, DONE);
    let out = dir.path().join("out");
    assert_eq!(pack(&input(dir.path(), &[&[("a", Some("1")), ("a", Some("2"))]]), &out, &by_one).code, CONTENT);
    let store = packhorse::storage::Local;
    let mut manifest = Manifest::read(&store, &good).unwrap().unwrap();
    for shard in &mut manifest.shards {
        let receipt = fs::read(out.join(format!("{}.receipt.json", shard.name))).unwrap();
        shard.receipt = Digest::of(&receipt);
        let data = Receipt::decode(&receipt).unwrap();
        (manifest.plan, shard.blake3) = (data.plan, data.data().unwrap().blake3);
    }
    manifest.root = manifest.root_of_shards();
    fs::write(out.join(MANIFEST), manifest.encode().unwrap()).unwrap();
    let verified = run(&["verify", out.to_str().unwrap(), "--full"]);
    assert_eq!(verified.code, DAMAGED, "{}{}", verified.stdout, verified.stderr);
    let said = [verified.stdout, verified.stderr].concat();
    assert_eq!(said.matches("is the key of two samples; the other is in shard-000000.tar").count(), 1, "{said}");
}

#[test]
fn other_keys_of_rows_are_packed_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let input = input(dir.path(), &[&[("a/b", Some("1")), ("a.b", Some("2")), ("__x", Some("3")), ("ä", Some("4"))]]);
    let out = dir.path().join("out");
    let ran = pack(&input, &out, &[]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(members(&out), ["a/b.txt", "a%2Eb.txt", "%5F_x.txt", "ä.txt"]);
    let verified = run(&["verify", out.to_str().unwrap(), "--full"]);
    assert_eq!(verified.code, DONE, "{}{}", verified.stdout, verified.stderr);
}

/// A folder of files that hold their own names.
fn files(dir: &Path, names: &[&str]) -> PathBuf {
    let input = dir.join("files");
    for name in names {
        let path = input.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    input
}

#[test]
fn keys_end_where_the_rule_says_and_the_rule_is_part_of_the_plan() {
    let dates = ["d/2024.05.01.jpg", "d/2024.05.02.jpg", "d/2024.05.02.txt"];
    let pairs = ["0001_left.png", "0001_right.png", "0002_left.png", "0002_right.png", "notes.txt"];
    for (rule, names, wanted, said) in [
        ("first-dot", &dates[..], &["d/2024.05.01.jpg", "d/2024.05.02.jpg", "d/2024.05.02.txt"][..], "d/2024 holds"),
        ("last-dot", &dates, &["d/2024%2E05%2E01.jpg", "d/2024%2E05%2E02.jpg", "d/2024%2E05%2E02.txt"], "txt"),
        (
            r"regex:^(\d+)_(.+)$",
            &pairs,
            &["0001.left.png", "0001.right.png", "0002.left.png", "0002.right.png"],
            "passed over notes.txt, which is without a key and a field by --key-ends",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (files(dir.path(), names), dir.path().join("out"));
        let ran = pack(&input, &out, &["--key-ends", rule]);
        assert_eq!(ran.code, DONE, "{rule}: {}", ran.stderr);
        assert_eq!(members(&out), wanted, "{rule}");
        assert!(ran.stderr.contains(said), "{rule}: {}", ran.stderr);
        // The bytes of each member are its file's, whatever it is called now.
        for (member, file) in wanted.iter().zip(names) {
            let shard = out.join("shard-000000.tar");
            assert_eq!(run(&["cat", shard.to_str().unwrap(), member]).stdout, *file, "{rule}: {member}");
        }
        let other = if rule == "last-dot" { "first-dot" } else { "last-dot" };
        assert_eq!(pack(&input, &out, &["--key-ends", rule]).code, DONE, "{rule}");
        assert_ne!(pack(&input, &out, &["--key-ends", other]).code, DONE, "{rule} and then {other}");
    }
}

/// Folders that are samples, and folders that are fields, as files and in an archive.
#[test]
fn folders_are_samples_or_fields_where_the_rule_says() {
    let samples = ["cat/s1/in.jpg", "cat/s1/out.jpg", "dog/s2/in.jpg", "dog/s2/out.jpg", "top.txt"];
    let fields = ["images/cat/1.png", "images/cat/2.png", "masks/cat/1.png", "masks/cat/2.png"];
    let kitti = ["training/calib/01.txt", "training/image_2/01.png", "training/label_2/01.txt"];
    for (rule, names, wanted, said) in [
        (
            "sample-folders",
            &samples[..],
            &["cat/s1.in.jpg", "cat/s1.out.jpg", "dog/s2.in.jpg", "dog/s2.out.jpg"][..],
            "top.txt",
        ),
        ("field-folders", &fields, &["cat/1.images.png", "cat/1.masks.png", "cat/2.images.png", "cat/2.masks.png"], ""),
        (
            r"path:/(?<field>\w+)/(?<key>\d+)(?<ext>[.]\w+)$",
            &kitti,
            &["01.calib.txt", "01.image_2.png", "01.label_2.txt"],
            "",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let input = files(dir.path(), names);
        let out = dir.path().join("out");
        let ran = pack(&input, &out, &["--key-ends", rule]);
        assert_eq!(ran.code, DONE, "{rule}: {}", ran.stderr);
        assert_eq!(members(&out), wanted, "{rule}");
        assert!(ran.stderr.contains(said), "{rule}: {}", ran.stderr);
        // Each member has the bytes of its file, whose name is its content; the rest of the rules keep the order of fields.
        let content =
            |out: &Path, member: &str| run(&["cat", out.join("shard-000000.tar").to_str().unwrap(), member]).stdout;
        let mut found: Vec<String> = wanted.iter().map(|member| content(&out, member)).collect();
        found.sort();
        assert_eq!(found, names.iter().filter(|name| **name != "top.txt").copied().collect::<Vec<_>>(), "{rule}");
        // In an archive it is the same.
        let tar = dir.path().join("all.tar");
        let mut command = Command::new("tar");
        assert!(command.arg("-C").arg(&input).arg("-cf").arg(&tar).args(names).status().unwrap().success());
        let of_tar = dir.path().join("of-tar");
        let ran = pack(&tar, &of_tar, &["--key-ends", rule]);
        assert_eq!(ran.code, DONE, "{rule}: {}", ran.stderr);
        assert_eq!(members(&of_tar), wanted, "{rule}");
        let again: Vec<String> = wanted.iter().map(|member| content(&of_tar, member)).collect();
        assert_eq!(again, wanted.iter().map(|member| content(&out, member)).collect::<Vec<_>>(), "{rule}");
        // In parts it is the same, whatever folder a part has.
        let parted = dir.path().join("parted");
        let [from, to] = [&input, &parted].map(|path| path.to_str().unwrap());
        for part in ["1/2", "2/2"] {
            let ran = run(&["scan", from, "--to", "webdataset", "--out", to, "--key-ends", rule, "--part", part]);
            assert_eq!(ran.code, DONE, "{rule}: {}", ran.stderr);
        }
        let ran =
            run(&["plan", from, "--to", "webdataset", "--out", to, "--key-ends", rule, "--from-listings", "--quiet"]);
        assert_eq!(ran.code, DONE, "{rule}: {}", ran.stderr);
        assert_eq!(run(&["pack", "--plan", to, "--quiet"]).code, DONE);
        assert_eq!(members(&parted), wanted, "{rule}");
    }
}

/// Parts look at headers, whose columns have the names that the plan gives them.
#[test]
fn an_input_without_a_name_is_the_field_of_its_files_in_parts_too() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir_all(input.join("masks")).unwrap();
    for name in ["1.npy", "masks/1.npy"] {
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n";
        let bytes = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &[1, 2]];
        fs::write(input.join(name), bytes.concat()).unwrap();
    }
    let here = |args: &[&str]| {
        let more = ["--key-ends", "field-folders", "--quiet", "--to", "hdf5", "--out", "../out"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
        let ran = program::run(command.current_dir(&input).args(args).args(more), Duration::from_secs(120));
        assert_eq!(ran.code, DONE, "{args:?}: {}", ran.stderr);
    };
    here(&["scan", ".", "--part", "1/1"]);
    here(&["plan", ".", "--from-listings"]);
    let out = dir.path().join("out");
    assert_eq!(run(&["pack", "--plan", out.to_str().unwrap(), "--quiet", "--seal"]).code, DONE);
    let manifest = Manifest::decode(&fs::read(out.join(MANIFEST)).unwrap()).unwrap();
    assert_eq!(manifest.schema.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(), [KEY, "in", "masks"]);
}

/// Names that keys escape, hidden folders, and members that begin with a dot or a slash.
#[test]
fn odd_names_keep_their_samples_where_folders_decide() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["my images/a photo.png", "my masks/a photo.png", "my images/v1.5/b.png", "my masks/v1.5/b.png"];
    let input = files(dir.path(), &names);
    let out = dir.path().join("out");
    let ran = pack(&input, &out, &["--key-ends", "field-folders"]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    let wanted = [
        "a%20photo.my%20images.png",
        "a%20photo.my%20masks.png",
        "v1%2E5/b.my%20images.png",
        "v1%2E5/b.my%20masks.png",
    ];
    assert_eq!(members(&out), wanted);
    // Of two folders with one key, one is a fault.
    let twins = files(&dir.path().join("twins"), &["s 1/left.png", "s%201/right.png"]);
    let ran = pack(&twins, &dir.path().join("of-twins"), &["--key-ends", "sample-folders"]);
    assert!(ran.code == CONTENT && ran.stderr.contains("though their names differ"), "{}", ran.stderr);
    let tar = |name: &str, members: &[&str]| {
        let mut builder = tar::Builder::new(Vec::new());
        for member in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(member.len() as u64);
            header.set_mode(0o644);
            let place = header.as_old_mut();
            place.name[..member.len()].copy_from_slice(member.as_bytes());
            header.set_cksum();
            builder.append(&header, member.as_bytes()).unwrap();
        }
        let path = dir.path().join(name);
        fs::write(&path, builder.into_inner().unwrap()).unwrap();
        path
    };
    let path = tar("a.tar", &["./images/1.png", "/masks/1.png", "./.cache/1.png"]);
    let of_tar = dir.path().join("of-tar");
    let ran = pack(&path, &of_tar, &["--key-ends", "field-folders"]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(members(&of_tar), ["1.images.png", "1.masks.png"]);
    let of_folders = dir.path().join("of-folders");
    let ran = pack(&path, &of_folders, &["--key-ends", "field-folders", "--archive-folders"]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(members(&of_folders), ["a/1.images.png", "a/1.masks.png"]);
    // The remedy is one that helps.
    let clash = files(&dir.path().join("clash"), &["images/s/1.png", "images/s/1.PNG"]);
    let ran = pack(&clash, &dir.path().join("of-clash"), &["--key-ends", "field-folders"]);
    assert!(ran.code == CONTENT && !ran.stderr.contains("--key-ends"), "{}", ran.stderr);
}

#[test]
fn inputs_are_fields_too_and_labels_and_rows_find_their_samples() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(dir.path(), &["images/1.png", "images/2.png", "masks/1.png", "masks/2.png"]);
    let [images, masks] = ["images", "masks"].map(|name| input.join(name).to_str().unwrap().to_owned());
    let rows = dir.path().join("rows.csv");
    fs::write(&rows, "file,n\nimages/1.png,1\nimages/2.png,2\n").unwrap();
    let out = dir.path().join("out");
    let ran = pack(Path::new(&images), &out, &[&masks]);
    assert_eq!(ran.code, CONTENT, "{}", ran.stderr);
    assert!(ran.stderr.contains("--key-ends field-folders"), "{}", ran.stderr);
    let more = [&masks, "--key-ends", "field-folders", "--metadata", rows.to_str().unwrap(), "--key", "file"];
    let ran = pack(Path::new(&images), &out, &more);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(members(&out), ["1.images.png", "1.json", "1.masks.png", "2.images.png", "2.json", "2.masks.png"]);
    let classes = tempfile::tempdir().unwrap();
    let input = files(classes.path(), &["cat/s1/in.jpg", "cat/s1/out.jpg", "dog/s2/in.jpg", "dog/s2/out.jpg"]);
    let out = classes.path().join("out");
    let ran = pack(&input, &out, &["--key-ends", "sample-folders", "--labels", "folders"]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    let shard = out.join("shard-000000.tar");
    assert_eq!(run(&["cat", shard.to_str().unwrap(), "dog/s2.cls"]).stdout.trim(), "1");
}

/// Arrays that differ are those of the files that hold them, not of the first file of their samples.
#[test]
fn an_error_of_a_field_names_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(dir.path(), &["s1/a.txt", "s2/a.txt"]);
    for (folder, values) in [("s1", 2), ("s2", 3)] {
        let array = [&b"\x93NUMPY\x01\x00"[..], &118u16.to_le_bytes()].concat();
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({values},), }}");
        let bytes = [&array[..], format!("{header:<117}\n").as_bytes(), &vec![7; values]].concat();
        fs::write(input.join(folder).join("points.npy"), bytes).unwrap();
    }
    let out = dir.path().join("out");
    let args =
        ["pack", input.to_str().unwrap(), "--to", "hdf5", "--key-ends", "sample-folders", "-o", out.to_str().unwrap()];
    let ran = run(&args);
    assert_eq!(ran.code, CONTENT, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("s2/points.npy: sample s2") && ran.stderr.contains("in s1/points.npy"),
        "{}",
        ran.stderr
    );
}

#[test]
fn folders_that_seem_to_be_samples_or_fields_are_told() {
    let told = |names: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let ran = pack(&files(dir.path(), names), &dir.path().join("out"), &[]);
        assert_eq!(ran.code, DONE, "{}", ran.stderr);
        ran.stderr.lines().find(|line| line.contains("--key-ends")).map(str::to_owned)
    };
    let samples = told(&["a/in.jpg", "a/out.jpg", "b/in.jpg", "b/out.jpg", "read.txt"]).unwrap();
    assert!(samples.contains("2 folders such as a hold files of the same names (in.jpg, out.jpg)"), "{samples}");
    assert!(samples.contains("--key-ends sample-folders"), "{samples}");
    let fields = told(&["images/1.jpg", "images/2.jpg", "labels/1.txt", "labels/2.txt"]).unwrap();
    assert!(fields.contains("folders images and labels") && fields.contains("--key-ends field-folders"), "{fields}");
    let deep = ["coco/images/train/1.jpg", "coco/images/val/2.jpg", "coco/labels/train/1.txt", "coco/labels/val/2.txt"];
    let deep_told = told(&deep).unwrap();
    let rule = deep_told.split('\'').nth(1).unwrap();
    assert!(rule.starts_with("path:"), "{deep_told}");
    // The rule that it names works.
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let ran = pack(&files(dir.path(), &deep), &out, &["--key-ends", rule]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(members(&out)[..2], ["coco/train/1.images.jpg", "coco/train/1.labels.txt"]);
    // Classes, frames, and samples with several files each.
    assert_eq!(told(&["cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg"]), None);
    assert_eq!(told(&["v1/frame_1.jpg", "v1/frame_2.jpg", "v2/frame_1.jpg", "v2/frame_2.jpg"]), None);
    assert_eq!(told(&["x/a.jpg", "x/a.txt", "y/a.jpg", "y/a.txt"]), None);
    assert_eq!(told(&["train/labels/1.txt", "train/labels/2.txt"]), None);
}

/// What could be of either of two samples is told as that, not as what clashes.
#[test]
fn files_that_could_be_of_two_samples_name_both() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(dir.path(), &["a/0.png", "b/0.bin", "c/0.txt", "d/0.txt"]);
    let folders = ["b", "c", "d"].map(|name| input.join(name).to_str().unwrap().to_owned());
    let more: Vec<&str> = folders.iter().map(String::as_str).chain(["--on-error", "skip"]).collect();
    let out = dir.path().join("out");
    assert_eq!(pack(&input.join("a"), &out, &more).code, DONE);
    assert_eq!(members(&out), ["0.png"]);
    let skipped = fs::read_to_string(out.join("skipped.jsonl")).unwrap();
    let line = skipped.lines().find(|line| line.contains("0.bin")).unwrap();
    assert!(line.contains("could be of two samples") && line.contains("c/0.txt") && line.contains("d/0.txt"), "{line}");
}

#[test]
fn pictures_that_fall_into_one_sample_are_warned_of_and_those_that_belong_there_are_not() {
    let warned = |names: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let input = files(dir.path(), names);
        let ran = pack(&input, &dir.path().join("out"), &[]);
        assert_eq!(ran.code, DONE, "{}", ran.stderr);
        ran.stderr.lines().find(|line| line.contains("several files of one kind")).map(str::to_owned)
    };
    let line = warned(&["2024.05.01.jpg", "2024.05.02.jpg", "2024.05.03.jpg"]).unwrap();
    for part in ["1 sample holds", "2024 holds 05.01.jpg and 05.02.jpg", "--key-ends last-dot"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let arrays = warned(&["re_0.1.npz", "re_0.2.npz", "re_0.5.npz"]).unwrap();
    assert!(arrays.contains("re_0 holds 1.npz and 2.npz"), "{arrays}");
    // Unique names of DICOM.
    let slices = warned(&["1.2.840.113654.2.1", "1.2.840.113654.2.2"]).unwrap();
    assert!(
        slices.contains("1 holds 2.840.113654.2.1 and 2.840.113654.2.2") && slices.contains("whole:dcm"),
        "{slices}"
    );
    assert_eq!(warned(&["a.txt", "a.en.txt", "a.de.txt", "b.txt"]), None);
    assert!(warned(&["a.one.png", "a.two.png", "b.three.png", "b.four.png", "c.png"]).is_some());
    assert_eq!(warned(&["a.input.png", "a.target.png", "b.input.png", "b.target.png", "c.input.png"]), None);
    assert_eq!(warned(&["a.jpg", "a.mask.png", "b.jpg", "b.txt"]), None);
}

#[test]
fn metadata_finds_samples_whose_keys_end_at_the_last_dot() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(dir.path(), &["2024.05.01.jpg", "2024.05.02.jpg"]);
    let table = dir.path().join("rows.csv");
    fs::write(&table, "file,n\n2024.05.01.jpg,1\n2024.05.02.jpg,2\n").unwrap();
    let out = dir.path().join("out");
    let more = ["--metadata", table.to_str().unwrap(), "--key", "file", "--columns", "n", "--key-ends", "last-dot"];
    let ran = pack(&input, &out, &more);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    let shard = out.join("shard-000000.tar");
    assert_eq!(run(&["cat", shard.to_str().unwrap(), "2024%2E05%2E02.json"]).stdout, "{\"n\":2}");
}

/// Hugging Face's imagefolder: each split has a table, whose names of files start there.
#[test]
fn tables_beside_their_files_give_metadata_of_every_folder() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(dir.path(), &["train/1.png", "train/x/2.png", "val/1.png"]);
    fs::write(input.join("train/metadata.csv"), "file_name,n\n1.png,1\nx/2.png,2\n").unwrap();
    fs::write(input.join("val/metadata.csv"), "file_name,n\n1.png,3\n").unwrap();
    let out = dir.path().join("out");
    let pattern = input.join("*/metadata.csv");
    let more = ["--metadata", pattern.to_str().unwrap(), "--key", "file_name", "--columns", "n"];
    let ran = pack(&input, &out, &more);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    let wanted = ["train/1.json", "train/1.png", "train/x/2.json", "train/x/2.png", "val/1.json", "val/1.png"];
    assert_eq!(members(&out), wanted);
    let shard = out.join("shard-000000.tar");
    for (member, n) in [("train/1.json", 1), ("train/x/2.json", 2), ("val/1.json", 3)] {
        assert_eq!(run(&["cat", shard.to_str().unwrap(), member]).stdout, format!("{{\"n\":{n}}}"), "{member}");
    }
    // Names that start at the input stay what they are.
    fs::write(input.join("train/metadata.csv"), "file_name,n\ntrain/1.png,1\ntrain/x/2.png,2\n").unwrap();
    fs::write(input.join("val/metadata.csv"), "file_name,n\nval/1.png,3\n").unwrap();
    let ran = pack(&input, &dir.path().join("again"), &more);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(members(&dir.path().join("again")), wanted);
}

#[test]
fn a_row_of_a_missing_file_is_not_that_of_another_folder() {
    let dir = tempfile::tempdir().unwrap();
    let input = files(dir.path(), &[".cache/train/2.png", ".cache/val/1.png", ".cache/val/5.png"]).join(".cache");
    fs::write(input.join("train/m.csv"), "file_name,n\n1.png,100\n2.png,2\n").unwrap();
    fs::write(input.join("val/m.csv"), "file_name,n\n./5.png,5\n").unwrap();
    let out = dir.path().join("out");
    // Relative paths, and an input in a hidden folder.
    let args = ["pack", "../files/.cache", "--to", "webdataset", "--out", out.to_str().unwrap(), "--on-error", "skip"];
    let more = ["--metadata", "../files/.cache/*/m.csv", "--key", "file_name"];
    let beside = dir.path().join("beside");
    fs::create_dir(&beside).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    let ran = program::run(command.args([&args[..], &more].concat()).current_dir(&beside), Duration::from_secs(60));
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(members(&out), ["train/2.json", "train/2.png", "val/5.json", "val/5.png"]);
    assert!(ran.stderr.contains("1 row of the metadata belongs to no sample, that of train/1"), "{}", ran.stderr);
}

#[test]
fn inputs_without_a_row_are_refused_and_beside_others_they_add_none() {
    let dir = tempfile::tempdir().unwrap();
    let alone = input(dir.path(), &[&[], &[]]);
    let ran = pack(&alone, &dir.path().join("out"), &[]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("0.arrow") && ran.stderr.contains("holds no row"), "{}", ran.stderr);
    assert!(!dir.path().join("out").exists());
    let other = tempfile::tempdir().unwrap();
    let out = other.path().join("out");
    assert_eq!(pack(&input(other.path(), &[&[], &[("a", Some("1"))]]), &out, &[]).code, DONE);
    assert_eq!(members(&out), ["a.txt"]);
}

#[test]
fn fields_that_differ_in_case_only_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let numbers: ArrayRef = Arc::new(Float32Array::from(vec![0.5]));
    let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
    let number = |name: &str| FieldType::Scalar(DataType::Float32).field(name, false);
    let schema = Schema::new(vec![FieldType::Text.field(KEY, false), number("E"), number("e")]);
    let rows = Rows::try_new(Arc::new(schema), vec![keys, numbers.clone(), numbers]).unwrap();
    let sink = packhorse::registry().get("arrow").unwrap().sink(&Options::new()).unwrap();
    let (_, bytes) =
        typed::write(&*sink, &rows, &[1]).into_iter().find(|(suffix, _)| *suffix == sink.suffix()).unwrap();
    let file = dir.path().join("a.arrow");
    fs::write(&file, bytes).unwrap();
    let ran = pack(&file, &dir.path().join("out"), &[]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("which readers ignore; rename one with --field"), "{}", ran.stderr);
}

#[test]
fn long_keys_of_rows_are_refused_or_hashed() {
    let dir = tempfile::tempdir().unwrap();
    let (long, other) = ("k".repeat(120), "k".repeat(121));
    let input = input(dir.path(), &[&[(&long, Some("1")), (&other, Some("2")), ("a", Some("3"))]]);
    let ran = pack(&input, &dir.path().join("fail"), &[]);
    assert!(ran.code == CONTENT && ran.stderr.contains("pass --long-keys hash"), "{}", ran.stderr);
    let out = dir.path().join("out");
    let ran = pack(&input, &out, &["--long-keys", "hash"]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    let members = members(&out);
    let hashed = |name: &String| name.len() == 100 && name.starts_with("kkk") && name.contains('~');
    assert!(members.len() == 3 && members[..2].iter().all(hashed) && members[0] != members[1], "{members:?}");
    assert_eq!(members[2], "a.txt");
}

/// What counts are the bytes that are written: spaces and dots of keys are escaped.
#[test]
fn long_keys_are_hashed_as_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let caption = |last: &str| format!("{}{last}", "a word. ".repeat(9));
    let (one, other) = (caption("one"), caption("other"));
    let input = input(dir.path(), &[&[(&one, Some("1")), (&other, Some("2")), ("a b", Some("3"))]]);
    assert!(pack(&input, &dir.path().join("fail"), &[]).stderr.contains("pass --long-keys hash"));
    let out = dir.path().join("out");
    let ran = pack(&input, &out, &["--long-keys", "hash"]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    let members = members(&out);
    let hashed = |name: &String| name.len() == 100 && name.starts_with("a%20word%2E%20a") && name.contains('~');
    assert!(members.len() == 3 && members[..2].iter().all(hashed) && members[0] != members[1], "{members:?}");
    assert_eq!(members[2], "a%20b.txt");
}

/// Two files may use the same ids, so the name of the file comes first.
#[test]
fn ids_of_documents_follow_the_name_of_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    fs::create_dir(&input).unwrap();
    fs::write(input.join("a.jsonl"), "{\"id\":\"one\",\"text\":\"1\"}\n{\"id\":2,\"text\":\"2\"}\n").unwrap();
    fs::write(input.join("b.jsonl"), "{\"id\":\"one\",\"text\":\"3\"}\n").unwrap();
    let ran = pack(&input, &out, &["--from", "text", "--id-field", "id"]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(members(&out), ["a/one.text", "a/2.text", "b/one.text"]);
}

/// A table of ids, of which one is missing, in several containers.
fn tables_of_ids(dir: &Path) -> Vec<(PathBuf, Vec<&'static str>)> {
    let (csv, jsonl) = (dir.join("cities.csv"), dir.join("cities.jsonl"));
    fs::write(&csv, "city,id,people\nRome,7,3\nOslo,,1\nBonn,12,2\n").unwrap();
    fs::write(&jsonl, "{\"city\":\"Rome\",\"id\":7,\"people\":3}\n{\"city\":\"Oslo\",\"people\":1}\n{\"city\":\"Bonn\",\"id\":12,\"people\":2}\n").unwrap();
    let mut tables = vec![(csv.clone(), vec![]), (jsonl, vec!["--from", "jsonl"])];
    for sink in ["parquet", "arrow", "tfrecord", "hdf5"] {
        let out = dir.join(sink);
        // In HDF5 a missing number is a placeholder.
        let source = if sink == "hdf5" { dir.join("whole.csv") } else { csv.clone() };
        fs::write(dir.join("whole.csv"), "city,id,people\nRome,7,3\nBonn,12,2\n").unwrap();
        let ran = run(&["pack", source.to_str().unwrap(), "--to", sink, "-o", out.to_str().unwrap(), "--quiet"]);
        assert_eq!(ran.code, DONE, "{sink}: {}", ran.stderr);
        tables.push((out, vec![]));
    }
    tables
}

#[test]
fn a_column_of_any_table_becomes_the_key() {
    let dir = tempfile::tempdir().unwrap();
    for (at, (table, more)) in tables_of_ids(dir.path()).into_iter().enumerate() {
        let (out, shown) = (dir.path().join(format!("out-{at}")), table.display());
        let flags = [&["--id-field", "id", "--cast", "people=text"][..], &more].concat();
        let has_all = table.ends_with("hdf5");
        if !has_all {
            let ran = pack(&table, &out, &flags);
            assert_eq!(ran.code, CONTENT, "{shown}: {}", ran.stderr);
            assert!(ran.stderr.contains("row 1 (from 0) has no id"), "{shown}: {}", ran.stderr);
        }
        let ran = pack(&table, &out, &[&flags[..], &["--on-error", "skip"]].concat());
        assert_eq!(ran.code, DONE, "{shown}: {}", ran.stderr);
        assert_eq!(members(&out), ["7.city.txt", "7.people.txt", "12.city.txt", "12.people.txt"], "{shown}");
        let skipped = fs::read_to_string(out.join("skipped.jsonl")).unwrap();
        assert_eq!(skipped.lines().count(), usize::from(!has_all), "{shown}: {skipped}");
    }
}

#[test]
fn a_column_that_is_no_key_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    fs::write(&table, "name,mass\na,1.5\na,2.5\n").unwrap();
    for (column, why) in [
        ("nam", "has no column nam"),
        ("nam", "did you mean name?"),
        ("mass", "the column mass holds Float64"),
        ("name", "this key came twice"),
    ] {
        let ran = pack(&table, &out, &["--id-field", column]);
        assert!(ran.code != DONE && ran.stderr.contains(why), "{column}: {}", ran.stderr);
        assert!(!out.exists() || !out.join(MANIFEST).exists());
    }
    for field in ["name=__key__", "__key__=name"] {
        let ran = pack(&table, &out, &["--field", field]);
        assert!(ran.code != DONE && ran.stderr.contains("--id-field takes the keys"), "{field}: {}", ran.stderr);
    }
    let photos = dir.path().join("photos");
    fs::create_dir(&photos).unwrap();
    fs::write(photos.join("a.jpg"), "x").unwrap();
    let ran = pack(&photos, &out, &["--id-field", "name"]);
    assert!(ran.code != DONE && ran.stderr.contains("has no effect"), "{}", ran.stderr);
}

#[test]
fn columns_that_tars_rename_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("t.csv");
    fs::write(&table, "gdpPercap,Market Share,plain\n1,2,3\n").unwrap();
    for (to, told) in [("webdataset", true), ("parquet", false)] {
        let out = dir.path().join(to);
        let ran = run(&["pack", table.to_str().unwrap(), "--to", to, "-o", out.to_str().unwrap()]);
        let text = "2 columns get other names in the shards";
        assert!(ran.code == DONE && ran.stderr.contains(text) == told, "{to}: {}", ran.stderr);
        let names = "Market Share (market%20share), gdpPercap (gdppercap)";
        assert_eq!(ran.stderr.contains(names), told, "{}", ran.stderr);
    }
}

#[test]
fn a_column_of_keys_holds_for_later_appends_and_for_streams() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (a, b, table, out) = (at("a.csv"), at("b.csv"), at("table"), at("out"));
    fs::write(&a, "id,x\np,1\nq,2\n").unwrap();
    fs::write(&b, "id,x\nr,3\n").unwrap();
    assert_eq!(run(&["pack", &b, "--to", "parquet", "-o", &table]).code, DONE);
    assert_eq!(run(&["pack", &a, "--id-field", "id", "--to", "webdataset", "-o", &out]).code, DONE);
    // A table of another format.
    let ran = run(&["append", &out, &table]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(run(&["ls", &at("out/shard-000001.tar")]).stdout.trim(), "r.x.npy");
    // Rows before the first one without a key.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, b"id,x\n").unwrap();
    for number in 0..2000 {
        let id = if number == 1500 { String::new() } else { format!("k{number}") };
        std::io::Write::write_all(&mut gzip, format!("{id},{number}\n").as_bytes()).unwrap();
    }
    fs::write(at("c.csv.gz"), gzip.finish().unwrap()).unwrap();
    let skip = ["--id-field", "id", "--on-error", "skip"];
    let ran = pack(Path::new(&at("c.csv.gz")), Path::new(&at("skipped")), &skip);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    assert_eq!(members(Path::new(&at("skipped"))).len(), 1500);
}
