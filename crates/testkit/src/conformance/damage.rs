//! Truncated and bit-flipped inputs, read under a process-wide memory limit.

use super::reading::{FieldBytes, SampleFields, flat, listed};
use super::{Cuts, read_all};
use crate::memory::StreamInput;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use packhorse_core::{Input, Kind, MemoryInput, Result, Source};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(super) fn check(source: &dyn Source, name: &str, bytes: &[u8], samples: &[SampleFields], cuts: Cuts) {
    let _bound = Bound::new(1 << 30);
    for cut in (0..bytes.len()).filter(|cut| bytes.len() <= 4096 || cut % 512 < 2 || bytes.len() - cut < 64) {
        let part = bytes.get(..cut).unwrap_or_default();
        let what = format!("{name}, cut at byte {cut} of {}", bytes.len());
        for input in inputs(name, part) {
            truncated(source, &*input, part, samples, cuts, &what);
        }
    }
    for (at, bit) in flips(bytes.len()) {
        let mut flipped = bytes.to_vec();
        if let Some(byte) = flipped.get_mut(at) {
            *byte ^= 1 << bit;
        }
        // For one bit of each byte also as a stream.
        for input in inputs(name, &flipped).iter().take(if bit == at % 8 { 2 } else { 1 }) {
            let _ = survives(source, &**input, &flipped, &format!("{name}, bit {bit} of byte {at} flipped"));
        }
    }
}

fn inputs(name: &str, bytes: &[u8]) -> [Box<dyn Input>; 2] {
    [Box::new(MemoryInput::new(name, bytes.to_vec())), Box::new(StreamInput::new(name, bytes.to_vec()))]
}

/// Every bit of the first 512 bytes, where headers are, then one bit per byte up to 2 KiB.
fn flips(len: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len.min(2048)).flat_map(|at| (0..8).filter(move |bit| at < 512 || *bit == at % 8).map(move |bit| (at, bit)))
}

fn truncated(source: &dyn Source, input: &dyn Input, part: &[u8], samples: &[SampleFields], cuts: Cuts, what: &str) {
    let (rows, fields) = survives(source, input, part, what);
    if cuts == Cuts::AreOtherFiles {
        match rows {
            Ok(rows) => assert!(rows.len() <= samples.len(), "{what}: more samples than the whole has"),
            Err(e) => assert!(matches!(e.kind(), Kind::Content | Kind::Limit), "{what}: {e} is of kind {:?}", e.kind()),
        }
        return;
    }
    let whole = flat(samples);
    match rows {
        Ok(rows) => assert!(rows == samples, "{what}: rows end as if it were whole"),
        Err(e) => {
            assert!(matches!(e.kind(), Kind::Content | Kind::Limit), "{what}: {e} is of kind {:?}", e.kind());
            assert!(e.input().is_some(), "{what}: \"{e}\" names no input");
        }
    }
    match fields {
        Err(_) => {}
        Ok(fields) => assert_eq!(fields.len(), whole.len(), "{what}: list ends as if it were whole"),
    }
    // The output before the error must still be right.
    let (blocks, places) = before_the_error(source, input, part);
    assert!(samples.starts_with(&blocks), "{what}: samples that are not in the whole file");
    assert!(places.iter().all(|field| whole.contains(field)), "{what}: fields that are not in the whole file");
}

/// The samples and fields read before an error.
fn before_the_error(source: &dyn Source, input: &dyn Input, part: &[u8]) -> (Vec<SampleFields>, Vec<FieldBytes>) {
    let table = source.open(Arc::new(input)).ok();
    let blocks = table.iter().flat_map(|table| table.rows(0..u64::MAX)).flatten();
    let samples = blocks.map_while(Result::ok).flat_map(|rows| super::reading::of_rows(&rows)).collect();
    let mut fields = Vec::new();
    let _ = source.list(input, &mut |entry| {
        let (Ok(name), Ok(extent)) = (packhorse_core::split_name(entry.name), entry.extent) else { return Ok(()) };
        let (from, to) = (extent.offset as usize, (extent.offset + extent.len) as usize);
        let bytes = part.get(from..to).unwrap_or_else(|| panic!("{}.{} lies past the end", name.key, name.field));
        fields.push((name.key, name.field, bytes.to_vec()));
        Ok(())
    });
    (samples, fields)
}

type Read = (Result<Vec<SampleFields>>, Result<Vec<FieldBytes>>);

/// Reads to the end or to an error, and checks that the output fits the input's size.
fn survives(source: &dyn Source, input: &dyn Input, bytes: &[u8], what: &str) -> Read {
    let read = || (read_all(source, input), listed(source, input, bytes));
    let (rows, fields) = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| panic!("{what}: a panic"));
    if let Ok(rows) = &rows {
        let total: usize = flat(rows).iter().map(|(_, _, bytes)| bytes.len()).sum();
        // An empty file may be a sample.
        assert!(rows.len() <= bytes.len() + 1 && total <= bytes.len(), "{what}: more came out than went in");
    }
    (rows, fields)
}

/// Limits this process's address space to the current size plus a given amount, until dropped.
struct Bound {
    before: (u64, u64),
}

impl Bound {
    fn new(more: u64) -> Self {
        let before = getrlimit(Resource::RLIMIT_AS).unwrap();
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = statm.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap();
        setrlimit(Resource::RLIMIT_AS, (pages * 4096 + more).min(before.1), before.1).unwrap();
        Self { before }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::RLIMIT_AS, self.before.0, self.before.1);
    }
}
