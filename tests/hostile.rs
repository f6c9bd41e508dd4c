//! Hostile inputs through the real program: nothing hangs, panics, gets lost without a word, or lands
//! outside the dataset's folder.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

use packhorse::core::{Limits, MemoryInput, Options, Sample};
use packhorse_testkit::hostile::tar::{TarMember, archive};
use packhorse_testkit::hostile::{HostileEntry, HostileFolder, Outcome};
use packhorse_testkit::program::{self, Ran};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const LIMIT: Duration = Duration::from_secs(60);

/// Exit codes, as `packhorse --help` has them.
const DONE: Option<i32> = Some(0);
const CONTENT: Option<i32> = Some(3);
const CHANGED: Option<i32> = Some(4);

fn packhorse() -> Command {
    Command::new(env!("CARGO_BIN_EXE_packhorse"))
}

/// The program as a user whom permissions bind; `None` where this user is root and can't be less.
fn unprivileged(dir: &Path) -> Option<Command> {
    if fs::metadata(dir).unwrap().uid() != 0 {
        return Some(packhorse());
    }
    let setpriv = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
        command
    };
    let program = Path::new(env!("CARGO_BIN_EXE_packhorse"));
    if setpriv(program).arg("--version").output().is_ok_and(|o| o.status.success()) {
        return Some(setpriv(program));
    }
    // The build folder may be closed to others.
    let copy = dir.join("packhorse");
    fs::copy(program, &copy).unwrap();
    if setpriv(&copy).arg("--version").output().is_ok_and(|o| o.status.success()) {
        return Some(setpriv(&copy));
    }
    assert!(std::env::var_os("CI").is_none(), "setpriv is missing");
    packhorse_testkit::external::skip("setpriv is missing, and root may read everything");
    None
}

/// Runs to the end, without a panic and without a control character on the terminal.
fn run(command: &mut Command) -> Ran {
    let ran = program::run(command, LIMIT);
    assert!(!ran.stderr.contains("panicked"), "{command:?}\n{}", ran.stderr);
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{command:?}\n{text:?}");
    }
    assert!(ran.code.is_some_and(|code| code != 1 && code != 101), "{command:?} {:?}\n{}", ran.code, ran.stderr);
    ran
}

fn pack(inputs: &[&Path], out: &Path, more: &[&str]) -> Ran {
    run(packhorse().arg("pack").args(inputs).args(["--to", "webdataset", "--quiet", "--out"]).arg(out).args(more))
}

/// The bytes of each field, by key and name.
type Fields = BTreeMap<(String, String), Vec<u8>>;

/// Every field of every sample in the shards of a folder.
fn fields(out: &Path) -> Fields {
    let registry = packhorse::registry();
    let source = registry.get("webdataset").unwrap().source(&Options::new(), Limits::default()).unwrap();
    let mut found = BTreeMap::new();
    for path in
        fs::read_dir(out).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "tar"))
    {
        let input = MemoryInput::new(path.to_str().unwrap(), fs::read(&path).unwrap());
        for rows in source.open(Arc::new(&input)).unwrap().rows(0..u64::MAX).unwrap().map(Result::unwrap) {
            for sample in (0..rows.num_rows()).map(|row| Sample::new(&rows, row).unwrap()) {
                for field in rows.schema().fields().iter().skip(1) {
                    let Some(bytes) = sample.bytes(field.name()) else { continue };
                    let name = (sample.key().unwrap().to_owned(), field.name().clone());
                    assert!(found.insert(name, bytes.to_vec()).is_none(), "{} twice", sample.key().unwrap());
                }
            }
        }
    }
    found
}

/// A line of `skipped.jsonl`; the input as text.
#[derive(Debug)]
struct Skip {
    input: String,
    sample: String,
    reason: String,
}

fn skipped(out: &Path) -> Vec<Skip> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Object(hex) => {
            let hex = hex["hex"].as_str().unwrap();
            let bytes: Vec<u8> =
                (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        _ => String::new(),
    };
    let lines = fs::read_to_string(out.join("skipped.jsonl")).unwrap();
    let line = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        Skip { input: text(&record["input"]), sample: text(&record["sample"]), reason: text(&record["reason"]) }
    };
    lines.lines().map(line).collect()
}

fn verify(out: &Path) {
    let ran = run(packhorse().arg("verify").arg(out).args(["--full", "--quiet"]));
    assert_eq!(ran.code, DONE, "{}{}", ran.stdout, ran.stderr);
}

/// Whether a record is about this entry, or about something inside it. Who looks at pictures knows
/// samples only.
fn concerns(entry: &HostileEntry, record: &Skip) -> bool {
    match &entry.outcome {
        Outcome::BadPicture { key, .. } => record.sample == *key,
        _ => {
            let rest = record.input.strip_prefix(&*entry.path.to_string_lossy());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    }
}

/// The field that an entry becomes, and what the record of it says, one of the two.
fn expected(outcome: &Outcome, pictures_checked: bool) -> (Option<(String, String)>, Option<&'static str>) {
    match outcome {
        Outcome::PassedOver => (None, None),
        Outcome::Fault(why) => (None, Some(why)),
        Outcome::BadPicture { fault, .. } if pictures_checked => (None, Some(fault)),
        Outcome::Packed { key, field } | Outcome::BadPicture { key, field, .. } => {
            (Some((key.clone(), field.clone())), None)
        }
    }
}

/// Each entry ended as the table says, nothing else was packed, nothing else is on record.
fn compare(folder: &HostileFolder, out: &Path, pictures_checked: bool) {
    let mut packed = fields(out);
    let mut records = skipped(out);
    for entry in folder.entries() {
        let (name, why) = expected(&entry.outcome, pictures_checked);
        if let Some(name) = name {
            assert_eq!(packed.remove(&name).as_ref(), Some(&entry.bytes), "{entry:?}");
        }
        if let Some(why) = why {
            let record = records.iter().position(|record| concerns(entry, record) && record.reason.contains(why));
            let record = record.unwrap_or_else(|| panic!("{:?} has no record; {records:#?}", entry.path));
            records.swap_remove(record);
        }
    }
    packhorse_testkit::external::count(folder.entries().len(), "hostile entries");
    assert!(packed.is_empty(), "packed as well: {:?}", packed.keys());
    assert!(records.is_empty(), "on record as well: {records:?}");
}

#[test]
fn each_entry_of_a_hostile_folder_ends_in_one_way() {
    let folder = HostileFolder::new();
    let Some(_) = unprivileged(folder.path()) else { return };
    for (name, more) in [("plain", &[][..]), ("checked", &["--image", "check"])] {
        let place = folder.path().join(name);
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).unwrap();
        let out = place.join("out");
        let mut command = unprivileged(folder.path()).unwrap();
        command.arg("pack").args(folder.roots()).args(["--to", "webdataset", "--on-error", "skip", "--quiet", "--out"]);
        let ran = run(command.arg(&out).args(more));
        assert_eq!(ran.code, DONE, "{}", ran.stderr);
        compare(&folder, &out, !more.is_empty());
        verify(&out);
        let manifest: Value = serde_json::from_slice(&fs::read(out.join("dataset.json")).unwrap()).unwrap();
        assert_eq!(manifest["skipped"], skipped(&out).len());
    }
}

#[test]
fn on_error_fail_names_the_first_offender_and_writes_no_shard() {
    let folder = HostileFolder::new();
    let place = folder.path().join("place");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).unwrap();
    let Some(mut command) = unprivileged(folder.path()) else { return };
    let out = place.join("out");
    command.arg("pack").args(folder.roots()).args(["--to", "webdataset", "--quiet", "--out"]).arg(&out);
    let errors: BTreeSet<String> = (0..5).map(|_| error_line(&run(&mut command))).collect();
    // Whatever the threads did: the same input is named each time, the first in the order of paths.
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let error = errors.first().unwrap();
    let first = folder.roots()[0].join("__key__.jpg");
    assert!(error.starts_with(&format!("error: {}: sample %5F_key__: ", first.display())), "{error}");
    assert!(error.contains("already from") && error.contains("--on-error skip"), "{error}");
    assert!(!out.exists());
}

fn error_line(ran: &Ran) -> String {
    assert_eq!(ran.code, CONTENT, "{}", ran.stderr);
    ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap().to_owned()
}

#[test]
fn every_bad_file_alone_ends_in_exit_code_3() {
    for (name, bytes, more, why) in [
        ("a.jpg", &b"To whom it may concern"[..], &["--image", "check"][..], "not a known image"),
        ("a.jpg", b"\xff\xd8\xff", &["--image", "check"], "JPEG"),
        ("a.tar", b"To whom it may concern", &[], "is cut short"),
        ("a.tar.zst", b"To whom it may concern", &[], "can't be decompressed"),
        (&"n".repeat(110), b"x", &[], "carry at most 100"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let name = if name.contains('.') { name.to_owned() } else { format!("{name}.jpg") };
        fs::write(dir.path().join(&name), bytes).unwrap();
        fs::create_dir(dir.path().join("good")).unwrap();
        fs::write(dir.path().join("good/x.txt"), "x").unwrap();
        let error = error_line(&pack(&[dir.path()], &dir.path().join("out"), more));
        let named = if more.is_empty() { &name } else { "sample a:" };
        assert!(error.contains(named) && error.contains(why), "{error}");
    }
}

/// A planned folder of three files of 1,000 bytes, about to be tampered with.
fn planned(dir: &Path) -> (PathBuf, PathBuf) {
    let (input, out) = (dir.join("in"), dir.join("out"));
    fs::create_dir(&input).unwrap();
    for name in ["a.bin", "b.bin", "c.bin"] {
        fs::write(input.join(name), [7; 1000]).unwrap();
    }
    let ran = run(packhorse().arg("plan").arg(&input).args(["--to", "webdataset", "--quiet", "--out"]).arg(&out));
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    (input.join("b.bin"), out)
}

#[test]
fn an_input_that_changed_since_the_plan_is_never_packed_nor_skipped() {
    let replace = |path: &Path, len: usize| {
        let other = path.with_extension("new");
        fs::write(&other, vec![8; len]).unwrap();
        fs::rename(other, path).unwrap();
    };
    type Tampering<'a> = &'a dyn Fn(&Path);
    let tamperings: [(&str, Tampering<'_>); 7] = [
        ("grown", &|path| File::options().append(true).open(path).unwrap().write_all(b"more").unwrap()),
        ("shortened", &|path| File::options().write(true).open(path).unwrap().set_len(500).unwrap()),
        ("emptied", &|path| File::create(path).map(drop).unwrap()),
        ("replaced by one of the same length", &|path| replace(path, 1000)),
        ("touched", &|path| File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap()),
        ("removed", &|path| fs::remove_file(path).unwrap()),
        ("replaced by a folder", &|path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
    ];
    for (what, tamper) in tamperings {
        for policy in ["fail", "skip"] {
            let dir = tempfile::tempdir().unwrap();
            let (victim, out) = planned(dir.path());
            tamper(&victim);
            let ran = run(packhorse().args(["pack", "--on-error", policy, "--quiet", "--plan"]).arg(&out));
            assert_eq!(ran.code, CHANGED, "{what}: {}", ran.stderr);
            assert!(ran.stderr.contains("b.bin"), "{what}: {}", ran.stderr);
            assert!(!out.join("shard-000000.tar").exists(), "{what}");
            assert!(!out.join("shard-000000.receipt.json").exists(), "{what}");
        }
    }
}

#[test]
fn an_archive_that_changed_since_the_plan_is_never_packed() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in.tar"), dir.path().join("out"));
    let whole = archive(&members());
    fs::write(&input, &whole).unwrap();
    let plan =
        |out: &Path| run(packhorse().arg("plan").arg(&input).args(["--to", "webdataset", "--quiet", "--out"]).arg(out));
    assert_eq!(plan(&out).code, DONE);
    fs::write(&input, &whole[..1024]).unwrap();
    let ran = run(packhorse().args(["pack", "--on-error", "skip", "--quiet", "--plan"]).arg(&out));
    assert_eq!(ran.code, CHANGED, "{}", ran.stderr);
}

fn members() -> Vec<TarMember> {
    let text = |n: usize| (0..n).map(|i| b'a' + (i % 26) as u8).collect::<Vec<u8>>();
    vec![
        TarMember::file("a.jpg", text(700)),
        TarMember::file("a.cls", "1"),
        TarMember::file("b.jpg", text(512)),
        TarMember::file("b.cls", ""),
        TarMember::file("c.jpg", text(1300)),
        TarMember::file("c.cls", "3"),
    ]
}

/// A folder with one archive and one good file.
fn with_archive(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let input = dir.join("in");
    fs::create_dir(&input).unwrap();
    fs::write(input.join(name), bytes).unwrap();
    fs::write(input.join("good.txt"), "good").unwrap();
    input
}

/// Packs a folder with one archive under both policies. Under `fail` an archive with anything wrong
/// is refused by name. Under `skip` what was packed is returned, with the reasons on record.
fn both_ways(name: &str, bytes: &[u8]) -> (Fields, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let input = with_archive(dir.path(), name, bytes);
    let out = dir.path().join("skip");
    let ran = pack(&[&input], &out, &["--on-error", "skip"]);
    assert_eq!(ran.code, DONE, "{name}: {}", ran.stderr);
    let mut packed = fields(&out);
    assert!(packed.remove(&("good".into(), "txt".into())).is_some());
    let records = skipped(&out);
    assert!(records.iter().all(|record| record.input == name), "{records:?}");
    let failed = pack(&[&input], &dir.path().join("fail"), &[]);
    match records.is_empty() {
        true => assert_eq!(failed.code, DONE, "{}", failed.stderr),
        false => assert!(error_line(&failed).contains(name), "{}", failed.stderr),
    }
    (packed, records.into_iter().map(|record| record.reason).collect())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    fs::write(&path, bytes).unwrap();
    let output = Command::new("gzip").arg("-c").arg(path).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn named(members: &[TarMember]) -> Fields {
    let split = |m: &TarMember| {
        let name = String::from_utf8(m.name.clone()).unwrap();
        let (key, field) = name.split_once('.').unwrap();
        ((key.to_owned(), field.to_owned()), m.bytes.clone())
    };
    members.iter().map(split).collect()
}

#[test]
fn a_tar_cut_at_any_block_is_on_record_and_its_whole_members_are_packed() {
    let all = members();
    let whole = archive(&all);
    for cut in (512..whole.len()).step_by(512) {
        let (packed, records) = both_ways("cut.tar", &whole[..cut]);
        if cut == whole.len() - 512 {
            // Half the end-of-archive mark is enough to know that no member is missing.
            assert!(records.is_empty() && packed == named(&all), "cut at {cut}: {records:?}");
            continue;
        }
        let mut end = 0;
        let ends_before = |m: &&TarMember| {
            end += 512 + m.bytes.len();
            let there = end <= cut;
            end = end.next_multiple_of(512);
            there
        };
        let there: Vec<TarMember> = all.iter().filter(ends_before).cloned().collect();
        assert_eq!(packed, named(&there), "cut at {cut}");
        assert!(matches!(&records[..], [why] if why.contains("cut")), "cut at {cut}: {records:?}");
    }
    packhorse_testkit::external::count(whole.len() / 512 - 1, "cuts");
}

#[test]
fn tars_joined_with_cat_are_on_record_and_the_first_is_packed() {
    let first = members();
    let filled = |members: &[TarMember]| {
        let mut bytes = archive(members);
        bytes.resize(bytes.len().next_multiple_of(10_240), 0);
        bytes
    };
    let second = [TarMember::file("late.jpg", [7; 2000])];
    for joined in [
        ("joined.tar", [archive(&first), archive(&second)].concat()),
        ("joined.tar", [filled(&first), filled(&second)].concat()),
        ("joined.tar", [filled(&first), vec![0; 1 << 20], filled(&second)].concat()),
        ("joined.tar.gz", [gzip(&filled(&first)), gzip(&filled(&second))].concat()),
    ] {
        let (packed, records) = both_ways(joined.0, &joined.1);
        assert_eq!(packed, named(&first));
        assert!(matches!(&records[..], [why] if why.contains("tars were joined with cat")), "{records:?}");
    }
    assert_eq!(both_ways("filled.tar", &filled(&first)), (named(&first), Vec::new()));
}

#[test]
fn a_compressed_tar_without_its_ending_is_told_apart() {
    let (packed, records) = both_ways("plain.tar", &gzip(&archive(&members())));
    assert!(packed.is_empty() && matches!(&records[..], [why] if why.contains("is compressed (gzip)")), "{records:?}");
}

#[test]
fn a_compressed_tar_cut_anywhere_is_on_record_and_nothing_torn_is_packed() {
    let all = named(&members());
    let whole = gzip(&archive(&members()));
    for cut in (1..whole.len()).step_by(whole.len() / 12) {
        let (packed, records) = both_ways("cut.tar.gz", &whole[..cut]);
        assert!(!records.is_empty(), "cut at {cut}");
        assert!(packed.iter().all(|(name, bytes)| all.get(name) == Some(bytes)), "cut at {cut}");
    }
    let (packed, records) = both_ways("whole.tgz", &whole);
    assert!(records.is_empty() && packed == all);
}

#[test]
fn a_tar_that_is_cut_inside_a_whole_gzip_stream_is_on_record_and_nothing_torn_is_packed() {
    let all = named(&members());
    let whole = archive(&members());
    for cut in (256..whole.len() - 1024).step_by(768) {
        let (packed, records) = both_ways("cut.tar.gz", &gzip(&whole[..cut]));
        assert!(!records.is_empty(), "cut at {cut}");
        assert!(packed.iter().all(|(name, bytes)| all.get(name) == Some(bytes)), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_in_a_tar_header_is_never_packed_as_if_it_were_right() {
    let all = named(&members());
    let whole = archive(&members());
    // The header of the third member: every field of it, some bit in each byte where there is any.
    let header = 512 + 1024 + 512 + 512;
    for at in (0..512).step_by(11) {
        let mut bytes = whole.clone();
        bytes[header + at] ^= 1 << (at % 8);
        let (packed, records) = both_ways("flipped.tar", &bytes);
        assert!(packed.iter().all(|(name, bytes)| all.get(name) == Some(bytes)), "byte {at}");
        assert!(!records.is_empty() || packed == all, "byte {at}: members vanished without a word");
    }
    packhorse_testkit::external::count(512 / 11 + 1, "flipped bits found");
}

#[test]
fn every_way_to_write_a_name_is_read() {
    let long = format!("{}/{}.jpg", "d".repeat(60), "n".repeat(30));
    let name = |key: &str, field: &str| (key.to_owned(), field.to_owned());
    let tar = archive(&[
        TarMember::of_kind(b'5', "folder/", ""),
        TarMember::pax(&[("path", "p\u{e4}x/name.jpg".as_bytes()), ("comment", b"any")]),
        TarMember::file("cut/short.jpg", "pax"),
        TarMember::gnu_name(&long),
        TarMember::file(&long[..90], "gnu"),
        TarMember::file("name.jpg", "prefix").with_prefix("in/front"),
        TarMember::of_kind(b'g', "GlobalHead", b"20 comment=whatever\n"),
        TarMember::of_kind(0, "old.jpg", "v7"),
        TarMember::file("./dot.jpg", "dot"),
        TarMember::file(b"\xff.jpg", "bytes"),
        TarMember::file("one.jpg", "scattered"),
        TarMember::file("two.jpg", "between"),
        TarMember::file("one.cls", "0"),
        TarMember::file(".hidden.jpg", "hidden"),
        TarMember::file("no-extension", "none"),
    ]);
    let (packed, records) = both_ways("names.tar", &tar);
    assert!(records.is_empty(), "{records:?}");
    let expected: Fields = [
        (name("p\u{e4}x/name", "jpg"), "pax"),
        (name(long.strip_suffix(".jpg").unwrap(), "jpg"), "gnu"),
        (name("in/front/name", "jpg"), "prefix"),
        (name("old", "jpg"), "v7"),
        (name("dot", "jpg"), "dot"),
        (name("%FF", "jpg"), "bytes"),
        (name("one", "jpg"), "scattered"),
        (name("one", "cls"), "0"),
        (name("two", "jpg"), "between"),
    ]
    .into_iter()
    .map(|(name, bytes)| (name, bytes.into()))
    .collect();
    assert_eq!(packed, expected);
}

#[test]
fn members_that_hold_no_field_or_come_twice_are_on_record() {
    let (packed, records) = both_ways(
        "odd.tar",
        &archive(&[
            TarMember::file("a.jpg", "first"),
            TarMember::file("a.jpg", "second"),
            TarMember::of_kind(b'1', "hard.jpg", ""),
            TarMember::of_kind(b'2', "soft.jpg", ""),
            TarMember::of_kind(b'3', "device.jpg", ""),
            TarMember::of_kind(b'6', "fifo.jpg", ""),
            TarMember::pax(&[("GNU.sparse.size", b"9"), ("GNU.sparse.numblocks", b"1"), ("GNU.sparse.map", b"5,4")]),
            TarMember::file("holes.jpg", "tail"),
            TarMember::file("z.jpg", "last"),
        ]),
    );
    assert_eq!(packed, named(&[TarMember::file("a.jpg", "first"), TarMember::file("z.jpg", "last")]));
    for why in ["already from", "a hard link", "a symbolic link", "a device", "a FIFO", "a sparse file"] {
        assert_eq!(records.iter().filter(|r| r.contains(why)).count(), 1, "{why}: {records:?}");
    }
    assert_eq!(records.len(), 6, "{records:?}");
}

#[test]
fn what_readers_of_tars_take_in_different_ways_is_refused() {
    let global = |record: &[u8]| TarMember::of_kind(b'g', "GlobalHead", record);
    let pax = |name: &'static str, value: &'static [u8]| TarMember::pax(&[(name, value)]);
    let file = || TarMember::file("a.jpg", "12345");
    for (why, members) in [
        ("sets path for all members", vec![global(b"14 path=b.jpg\n"), file()]),
        ("sets size for all members", vec![global(b"9 size=3\n"), file()]),
        ("two PAX headers", vec![pax("path", b"b.jpg"), pax("path", b"c.jpg"), file()]),
        ("two PAX headers", vec![pax("size", b"3"), pax("path", b"c.jpg"), file()]),
        ("holds a NUL", vec![pax("path", b"b.jpg\0c.jpg"), file()]),
        ("a GNU long name and a PAX path", vec![pax("path", b"b.jpg"), TarMember::gnu_name("c.jpg"), file()]),
        ("the name of a folder", vec![TarMember::file("a.jpg/", "12345")]),
        ("a size though it is not a file", vec![TarMember::of_kind(b'5', "a/", "12345")]),
        ("damaged PAX", vec![pax("size", b"+5"), file()]),
    ] {
        let (packed, records) = both_ways("odd.tar", &archive(&members));
        assert!(packed.is_empty() && records.len() == 1, "{why}: {packed:?} {records:?}");
        assert!(records.iter().all(|record| record.contains(why)), "{why}: {records:?}");
    }
}

#[test]
fn what_is_no_tar_is_on_record() {
    let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in [&b"text"[..], &noise, &[b'x'; 512], b"\x1f\x8b\x08", b""] {
        let (packed, records) = both_ways("no.tar", bytes);
        assert!(packed.is_empty());
        assert_eq!(records.len(), 1, "{records:?}");
    }
}

#[test]
fn a_tar_in_a_tar_is_a_field_like_any_other() {
    let inner = archive(&members());
    let (packed, records) = both_ways("outer.tar", &archive(&[TarMember::file("inner.tar", &inner)]));
    assert!(records.is_empty());
    assert_eq!(packed, [(("inner".to_owned(), "tar".to_owned()), inner)].into());
}

/// Every path below `dir` but the dataset, with length and time of change.
fn snapshot(dir: &Path, out: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut all = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p != out) {
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                folders.push(path.clone());
            }
            all.insert(path, (meta.len(), meta.ctime(), meta.ctime_nsec()));
        }
    }
    all
}

#[test]
fn names_that_climb_write_nothing_outside_the_dataset() {
    // No dot in it: a hidden folder in a member's name is passed over.
    let dir = tempfile::Builder::new().prefix("climb").tempdir().unwrap();
    let place = dir.path().join("deep/down");
    fs::create_dir_all(&place).unwrap();
    let absolute = dir.path().join("absolute.jpg");
    let tar = archive(&[
        TarMember::file("../../climbed.jpg", "1"),
        TarMember::file(absolute.as_os_str().as_bytes(), "2"),
        TarMember::file("a/../../../climbed.jpg", "3"),
        TarMember::pax(&[("path", b"../../../pax.jpg")]),
        TarMember::file("x.jpg", "4"),
    ]);
    let input = with_archive(&place, "climbing.tar", &tar);
    let out = place.join("out");
    let before = snapshot(dir.path(), &out);
    let ran = pack(&[&input], &out, &["--index", "wids,dali,energon", "--long-keys", "hash"]);
    assert_eq!(ran.code, DONE, "{}", ran.stderr);
    // Folders that hold the dataset may have changed their time, nothing else.
    let after = snapshot(dir.path(), &out);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before.iter().all(|(path, stamp)| path.is_dir() || after[path] == *stamp));
    let keys: BTreeSet<String> = fields(&out).into_keys().map(|(key, _)| key).collect();
    assert!(keys.contains("%2E%2E/%2E%2E/climbed") && keys.len() == 5, "{keys:?}");
    assert!(keys.iter().all(|key| !key.starts_with('/') && !key.split('/').any(|part| part == "..")), "{keys:?}");
}

#[test]
fn containers_that_are_compressed_in_a_way_nobody_undoes_are_no_fields() {
    for name in ["a.tar.Z", "a.taz", "a.tar.lz4", "a.tlz", "a.tar.lz", "a.tar.lzma", "a.TAR.LZO", "a.parquet.lz4"] {
        let (packed, records) = both_ways(name, b"whatever");
        assert!(packed.is_empty() && records.len() == 1, "{name}: {packed:?} {records:?}");
        assert!(records[0].contains("decompress it first"), "{name}: {records:?}");
    }
    // A file that is not a container is a field, however it is compressed.
    let (packed, records) = both_ways("a.nii.lz4", b"whatever");
    assert!(packed.len() == 1 && records.is_empty(), "{packed:?} {records:?}");
}

#[test]
fn a_file_of_a_dataset_that_became_a_link_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    fs::create_dir(&input).unwrap();
    fs::write(input.join("a.txt"), "a").unwrap();
    assert_eq!(pack(&[&input], &out, &[]).code, DONE);
    for name in ["shard-000000.tar", "shard-000000.members", "plan.jsonl.zst"] {
        let (file, elsewhere) = (out.join(name), dir.path().join("elsewhere"));
        fs::rename(&file, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        let ran = run(packhorse().args(["verify", "--full"]).arg(&out));
        let said = [&ran.stdout[..], &ran.stderr].concat();
        assert!(ran.code == Some(6) && said.contains(name) && said.contains("is a symbolic link"), "{name}: {said}");
        fs::remove_file(&file).unwrap();
        fs::rename(&elsewhere, &file).unwrap();
    }
    assert_eq!(run(packhorse().args(["verify", "--full"]).arg(&out)).code, DONE);
}

#[test]
fn a_declared_length_costs_no_memory() {
    for size in [(8 << 30) - 1, 8 << 30, 1 << 40, u64::MAX - 511, u64::MAX] {
        let liar = |kind| TarMember::of_kind(kind, "liar.jpg", "tiny").declaring(size);
        let pax = TarMember::pax(&[("size", size.to_string().as_bytes())]);
        for (what, tar) in [
            ("plain", archive(&[TarMember::file("a.jpg", "fine"), liar(b'0')])),
            ("pax", archive(&[TarMember::file("a.jpg", "fine"), pax, TarMember::file("liar.jpg", "tiny")])),
            ("pax header", archive(&[TarMember::file("a.jpg", "fine"), liar(b'x')])),
            ("global header", archive(&[TarMember::file("a.jpg", "fine"), liar(b'g')])),
            ("long name", archive(&[TarMember::file("a.jpg", "fine"), liar(b'L')])),
        ] {
            for (name, bytes) in [("liar.tar", tar.clone()), ("liar.tar.gz", gzip(&tar))] {
                let dir = tempfile::tempdir().unwrap();
                let input = with_archive(dir.path(), name, &bytes);
                let out = dir.path().join("out");
                // Six gigabytes of addresses: plenty for stacks and arenas, too little for the lie.
                let mut command = Command::new("sh");
                command.args(["-c", "ulimit -v 6000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_packhorse"), "pack"]);
                command.arg(&input).args(["--to", "webdataset", "--on-error", "skip", "--quiet", "--out"]).arg(&out);
                let ran = run(&mut command);
                assert_eq!(ran.code, DONE, "{what} {size} in {name}: {}", ran.stderr);
                let packed = fields(&out);
                assert_eq!(packed[&("a".into(), "jpg".into())], b"fine", "{what} {size} in {name}");
                assert_eq!(packed.len(), 2, "{what} {size} in {name}: {:?}", packed.keys());
                assert_eq!(skipped(&out).len(), 1, "{what} {size} in {name}: {:?}", skipped(&out));
            }
        }
    }
}
