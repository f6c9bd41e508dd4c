//! Every branch of every tree in the files of `PACKHORSE_TEST_DATA/root` and `root-issues` is bit-equal to uproot's
//! values, or omitted by name.
//!
//! `PACKHORSE_PYTHON` is a Python with `tests/interop/requirements.txt` installed. Without either, the tests are
//! skipped.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]
#![expect(clippy::panic, reason = "a panic fails the test")]

mod common;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type};
use common::{Found, columns, line};
use packhorse_core::{Format, Kind, Limits, MemoryInput};
use packhorse_root::Root;
use packhorse_testkit::external::{data, python};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// uproot's result for one branch.
struct Line {
    file: String,
    tree: String,
    branch: String,
    kind: String,
    type_name: String,
    digest: Option<String>,
    element: String,
    error: Option<String>,
}

fn files(data: &Path) -> Vec<PathBuf> {
    let entries = ["root", "root-issues"].map(|folder| std::fs::read_dir(data.join(folder)).unwrap());
    let mut files: Vec<PathBuf> = entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "root"));
    files.sort();
    files
}

fn uproot(python: &Path, first: Option<&str>, files: &[PathBuf]) -> Vec<Line> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/uproot_dump.py");
    let child = Command::new(python).arg(script).args(first).args(files).stderr(Stdio::inherit()).output().unwrap();
    assert!(child.status.success(), "uproot_dump.py failed");
    let parse = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Line {
            file: text("file").unwrap(),
            tree: text("tree").unwrap(),
            branch: text("branch").unwrap(),
            kind: text("kind").unwrap(),
            type_name: text("type").unwrap_or_default(),
            digest: text("digest"),
            element: text("element").unwrap_or_default(),
            error: text("error"),
        }
    };
    String::from_utf8(child.stdout).unwrap().lines().map(parse).collect()
}

/// Our result for `branch`; if it is a member of omitted objects, the omission.
fn of_branch<'a>(found: &'a BTreeMap<String, Found>, branch: &str) -> Option<&'a Found> {
    found.get(branch).or_else(|| {
        let mut around = branch;
        while let Some((outer, _)) = around.rsplit_once('.') {
            if let Some(left_out @ Found::Unsupported(_)) = found.get(outer) {
                return Some(left_out);
            }
            around = outer;
        }
        None
    })
}

/// The results for the branches of one kind.
#[derive(Default, Debug, PartialEq)]
struct Count {
    equal: usize,
    unsupported: usize,
    ours: usize,
    wrong: Vec<String>,
}

#[test]
fn every_branch_is_as_uproot_reads_it() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let lines = uproot(&python, None, &files(&data));
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut of_tree: BTreeMap<(String, String), BTreeMap<String, Found>> = BTreeMap::new();
    for expected in &lines {
        let key = (expected.file.clone(), expected.tree.clone());
        let found = of_tree.entry(key).or_insert_with(|| columns(Path::new(&expected.file), &expected.tree));
        let count = counts.entry(expected.kind.clone()).or_default();
        let place = || {
            let file = Path::new(&expected.file).file_name().unwrap().to_string_lossy();
            format!("{file} {} {} ({})", expected.tree, expected.branch, expected.type_name)
        };
        let members = format!("{}.", expected.branch);
        match (of_branch(found, &expected.branch), &expected.digest) {
            (None, None) if found.keys().any(|name| name.starts_with(&members)) => {
                println!("only ours: {}: {:?}", place(), expected.error);
                count.ours += 1;
            }
            (None, _) => count.wrong.push(format!("{}: is missing", place())),
            (Some(Found::Unsupported(reason)), digest) => {
                if digest.is_some() || std::env::var_os("PACKHORSE_ROOT_REASONS").is_some() {
                    println!("unsupported: {}: {reason}", place());
                }
                count.unsupported += 1;
            }
            (Some(Found::Failed(error)), _) => count.wrong.push(format!("{}: {error}", place())),
            (Some(Found::Column { digest, element }), Some(wanted)) => {
                let same = digest == wanted && (*element == expected.element || expected.element == "any");
                match same {
                    true => count.equal += 1,
                    false => count.wrong.push(format!("{}: {element} {digest}", place())),
                }
            }
            (Some(Found::Column { .. }), None) => {
                println!("only ours: {}: {:?}", place(), expected.error);
                count.ours += 1;
            }
        }
    }
    for ((file, tree), found) in &of_tree {
        let known = lines.iter().filter(|line| line.file == *file && line.tree == *tree);
        let known: Vec<&Line> = known.collect();
        let named: BTreeSet<&str> = known.iter().map(|line| line.branch.as_str()).collect();
        // A branch that uproot can't read, or one that we omit while uproot reads its members.
        let within = |name: &str, of: &str| name.strip_prefix(of).is_some_and(|rest| rest.starts_with('.'));
        let about = |name: &str| {
            let left_out = matches!(found[name], Found::Unsupported(_));
            let unread = |line: &Line| line.digest.is_none() && within(name, &line.branch);
            known.iter().any(|line| unread(line) || left_out && within(&line.branch, name))
        };
        for name in found.keys().filter(|name| !named.contains(name.as_str()) && !about(name)) {
            let count = counts.entry("unknown to uproot".to_owned()).or_default();
            count.wrong.push(format!("{file} {tree} {name}"));
        }
    }
    let table: String =
        counts.iter().map(|(kind, count)| line(kind, count.equal, count.unsupported, count.ours)).collect();
    println!("{table}");
    let wrong: Vec<&String> = counts.values().flat_map(|count| &count.wrong).collect();
    for one in wrong.iter().take(60) {
        println!("wrong: {one}");
    }
    assert!(wrong.is_empty(), "{} of {} branches are wrong", wrong.len(), lines.len());
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/root.md");
    let docs = std::fs::read_to_string(docs).unwrap_or_default();
    assert!(docs.contains(&table), "docs/root.md does not hold this table");
}

/// Every branch that uproot lists is in the rows, or reported as omitted with a reason.
#[test]
fn no_branch_is_omitted_silently() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let mut trees: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for line in uproot(&python, Some("--names"), &files(&data)) {
        trees.entry((line.file, line.tree)).or_default().insert(line.branch);
    }
    let (mut columns, mut omitted) = (0, 0);
    for ((file, tree), branches) in trees {
        let input = MemoryInput::new(file.clone(), std::fs::read(&file).unwrap());
        let source = Root
            .source(&[("tree", tree.as_str()), ("expansion", "any")].into_iter().collect(), Limits::default())
            .unwrap();
        let info = match source.open(Arc::new(&input)).and_then(|table| table.info()) {
            Ok(info) => info,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Unsupported, "{file} {tree}: {error}");
                continue;
            }
        };
        let left_out: BTreeSet<&str> = info.omitted.iter().map(|omission| omission.field.as_str()).collect();
        assert!(info.omitted.iter().all(|omission| !omission.reason.is_empty()));
        let said: BTreeSet<&str> = info.schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert!(said.is_disjoint(&left_out));
        (columns, omitted) = (columns + said.len(), omitted + left_out.len());
        for branch in branches {
            let covers = |name: &&str| {
                name.strip_prefix(&branch).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '#']))
            };
            assert!(said.iter().chain(&left_out).any(covers), "{file} {tree}: {branch} is nowhere");
        }
    }
    println!("{columns} columns, {omitted} branches left out");
    assert!(columns > 0 && omitted > 0);
}

/// Referenced objects store two more bytes of bits; the number of bits must match the counter branch.
#[test]
fn bits_of_referenced_objects_are_as_many_as_the_objects() {
    let Some(data) = data() else { return };
    let bytes = std::fs::read(data.join("root-issues/uproot-issue513.root")).unwrap();
    let input = MemoryInput::new("uproot-issue513.root", bytes);
    let source = Root.source(&[("branches", "Track*")].into_iter().collect(), Limits::default()).unwrap();
    let mut tracks = 0;
    for rows in source.open(Arc::new(&input)).unwrap().rows(0..u64::MAX).unwrap() {
        let rows = rows.unwrap();
        let bits = rows.column_by_name("Track.fBits").unwrap().as_list::<i32>();
        let counts = rows.column_by_name("Track_size").unwrap().as_primitive::<Int32Type>();
        let lengths: Vec<i32> = bits.offsets().windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(lengths, counts.values().to_vec());
        let bits = bits.values().as_primitive::<UInt32Type>();
        assert!(bits.values().iter().any(|bits| bits & 1 << 4 != 0));
        assert!(bits.values().iter().all(|bits| bits >> 24 == 3));
        tracks += bits.len();
    }
    assert_eq!(tracks, 818);
}

/// uproot can't read baskets without offsets if the counter branch has other basket boundaries. The same values exist
/// with offsets for comparison.
#[test]
fn offsets_from_the_counter_branch() {
    let Some(data) = data() else { return };
    let [without, with] = ["nooffsets", "withoffsets"]
        .map(|name| columns(&data.join(format!("root/uproot-small-dy-{name}.root")), "tree"));
    for (name, found) in &without {
        match (found, &with[name]) {
            (Found::Column { digest, .. }, Found::Column { digest: other, .. }) => assert_eq!(digest, other, "{name}"),
            _ => panic!("{name} can't be read"),
        }
    }
    assert_eq!(without.len(), 8);
}
