//! Checks of reading: known content, offsets, ranges, streams.

use super::read_all;
use crate::memory::StreamInput;
use packhorse_core::{Input, KEY, Kind, MemoryInput, Result, Rows, Sample, Source, split_name};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Key and fields of a sample; missing fields are absent.
pub type SampleFields = (String, BTreeMap<String, Vec<u8>>);

/// Key, name and bytes of one field.
pub(super) type FieldBytes = (String, String, Vec<u8>);

/// A sample from its key and fields.
pub fn sample(key: &str, fields: &[(&str, &[u8])]) -> SampleFields {
    (key.to_owned(), fields.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect())
}

/// The samples of a block.
pub(super) fn of_rows(rows: &Rows) -> Vec<SampleFields> {
    let schema = rows.schema();
    let names: Vec<&String> = schema.fields().iter().map(|f| f.name()).filter(|name| *name != KEY).collect();
    assert!(names.is_sorted(), "fields out of order: {names:?}");
    let one = |row| {
        let sample = Sample::new(rows, row).unwrap();
        let field = |name: &&String| Some(((*name).clone(), sample.bytes(name)?.to_vec()));
        (sample.key().unwrap().to_owned(), names.iter().filter_map(field).collect())
    };
    (0..rows.num_rows()).map(one).collect()
}

/// The fields that `list` finds, with the bytes at their offsets.
pub(super) fn listed(source: &dyn Source, input: &dyn Input, bytes: &[u8]) -> Result<Vec<FieldBytes>> {
    let mut found = Vec::new();
    source.list(input, &mut |entry| {
        let (Ok(name), Ok(extent)) = (split_name(entry.name), entry.extent) else { return Ok(()) };
        let from = usize::try_from(extent.offset).unwrap();
        let to = from.checked_add(usize::try_from(extent.len).unwrap()).unwrap();
        let Some(bytes) = bytes.get(from..to) else {
            panic!("{}.{} lies at {from}..{to}, and the input has {} bytes", name.key, name.field, bytes.len());
        };
        found.push((name.key, name.field, bytes.to_vec()));
        Ok(())
    })?;
    Ok(found)
}

pub(super) fn flat(samples: &[SampleFields]) -> Vec<FieldBytes> {
    let fields = |(key, fields): &SampleFields| {
        fields.iter().map(|(name, bytes)| (key.clone(), name.clone(), bytes.clone())).collect::<Vec<_>>()
    };
    samples.iter().flat_map(fields).collect()
}

pub(super) fn check(source: &dyn Source, name: &str, bytes: &[u8], samples: &[SampleFields]) {
    let input = MemoryInput::new(name, bytes.to_vec());
    let found = read_all(source, &input).unwrap_or_else(|e| panic!("{name}: {e}"));
    same(&found, samples, name);
    places(source, &input, bytes, samples, true);
    ranges(source, &input, samples);
    let stream = StreamInput::new(name, bytes.to_vec());
    same(&read_all(source, &stream).unwrap_or_else(|e| panic!("{name} as a stream: {e}")), samples, "as a stream");
    places(source, &stream, bytes, samples, false);
}

/// Asserts equality without printing megabytes.
pub(super) fn same(found: &[SampleFields], expected: &[SampleFields], what: &str) {
    let keys = |samples: &[SampleFields]| samples.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(found), keys(expected), "{what}: keys");
    for ((key, found), (_, expected)) in found.iter().zip(expected) {
        let lens = |fields: &BTreeMap<String, Vec<u8>>| {
            fields.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect::<Vec<_>>()
        };
        assert_eq!(lens(found), lens(expected), "{what}: fields of {key}");
        assert!(found == expected, "{what}: bytes of {key}");
    }
}

fn places(source: &dyn Source, input: &dyn Input, bytes: &[u8], samples: &[SampleFields], must: bool) {
    // Typed rows have no offsets.
    let must = must && source.lists();
    match listed(source, input, bytes) {
        Ok(mut found) => {
            found.sort();
            let mut expected = flat(samples);
            expected.sort();
            assert!(found == expected, "{}: list names {} fields of {}", input.name(), found.len(), expected.len());
        }
        Err(e) if e.kind() == Kind::Unsupported && !must => {}
        Err(e) => panic!("{}: list: {e}", input.name()),
    }
}

fn ranges(source: &dyn Source, input: &dyn Input, samples: &[SampleFields]) {
    let n = samples.len();
    let table = source.open(Arc::new(input)).unwrap();
    let marks: Vec<usize> = (0..=n + 2).filter(|i| n < 12 || i % (n / 5) < 2 || *i + 2 > n).collect();
    for from in &marks {
        for to in marks.iter().filter(|to| *to >= from) {
            let found: Vec<SampleFields> =
                table.rows(*from as u64..*to as u64).unwrap().flat_map(|rows| of_rows(&rows.unwrap())).collect();
            let expected = samples.get((*from).min(n)..(*to).min(n)).unwrap_or_default();
            same(&found, expected, &format!("{}: items {from}..{to}", input.name()));
        }
    }
}
