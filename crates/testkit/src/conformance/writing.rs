//! Checks of writing: round trips, determinism, and the summary.

use super::{corpus, read_all, reading};
use crate::memory::MemoryOutlet;
use packhorse_core::{MemoryInput, Rows, ShardSummary, Sink, Source};
use std::collections::BTreeMap;

pub(super) fn check(sink: &dyn Sink, source: Option<&dyn Source>) {
    for (what, rows) in corpus::all() {
        sink.accept(&rows.schema()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let n = rows.num_rows();
        let (files, summary) = write(sink, &rows, &[n]);
        let data = files.get(sink.suffix()).unwrap_or_else(|| panic!("no file with the suffix {}", sink.suffix()));
        for groups in [vec![1; n], vec![n / 3, n - n / 3], vec![0, n, 0]] {
            let (again, its_summary) = write(sink, &rows, &groups);
            assert!(again == files, "{what}: other bytes when rows come grouped as {groups:?}");
            assert_eq!(its_summary, summary, "{what}: another summary when rows come grouped as {groups:?}");
        }
        summed(what, &rows, data, &summary);
        if let Some(source) = source {
            let input = MemoryInput::new(format!("written{}", sink.suffix()), data.clone());
            let found = read_all(source, &input).unwrap_or_else(|e| panic!("{what}: {e}"));
            reading::same(&found, &reading::of_rows(&rows), what);
        }
    }
}

/// Writes `rows` in batches of these sizes; returns every file by suffix, and the summary.
pub(super) fn write(sink: &dyn Sink, rows: &Rows, groups: &[usize]) -> (BTreeMap<String, Vec<u8>>, ShardSummary) {
    let mut outlet = MemoryOutlet::new();
    let mut writer = sink.create(&rows.schema(), &mut outlet).unwrap();
    let mut at = 0;
    for group in groups {
        writer.push(&rows.slice(at, *group)).unwrap();
        at += group;
    }
    assert_eq!(at, rows.num_rows());
    let summary = writer.finish().unwrap();
    (outlet.files(), summary)
}

fn summed(what: &str, rows: &Rows, data: &[u8], summary: &ShardSummary) {
    assert_eq!((summary.samples, summary.bytes), (rows.num_rows() as u64, data.len() as u64), "{what}: summary");
    assert!(summary.name.is_empty() && summary.split.is_none(), "{what}: a format does not name shards");
    let Some(members) = &summary.members else { return };
    let samples = reading::of_rows(rows);
    assert_eq!(members.samples(), samples.len(), "{what}: samples in the summary");
    for (i, (key, fields)) in samples.iter().enumerate() {
        assert_eq!(members.key(i), Some(key.as_str()), "{what}: key {i}");
        assert_eq!(members.of(i).count(), fields.len(), "{what}: members of {key}");
        for member in members.of(i) {
            let from = usize::try_from(member.offset).unwrap();
            let bytes = data.get(from..from + usize::try_from(member.len).unwrap());
            assert!(
                bytes == fields.get(member.field).map(Vec::as_slice),
                "{what}: {key}.{} lies elsewhere",
                member.field
            );
            assert_eq!(crc32c(bytes.unwrap()), member.crc32c, "{what}: checksum of {key}.{}", member.field);
        }
    }
}

/// CRC-32C from its definition (RFC 3720, appendix B.4): slow, but independent.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    let table: Vec<u32> = (0..256).map(|byte| (0..8).fold(byte, step)).collect();
    !bytes.iter().fold(!0u32, |crc, byte| crc >> 8 ^ table[(crc as u8 ^ byte) as usize])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_matches_the_rfc() {
        assert_eq!(super::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}
