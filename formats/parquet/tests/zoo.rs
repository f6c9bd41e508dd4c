//! The files of apache/parquet-testing: every column is read as by pyarrow, or refused as `Unsupported` with its name
//! and type. The outcomes are compared with the tables in `docs/parquet.md`.
//!
//! Needs `PACKHORSE_TEST_DATA` and `PACKHORSE_PYTHON`.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod common;

use arrow_array::RecordBatch;
use common::{options, oracle};
use packhorse_core::{Error, Format, Kind, Limits, MemoryInput, Result, Rows};
use packhorse_parquet::{ArrowIpc, Parquet};
use packhorse_testkit::external::{data, python};
use packhorse_testkit::typed;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn read(bytes: &[u8], columns: &str) -> Result<Vec<Rows>> {
    let source = Parquet.source(&options(&[("columns", columns)]), Limits::default())?;
    let input = MemoryInput::new("x", bytes.to_vec());
    let rows = source.open(Arc::new(&input))?.rows(0..u64::MAX)?.collect::<Result<Vec<_>>>()?;
    let info = source.open(Arc::new(&input))?.info()?;
    assert_eq!(rows.iter().map(|rows| rows.num_rows() as u64).sum::<u64>(), info.items);
    rows.iter().for_each(|rows| assert_eq!(rows.schema(), info.schema));
    Ok(rows)
}

/// The fields of the column `name` of the file, each with its outcome.
fn fields(bytes: &[u8], name: &str, kind: &str) -> Vec<(String, Result<()>)> {
    let input = MemoryInput::new("x", bytes.to_vec());
    let alone = Parquet.source(&options(&[("columns", name), ("unsupported", "skip")]), Limits::default()).unwrap();
    let columns = if alone.open(Arc::new(&input)).and_then(|table| table.info()).is_ok() {
        name.to_owned()
    } else {
        format!("{name}.*")
    };
    let source =
        Parquet.source(&options(&[("columns", &columns), ("unsupported", "skip")]), Limits::default()).unwrap();
    let whole = Parquet.source(&options(&[("columns", &columns)]), Limits::default()).unwrap();
    let mut found = Vec::new();
    let error =
        whole.open(Arc::new(&input)).and_then(|table| table.info()).err().filter(|error| error.kind() != Kind::Config);
    if let Some(error) = error {
        let text = error.to_string();
        assert!(error.kind() != Kind::Unsupported || text.contains(name), "{name} of {kind}: {text}");
        found.push((name.to_owned(), Err(error)));
    }
    if let Ok(info) = source.open(Arc::new(&input)).and_then(|table| table.info()) {
        let left_out = info.omitted.iter().map(|omission| &omission.field);
        let left_out: Vec<&String> = left_out.filter(|field| found.iter().all(|(known, _)| known != *field)).collect();
        for field in info.schema.fields().iter().map(|field| field.name()).chain(left_out) {
            found.push((field.clone(), read(bytes, field).map(drop)));
        }
    }
    // A column whose values turn out to be unsupported.
    if found.is_empty() {
        let alone = read(bytes, name).map(drop);
        let is_parts = alone.as_ref().is_err_and(|error| error.kind() == Kind::Config);
        found.push((name.to_owned(), if is_parts { read(bytes, &columns).map(drop) } else { alone }));
    }
    found
}

fn outcome(error: &Error) -> String {
    let text = error.to_string().replace("x: ", "").replace('|', "\\|");
    // The hint is the same for all errors of a kind.
    let advice = ["; choose others", "; leave it out with `drop", " with `drop"];
    let text = advice.iter().fold(text.as_str(), |text, advice| text.split(advice).next().unwrap());
    format!("{}: {}", error.kind().name(), text.chars().take(230).collect::<String>())
}

fn copy(bytes: &[u8], columns: &[String], path: &Path) {
    let rows = read(bytes, &columns.join(",")).unwrap();
    let Some(first) = rows.first() else { return };
    let rows = arrow_select::concat::concat_batches(&first.schema(), &rows).unwrap();
    let sink = ArrowIpc.sink(&options(&[])).unwrap();
    let n = rows.num_rows();
    let rows = RecordBatch::try_new(Arc::clone(rows.schema_ref()), rows.columns().to_vec()).unwrap();
    let files = typed::write(&*sink, &rows, &[n]);
    let mut file = std::fs::OpenOptions::new().create_new(true).write(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, &files[".arrow"]).unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "parquet")).collect();
    files.sort();
    files
}

/// The lines of the table in `docs/parquet.md` below the heading `heading`.
fn documented(heading: &str) -> String {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/parquet.md")).unwrap_or_default();
    let (_, rest) = text.split_once(heading).unwrap_or_default();
    let lines = rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    lines.skip(2).map(|line| format!("{line}\n")).collect()
}

fn compare_with_documented(found: &str, heading: &str) {
    assert!(documented(heading) == found, "the table in docs/parquet.md should be\n{found}");
}

#[test]
fn every_column_is_read_as_by_pyarrow_or_refused_by_name() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let paths = files(&data.join("parquet-testing/data"));
    let texts: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let names = oracle(&python, &[vec!["names".to_owned()], texts.clone()].concat());
    let names: BTreeMap<String, Option<Vec<(String, String)>>> = serde_json::from_str(&names).unwrap();
    let (mut outcomes, mut jobs) = (BTreeMap::new(), Vec::new());
    for (i, text) in texts.iter().enumerate() {
        let bytes = std::fs::read(text).unwrap();
        let columns = names[text].clone().unwrap_or_default();
        let mut found: Vec<(String, Result<()>)> = columns.iter().flat_map(|(n, k)| fields(&bytes, n, k)).collect();
        if names[text].is_none() {
            found.push(("*".to_owned(), read(&bytes, "*").map(drop)));
        }
        let good: Vec<String> = found.iter().filter(|(_, r)| r.is_ok()).map(|(name, _)| name.clone()).collect();
        if !good.is_empty() && names[text].is_some() {
            let made = dir.path().join(format!("{i}.arrow"));
            copy(&bytes, &good, &made);
            if made.exists() {
                jobs.push((text.clone(), made.display().to_string(), good));
            }
        }
        outcomes.insert(text.clone(), found);
    }
    let compared = oracle(&python, &["compare".to_owned(), serde_json::to_string(&jobs).unwrap()]);
    let compared: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(&compared).unwrap();
    let mut table = String::new();
    for text in &texts {
        let file = Path::new(text).file_name().unwrap().to_str().unwrap();
        let mut equal = 0;
        for (name, result) in &outcomes[text] {
            let outcome = match result {
                Ok(()) => compared.get(text).and_then(|of| of.get(name)).cloned().unwrap_or("no rows".to_owned()),
                Err(error) => outcome(error),
            };
            assert!(!outcome.starts_with("DIFFERS"), "{file}: {name} {outcome}");
            match outcome.as_str() {
                "equal" => equal += 1,
                other => table += &format!("| {file} | `{name}` | {other} |\n"),
            }
        }
        if equal > 0 {
            table += &format!("| {file} | {equal} fields | equal |\n");
        }
    }
    compare_with_documented(&table, "## The files of parquet-testing");
}

#[test]
fn damaged_files_give_errors_or_rows() {
    let Some(data) = data() else { return };
    let mut table = String::new();
    for path in files(&data.join("parquet-testing/bad_data")) {
        let bytes = std::fs::read(&path).unwrap();
        let outcome = match read(&bytes, "*") {
            Ok(rows) => format!("{} rows", rows.iter().map(|rows| rows.num_rows()).sum::<usize>()),
            Err(error) => {
                assert!(matches!(error.kind(), Kind::Content | Kind::Unsupported | Kind::Limit), "{error}");
                outcome(&error)
            }
        };
        table += &format!("| {} | {outcome} |\n", path.file_name().unwrap().to_str().unwrap());
    }
    compare_with_documented(&table, "## Damaged files");
}
