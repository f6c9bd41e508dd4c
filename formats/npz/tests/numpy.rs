//! packhorse reads what NumPy writes, and writes the same bytes as NumPy.
//!
//! `PACKHORSE_PYTHON` is a Python with `tests/interop/requirements.txt` installed. If it is unset, the tests are
//! skipped.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch};
use packhorse_core::{
    Codec, DataType, Field, FieldType, Format, Kind, Limits, MemoryInput, Options, Schema, bytes_of, numpy_type,
};
use packhorse_npz::Npz;
use packhorse_testkit::external::python;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn make(python: &Path, folder: &Path) -> (Vec<Value>, Vec<u8>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/make_arrays.py");
    let output = Command::new(python).arg("-B").arg(script).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    (serde_json::from_slice(&manifest).unwrap(), std::fs::read(folder.join("saved.bin")).unwrap())
}

fn rows(name: &str, files: &[&[u8]]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new(name, DataType::BinaryView, false)]);
    let blobs: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(files));
    RecordBatch::try_new(Arc::new(schema), vec![blobs]).unwrap()
}

/// The elements of a column, without the lists around them.
fn elements(column: &ArrayRef) -> ArrayRef {
    match column.as_fixed_size_list_opt() {
        Some(lists) => lists.values().clone(),
        None => column.clone(),
    }
}

fn compare(codec: &dyn Codec, file: &Path, entry: &Value, saved: &[u8]) {
    let what = format!("{} {entry}", file.display());
    let bytes = std::fs::read(file).unwrap();
    let name = entry["field"].as_str().unwrap();
    let input = MemoryInput::new(file.to_str().unwrap(), bytes.clone());
    let fields = codec.probe(name, &input).unwrap_or_else(|e| panic!("{what}: {e}"));
    let wanted = entry["fields"].as_array().unwrap();
    assert_eq!(fields.len(), wanted.len(), "{what}");
    // The sample twice: the second half of each column repeats the first.
    let columns = codec.decode(name, &rows(name, &[&bytes, &bytes]), &fields).unwrap_or_else(|e| panic!("{what}: {e}"));
    for ((field, column), wanted) in fields.iter().zip(columns).zip(wanted) {
        assert_eq!(field.name(), wanted["name"].as_str().unwrap(), "{what}");
        assert_eq!(FieldType::of(field).unwrap().to_string(), wanted["type"].as_str().unwrap(), "{what}");
        assert_eq!(numpy_type(field), wanted["numpy"].as_str(), "{what}");
        assert_eq!((column.len(), column.data_type(), column.null_count()), (2, field.data_type(), 0), "{what}");
        let range = [0, 1].map(|i| wanted["saved"][i].as_u64().unwrap() as usize);
        let saved = &saved[range[0]..range[1]];
        same_values(&column, wanted, saved, &what);
        if FieldType::of(field).unwrap() != FieldType::Text {
            let files = codec.encode(field, &column).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(files.iter().flatten().all(|file| file == saved), "{what}: encoded bytes differ from numpy.save");
        }
    }
}

fn same_values(column: &ArrayRef, wanted: &Value, saved: &[u8], what: &str) {
    let elements = elements(column);
    if let Some(texts) = wanted["texts"].as_array() {
        let found: Vec<_> = elements.as_string_view().iter().flatten().collect();
        let texts: Vec<_> = texts.iter().map(|t| t.as_str().unwrap()).collect();
        assert_eq!(found, [&texts[..], &texts[..]].concat(), "{what}");
        return;
    }
    let data = payload(saved);
    assert!(bytes_of(&elements).unwrap().as_slice() == [data, data].concat(), "{what}: other values");
}

/// The source gives the same values as the codec, whole and row by row.
fn compare_source(file: &Path, entry: &Value, saved: &[u8]) {
    let what = format!("{} {entry}", file.display());
    let field = entry["field"].as_str().unwrap();
    let name = format!("folder/{}.{field}", file.file_stem().unwrap().to_str().unwrap());
    let input = MemoryInput::new(name, std::fs::read(file).unwrap());
    let wanted = entry["fields"].as_array().unwrap();
    for rows in ["false", "true"] {
        let source = Npz.source(&[("rows", rows)].into_iter().collect(), Limits::default()).unwrap();
        let info = match source.open(Arc::new(&input)).and_then(|table| table.info()) {
            Ok(info) => info,
            Err(e) if rows == "true" && e.kind() == Kind::Content => continue,
            Err(e) => panic!("{what}: {e}"),
        };
        for start in [0, info.items / 2] {
            let blocks: Vec<RecordBatch> =
                source.open(Arc::new(&input)).unwrap().rows(start..u64::MAX).unwrap().map(|b| b.unwrap()).collect();
            assert_eq!(blocks.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, info.items - start, "{what}");
            for (i, wanted) in wanted.iter().enumerate() {
                assert_eq!(info.schema.field(i).name(), wanted["name"].as_str().unwrap());
                let columns: Vec<ArrayRef> = blocks.iter().map(|b| elements(b.column(i))).collect();
                assert!(blocks.iter().all(|b| b.schema() == info.schema), "{what}");
                let range = [0, 1].map(|i| wanted["saved"][i].as_u64().unwrap() as usize);
                same_rows(&columns, wanted, payload(&saved[range[0]..range[1]]), (start, info.items), &what);
            }
        }
    }
}

fn same_rows(columns: &[ArrayRef], wanted: &Value, data: &[u8], (start, items): (u64, u64), what: &str) {
    let from = |len: usize| if items == 0 { 0 } else { len / items as usize * start as usize };
    if let Some(texts) = wanted["texts"].as_array() {
        let found: Vec<_> = columns.iter().flat_map(|c| c.as_string_view().iter().flatten()).collect();
        let texts: Vec<_> = texts.iter().map(|t| t.as_str().unwrap()).collect();
        assert_eq!(found, texts[from(texts.len())..], "{what}");
        return;
    }
    let found: Vec<u8> = columns.iter().flat_map(|c| bytes_of(c).unwrap().to_vec()).collect();
    assert!(found == data[from(data.len())..], "{what}: other rows from {start} on");
}

/// The data behind the header that `numpy.save` wrote.
fn payload(saved: &[u8]) -> &[u8] {
    &saved[10 + usize::from(u16::from_le_bytes([saved[8], saved[9]]))..]
}

#[test]
fn numpy_and_packhorse_agree() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (manifest, saved) = make(&python, folder.path());
    assert!(manifest.len() > 1000, "only {} files", manifest.len());
    let codec = Npz.codec(&Options::new(), Limits::default()).unwrap();
    for entry in &manifest {
        let file = folder.path().join(entry["file"].as_str().unwrap());
        compare(&*codec, &file, entry, &saved);
        compare_source(&file, entry, &saved);
    }
}
