//! Every branch of every tree in the files of `PACKHORSE_TEST_DATA/root`, bit for bit as uproot reads it.
//!
//! `PACKHORSE_PYTHON` names a Python with `tests/interop/requirements.txt`. Without either this says so and
//! passes.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails the test")]
#![expect(clippy::panic, reason = "what goes wrong in a test fails the test")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

mod common;

use common::{Found, columns, line};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What uproot says of one branch.
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

fn wanted(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(name).map(PathBuf::from);
    if found.is_none() {
        println!("skipped: {name} is not set");
    }
    found
}

fn files(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join("root")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "root"));
    files.sort();
    files
}

fn uproot(python: &Path, files: &[PathBuf]) -> Vec<Line> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/uproot_dump.py");
    let child = Command::new(python).arg(script).args(files).stderr(Stdio::inherit()).output().unwrap();
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

/// What happened to the branches of one kind.
#[derive(Default, Debug, PartialEq)]
struct Count {
    equal: usize,
    unsupported: usize,
    ours: usize,
    wrong: Vec<String>,
}

#[test]
fn every_branch_is_as_uproot_reads_it() {
    let (Some(python), Some(data)) = (wanted("PACKHORSE_PYTHON"), wanted("PACKHORSE_TEST_DATA")) else { return };
    let lines = uproot(&python, &files(&data));
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
        match (found.get(&expected.branch), &expected.digest) {
            (None, _) => count.wrong.push(format!("{}: is not there", place())),
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
        let known: std::collections::BTreeSet<&str> = known.map(|line| line.branch.as_str()).collect();
        for name in found.keys().filter(|name| !known.contains(name.as_str())) {
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

/// uproot stops at baskets without offsets whose counting branch has other baskets; the same values were
/// written with offsets too.
#[test]
fn offsets_from_the_branch_that_counts() {
    let Some(data) = wanted("PACKHORSE_TEST_DATA") else { return };
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
