//! The text of the project is plain, and its names are few: words that make a sentence hard to read, and type names with
//! more than two definitions, fail here.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use regex::Regex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Words of old books and of other languages. Each has a plainer one.
const AVOIDED: &str =
    r"(?i)\b(nobody|anybody|anybodys|somebody|whoever|shall|anew|thus|hence|lest|as it was|be it|what is|what are)\b";

/// `is no reader` says less than `does not read`. `There is no reader` is plain.
const NEGATED: &str = r"(?i)(there )?\b(?:is|are) no (longer|more|less|fewer|larger|smaller|other|better|later)?";

/// The most definitions that a type name may have.
const MOST: usize = 2;

/// The most words of the glossary.
const GLOSSARY: usize = 40;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below the folders and files `roots` of the repository with one of these extensions.
fn files(roots: &[&str], extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = roots.iter().map(|name| root().join(name)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            open.extend(entries.filter(|path| !path.ends_with("target") && !path.ends_with("golden")));
        } else if path.extension().is_some_and(|end| extensions.iter().any(|wanted| end == *wanted)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The prose of a line of Rust: its comment and its string literals. A line without either is prose where it is the
/// middle of a longer literal, which has none of the characters of code.
fn prose(line: &str, literal: &Regex) -> String {
    let found: Vec<&str> = literal.find_iter(line).map(|m| m.as_str()).collect();
    match found.is_empty() && !line.contains(['{', '}', '(', ')', ';', '=']) {
        true => line.to_owned(),
        false => found.join(" "),
    }
}

/// The avoided words of `text`.
fn avoided(text: &str, words: &Regex, negated: &Regex) -> Vec<String> {
    let plain = |m: &regex::Captures<'_>| m.get(1).is_some() || m.get(2).is_some();
    let words = words.find_iter(text).map(|m| m.as_str().to_owned());
    words.chain(negated.captures_iter(text).filter(|m| !plain(m)).map(|m| m[0].to_owned())).collect()
}

#[test]
fn no_sentence_has_an_avoided_word() {
    let (words, negated) = (Regex::new(AVOIDED).unwrap(), Regex::new(NEGATED).unwrap());
    let literal = Regex::new(r#"//.*$|"(?:[^"\\]|\\.)*""#).unwrap();
    let pages = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs",
        "crates",
        "formats",
        "tests",
        "examples",
        "benches",
    ];
    let mut found = Vec::new();
    for path in files(&pages, &["rs", "md", "py", "toml", "sbatch", "cu"]) {
        if path.ends_with("tests/words.rs") {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        let is_rust = path.extension().is_some_and(|end| end == "rs");
        for (number, line) in text.lines().enumerate() {
            let line = if is_rust { prose(line, &literal) } else { line.to_owned() };
            let name = path.strip_prefix(root()).unwrap().display();
            found.extend(avoided(&line, &words, &negated).iter().map(|word| format!("{name}:{}: {word}", number + 1)));
        }
    }
    assert!(found.is_empty(), "{} plainer words wanted:\n{}", found.len(), found.join("\n"));
}

#[test]
fn avoided_words_are_noticed() {
    let (words, negated) = (Regex::new(AVOIDED).unwrap(), Regex::new(NEGATED).unwrap());
    assert_eq!(avoided("Nobody shall pass", &words, &negated), ["Nobody", "shall"]);
    assert_eq!(avoided("a line that is no JSON", &words, &negated), ["is no "]);
    assert!(avoided("there is no shard, and it is no longer read", &words, &negated).is_empty());
    let literal = Regex::new(r#"//.*$|"(?:[^"\\]|\\.)*""#).unwrap();
    assert_eq!(prose(r#"let anew = f("a \"b\""); // c"#, &literal), r#""a \"b\"" // c"#);
}

#[test]
fn a_type_name_has_two_definitions_at_most() {
    let definition =
        Regex::new(r"(?m)^\s*pub(?:\([a-z ]+\))? (?:unsafe )?(?:struct|enum|trait|type|union) (\w+)").unwrap();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files(&["crates", "formats"], &["rs"]) {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if ["/tests/", "/benches/", "/examples/", "/tests.rs"].iter().any(|part| name.contains(part)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for m in definition.captures_iter(text) {
            places.entry(m[1].to_owned()).or_default().push(name.clone());
        }
    }
    assert!(places.len() > 300, "only {} types were found", places.len());
    places.retain(|_, places| places.len() > MOST);
    assert!(places.is_empty(), "names with more than {MOST} definitions: {places:#?}");
}

#[test]
fn the_glossary_is_short_and_has_no_word_twice() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = page.split("\n## Glossary\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    let mut words: Vec<&str> = rows.flat_map(|row| row.split('|').nth(1).unwrap().split(',')).map(str::trim).collect();
    let count = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), count, "a word has two rows");
    assert!((20..=GLOSSARY).contains(&count), "{count} words");
}
