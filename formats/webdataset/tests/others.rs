//! Odd tars by seed are read as Python's tarfile and GNU tar read them, or refused.
//!
//! `PACKHORSE_PYTHON` names a Python; where it is unset the test is skipped. `PACKHORSE_ODD_TARS` sets how many.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse_core::{Format, Input, Limits, MemoryInput, Options};
use packhorse_testkit::external::python;
use packhorse_webdataset::WebDataset;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Name and bytes of each regular file.
type Members = Vec<(Vec<u8>, Vec<u8>)>;

/// What packhorse reads; an error where it refuses a member or all of them.
fn read(bytes: Vec<u8>) -> packhorse_core::Result<Members> {
    let input = MemoryInput::new("odd.tar", bytes);
    let source = WebDataset.source(&Options::new(), Limits::default())?;
    let mut members = Members::new();
    source.list(&input, &mut |entry| {
        let extent = entry.extent?;
        let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
        input.read_at(extent.offset, &mut bytes)?;
        members.push((entry.name.to_vec(), bytes));
        Ok(())
    })?;
    Ok(members)
}

fn unhex(text: &Value) -> Vec<u8> {
    let digits = text.as_str().unwrap().as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What a reader found; `None` where it reported an error. To Python an empty file may be called as a folder is.
fn found(members: &Value) -> Option<Members> {
    let members = members.as_array()?.iter().map(|pair| (unhex(&pair[0]), unhex(&pair[1])));
    Some(members.filter(|(name, bytes)| !(bytes.is_empty() && name.ends_with(b"/"))).collect())
}

/// The members as GNU tar extracts them: a folder can't be a file too, and the last of equal names stays.
fn extracted(members: &Members) -> Members {
    let clean = |name: &[u8]| {
        let parts = name.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".");
        parts.collect::<Vec<_>>().join(&b'/')
    };
    members.iter().map(|(name, bytes)| (clean(name), bytes.clone())).collect::<BTreeMap<_, _>>().into_iter().collect()
}

#[test]
fn odd_tars_are_read_as_python_and_gnu_tar_read_them_or_refused() {
    let Some(python) = python() else { return };
    let count = std::env::var("PACKHORSE_ODD_TARS").unwrap_or("400".to_owned());
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/odd_tars.py");
    let output = Command::new(python).arg("-B").arg(script).arg(dir.path()).args(["11", &count]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest: Vec<Value> =
        serde_json::from_slice(&std::fs::read(dir.path().join("manifest.json")).unwrap()).unwrap();
    let (mut equal, mut refused, mut wrong) = (0, BTreeMap::<String, usize>::new(), Vec::new());
    for tar in &manifest {
        let path = dir.path().join(tar["tar"].as_str().unwrap());
        match read(std::fs::read(path).unwrap()) {
            Err(e) => *refused.entry(e.message().to_owned()).or_default() += 1,
            Ok(ours) => {
                let gnu = found(&tar["gnu"]);
                match found(&tar["python"]).is_some_and(|theirs| theirs == ours) && gnu == Some(extracted(&ours)) {
                    true => equal += 1,
                    false => wrong.push(format!("{}: {:?}", tar["tar"], names(&ours))),
                }
            }
        }
    }
    println!("{equal} equal, refused: {refused:#?}");
    assert!(wrong.is_empty(), "{} tars are read otherwise: {wrong:#?}", wrong.len());
    assert!(equal > manifest.len() / 8, "only {equal} of {} are read at all", manifest.len());
}

fn names(members: &Members) -> Vec<String> {
    members.iter().map(|(name, bytes)| format!("{} ({})", name.escape_ascii(), bytes.len())).collect()
}
