//! Tokens against the reference libraries, over real and random texts.
//!
//! Needs `PACKHORSE_PYTHON` (a Python with tests/interop/requirements.txt) and `PACKHORSE_TEST_DATA`; otherwise
//! skipped with a message. Compares a tenth of the texts, or all with `PACKHORSE_TEST_WHOLE=1`.

#![expect(clippy::unwrap_used, reason = "errors fail the test, and skipped tests are reported")]

#[path = "tokenize/random.rs"]
mod random;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt16Type};
use arrow_array::{ArrayRef, StringViewArray};
use packhorse_core::{FieldType, Rows, Schema};
use packhorse_testkit::external::{data, python};
use packhorse_transform::Transform;
use packhorse_transform::tokenize::{Special, Tokenize, TokenizeOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const HF: [&str; 5] = ["gpt2", "cl100k", "llama", "uni", "wp"];

fn unpack(path: &Path) -> Vec<u8> {
    zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()
}

/// The real texts, or a tenth of them.
fn corpus(data: &Path) -> Vec<String> {
    let every = if std::env::var_os("PACKHORSE_TEST_WHOLE").is_some() { 1 } else { 10 };
    let lines = unpack(&data.join("text.jsonl.zst"));
    let lines = lines.split(|b| *b == b'\n').filter(|line| !line.is_empty()).step_by(every);
    lines
        .map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap()["text"].as_str().unwrap().to_owned())
        .collect()
}

struct Oracle {
    python: PathBuf,
    folder: tempfile::TempDir,
}

impl Oracle {
    fn new(python: PathBuf) -> Self {
        Self { python, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn texts(&self, texts: &[String]) -> PathBuf {
        let lines: String = texts.iter().map(|text| serde_json::to_string(text).unwrap() + "\n").collect();
        self.write("texts", lines)
    }

    fn run(&self, arguments: &[&Path]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokenize/oracle.py");
        let status = Command::new(&self.python).arg(script).args(arguments).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    }

    fn encode(&self, mode: &str, tokenizer: &Path, texts: &[String]) -> Vec<Vec<u32>> {
        let out = self.path("ids");
        self.run(&[Path::new(mode), tokenizer, &self.texts(texts), &out]);
        let bytes = std::fs::read(out).unwrap();
        let mut numbers = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
        let mut documents = Vec::new();
        while let Some(count) = numbers.next() {
            documents.push(numbers.by_ref().take(usize::try_from(count).unwrap()).collect());
        }
        documents
    }
}

fn encode(file: &[u8], options: TokenizeOptions, texts: &[String]) -> Vec<Vec<u32>> {
    let tokenize = Tokenize::new(file, "tokenizer", options).unwrap();
    assert_eq!(tokenize.record().fallback, None);
    apply(&tokenize, texts)
}

fn apply(tokenize: &Tokenize, texts: &[String]) -> Vec<Vec<u32>> {
    let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
    let schema = Schema::new(vec![FieldType::Text.field("text", false)]);
    let rows = tokenize.apply(Rows::try_new(Arc::new(schema), vec![column]).unwrap()).unwrap();
    let numbers = |document: ArrayRef| match document.as_primitive_opt::<UInt16Type>() {
        Some(ids) => ids.values().iter().map(|id| u32::from(*id)).collect(),
        None => document.as_primitive::<Int32Type>().values().iter().map(|id| u32::try_from(*id).unwrap()).collect(),
    };
    rows.column_by_name("tokens").unwrap().as_list::<i32>().iter().map(|document| numbers(document.unwrap())).collect()
}

/// The texts with different tokens.
fn different<'t>(texts: &'t [String], found: &[Vec<u32>], right: &[Vec<u32>]) -> Vec<&'t String> {
    assert_eq!((texts.len(), found.len()), (right.len(), right.len()));
    (0..texts.len()).filter(|i| found[*i] != right[*i]).map(|i| &texts[i]).collect()
}

#[test]
fn hugging_face_over_real_and_random_texts() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let oracle = Oracle::new(python);
    let real = corpus(&data);
    for name in HF {
        let file = unpack(&data.join(format!("tokenizers/{name}.json.zst")));
        let path = oracle.write("tokenizer", &file);
        let found = encode(&file, TokenizeOptions::default(), &real);
        assert!(different(&real, &found, &oracle.encode("hf", &path, &real)).is_empty(), "{name}");
        let random = random::texts(20_000, 7);
        let found = encode(&file, TokenizeOptions::default(), &random);
        let different = different(&random, &found, &oracle.encode("hf", &path, &random));
        eprintln!("{name}: {} of {} random texts differ", different.len(), random.len());
        let unexplained: Vec<_> = different.into_iter().filter(|text| !random::explained(name, text)).collect();
        assert!(
            unexplained.is_empty(),
            "{name}: {} unexplained: {:?}",
            unexplained.len(),
            &unexplained[..unexplained.len().min(20)]
        );
        let literal = TokenizeOptions { parse_special: Some(false), ..TokenizeOptions::default() };
        let texts: Vec<String> = random.iter().take(300).chain(real.iter().take(20)).cloned().collect();
        let texts: Vec<String> = texts
            .iter()
            .map(|text| format!("{text}<|endoftext|></s>[SEP] {text}"))
            .filter(|t| !random::explained(name, t))
            .collect();
        let found = encode(&file, literal, &texts);
        assert_eq!(found, oracle.encode("literal", &path, &texts), "{name}");
    }
}

#[test]
fn tiktoken_over_real_and_random_texts() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let oracle = Oracle::new(python);
    for name in ["gpt2", "cl100k"] {
        let json = oracle.write("json", unpack(&data.join(format!("tokenizers/{name}.json.zst"))));
        let path = oracle.path("tiktoken");
        oracle.run(&[Path::new("vocabulary"), &json, &path]);
        let file = std::fs::read(&path).unwrap();
        // Only 100,000 tokens of cl100k are ordinary in this file: its published vocabulary was cut.
        let pattern = Some(name.to_owned());
        let options = TokenizeOptions { pattern, ..TokenizeOptions::default() };
        let real = corpus(&data);
        let found = encode(&file, options.clone(), &real);
        assert!(different(&real, &found, &oracle.encode("tiktoken", &path, &real)).is_empty(), "{name}");
        let random = random::texts(20_000, 8);
        let found = encode(&file, options, &random);
        let different = different(&random, &found, &oracle.encode("tiktoken", &path, &random));
        eprintln!("{name}: {} of {} random texts differ from tiktoken", different.len(), random.len());
        let unexplained: Vec<_> = different.into_iter().filter(|text| !random::explained("tiktoken", text)).collect();
        assert!(unexplained.is_empty(), "{name}: {:?}", &unexplained[..unexplained.len().min(20)]);
    }
}

#[test]
fn sentencepiece_over_real_and_random_texts() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let oracle = Oracle::new(python);
    let real = corpus(&data);
    let lines: Vec<String> =
        real.iter().flat_map(|text| text.lines()).step_by(29).take(8000).map(str::to_owned).collect();
    oracle.run(&[Path::new("train"), &oracle.texts(&lines), oracle.folder.path()]);
    let mut models = 0;
    let random = random::texts(20_000, 9);
    for entry in std::fs::read_dir(oracle.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "model") {
            continue;
        }
        models += 1;
        let file = std::fs::read(&path).unwrap();
        for (what, texts) in [("real", &real), ("random", &random)] {
            let found = encode(&file, TokenizeOptions { special: Special::None, ..TokenizeOptions::default() }, texts);
            let right = oracle.encode("sentencepiece", &path, texts);
            let different = different(texts, &found, &right);
            let first = different.first().map(|text| text.chars().take(200).collect::<String>());
            assert!(different.is_empty(), "{}: {} {what} texts: {first:?}", path.display(), different.len());
        }
    }
    assert_eq!(models, 7);
}

/// CPU seconds of this thread.
fn worked() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Texts without a place to split: four times the text may take a little more than four times the time, but not
/// sixteen times.
#[test]
fn long_runs_take_no_square_of_time() {
    let Some(data) = data() else { return };
    let size = if std::env::var_os("PACKHORSE_TEST_WHOLE").is_some() { 1 << 21 } else { 1 << 17 };
    let runs: [(&str, &str); 6] = [
        ("letters", "aqzj"),
        ("one letter", "a"),
        ("marks", "\u{301}"),
        ("digits", "7"),
        ("spaces", " "),
        ("Han", "中"),
    ];
    for name in HF.into_iter().rev() {
        let file = unpack(&data.join(format!("tokenizers/{name}.json.zst")));
        let tokenize = Tokenize::new(&file, name, TokenizeOptions::default()).unwrap();
        for (what, unit) in runs {
            let seconds = |bytes: usize| {
                let start = worked();
                let tokens = apply(&tokenize, &[unit.repeat(bytes / unit.len())]);
                (worked() - start, tokens[0].len())
            };
            let (one, two) = (seconds(size).0, seconds(4 * size));
            eprintln!("{name}, {what}: {one:.3} s, {:.3} s for four times the text, {} tokens", two.0, two.1);
            assert!(two.0 < 10.0 * one.max(0.02), "{name}, {what}");
        }
    }
}
