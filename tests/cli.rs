//! The command line in depth: every flag, the shape of every result, every way to be wrong. The round
//! trips that scripts depend on most are in `commands.rs`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

use packhorse_testkit::hostile::tar::{TarMember, archive};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const BIN: &str = env!("CARGO_BIN_EXE_packhorse");

/// A folder to work in, where the files `in/…` are the inputs. Each text file holds its own name.
struct Place(TempDir);

impl Place {
    fn with(files: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|name| place.write(&format!("in/{name}"), name));
        place
    }

    /// `in/{cat/1,cat/2,cat/3,dog/1,dog/2}.txt`.
    fn new() -> Self {
        Self::with(&["cat/1.txt", "cat/2.txt", "cat/3.txt", "dog/1.txt", "dog/2.txt"])
    }

    /// Pictures in class folders under `in`.
    fn pictures(count: u32) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.ok(&["synth", "images", "--count", &count.to_string(), "--out", "in", "--quiet"]);
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// `packhorse ARGS` here, in an empty environment: no Slurm, no settings of the caller.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BIN);
        command.args(args).current_dir(self.path()).env_clear().stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// What a success prints.
    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        ran.out
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// The run must fail with this code and say all of `words`.
    #[track_caller]
    fn fails(&self, code: i32, args: &[&str], words: &[&str]) {
        let ran = self.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        for word in words {
            assert!(ran.err.contains(word), "{args:?}: {word} is missing in {}", ran.err);
        }
    }

    /// Packs `in` into `out`; the result.
    #[track_caller]
    fn pack(&self, out: &str, flags: &[&str]) -> Value {
        self.json(&[&["pack", "in", "--to", "webdataset", "--out", out, "--quiet", "--json"], flags].concat())
    }

    /// Packing `in` with these flags fails so.
    #[track_caller]
    fn pack_fails(&self, code: i32, flags: &[&str], words: &[&str]) {
        self.fails(code, &[&["pack", "in", "--to", "webdataset", "--out", "out", "--quiet"], flags].concat(), words);
    }

    /// Names of the shards in `out`.
    fn shards(&self, out: &str) -> Vec<String> {
        let names = fs::read_dir(self.path().join(out)).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut shards: Vec<_> = names.filter(|name| name.ends_with(".tar")).collect();
        shards.sort();
        shards
    }

    /// The members of each shard, in order.
    fn members(&self, out: &str) -> Vec<Vec<String>> {
        let list = |shard: String| {
            let lines = self.ok(&["ls", "--json", &format!("{out}/{shard}")]);
            let member = |line: &str| {
                let line: Value = serde_json::from_str(line).unwrap();
                format!("{}.{}", line["key"].as_str().unwrap(), line["field"].as_str().unwrap())
            };
            lines.lines().map(member).collect()
        };
        self.shards(out).into_iter().map(list).collect()
    }

    fn all(&self, out: &str) -> Vec<String> {
        self.members(out).concat()
    }

    fn cat(&self, out: &str, member: &str) -> Vec<u8> {
        let output = self.command(&["cat", &format!("{out}/shard-000000.tar"), member]).output().unwrap();
        assert!(output.status.success(), "{member}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// The lines of `skipped.jsonl`.
    fn skipped(&self, out: &str) -> Vec<Value> {
        self.text(&format!("{out}/skipped.jsonl")).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(!err.contains("panicked"), "{err}");
        Self { code: output.status.code().unwrap(), out, err }
    }
}

/// The keys of an object with the types of their values, such as `samples:number`.
fn shape(value: &Value) -> Vec<String> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    value.as_object().unwrap().iter().map(|(key, value)| format!("{key}:{}", kind(value))).collect()
}

#[track_caller]
fn assert_shape(value: &Value, wanted: &str) {
    assert_eq!(shape(value).join(" "), wanted);
}

// Wrong requests.

#[test]
fn what_is_not_there_is_a_fault_of_the_request() {
    let place = Place::new();
    let missing = "no such file or folder";
    place.fails(2, &["ls", "no.tar"], &["no.tar", missing]);
    place.fails(2, &["ls", "no"], &["no:", missing]);
    place.fails(2, &["ls", "in"], &["in:", "is a folder", "files in it"]);
    place.fails(2, &["cat", "no.tar", "a.txt"], &["no.tar", missing]);
    place.fails(2, &["stat", "no"], &["no:", missing]);
    place.fails(2, &["verify", "no", "--for", "hf"], &["no:", missing]);
    place.fails(2, &["verify", "in", "--for", "hf"], &["in:", "no shard"]);
    place.fails(2, &["pack", "--config", "no.toml"], &["no.toml", missing]);
    for args in [&["seal", "in"][..], &["status", "in"], &["pack", "--plan", "in"]] {
        place.fails(2, args, &["in:", "holds no plan and no dataset", "packhorse plan"]);
    }
    for command in ["stat", "head", "verify", "ls"] {
        let ran = place.run(&[command, "in"]);
        assert!(ran.code == 2 && ran.err.contains("in: is a folder without a dataset"), "{command}: {}", ran.err);
        assert!(!ran.err.contains("seal"), "{command}: {}", ran.err);
    }
    place.ok(&["plan", "in", "--to", "webdataset", "--out", "planned", "--quiet"]);
    for command in ["stat", "head", "verify", "ls"] {
        place.fails(6, &[command, "planned"], &["planned: is not sealed", "packhorse seal"]);
    }
    place.pack_fails(2, &["--files-from", "no.txt"], &["no.txt", missing]);
    place.pack_fails(2, &["--metadata", "no.csv", "--key", "k"], &["no.csv", missing]);
}

#[test]
fn flags_that_would_be_ignored_are_refused() {
    let place = Place::new();
    place.ok(&["plan", "in", "--to", "webdataset", "--out", "out", "--quiet"]);
    for flags in [&["--dry-run"][..], &["--labels", "folders"], &["--quality", "9"], &["--limit", "1"], &["in"]] {
        place.fails(2, &[&["pack", "--plan", "out"], flags].concat(), &["--plan", flags[0].trim_matches('-')]);
    }
    assert!(place.shards("out").is_empty());
    let part = ["pack", "in", "--to", "webdataset", "--out", "other", "--part", "1/2"];
    place.fails(2, &part, &["--part", "--plan"]);
    place.pack_fails(2, &["--key", "file"], &["--metadata"]);
    place.pack_fails(2, &["--columns", "a"], &["--metadata"]);
    place.pack_fails(2, &["--metadata", "in/cat/1.txt"], &["--key"]);
    assert!(!place.path().join("other").exists());
}

#[test]
fn bad_values_name_what_is_allowed() {
    let place = Place::new();
    for (flags, words) in [
        (["--symlinks", "x"], ["follow", "skip"]),
        (["--labels", "x"], ["folders", "parent"]),
        (["--shuffle", "x"], ["SEED", "block:N"]),
        (["--shuffle", "block:0"], ["SEED", "block:N"]),
        (["--split", "a,b"], ["share is missing", "train=0.9"]),
        (["--split", "a=0.5,b=0.9"], ["1.4", "train=0.9"]),
        (["--split-by", "x"], ["hash", "order"]),
        (["--long-keys", "x"], ["refuse", "hash"]),
        (["--index", "x"], ["wids", "energon"]),
        (["--image", "x"], ["check", "resize="]),
        (["--image", "resize=0"], ["\"0\"", "256x128"]),
        (["--quality", "101"], ["--quality", "1 to 100"]),
        (["--on-error", "x"], ["fail", "skip"]),
        (["--shard-size", "0"], ["--shard-size", "500MB"]),
        (["--memory", "much"], ["--memory", "500MB"]),
        (["--jobs", "0"], ["--jobs", "0"]),
        (["--threads", "x"], ["--jobs", "x"]),
        (["--io-threads", "0"], ["--io-threads", "0"]),
        (["--shard-count", "0"], ["--shard-count", "0"]),
        (["--samples-per-shard", "0"], ["--samples-per-shard", "0"]),
        (["--limit", "0"], ["--limit", "0"]),
        (["--name", "a/b"], ["--name", "letters"]),
        (["--include", "["], ["glob", "["]),
        (["--log", "xml"], ["--log", "json"]),
        (["--to", "files"], ["files", "written"]),
    ] {
        let code = if flags[0] == "--to" { 8 } else { 2 };
        place.pack_fails(code, &flags, &words);
    }
    place.fails(2, &["verify", "in", "--for", "x"], &["webdataset", "energon"]);
    place.fails(2, &["pack", "--plan", "in", "--part", "3/2"], &["3/2"]);
    place.fails(2, &["verify", "in", "in"], &["--for"]);
    assert!(!place.path().join("out").exists());
}

#[test]
fn a_request_without_its_parts_says_which() {
    let place = Place::new();
    place.fails(2, &["pack", "in", "--to", "webdataset"], &["--out DIR"]);
    place.fails(2, &["pack", "in", "--out", "out"], &["--to webdataset"]);
    place.fails(2, &["pack", "--to", "webdataset", "--out", "out"], &["INPUT", "--plan"]);
    place.fails(2, &["pack", "in", "--to", "tarr", "--out", "out"], &["\"tarr\"", "webdataset"]);
    place.pack_fails(2, &["--include", "*.png"], &["no sample", "--include"]);
}

#[test]
fn a_result_that_can_not_be_written_is_no_success() {
    let place = Place::new();
    place.pack("out", &[]);
    for args in [&["ls", "out/shard-000000.tar"][..], &["stat", "out"], &["status", "out", "--json"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(place.command(args).stdout(full).output().unwrap());
        assert_eq!(ran.code, 5, "{args:?}: {}", ran.err);
        assert!(ran.err.contains("standard output"), "{}", ran.err);
    }
}

// Results.

#[test]
fn the_shape_of_every_result() {
    let place = Place::new();
    let pack = "bytes:number counts:object input_bytes:number omitted:array peak_memory:number resumed:bool reused:number root:string \
                samples:number \
                seconds:number shards:number skipped:number";
    assert_shape(&place.pack("out", &[]), pack);
    let plan = ["plan", "in", "--to", "webdataset", "--out", "p", "--split", "a=1", "--quiet", "--json"];
    let plan = place.json(&plan);
    let wanted = "bytes:number class_counts:array classes:array fields:array largest_shard:null omitted:array samples:number shards:array skipped:number";
    assert_shape(&plan, wanted);
    assert_shape(&plan["shards"][0], "name:string samples:number split:string");
    let status = "appending:null base:null damages:array errors:array missing:array packed:number part:null plan:string quarantined:number replacing:null samples:number sealed:bool shards:number";
    assert_shape(&place.json(&["status", "p", "--json"]), status);
    let filled = place.json(&["pack", "--plan", "p", "--json", "--quiet"]);
    assert_shape(&filled, &pack.replace("root:string", "root:null").replace("omitted:array", "omitted:null"));
    let seal = "bytes:number root:string samples:number shards:number skipped:number";
    assert_shape(&place.json(&["seal", "p", "--json"]), seal);
    let verify = "bytes:number damages:array part_of:null quarantined:number repairable:bool samples:number seconds:number shards:number view_of:null whole:bool";
    assert_shape(&place.json(&["verify", "out", "--full", "--json", "--quiet"]), verify);
    let readers = place.json(&["verify", "out", "--for", "hf", "--json"]);
    assert_shape(&readers, "findings:array samples:number shards:number");
    let stat = place.json(&["stat", "out/shard-000000.tar", "--json"]);
    assert_shape(&stat, "fields:object samples:number");
    assert_shape(&stat["fields"]["txt"], "bytes:number count:number");
    let line = place.ok(&["ls", "--json", "out/shard-000000.tar"]);
    let line = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert_shape(&line, "bytes:number field:string key:string offset:number");
    let synth = place.json(&["synth", "tiny", "--count", "1", "--out", "s", "--json", "--quiet"]);
    assert_shape(&synth, "bytes:number files:number reused:number");
}

#[test]
fn offsets_of_ls_find_the_bytes() {
    let place = Place::new();
    place.pack("out", &[]);
    let (shard, lines) = (place.read("out/shard-000000.tar"), place.ok(&["ls", "--json", "out/shard-000000.tar"]));
    let long = place.ok(&["ls", "--long", "out/shard-000000.tar"]);
    for (line, long) in lines.lines().zip(long.lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        let [at, len] = ["offset", "bytes"].map(|key| usize::try_from(line[key].as_u64().unwrap()).unwrap());
        let name = format!("{}.{}", line["key"].as_str().unwrap(), line["field"].as_str().unwrap());
        assert_eq!(&shard[at..at + len], name.as_bytes());
        assert_eq!(long.split_whitespace().collect::<Vec<_>>(), [&len.to_string(), &at.to_string(), &name]);
    }
    assert_eq!((lines.lines().count(), long.lines().count()), (5, 5));
}

#[test]
fn every_line_of_a_failed_run_is_json_too() {
    let place = Place::with(&["a.txt", "a.TXT", "noext"]);
    place.write("in/empty.txt", "");
    let ran = place.run(&["pack", "in", "--to", "webdataset", "--out", "out", "--log", "json"]);
    assert_eq!((ran.code, ran.out.as_str()), (3, ""));
    let events: Vec<Value> = ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = events.last().unwrap();
    assert_shape(
        last,
        "code:string event:string field:null hint:string input:string kind:string message:string row:null sample:string",
    );
    assert_eq!((&last["event"], &last["kind"], &last["sample"]), (&json!("error"), &json!("content"), &json!("a")));
    let names: BTreeSet<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["error", "progress", "warning"]));
}

#[test]
fn the_shape_of_every_event() {
    let place = Place::with(&["a.txt", "b.txt", "bad.jpg"]);
    let args = ["pack", "in", "--to", "webdataset", "--out", "out", "--image", "check", "--on-error", "skip"];
    let ran = place.run(&[&args[..], &["--log", "json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut seen = BTreeSet::new();
    for event in ran.err.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let name = event["event"].as_str().unwrap().to_owned();
        assert_shape(
            &event,
            match name.as_str() {
                "progress" => "bytes:number event:string files:number samples:number shards:number skipped:number",
                "planned" => "bytes:number event:string samples:number shards:number",
                "shard" => "bytes:number event:string name:string reused:bool samples:number",
                "skipped" => {
                    "code:string event:string field:string hint:null input:string kind:string reason:string row:null sample:string"
                }
                "warning" => "event:string message:string",
                other => panic!("{other} is new here"),
            },
        );
        seen.insert(name);
    }
    assert!(["progress", "planned", "shard", "skipped"].iter().all(|name| seen.contains(*name)), "{seen:?}");
    assert!(ran.out.starts_with("packed 2 samples (") && ran.out.contains(" into 1 shard ("), "{}", ran.out);
    assert!(ran.out.contains("skipped 1 (see skipped.jsonl)"), "{}", ran.out);
}

#[test]
fn quiet_says_warnings_and_no_more() {
    let place = Place::with(&["a.txt", "noext"]);
    let ran = place.run(&["pack", "in", "--to", "webdataset", "--out", "out", "-q"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert_eq!(ran.err.lines().count(), 1);
    assert!(ran.err.starts_with("warning: ") && ran.err.contains("noext"), "{}", ran.err);
}

/// What a terminal of 80 columns gets to see of `packhorse ARGS`; none where `script` is missing.
fn on_a_terminal(place: &Place, args: &str) -> Option<String> {
    let line = format!("stty cols 80; exec {BIN} {args}");
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(place.path()).stdin(Stdio::null());
    script.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let shown = script.output().ok().filter(|output| output.status.success());
    if shown.is_none() {
        packhorse_testkit::external::skip("script is missing, or failed");
    }
    shown.map(|output| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_terminal_sees_a_bar_of_the_work_at_hand_and_results_without_one() {
    let place = Place::new();
    place.write("in/noext", "");
    let packed = on_a_terminal(&place, "pack in --to webdataset --out out --labels folders");
    let listed = on_a_terminal(&place, "ls out/shard-000000.tar");
    let status = on_a_terminal(&place, "status out");
    let verified = on_a_terminal(&place, "verify out --full");
    let (Some(packed), Some(listed), Some(status), Some(verified)) = (packed, listed, status, verified) else { return };
    assert!(packed.contains("1/1 shard ") && !packed.contains(" 1 files"), "{packed:?}");
    assert!(packed.contains("scanning: ") && packed.contains("\u{1b}[2Kpacking ["), "{packed:?}");
    // The bar's line is wiped before anything else is said.
    for line in ["warning: passed over ", "packed 5 samples"] {
        assert!(packed.contains(&format!("\u{1b}[2K{line}")), "{packed:?}");
    }
    assert!(listed.starts_with("cat/1.cls\r\ncat/1.txt\r\n"), "{listed:?}");
    assert_eq!(status, "1 of 1 shard, 5 of 5 samples, sealed\r\n");
    assert!(verified.contains("verifying: ") && !verified.contains("files"), "{verified:?}");
}

// The work itself.

#[test]
fn lists_come_in_either_ending_from_a_file_or_standard_input() {
    let place = Place::new();
    let list = |name: &str, list: &str, inputs: &[&str], out: &str| {
        place.write(name, list);
        let args = ["--to", "webdataset", "--quiet", "--files-from", "-", "--out", out];
        let mut command = place.command(&[&["pack"], inputs, &args].concat());
        let ran = Ran::of(command.stdin(File::open(place.path().join(name)).unwrap()).output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.err);
        place.all(out)
    };
    assert_eq!(list("l1", "dog/1.txt\0cat/2.txt\0", &["in"], "o1"), ["cat/2.txt", "dog/1.txt"]);
    assert_eq!(list("l2", "dog/1.txt\r\ncat/2.txt", &["in"], "o2"), ["cat/2.txt", "dog/1.txt"]);
    // As `find in -type f` says them.
    assert_eq!(list("l3", "in/dog/1.txt\nin/cat/2.txt\n", &[], "o3"), ["in/cat/2.txt", "in/dog/1.txt"]);
    let absolute = format!("{}\n", place.path().join("in/dog/1.txt").display());
    let root = place.path().join("in");
    assert_eq!(list("l4", &absolute, &[root.to_str().unwrap()], "o4"), ["dog/1.txt"]);
    assert_eq!(list("l4", &absolute, &["in"], "o5"), ["dog/1.txt"]);
    let climbing = format!("{}/../out/1.txt", place.path().join("in").display());
    for (name, outside) in [("l5", "/elsewhere/1.txt"), ("l6", "../in/dog/1.txt"), ("l7", &climbing)] {
        place.write(name, outside);
        place.pack_fails(2, &["--files-from", name], &["/1.txt", "INPUT"]);
    }
    // The list of a folder above INPUT: the hint says what its paths are relative to.
    place.pack_fails(3, &["--files-from", "l3"], &["in/in/cat/2.txt", "relative to INPUT"]);
    place.write("twice", "cat/2.txt\ndog/1.txt\ndog/1.txt\n");
    place.pack_fails(3, &["--files-from", "twice"], &["in/dog/1.txt: is among the inputs twice; give it once"]);
    place.write("none", "\n");
    place.pack_fails(2, &["--files-from", "none"], &["no sample in the list of files"]);
}

#[test]
fn links_are_followed_or_skipped() {
    let place = Place::with(&["a.txt"]);
    std::os::unix::fs::symlink("a.txt", place.path().join("in/b.txt")).unwrap();
    place.pack("follow", &[]);
    place.pack("skip", &["--symlinks", "skip"]);
    assert_eq!((place.all("follow"), place.all("skip")), (vec!["a.txt".into(), "b.txt".into()], vec!["a.txt".into()]));
    assert_eq!(place.cat("follow", "b.txt"), b"a.txt");
}

#[test]
fn globs_add_up_and_exclude_is_stronger() {
    let place = Place::new();
    place.pack("out", &["--include", "cat/*", "--include", "*/1.txt", "--exclude", "*/3.txt", "--exclude", "cat/2*"]);
    assert_eq!(place.all("out"), ["cat/1.txt", "dog/1.txt"]);
}

#[test]
fn labels_of_the_first_folder_or_of_the_last() {
    let place = Place::with(&["x/b/1.txt", "x/a/2.txt", "y/a/3.txt"]);
    place.pack("folders", &["--labels", "folders"]);
    place.pack("parent", &["--labels", "parent"]);
    let labels = |out: &str| ["x/b/1", "x/a/2", "y/a/3"].map(|key| place.cat(out, &format!("{key}.cls")));
    let classes = |out: &str| place.json(&["stat", out, "--json"])["classes"].clone();
    assert_eq!((classes("folders"), classes("parent")), (json!(["x", "y"]), json!(["a", "b"])));
    assert_eq!(labels("folders"), [b"0", b"0", b"1"]);
    assert_eq!(labels("parent"), [b"1", b"0", b"0"]);
}

#[test]
fn a_sample_without_a_class_is_bad_input() {
    let place = Place::with(&["a/1.txt", "2.txt"]);
    place.pack_fails(3, &["--labels", "folders"], &["2.txt", "class folder", "--on-error skip"]);
}

#[test]
fn tables_of_every_kind_make_the_same_field() {
    let place = Place::with(&["a.txt", "b.txt"]);
    place.write("t.csv", "id,n,text,more\na,1,\"x, y\",z\nb,2,,z\n");
    place.write("t.tsv", "id\tn\ttext\tmore\na\t1\tx, y\tz\nb\t2\t\tz\n");
    let rows = "{\"more\":0,\"id\":\"a\",\"n\":1,\"text\":\"x, y\"}\n{\"id\":\"b\",\"n\":2,\"text\":\"\"}\n";
    place.write("t.jsonl", rows);
    for kind in ["csv", "tsv", "jsonl"] {
        place.pack(kind, &["--metadata", &format!("t.{kind}"), "--key", "id", "--columns", "n,text"]);
        let row: Value = serde_json::from_slice(&place.cat(kind, "a.json")).unwrap();
        assert_eq!(row, json!({"n": 1, "text": "x, y"}), "{kind}");
        assert_eq!(place.all(kind), ["a.json", "a.txt", "b.json", "b.txt"]);
    }
    place.pack_fails(2, &["--metadata", "t.csv", "--key", "id", "--columns", "nope"], &["t.csv", "nope", "text"]);
    place.write("t.jsonl", "{\"id\":\"a\"}\nno row\n");
    place.pack_fails(3, &["--metadata", "t.jsonl", "--key", "id"], &["t.jsonl", "line 2"]);
    place.pack_fails(2, &["--metadata", "in/a.txt", "--key", "id"], &["in/a.txt", ".parquet"]);
}

#[test]
fn a_shuffle_is_the_seeds_and_keeps_its_blocks() {
    let names: Vec<String> = (10..50).map(|n| format!("{n}.txt")).collect();
    let place = Place::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let order = |out: &str, shuffle: &str| {
        place.pack(out, &["--shuffle", shuffle]);
        place.all(out)
    };
    let (seven, again, eight) = (order("a", "7"), order("b", "7"), order("c", "8"));
    assert_eq!(seven, again);
    assert!(seven != eight && seven != names);
    assert_eq!(BTreeSet::from_iter(&seven), BTreeSet::from_iter(&names));
    let blocks = order("d", "7,block:4");
    assert_ne!(blocks, names);
    let sorted: Vec<_> = names.chunks(4).map(<[_]>::to_vec).collect();
    assert!(blocks.chunks(4).all(|block| sorted.contains(&block.to_vec())), "{blocks:?}");
}

#[test]
fn shards_are_cut_by_count_samples_and_size() {
    let place = Place::new();
    let sizes = |out: &str, flags: &[&str]| {
        place.pack(out, flags);
        place.members(out).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(sizes("count", &["--shard-count", "2"]).len(), 2);
    assert_eq!(sizes("samples", &["--samples-per-shard", "2"]), [2, 2, 1]);
    place.write("in/cat/1.txt", vec![b'x'; 6000]);
    place.write("in/cat/3.txt", vec![b'x'; 6000]);
    let limit = 9000;
    assert!(sizes("size", &["--shard-size", &format!("{limit}B")]).len() > 1);
    for shard in place.shards("size") {
        let payload: u64 =
            place.json(&["stat", &format!("size/{shard}"), "--json"])["fields"]["txt"]["bytes"].as_u64().unwrap();
        assert!(payload <= limit, "{shard}: {payload}");
    }
}

#[test]
fn splits_by_order_have_their_share_and_names() {
    let names: Vec<String> = (10..30).map(|n| format!("{n}.txt")).collect();
    let place = Place::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    place.pack("order", &["--split", "train=0.75,val=0.25", "--split-by", "order", "--samples-per-shard", "10"]);
    assert_eq!(place.shards("order"), ["train-000000.tar", "train-000001.tar", "val-000000.tar"]);
    assert_eq!(place.members("order").concat(), names);
    assert_eq!(place.members("order")[2].len(), 5);
    place.pack("name", &["--name", "fashion", "--limit", "3"]);
    assert_eq!((place.shards("name"), place.all("name").len()), (vec!["fashion-000000.tar".to_owned()], 3));
}

#[test]
fn long_keys_are_refused_or_hashed() {
    let long = format!("{}.txt", "k".repeat(120));
    let place = Place::with(&["a.txt", &long]);
    place.pack_fails(3, &[], &["kkkk", "at most 100", "--long-keys hash"]);
    place.pack("out", &["--long-keys", "hash"]);
    let members = place.all("out");
    assert_eq!((members[0].as_str(), members[1].len() <= 100), ("a.txt", true));
    assert!(members[1].starts_with("kkkk") && members[1].contains('~'), "{members:?}");
    assert_eq!(place.cat("out", &members[1]), long.as_bytes());
}

#[test]
fn each_index_is_written_where_it_is_asked_for() {
    let place = Place::new();
    let there = |out: &str, index: &str| {
        place.pack(out, &["--index", index]);
        ["shardindex.json", "shard-000000.idx", "shard-000000.tar.idx", ".nv-meta/index.sqlite"]
            .map(|name| place.path().join(out).join(name).exists())
    };
    assert_eq!(there("none", "none"), [false, false, false, false]);
    assert_eq!(there("wids", "wids"), [true, false, false, false]);
    assert_eq!(there("dali", "dali"), [false, true, false, false]);
    assert_eq!(there("all", "wids:md5,dali,energon"), [true, true, true, true]);
    assert!(!place.text("wids/shardindex.json").contains("md5"));
    assert!(place.text("all/shardindex.json").contains("md5"));
}

#[test]
fn threads_and_memory_change_no_byte() {
    let place = Place::pictures(12);
    let flags = ["--shuffle", "3", "--samples-per-shard", "5", "--image", "resize=40"];
    place.pack("a", &[&flags[..], &["--jobs", "1", "--io-threads", "1", "--memory", "64KiB"]].concat());
    place.pack("b", &[&flags[..], &["--threads", "4", "--io-threads", "9", "--memory", "1GiB"]].concat());
    assert_eq!(place.read("a/dataset.json"), place.read("b/dataset.json"));
    assert_eq!(place.read("a/shard-000002.tar"), place.read("b/shard-000002.tar"));
}

// Pictures.

#[test]
fn a_picture_cut_short_is_found_by_check_alone() {
    let place = Place::pictures(2);
    let whole = place.read(&format!("in/{}", picture(&place)));
    place.write("in/bird/cut.jpg", &whole[..whole.len() / 2]);
    place.pack_fails(3, &["--image", "check"], &["bird/cut", "cut short", "leave it out"]);
    fs::remove_dir_all(place.path().join("out")).unwrap();
    let checked = place.pack("check", &["--image", "check", "--on-error", "skip"]);
    let counts = json!({"pictures found bad": 1, "pictures unchanged": 2});
    assert_eq!((&checked["skipped"], &checked["counts"]), (&json!(1), &counts));
    assert!(place.ok(&["stat", "check"]).contains("\n  1 picture found bad\n"));
    let [skipped] = &place.skipped("check")[..] else { panic!("{:?}", place.skipped("check")) };
    assert_eq!((&skipped["input"], &skipped["sample"]), (&json!("bird/cut.jpg"), &json!("bird/cut")));
    assert!(skipped["reason"].as_str().unwrap().contains("cut short"));
    // Checked, good pictures keep their bytes; without a check all do.
    assert_eq!(place.cat("check", &picture(&place)), whole);
    place.pack("plain", &[]);
    assert_eq!(place.cat("plain", "bird/cut.jpg"), &whole[..whole.len() / 2]);
}

#[test]
fn what_claims_to_be_a_picture_is_one_or_a_fault() {
    let place = Place::pictures(2);
    for (name, says) in
        [("bird/junk.webp", "not a known image"), ("bird/x.avif", "is not a known"), ("bird/y.jxl", "is not a known")]
    {
        place.write(&format!("in/{name}"), "junk");
        for flags in [&["--image", "check"][..], &["--image", "check=lenient"], &["--image", "resize=9"], &["--orient"]]
        {
            place.pack_fails(3, flags, &[name.split('.').next().unwrap(), says, "leave it out"]);
            fs::remove_dir_all(place.path().join("out")).unwrap();
        }
        place.pack("plain", &[]);
        fs::remove_dir_all(place.path().join("plain")).unwrap();
        fs::remove_file(place.path().join("in").join(name)).unwrap();
    }
    let texts = Place::new();
    texts.pack_fails(2, &["--image", "check"], &["no field has an image extension", "txt"]);
}

#[test]
fn pictures_are_counted_in_the_summary_the_receipts_and_the_manifest() {
    let place = Place::pictures(5);
    let (count, all) = (|out: &str| place.json(&["stat", out, "--json"])["counts"].clone(), 5);
    assert_eq!(place.pack("checked", &["--image", "check"])["counts"], json!({"pictures unchanged": all}));
    assert_eq!(count("checked"), json!({"pictures unchanged": all}));
    assert_eq!(place.pack("resized", &["--image", "resize=7x7"])["counts"], json!({"pictures rewritten": all}));
    assert_eq!(place.pack("resized", &["--image", "resize=7x7"])["counts"], json!({"pictures rewritten": all}));
    assert_eq!(place.pack("plain", &[])["counts"], json!({}));
    let text = place.ok(&["pack", "in", "--to", "webdataset", "--out", "said", "--image", "check"]);
    assert!(text.contains("  5 pictures unchanged\n"), "{text}");
}

#[test]
fn metadata_to_keep_needs_pictures_to_write() {
    let place = Place::pictures(1);
    place.pack_fails(2, &["--image", "keep=exif"], &["resize", "--orient"]);
    place.pack_fails(2, &["--image", "resize=9", "--image", "keep=gps"], &["\"gps\"", "icc, exif"]);
    place.pack("out", &["--image", "resize=9", "--image", "keep=exif,icc"]);
}

/// The first picture of a corpus.
fn picture(place: &Place) -> String {
    place.pack(".first", &["--limit", "1", "--exclude", "*cut*"]);
    place.all(".first").remove(0)
}

#[test]
fn pictures_get_the_size_asked_for() {
    let place = Place::pictures(1);
    let name = picture(&place);
    let size = |bytes: &[u8]| {
        let pixels = packhorse::transform::image::decode(bytes, &Default::default()).unwrap();
        (pixels.width, pixels.height)
    };
    let (width, height) = size(&place.read(&format!("in/{name}")));
    let resized = |how: &str| {
        let out = format!("out-{}", how.replace(',', "-"));
        place.pack(&out, &["--image", &format!("resize={how}"), "--image", "check"]);
        size(&place.cat(&out, &name))
    };
    let (short, long) = (resized("20,short"), resized("20,long"));
    assert_eq!((short.0.min(short.1), long.0.max(long.1)), (20, 20));
    assert_eq!((short.0 > short.1, long.0 > long.1), (width > height, width > height));
    assert_eq!((resized("20,exact"), resized("30x10")), ((20, 20), (30, 10)));
    place.pack("fine", &["--image", "resize=60", "--quality", "95"]);
    place.pack("rough", &["--image", "resize=60", "--quality", "10"]);
    assert!(place.cat("rough", &name).len() * 2 < place.cat("fine", &name).len());
    // Nothing to turn: not touched.
    place.pack("orient", &["--orient"]);
    assert_eq!(place.cat("orient", &name), place.read(&format!("in/{name}")));
}

// Configuration, parts.

#[test]
fn a_config_file_equals_flags_wherever_it_stands() {
    let place = Place::new();
    let toml = "input = ['in']\nto = 'webdataset'\nlabels = 'parent'\nsamples-per-shard = 2\ndedup = true\n\
                include = ['cat/*', 'dog/*']\nexclude = '*/3.txt'\nshuffle = 7\nquiet = true\norient = false\n";
    place.write("c.toml", toml);
    let flags = ["--labels", "parent", "--dedup", "--include", "cat/*", "--include", "dog/*", "--exclude", "*/3.txt"];
    place.pack("flags", &[&flags[..], &["--shuffle", "7", "--samples-per-shard", "2"]].concat());
    for (i, args) in [
        &["pack", "--config", "c.toml", "--out"][..],
        &["pack", "--config=c.toml", "--out"],
        &["--config", "c.toml", "pack", "--out"],
        &["--log", "json", "--config", "c.toml", "pack", "--out"],
    ]
    .iter()
    .enumerate()
    {
        let out = format!("file-{i}");
        assert_eq!(place.ok(&[args, &[out.as_str()][..]].concat()), "", "{args:?}");
        assert_eq!(place.read(&format!("{out}/dataset.json")), place.read("flags/dataset.json"), "{args:?}");
    }
    // The command line wins.
    place.ok(&["pack", "--config", "c.toml", "--out", "more", "--samples-per-shard", "4"]);
    assert_eq!(place.members("more").len(), 1);
    place.write("s.toml", "count = 2\nthreads = 1\n");
    assert_eq!(place.json(&["synth", "tiny", "--config", "s.toml", "--out", "s", "--json", "-q"])["files"], json!(2));
}

#[test]
fn a_config_file_that_is_wrong_is_named() {
    let place = Place::new();
    for (toml, words) in [
        ("samples_per_shard = 3", ["samples_per_shard", "no flag", "--help"]),
        ("[pack]\nout = 'x'", ["pack", "no flag", "--help"]),
        ("to = 1979-05-27", ["to", "value", "no flag"]),
        ("config = 'c.toml'", ["config", "no flag", "--help"]),
        ("to = [", ["TOML", "array", "c.toml"]),
    ] {
        place.write("c.toml", toml);
        place.fails(2, &["pack", "in", "--config", "c.toml"], &[&["c.toml"], &words[..]].concat());
    }
    place.write("c.toml", "labels = 'folders'");
    place.fails(2, &["ls", "x.tar", "--config", "c.toml"], &["c.toml", "labels", "packhorse ls --help"]);
    place.fails(2, &["--config", "c.toml"], &["--config needs a command"]);
    place.fails(2, &["pack", "--config"], &["--config takes a file"]);
    place.fails(8, &["ls", "x.tar", "--config", "s3://bucket/c.toml"], &["s3://bucket/c.toml", "URL"]);
}

#[test]
fn a_url_is_refused_where_only_a_path_is_taken_and_makes_no_folder() {
    let place = Place::new();
    let url = "s3://bucket/x";
    let before = fs::read_dir(place.path()).unwrap().count();
    for args in [
        &["pack", "in", "--to", "webdataset", "--out", "out", "--files-from", url][..],
        &["pack", "in", "--to", "webdataset", "--out", "out", "--labels", "folders", "--classes", url],
        &["pack", "in", "--to", "tokens", "--out", "out", "--tokenizer", url],
        &["merge", url, "--out", "x"],
        &["merge", "x", "--out", url],
        &["order", "x", "--out", url],
        &["stage", "in", "--to", url],
        &["synth", "images", "--count", "1", "--out", url],
        &["man", "--out", url],
    ] {
        place.fails(8, args, &[url]);
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), before);
}

#[test]
fn parts_and_array_tasks_make_what_one_process_makes() {
    let place = Place::new();
    let root = place.pack("whole", &["--samples-per-shard", "1"])["root"].clone();
    place.ok(&["plan", "in", "--to", "webdataset", "--out", "out", "--samples-per-shard", "1", "--quiet"]);
    place.fails(6, &["seal", "out"], &["5 of 5 shards", "packhorse pack --plan"]);
    let part = place.json(&["pack", "--plan", "out", "--part", "1/3", "--quiet", "--json"]);
    assert!(part["shards"].as_u64().unwrap() < 3, "{part}");
    let said = place.ok(&["status", "out"]);
    assert!(said.contains("of 5 shards") && said.contains("packhorse pack --plan out"), "{said}");
    for (task, rank) in [("2", "0"), ("2", "1"), ("3", "0"), ("3", "1"), ("1", "1"), ("1", "0")] {
        let mut command = place.command(&["pack", "--plan", "out", "--quiet"]);
        command.envs([("SLURM_ARRAY_TASK_ID", task), ("SLURM_ARRAY_TASK_MIN", "1"), ("SLURM_ARRAY_TASK_MAX", "3")]);
        command.envs([("SLURM_ARRAY_TASK_COUNT", "3"), ("SLURM_PROCID", rank), ("SLURM_NTASKS", "2")]);
        command.env("SLURM_STEP_ID", "0");
        assert_eq!(Ran::of(command.output().unwrap()).code, 0);
    }
    assert!(place.ok(&["status", "out"]).contains("packhorse seal out"));
    assert_eq!(place.json(&["seal", "out", "--json"])["root"], root);
    assert_eq!(place.read("whole/dataset.json"), place.read("out/dataset.json"));
    let mut gaps = place.command(&["pack", "--plan", "out"]);
    gaps.envs([("SLURM_ARRAY_TASK_ID", "5"), ("SLURM_ARRAY_TASK_MAX", "9"), ("SLURM_ARRAY_TASK_COUNT", "2")]);
    let ran = Ran::of(gaps.output().unwrap());
    assert_eq!((ran.code, ran.err.contains("--part i/n")), (2, true), "{}", ran.err);
}

#[test]
fn another_request_for_a_folder_names_each_flag_that_differs() {
    let place = Place::new();
    place.pack("out", &["--shuffle", "1", "--labels", "folders"]);
    for (flags, differs) in [
        (&["--shuffle", "2", "--labels", "folders"][..], "--shuffle"),
        (&["--shuffle", "1"], "--labels"),
        (&["--shuffle", "1", "--labels", "folders", "--split", "a=1"], "--split"),
        (&["--shuffle", "1", "--labels", "folders", "--index", "dali"], "--index"),
        (&["--shuffle", "1", "--labels", "folders", "--drop", "txt"], "fields/"),
        (&["--shuffle", "1", "--labels", "folders", "--name", "x"], "--name"),
    ] {
        place.pack_fails(2, flags, &["out:", differs, "new folder"]);
    }
    let again = place.pack("out", &["--shuffle", "1", "--labels", "folders"]);
    assert_eq!((&again["resumed"], &again["reused"]), (&json!(true), &json!(1)));
}

// Verification.

#[test]
fn damage_is_found_and_named() {
    let place = Place::new();
    place.pack("out", &[]);
    let whole = place.read("out/shard-000000.tar");
    let mut flipped = whole.clone();
    flipped[512] ^= 1;
    place.write("out/shard-000000.tar", &flipped);
    // A quick look reads no shard; the full one says where.
    assert_eq!(place.run(&["verify", "out", "--quiet"]).code, 0);
    let ran = place.run(&["verify", "out", "--full", "--json", "--quiet"]);
    assert_eq!(ran.code, 6);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(found["whole"], json!(false));
    assert!(found["damages"].as_array().unwrap().iter().any(|d| d["member"] == "cat/1.txt"), "{found}");
    place.write("out/shard-000000.tar", &whole[..whole.len() - 512]);
    let ran = place.run(&["verify", "out"]);
    assert!(ran.code == 6 && ran.out.contains("shard-000000.tar: "), "{}", ran.out);
    assert!(ran.out.contains("\ndamaged: 1 finding: "), "{}", ran.out);
    fs::remove_file(place.path().join("out/dataset.json")).unwrap();
    place.fails(6, &["verify", "out"], &["is not sealed", "packhorse seal"]);
}

/// The problems of a shard, and the readers that fail on them.
fn findings(place: &Place, shard: &[u8]) -> (i32, String) {
    place.write("x.tar", shard);
    let ran = place.run(&["verify", "x.tar", "--for", "webdataset,wids,hf,dali,energon"]);
    let lines = ran.out.lines().filter_map(|line| line.strip_prefix("x.tar: ")).collect::<Vec<_>>();
    (ran.code, lines.join("\n"))
}

#[test]
fn every_planted_defect_is_reported_for_the_readers_it_concerns() {
    let place = Place::with(&[]);
    let file = |name: &str| TarMember::file(name, "x");
    let long = format!("{}.txt", "l".repeat(120));
    let short = &long[..100];
    let all = "[webdataset, wids, hf, dali, energon]";
    let sins: [(&str, Vec<TarMember>, &str); 12] = [
        ("PAX header", vec![TarMember::pax(&[("mtime", b"1.5")]), file("a.txt")], "[webdataset]"),
        ("PAX header", vec![TarMember::pax(&[("path", long.as_bytes())]), file(short)], "[wids]"),
        ("GNU long name", vec![TarMember::gnu_name(&long), file(short)], "[wids, dali]"),
        ("prefix", vec![file("a.txt").with_prefix("d".repeat(60))], "[wids]"),
        ("upper case", vec![file("a.TXT")], "[webdataset, dali]"),
        ("twice", vec![file("a.txt"), file("a.txt")], "[webdataset, hf]"),
        ("not adjacent", vec![file("a.txt"), file("b.txt"), file("a.cls")], all),
        ("other fields", vec![file("a.txt"), file("b.cls")], "[hf]"),
        ("dot in its folder", vec![file("v1.2/a.txt")], "[hf, energon, dali]"),
        ("white space", vec![file("my a.txt")], "[dali]"),
        ("not a regular file", vec![file("a.txt"), TarMember::of_kind(b'2', "b.txt", "")], all),
        ("no extension", vec![file("a.txt"), file("readme")], all),
    ];
    assert_eq!(findings(&place, &archive(&[file("a.txt"), file("b.txt")])), (0, String::new()));
    for (word, members, who) in sins {
        let (code, lines) = findings(&place, &archive(&members));
        assert_eq!(code, 3, "{word}: {lines}");
        assert!(lines.lines().any(|l| l.contains(word) && l.ends_with(who)), "{word} {who}: {lines}");
    }
    let mark = archive(&[file("a.txt")]);
    let (code, lines) = findings(&place, &mark[..1024]);
    assert!(code == 3 && lines.contains("no end-of-archive mark") && lines.ends_with("[damage]"), "{lines}");
}

#[test]
fn a_defect_is_not_reported_for_other_readers() {
    let place = Place::with(&[]);
    place.write("x.tar", archive(&[TarMember::file("my a.txt", "x")]));
    assert!(place.ok(&["verify", "x.tar", "--for", "wids,hf"]).contains("wids: reads all of it (1 sample in 1 shard)"));
    let found = place.run(&["verify", "x.tar", "--for", "dali", "--json"]);
    assert_eq!(found.code, 3);
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_shape(&found["findings"][0], "count:number file:string member:string problem:string readers:array");
    assert_eq!(found["findings"][0]["readers"], json!(["dali"]));
}

#[test]
fn keys_of_two_shards_must_differ() {
    let place = Place::with(&[]);
    let shard = archive(&[TarMember::file("a.txt", "x")]);
    ["f/1.tar", "f/2.tar"].iter().for_each(|name| place.write(name, &shard));
    let ran = place.run(&["verify", "f", "--for", "energon"]);
    assert_eq!(ran.code, 3);
    assert!(ran.out.contains("f/2.tar: a is the key of a sample in another shard"), "{}", ran.out);
}

// Help.

#[test]
fn help_keeps_common_flags_apart_and_names_every_code() {
    let place = Place::with(&[]);
    let help = place.ok(&["pack", "--help"]);
    let (own, common) = help.split_once("Options of every command:").unwrap();
    for flag in ["--to <", "--files-from <", "--metadata <", "--memory <", "--part <", "--dry-run", "--orient"] {
        assert_eq!((own.matches(flag).count() > 0, common.contains(&format!("  {flag}"))), (true, false), "{flag}");
    }
    for flag in ["--quiet", "--log <", "--json", "--config <"] {
        assert!(common.contains(flag) && !own.contains(&format!("      {flag}")), "{flag}");
    }
    let help = place.ok(&["--help"]);
    for code in [0, 1, 2, 3, 4, 5, 6, 7, 8, 130] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{code} "))), "{code}");
    }
    // What has no use of a flag does not take it.
    place.fails(2, &["verify", "x", "--memory", "1GB"], &["--memory"]);
    place.fails(2, &["synth", "tiny", "--out", "x", "--io-threads", "1"], &["--io-threads"]);
}

#[test]
fn manuals_go_where_they_are_asked_to_and_say_so() {
    let place = Place::with(&[]);
    assert_eq!(place.ok(&["man", "--out", "m/n"]), "wrote man pages to m/n\n");
    assert!(place.text("m/n/packhorse-pack.1").contains("files\\-from"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.ok(&["completions", shell]);
        let words = ["pack", "plan", "seal", "status", "verify", "ls", "cat", "stat", "synth", "completions", "man"];
        assert!(words.iter().all(|word| script.contains(word)) && script.contains("shard-size"), "{shell}");
    }
    place.fails(2, &["completions", "tcsh"], &["bash", "fish"]);
}

#[test]
fn each_corpus_is_its_seeds_and_is_packed() {
    let place = Place::with(&[]);
    for kind in ["images", "text", "npz", "tiny"] {
        let make = |out: &str, seed: &str| {
            place.json(&["synth", kind, "--count", "3", "--seed", seed, "--out", out, "--jobs", "1", "--json", "-q"])
        };
        let [a, b, c] = [("a", "1"), ("b", "1"), ("c", "2")].map(|(name, seed)| (format!("{kind}-{name}"), seed));
        let made = make(&a.0, a.1);
        assert_eq!((&make(&b.0, b.1), made["files"] != 0), (&made, true), "{kind}");
        assert_eq!(make(&a.0, a.1)["reused"], made["files"], "{kind}");
        make(&c.0, c.1);
        let root = |corpus: &str| {
            let out = format!("{corpus}-shards");
            place.json(&["pack", corpus, "--to", "webdataset", "--out", &out, "--json", "-q"])["root"].clone()
        };
        assert_eq!(root(&a.0), root(&b.0), "{kind}");
        assert_ne!(root(&a.0), root(&c.0), "{kind}");
    }
    place.fails(2, &["synth", "tiny", "--count", "3", "--seed", "9", "--out", "tiny-a"], &["another seed"]);
}
