//! Truncated and bit-flipped files give an error or rows, never a panic or excessive memory.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use packhorse_core::{Format, Limits, MemoryInput, Options};
use packhorse_hdf5::Hdf5;
use packhorse_testkit::typed;
use std::path::Path;
use std::sync::Arc;

/// The file whose groups are samples.
const GROUPS: &str = "groups.h5";

/// Reads the first blocks of a file in both layouts, or with groups as samples; whether all of it was readable.
fn read(name: &str, bytes: Vec<u8>) -> bool {
    let input = MemoryInput::new("hostile.h5", bytes);
    let options: [&[(&str, &str)]; 2] = match name {
        GROUPS => [&[("groups", "/")], &[("groups", "/data/*"), ("attributes", "*")]],
        _ => [&[("datasets", "")], &[("datasets", "*")]],
    };
    let mut whole = true;
    for pairs in options {
        let options: Options = pairs.iter().copied().collect();
        let source = Hdf5.source(&options, Limits { blob: 1 << 26, ..Limits::default() }).unwrap();
        let table = source.open(Arc::new(&input));
        whole &= match table.as_ref().map(|table| table.rows(0..u64::MAX)) {
            Ok(Ok(mut blocks)) => blocks.by_ref().take(20).all(|rows| rows.is_ok()),
            _ => false,
        };
    }
    whole
}

fn files() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let foreign = ["old.h5", "new.h5", "filters.h5", GROUPS]
        .map(|name| (name.to_owned(), std::fs::read(folder.join(name)).unwrap()));
    let sink = Hdf5.sink(&[("filter", "zstd"), ("chunk", "5")].into_iter().collect::<Options>()).unwrap();
    let ours = typed::corpus().into_iter().map(|(name, rows)| {
        let files = typed::write(&*sink, &rows, &[rows.num_rows()]);
        (name.to_owned(), files[".h5"].clone())
    });
    foreign.into_iter().chain(ours).collect()
}

/// Peak memory of this process in KiB; 0 if the system does not report it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[test]
fn files_cut_short() {
    for (name, bytes) in files() {
        for cut in (0..bytes.len()).step_by(1 + bytes.len() / 300) {
            assert!(!read(&name, bytes[..cut].to_vec()), "{name} cut to {cut} of {} bytes reads as whole", bytes.len());
        }
    }
    assert!(peak() < 600 << 10, "{} KiB", peak());
}

#[test]
fn files_with_flipped_bits() {
    let mut state = 12_345u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for (name, bytes) in files() {
        for round in 0..600 {
            let mut bytes = bytes.clone();
            for _ in 0..1 + round % 3 {
                let at = next() % bytes.len();
                bytes[at] = if round % 4 == 0 { 0xff } else { bytes[at] ^ (1 << (next() % 8)) };
            }
            read(&name, bytes);
        }
    }
    assert!(peak() < 600 << 10, "{} KiB", peak());
}

#[test]
fn every_byte_of_an_old_file() {
    let (name, bytes) = files().swap_remove(0);
    for at in (0..bytes.len().min(12_000)).step_by(2) {
        for value in [0xff, bytes[at].wrapping_add(1)] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            read(&name, bytes);
        }
    }
}

#[test]
fn other_files_are_content_errors() {
    for bytes in [&b""[..], b"\x89HDF\r\n\x1a\n", &[0; 5000]] {
        let input = MemoryInput::new("no.h5", bytes.to_vec());
        let error = Hdf5
            .source(&Options::new(), Limits::default())
            .unwrap()
            .open(Arc::new(&input))
            .and_then(|table| table.info())
            .unwrap_err();
        assert_eq!(error.kind(), packhorse_core::Kind::Content, "{error}");
    }
}
