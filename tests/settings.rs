//! Libraries name settings, never flags, and only settings that exist; every kind and code of an error is documented.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse::core::{Code, Kind};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words in backticks that are not settings.
const OTHERS: [&str; 3] = ["identity", "remote", "stage"];

/// The string literals of Rust source with the lines they begin on; comments and what follows `mod tests {` are passed
/// over.
fn literals(source: &str) -> Vec<(usize, String)> {
    let source = source.split("\nmod tests {").next().unwrap();
    let bytes = source.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            at += rest[1..].find('\'').unwrap() + 2;
        } else if let Some(hashes) = raw_hashes(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let text = &rest[hashes + 2..];
            let len = text.find(&end).unwrap();
            found.push((line(source, at), text[..len].to_owned()));
            at += hashes + 2 + len + end.len();
        } else if let Some(text) = rest.strip_prefix('"') {
            let len = closing(text);
            found.push((line(source, at), text[..len].to_owned()));
            at += len + 2;
        } else {
            at += rest.chars().next().unwrap().len_utf8();
        }
    }
    found
}

/// How many `#` a raw string that begins here has.
fn raw_hashes(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.bytes().take_while(|b| *b == b'#').count();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// The place of the quote that ends a string.
fn closing(text: &str) -> usize {
    let (mut at, bytes) = (0, text.as_bytes());
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

fn line(source: &str, at: usize) -> usize {
    source[..at].lines().count().max(1)
}

/// The sources of the library crates.
fn libraries() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for room in ["core", "storage", "dataset", "transform", "pack", "order", "read", "gpu"] {
        walk(&root.join("crates").join(room).join("src"), &mut found);
    }
    for format in fs::read_dir(root.join("formats")).unwrap() {
        walk(&format.unwrap().path().join("src"), &mut found);
    }
    assert!(found.len() > 200, "only {} files", found.len());
    found
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_stem().unwrap() != "tests" {
            found.push(path);
        }
    }
}

/// The parts of `text` in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The settings that `text` names: `name` or `name=value`, also within a command.
fn settings(text: &str) -> Vec<&str> {
    let name = |word: &str| {
        let end = word.find('=').unwrap_or(word.len());
        !word.is_empty() && word[..end].bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
    };
    let mut found = Vec::new();
    for code in quoted(text) {
        let words = code.strip_prefix("packhorse ").map(|words| words.split(' ').skip(1).collect());
        let words: Vec<&str> = words.unwrap_or_else(|| vec![code]);
        found.extend(words.into_iter().filter(|word| name(word)).map(|word| word.split('=').next().unwrap()));
    }
    found
}

fn flagged(text: &str) -> bool {
    let starts = text.match_indices("--").map(|(at, _)| at);
    let mut starts = starts.filter(|at| *at == 0 || !matches!(text.as_bytes()[at - 1], b'-' | b'a'..=b'z'));
    starts.any(|at| text.as_bytes().get(at + 2).is_some_and(u8::is_ascii_lowercase))
}

#[test]
fn no_library_names_a_flag() {
    let mut found = Vec::new();
    for path in libraries() {
        let source = fs::read_to_string(&path).unwrap();
        let flags = literals(&source).into_iter().filter(|(_, text)| flagged(text));
        found.extend(flags.map(|(line, text)| format!("{}:{line}: {text}", path.display())));
    }
    assert_eq!(found, Vec::<String>::new(), "write `name` or `name=value`");
}

#[test]
fn every_setting_in_a_message_is_a_flag() {
    let output = Command::new(env!("CARGO_BIN_EXE_packhorse")).args(["completions", "bash"]).output().unwrap();
    let script = String::from_utf8(output.stdout).unwrap();
    let flags: BTreeSet<&str> =
        script.split([' ', '"', '\n', ')', '|']).filter_map(|word| word.strip_prefix("--")).collect();
    assert!(flags.contains("on-error") && flags.len() > 50, "{flags:?}");
    let (mut named, mut unknown) = (0, Vec::new());
    for path in libraries() {
        for (line, text) in literals(&fs::read_to_string(&path).unwrap()) {
            for setting in settings(&text).into_iter().filter(|name| !OTHERS.contains(name)) {
                named += 1;
                if !flags.contains(setting) {
                    unknown.push(format!("{}:{line}: {setting}", path.display()));
                }
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
    assert!(named > 60, "only {named} settings found");
}

#[test]
fn a_flag_and_a_setting_are_found() {
    let source = "let a = \"give --out\"; // \"--not this\"\nlet b = '\"'; let c = r#\"see `shard-size` and `packhorse pack plan=x`\"#;";
    let found = literals(source);
    assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2]);
    assert!(flagged(&found[0].1) && !flagged(&found[1].1) && !flagged("a--b ---- -- c"));
    assert_eq!(settings(&found[1].1), ["shard-size", "plan"]);
}

fn errors_page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md")).unwrap()
}

#[test]
fn every_exit_code_is_documented() {
    use Kind::*;
    let kinds = [Bug, Config, Content, Changed, Environment, Incomplete, Limit, Unsupported, Cancelled];
    let wanted: Vec<String> =
        kinds.iter().map(|kind| format!("{} | {}", packhorse_cli::code(*kind), kind.name())).collect();
    let page = errors_page();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.rsplit_once(" | ").map(|(row, _)| row));
    let documented: Vec<&str> = rows.filter(|row| row.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(documented.first(), Some(&"0 |"));
    assert_eq!(documented[1..], wanted);
}

#[test]
fn every_code_is_documented() {
    let page = errors_page();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ").map(|(code, _)| code));
    let documented: Vec<&str> = rows.collect();
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(documented, codes);
}
