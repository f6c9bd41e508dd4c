//! Compares with Python's `json.loads`, line by line: the same documents, and errors in the same lines.
//! `PACKHORSE_PYTHON` names the interpreter, `PACKHORSE_TEST_DATA` the folder of real data.

use crate::common::{read, source};
use packhorse_core::MemoryInput;
use packhorse_testkit::external::{data, python};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Checks that packhorse and Python read `bytes` alike; returns the numbers of documents and of errors.
fn compare(bytes: &[u8], path: &str, what: &str) -> Option<(usize, usize)> {
    let python = python()?;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    std::io::Write::write_all(&mut std::fs::File::create_new(&file).unwrap(), bytes).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/text/oracle.py");
    let out = Command::new(python).arg(script).arg(&file).arg(path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let input = MemoryInput::new("a.jsonl", bytes.to_vec());
    let mut ours = String::new();
    let (mut good, mut bad) = (0, 0);
    for found in read(&*source(&[("text-field", path)], 1 << 30), &input, 0..u64::MAX) {
        match found {
            Ok((key, text)) => {
                good += 1;
                let hex = text.bytes().fold(String::new(), |mut hex, byte| {
                    write!(hex, "{byte:02x}").unwrap();
                    hex
                });
                writeln!(ours, "{key} {hex}").unwrap();
            }
            Err(e) => {
                bad += 1;
                let key = e.split("sample ").nth(1).and_then(|rest| rest.get(..12)).unwrap();
                writeln!(ours, "{key} error").unwrap();
            }
        }
    }
    let theirs = String::from_utf8(out.stdout).unwrap();
    if let Some((ours, theirs)) = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs) {
        let at: usize = theirs[..12].parse().unwrap();
        let line = bytes[at..].split(|b| *b == b'\n').next().unwrap();
        panic!("{what}: ours\n{ours}\ntheirs\n{theirs}\nof {}", line.escape_ascii());
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{what}");
    Some((good, bad))
}

#[test]
fn real_text_is_read_as_by_python() {
    let Some(data) = data() else { return };
    let packed = std::fs::File::open(Path::new(&data).join("text.jsonl.zst")).unwrap();
    let bytes = zstd::decode_all(packed).unwrap();
    if let Some(found) = compare(&bytes, "text", "text.jsonl") {
        assert_eq!(found, (3659, 0));
    }
}

/// Pseudo-random numbers (the upper bits of a linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    /// Mostly one of the valid parts, now and then one of the odd ones.
    fn pick(&mut self, (right, odd): &Parts) -> &'static str {
        let from = if self.below(150) == 0 { odd } else { right };
        from[self.below(from.len())]
    }
}

/// Valid parts, and invalid or odd ones.
type Parts = (&'static [&'static str], &'static [&'static str]);

const NAMES: Parts = (&["text", "a", "b", "te\\u0078t"], &["a.b", "text ", "", "\\ud800", "a\\u002eb", "Text"]);

const STRINGS: Parts = (
    &[
        "",
        "plain",
        "äöü",
        "日本",
        "😀",
        "\\n",
        "\\u00e4",
        "\\ud83d\\ude00",
        "\\\\",
        "\\\"",
        "\\/",
        "\\b\\f\\r\\t",
        "words that end",
    ],
    &["\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\u0000", "\\x", "\\u12", "\\u12g4", "\t", "\\uD83D\\uDe00\\", "\u{7f}"],
);

const NUMBERS: Parts = (
    &["0", "-0", "12", "-7", "1.5", "1e5", "1E+5", "NaN", "Infinity", "-Infinity", "123456789012345678901234567890"],
    &["01", "-", "1.", ".5", "1e", "1e-", "-NaN", "+1", "1_0", "0x1", "1.5e-300", "٣"],
);

const WORDS: Parts = (&["true", "false", "null"], &["True", "nul", "nulll", "undefined"]);

const SPACES: Parts = (&["", "", "", " ", "\t", "\r", "  "], &["\u{a0}", "\x0c"]);

fn value(numbers: &mut Numbers, depth: usize, out: &mut String) {
    out.push_str(numbers.pick(&SPACES));
    match numbers.below(if depth > 3 { 7 } else { 10 }) {
        0..=3 => {
            out.push('"');
            (0..numbers.below(4)).for_each(|_| out.push_str(numbers.pick(&STRINGS)));
            out.push('"');
        }
        4 => out.push_str(numbers.pick(&NUMBERS)),
        5 => out.push_str(numbers.pick(&WORDS)),
        6 => out.push_str(["{}", "[]"][numbers.below(2)]),
        7 => {
            out.push('[');
            for i in 0..numbers.below(4) {
                out.push_str(if i > 0 { "," } else { "" });
                value(numbers, depth + 1, out);
            }
            out.push(']');
        }
        _ => object(numbers, depth + 1, out),
    }
    out.push_str(numbers.pick(&SPACES));
}

fn object(numbers: &mut Numbers, depth: usize, out: &mut String) {
    out.push('{');
    for i in 0..numbers.below(5) {
        out.push_str(if i > 0 { "," } else { "" });
        out.push_str(numbers.pick(&SPACES));
        write!(out, "\"{}\"", numbers.pick(&NAMES)).unwrap();
        out.push_str(numbers.pick(&SPACES));
        out.push(':');
        value(numbers, depth, out);
    }
    out.push('}');
}

/// A line, damaged with a probability of `odd` percent.
fn line(numbers: &mut Numbers, odd: usize) -> Vec<u8> {
    let mut text = String::new();
    if numbers.below(30) == 0 {
        value(numbers, 0, &mut text)
    } else {
        object(numbers, 0, &mut text)
    }
    let mut bytes = text.into_bytes();
    if numbers.below(100) < odd && !bytes.is_empty() {
        let at = numbers.below(bytes.len());
        match numbers.below(4) {
            0 => bytes.truncate(at),
            1 => bytes[at] = b"\xff\"} \xc3\x01,"[numbers.below(7)],
            2 => bytes.insert(at, b"\"{}[],:\\x \xef"[numbers.below(11)]),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes.retain(|byte| *byte != b'\n');
    bytes.push(b'\n');
    bytes
}

#[test]
fn odd_json_is_read_as_by_python() {
    for (path, seed) in [("text", 1), ("a.b", 2), ("a.b.text", 3)] {
        let mut numbers = Numbers(seed);
        let bytes: Vec<u8> = (0..60_000).flat_map(|i| line(&mut numbers, i % 3 * 20)).collect();
        let Some((good, bad)) = compare(&bytes, path, path) else { return };
        println!("{path}: {good} documents, {bad} errors");
        assert!(good >= 30 && bad > 1000, "{path}: {good} documents and {bad} errors are too few");
    }
}
