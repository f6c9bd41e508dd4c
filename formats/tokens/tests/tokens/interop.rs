//! Others read what we write, and we what they write, byte for byte. `PACKHORSE_PYTHON` names a Python that
//! has `tests/interop/requirements.txt` installed.

use crate::common::{Document, Folder, flat, read, rows, sink, source, write};
use crate::round_trip::sentences;
use packhorse_core::DataType;
use packhorse_testkit::{program, typed};
use packhorse_tokens::{VerifyOptions, verify};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn python(args: &[&str]) -> Option<String> {
    let python = packhorse_testkit::external::python()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tokens/check.py");
    let mut command = Command::new(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args(args);
    let ran = program::run(&mut command, Duration::from_secs(120));
    assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr);
    Some(ran.stdout)
}

#[expect(clippy::disallowed_methods, reason = "a test hands files to another program")]
fn store(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn ended(mut documents: Vec<Document>, eod: i64) -> Vec<Document> {
    documents.iter_mut().filter_map(|document| document.last_mut()).for_each(|last| last.push(eod));
    documents
}

/// A name, the type, documents, and whether rows have lengths.
fn cases() -> Vec<(&'static str, DataType, Vec<Document>, bool)> {
    let lens: Vec<usize> = (0..500).map(|i| (i * 131 % 97) * usize::from(i % 7 != 3)).collect();
    vec![
        ("none", DataType::UInt16, vec![], false),
        ("only empty", DataType::UInt16, flat(&[0, 0, 0], 1, 9), false),
        ("empty first and last", DataType::UInt16, flat(&[0, 4, 0, 0, 2, 0], 1, 65_499), false),
        ("with eod", DataType::UInt16, ended(flat(&lens, 1, 50_256), 50_256), false),
        ("a large vocabulary", DataType::Int32, ended(flat(&lens, 3, 128_000), 128_001), false),
        ("an id that is over 16 bits", DataType::Int32, vec![vec![vec![65_536, 0, 2_147_483_647]]], false),
        ("sentences", DataType::UInt16, ended(sentences(), 9), true),
        ("bytes", DataType::UInt8, flat(&[5, 1], 1, 256), false),
        ("long ids", DataType::Int64, vec![vec![vec![1 << 40, 0]]], false),
    ]
}

fn name(element: &DataType) -> &'static str {
    match element {
        DataType::UInt8 => "uint8",
        DataType::UInt16 => "uint16",
        DataType::Int32 => "int32",
        _ => "int64",
    }
}

#[test]
fn the_bytes_equal_those_of_another_writer_and_another_reader_reads_ours() {
    let dir = tempfile::tempdir().unwrap();
    let (spec, theirs, ours) = (dir.path().join("spec.json"), dir.path().join("theirs"), dir.path().join("ours"));
    for (case, element, documents, lengths) in cases() {
        store(&spec, serde_json::to_string(&documents).unwrap().as_bytes());
        if python(&["write", text(&spec), name(&element), text(&theirs)]).is_none() {
            return;
        }
        let folder = write(&*sink(&[]), &rows(&documents, &element, true, lengths), 100).0;
        let mut found = Folder([].into());
        for suffix in [".bin", ".idx"] {
            let bytes = std::fs::read(dir.path().join(format!("theirs{suffix}"))).unwrap();
            assert!(&bytes == folder.bytes(suffix), "{case}: bytes differ in {suffix}");
            found = found.with(suffix, bytes);
            store(&dir.path().join(format!("ours{suffix}")), folder.bytes(suffix));
        }
        let said: Value = serde_json::from_str(&python(&["read", text(&ours)]).unwrap()).unwrap();
        assert_eq!(said, json!({"dtype": name(&element), "documents": documents}), "{case}");
        let blocks = read(&*source(&[]), &found.input(".idx"), 0..u64::MAX).unwrap();
        typed::same(&blocks, &rows(&documents, &element, false, lengths), case);
        assert!(verify(&found.input(".idx"), &VerifyOptions::default()).unwrap().problems.is_empty());
    }
}

#[test]
fn other_layouts_are_read_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let documents = ended(flat(&[3, 0, 900, 2000, 1], 1, 50_000), 50_256);
    for (element, size) in [(DataType::UInt16, 2), (DataType::UInt32, 4)] {
        let rows = rows(&documents, &element, true, false);
        let folder = write(&*sink(&[("layout", "datatrove")]), &rows, 2).0;
        folder.0.iter().for_each(|(name, bytes)| store(&dir.path().join(name), bytes));
        let Some(said) = python(&["datatrove", text(&dir.path().join("part.ds"))]) else { return };
        let flat: Vec<Vec<i64>> = documents.iter().map(|document| document.concat()).collect();
        let lines = [format!("Unknown Tokenizer|{size}"), "2908".to_owned(), "2.91 kT".to_owned()];
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), json!({"documents": flat, "lines": lines}));
        let folder = write(&*sink(&[("layout", "llmc")]), &rows, 2).0;
        store(&dir.path().join("part.bin"), folder.bytes(".bin"));
        let said = python(&["llmc", text(&dir.path().join("part.bin"))]).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), json!(flat.concat()));
    }
}

#[test]
#[cfg(feature = "documents")]
fn the_table_of_documents_is_read_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let documents = flat(&[3, 0, 5], 1, 50_000);
    let folder = write(&*sink(&[]), &rows(&documents, &DataType::UInt16, true, false), 2).0;
    let path = dir.path().join("part.documents.parquet");
    store(&path, folder.bytes(".documents.parquet"));
    let Some(said) = python(&["table", text(&path)]) else { return };
    let hex = |i: usize| {
        documents[i]
            .concat()
            .iter()
            .flat_map(|id| (*id as u16).to_le_bytes())
            .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    };
    let Some(digests) = python(&["digests", &hex(0), &hex(1), &hex(2)]) else { return };
    let digests: Vec<String> = serde_json::from_str(&digests).unwrap();
    let row = |i: usize| {
        json!({
            "document": i, "key": format!("books/{:09}", i * 7), "source": "books", "offset": i * 7,
            "tokens": documents[i].concat().len(), "digest": digests[i],
        })
    };
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), json!([row(0), row(1), row(2)]));
}
