//! Files cut or changed anywhere: an error, never other rows and never a panic.

use crate::common::{Folder, corpus, sink, source};
use packhorse_core::{Input, Kind, Result, Rows};
use packhorse_testkit::typed;
use std::sync::Arc;

fn read(input: &dyn Input, options: &[(&str, &str)]) -> Result<Vec<Rows>> {
    let source = source(options);
    source.open(Arc::new(input)).and_then(|table| table.info())?;
    source.open(Arc::new(input))?.rows(0..u64::MAX)?.collect()
}

/// A few short samples of every kind.
fn small(name: &str) -> Rows {
    corpus().into_iter().find(|(n, _)| *n == name).unwrap().1.slice(2, 2)
}

#[test]
fn a_file_cut_anywhere_is_detected() {
    for (name, options) in [("lists", &[][..]), ("nulls", &[]), ("blobs", &[("compression", "gzip")])] {
        let (sink, rows) = (sink(options), small(name));
        let folder = Folder::of("part", typed::write(&*sink, &rows, &[2]));
        let bytes = folder.bytes(sink.suffix());
        for len in 0..bytes.len() {
            let cut = folder.with(&format!("part{}", sink.suffix()), bytes[..len].to_vec());
            let error = read(&cut.input(sink.suffix()), &[]).unwrap_err();
            assert_eq!(error.kind(), Kind::Content, "{name} at {len}: {error}");
            // Without a schema document a cut between records is not detectable.
            let bare = cut.without(".schema.json").without(".index");
            if let Ok(found) = read(&bare.input(sink.suffix()), &[]) {
                assert!(found.iter().map(Rows::num_rows).sum::<usize>() < 2, "{name} at {len}");
            }
        }
    }
}

#[test]
fn a_changed_byte_is_detected() {
    for (name, options) in [("lists", &[][..]), ("nulls", &[]), ("blobs", &[("compression", "gzip")])] {
        let (sink, rows) = (sink(options), small(name));
        let folder = Folder::of("part", typed::write(&*sink, &rows, &[2]));
        let bytes = folder.bytes(sink.suffix());
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut other = bytes.clone();
                other[at] ^= flip;
                let changed = folder.with(&format!("part{}", sink.suffix()), other);
                match read(&changed.input(sink.suffix()), &[]) {
                    Err(error) => assert!(matches!(error.kind(), Kind::Content), "{name} at {at}: {error}"),
                    // The time and system in GZIP's header and the padding of its blocks are not content.
                    Ok(found) => {
                        assert!(sink.suffix().ends_with(".gz"), "{name} at {at}");
                        typed::same(&found, &rows, name);
                    }
                }
                // Without checksums: rows or an error.
                let _ = read(&changed.input(sink.suffix()), &[("crc", "off")]);
                let _ = read(&changed.without("n").input(sink.suffix()), &[("crc", "off")]);
            }
        }
    }
}

#[test]
fn changed_companions_do_no_harm() {
    for name in ["lists", "nulls", "ragged", "tensors", "numpy"] {
        let (sink, rows) = (sink(&[]), small(name));
        let folder = Folder::of("part", typed::write(&*sink, &rows, &[2]));
        for suffix in [".schema.json", ".index"] {
            let bytes = folder.bytes(suffix);
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] = if other[at] == b'0' { b'7' } else { b'0' };
                let changed = folder.with(&format!("part{suffix}"), other);
                let input = changed.input(".tfrecord");
                let _ = read(&input, &[]);
                if suffix == ".index" {
                    let found = source(&[])
                        .open(Arc::new(&input))
                        .and_then(|table| table.rows(1..9)?.collect::<Result<Vec<_>>>());
                    if let Ok(found) = found {
                        typed::same(&found, &rows.slice(1, 1), name);
                    }
                }
            }
        }
    }
}

#[test]
fn a_declared_length_allocates_nothing() {
    for len in [0u64, 1, 1 << 20, i32::MAX as u64, 1 << 31, u64::MAX] {
        let mut bytes = len.to_le_bytes().to_vec();
        bytes.extend([0; 20]);
        let input = packhorse_core::MemoryInput::new("a.tfrecord", bytes.clone());
        let stream = packhorse_testkit::memory::StreamInput::new("a.tfrecord", bytes);
        for options in [&[][..], &[("crc", "off")]] {
            let _ = read(&input, options).map(|rows| assert!(rows.len() <= 2));
            let _ = read(&stream, options).map(|rows| assert!(rows.len() <= 2));
        }
    }
}
