//! Compressed files: every compression, several streams in a file, damage.

use crate::common::{Found, read, source, whole};
use packhorse_core::{Input, Kind, MemoryInput};
use packhorse_storage::{Compression, Frame, Inside, decompressed};
use std::io::Write;
use std::sync::Arc;

fn compress(name: &str, bytes: &[u8]) -> Vec<u8> {
    let (compression, _) = Compression::of(name.as_bytes()).unwrap();
    match compression {
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
            encoder.include_checksum(true).unwrap();
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Xz => {
            let options = lzma_rust2::XzOptions::with_preset(1);
            let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}

fn open(name: &str, bytes: Vec<u8>) -> Box<dyn Input> {
    let (compression, _) = Compression::of(name.as_bytes()).unwrap();
    decompressed(Box::new(MemoryInput::new(name, bytes)), compression)
}

const NAMES: [&str; 4] = ["a.jsonl.gz", "a.jsonl.zst", "a.jsonl.bz2", "a.jsonl.xz"];

/// Lines of JSON that compress only moderately.
fn lines(n: u32) -> Vec<u8> {
    let line = |i: u32| {
        let noise = i.wrapping_mul(2_654_435_761);
        format!("{{\"id\":{i},\"text\":\"document {noise} says\\n{}\"}}\n", noise.rotate_left(9))
    };
    (0..n).map(line).collect::<String>().into_bytes()
}

#[test]
fn every_compression_reads_like_the_plain_file() {
    let bytes = lines(30_000);
    let expected = whole(&[], "a.jsonl", &bytes);
    assert_eq!(expected.len(), 30_000);
    let source = source(&[], 1 << 30);
    for name in NAMES {
        // Concatenated streams: one ends in the middle of a line, one is empty.
        let streams = [&bytes[..500_001], b"", &bytes[500_001..]].map(|part| compress(name, part));
        for packed in [compress(name, &bytes), streams.concat()] {
            let input = open(name, packed);
            let info = source.open(Arc::new(&*input)).unwrap().info().unwrap();
            assert_eq!((info.items, info.counted), (1, false));
            assert!(read(&*source, &*input, 0..1) == expected, "{name}");
            assert_eq!(read(&*source, &*input, 1..2), []);
        }
    }
}

#[test]
fn plain_text_may_be_compressed() {
    for (name, document, n) in [("a.txt.bz2", "paragraph", 2), ("a.txt.xz", "line", 3), ("a.txt.gz", "file", 1)] {
        let source = source(&[("document", document)], 1 << 30);
        let input = open(name, compress(name, b"one\ntwo\n\nthree"));
        assert_eq!(read(&*source, &*input, 0..1).len(), n, "{name}");
    }
}

/// Checks for documents from before the damage, then one error that names the file, then the end.
fn ends_with_an_error(found: &[Found], expected: &[Found], name: &str, what: &str) {
    let (last, before) = found.split_last().unwrap();
    assert!(expected.starts_with(before), "{name}, {what}: documents that the file does not hold");
    let error = last.as_ref().unwrap_err();
    assert!(error.contains("can't be decompressed") && error.starts_with(name), "{name}, {what}: {error}");
}

#[test]
fn a_damaged_file_ends_with_an_error_and_no_partial_document() {
    let bytes = lines(1000);
    let expected = whole(&[], "a.jsonl", &bytes);
    let source = source(&[], 1 << 30);
    for name in NAMES {
        let packed = compress(name, &bytes);
        for cut in [10, packed.len() / 2, packed.len() - 1] {
            let found = read(&*source, &*open(name, packed[..cut].to_vec()), 0..1);
            ends_with_an_error(&found, &expected, name, &format!("cut at {cut}"));
        }
        for at in (0..packed.len()).step_by(packed.len() / 97) {
            let mut flipped = packed.clone();
            flipped[at] ^= 1 << (at % 8);
            let found = read(&*source, &*open(name, flipped), 0..1);
            // A flipped bit in a name or a time of a header is harmless.
            if found != expected && found.last().is_some_and(Result::is_err) {
                assert!(found.len() <= expected.len() + 1);
            }
        }
    }
}

#[test]
fn a_decompression_bomb_stays_within_the_limit() {
    let zeros = vec![b'x'; 64 << 20];
    let packed = compress("a.jsonl.zst", &[&b"{\"text\":\"a\"}\n"[..], &zeros, b"\n{\"text\":\"b\"}\n"].concat());
    assert!(packed.len() < 100_000);
    let source = source(&[], 1 << 20);
    let input = open("a.jsonl.zst", packed);
    let kinds: Vec<_> =
        source.open(Arc::new(&*input)).unwrap().rows(0..1).unwrap().map(|rows| rows.map_err(|e| e.kind())).collect();
    assert!(matches!(kinds[..], [Ok(_), Err(Kind::Limit), Ok(_)]), "{kinds:?}");
}

#[test]
fn consecutive_ranges_share_one_decoder_even_with_long_lines() {
    let line = |i: usize| {
        let text: String = (0..(i * 7919) % 300_000).map(|n| char::from(b'a' + ((n * n + i) % 26) as u8)).collect();
        format!("{{\"id\":{i},\"text\":\"{}\"}}\n", text.repeat(if i % 40 == 17 { 15 } else { 1 }))
    };
    let bytes = (0..150).map(line).collect::<String>().into_bytes();
    let (expected, len) = (whole(&[], "a.jsonl", &bytes), bytes.len() as u64);
    assert!(len > 20 << 20);
    let source = source(&[], 1 << 30);
    let packed = compress("a.jsonl.zst", &bytes);
    for size in [700_000, 3 << 20] {
        let file = Box::new(MemoryInput::new("a.jsonl", packed.clone()));
        let mut inside = Inside::new(file, Compression::Zstd, len, Frame::default());
        let mut found = Vec::new();
        for from in (0..len).step_by(size) {
            let goes_on = inside.goes_on(from.saturating_sub(1), Frame::default());
            assert!(goes_on || from == 0, "the decoder is past {from} of {len}");
            found.extend(read(&*source, &inside, from..from + size as u64));
        }
        assert!(found == expected, "{size}");
    }
}
