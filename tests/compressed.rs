//! Compressed text by the command: the shards of the text itself, whatever it is wrapped in and however the work is
//! cut.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod process;
    pub(crate) mod tree;
}

use common::bytes::{documents, tokenizer};
use common::process::{Program, command, packhorse};
use common::tree::{Tree, assert_equal, assert_kept, assert_no_half_file, committed, tree};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// JSON lines as one file, plain or wrapped.
struct Text {
    dir: TempDir,
    input: PathBuf,
    texts: Vec<String>,
    plain: Vec<u8>,
}

/// How large shards are: many of them.
const CUT: [&str; 3] = ["--shard-size", "200KiB", "--append-eod"];

impl Text {
    /// About 3 MiB of random words, which hardly shrink.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), tokenizer()).unwrap();
        let input = dir.path().join("corpus");
        std::fs::create_dir(&input).unwrap();
        let (mut texts, mut plain, mut seed) = (Vec::new(), Vec::new(), 0x5eed_u64);
        while plain.len() < 3 << 20 {
            let mut text = String::new();
            for _ in 0..texts.len() % 300 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(&format!("{:x} ", seed >> 20));
            }
            plain.extend_from_slice(format!("{}\n", serde_json::json!({ "text": text })).as_bytes());
            texts.push(text);
        }
        Self { dir, input, texts, plain }
    }

    /// The input is this file alone.
    fn set(&self, name: &str, bytes: &[u8]) {
        std::fs::remove_dir_all(&self.input).unwrap();
        std::fs::create_dir(&self.input).unwrap();
        std::fs::write(self.input.join(name), bytes).unwrap();
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tokens(&self, verb: &str, out: &Path, more: &[&str]) -> Program {
        let tokenizer = self.dir("tokenizer.json");
        let what = [verb, text(&self.input), "--to", "tokens", "--tokenizer", text(&tokenizer), "--out", text(out)];
        packhorse(&[&what[..], more].concat())
    }

    /// The shards of `bytes` in a folder of this name.
    fn packed(&self, out: &str, (name, bytes): (&str, &[u8]), more: &[&str]) -> Tree {
        self.set(name, bytes);
        let out = self.dir(out);
        self.tokens("pack", &out, more).succeed();
        let shards = shards(&out);
        std::fs::remove_dir_all(&out).unwrap();
        shards
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Data and indexes of the shards, which tell nothing of the file that they were made of.
fn shards(out: &Path) -> Tree {
    let data = |name: &String| [".bin", ".idx", ".parquet", ".tar"].iter().any(|end| name.ends_with(end));
    tree(out).into_iter().filter(|(name, _)| data(name)).collect()
}

fn said(out: &Path) -> Vec<String> {
    let names = shards(out).into_keys().filter(|name| name.ends_with(".bin"));
    let tokens = names.flat_map(|name| documents(&out.join(name)));
    tokens
        .map(|tokens| String::from_utf8(tokens.iter().filter_map(|t| u8::try_from(*t).ok()).collect()).unwrap())
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// As htslib's `bgzip` writes it: members of at most 64 KiB that say how long they are, and an empty one at the end.
fn bgzf(bytes: &[u8]) -> Vec<u8> {
    let member = |part: &[u8]| {
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        deflate.write_all(part).unwrap();
        let deflated = deflate.finish().unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(part);
        let mut member = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0];
        member.extend((deflated.len() as u16 + 25).to_le_bytes());
        member.extend(deflated);
        member.extend(crc.sum().to_le_bytes());
        member.extend((part.len() as u32).to_le_bytes());
        member
    };
    bytes.chunks(0xff00).chain([&[][..]]).flat_map(member).collect()
}

fn zstd_sized(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.set_pledged_src_size(Some(bytes.len() as u64)).unwrap();
    encoder.include_contentsize(true).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd_unsized(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The file's names and bytes in every compression, also in frames that end anywhere.
fn wrapped(plain: &[u8]) -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let parts = |encode: fn(&[u8]) -> Vec<u8>| -> Vec<u8> {
        plain.chunks(plain.len() / 3 + 1).chain([&[][..]]).flat_map(encode).collect()
    };
    vec![
        ("gzip", "a.jsonl.gz", gzip(plain)),
        ("gzip, members", "a.jsonl.gz", parts(gzip)),
        ("BGZF", "a.jsonl.gz", bgzf(plain)),
        ("zstd", "a.jsonl.zst", zstd_sized(plain)),
        ("zstd, frames", "a.jsonl.zst", parts(zstd_sized)),
        ("zstd without size", "a.jsonl.zst", zstd_unsized(plain)),
        ("zstd without size, frames", "a.jsonl.zst", parts(zstd_unsized)),
        ("bzip2", "a.jsonl.bz2", bzip2(plain)),
        ("bzip2, streams", "a.jsonl.bz2", parts(bzip2)),
        ("xz", "a.jsonl.xz", xz(plain)),
        ("xz, streams", "a.jsonl.xz", parts(xz)),
    ]
}

#[test]
fn compressed_text_has_the_shards_of_the_text_itself() {
    let corpus = Text::new();
    let plain = corpus.packed("plain", ("a.jsonl", &corpus.plain), &CUT);
    assert!(plain.len() > 2 * 5, "{plain:?}");
    for (what, name, bytes) in wrapped(&corpus.plain) {
        assert!(bytes.len() > 1 << 20, "{what}");
        for jobs in ["1", "4"] {
            let found = corpus.packed("out", (name, &bytes), &[&CUT[..], &["--jobs", jobs]].concat());
            assert_equal(&plain, &found, &format!("{what}, {jobs} jobs"));
        }
    }
}

#[test]
fn its_documents_have_their_keys_and_order_in_every_container() {
    let corpus = Text::new();
    for to in ["parquet", "webdataset"] {
        let packed = |name: &str, bytes: &[u8]| {
            corpus.set(name, bytes);
            let out = corpus.dir("out");
            let field = ["--field", "text=txt"];
            let what = ["pack", text(&corpus.input), "--to", to, "--out", text(&out), "--shard-size", "200KiB"];
            packhorse(&[&what[..], &field[..usize::from(to == "webdataset") * 2]].concat()).succeed();
            let shards = shards(&out);
            std::fs::remove_dir_all(&out).unwrap();
            shards
        };
        let plain = packed("a.jsonl", &corpus.plain);
        assert!(plain.len() >= 4, "{plain:?}");
        for (name, bytes) in [("a.jsonl.gz", gzip(&corpus.plain)), ("a.jsonl.zst", zstd_unsized(&corpus.plain))] {
            assert_equal(&plain, &packed(name, &bytes), &format!("{name} to {to}"));
        }
    }
}

#[test]
fn parts_in_any_order_and_kills_end_in_the_same_shards() {
    let corpus = Text::new();
    for (name, bytes) in [("a.jsonl.gz", gzip(&corpus.plain)), ("b.jsonl.zst", zstd_sized(&corpus.plain))] {
        corpus.set(name, &bytes);
        let whole = corpus.dir(&format!("whole-{name}"));
        let took = corpus.tokens("pack", &whole, &CUT).succeed().took;
        let whole = tree(&whole);
        let out = corpus.dir(&format!("parts-{name}"));
        corpus.tokens("plan", &out, &CUT).succeed();
        for part in ["3/3", "1/3", "2/3", "3/3"] {
            packhorse(&["pack", "--plan", text(&out), "--part", part]).succeed();
        }
        packhorse(&["seal", text(&out)]).succeed();
        assert_equal(&whole, &tree(&out), &format!("{name} in parts"));
        let out = corpus.dir(&format!("killed-{name}"));
        for i in 1..=5u32 {
            let when = format!("{name} killed after {i}/6");
            let mut running = corpus.tokens("pack", &out, &CUT).start();
            running.ends_within(took.mul_f64(0.3 + 0.7 * f64::from(i) / 6.0).max(Duration::from_millis(1)));
            running.kill();
            running.end();
            assert_no_half_file(&whole, &out, &when);
            let before = committed(&out);
            assert_kept(&before, &out, &when);
        }
        corpus.tokens("pack", &out, &CUT).succeed();
        assert_equal(&whole, &tree(&out), &format!("{name} at the end"));
    }
}

#[test]
fn what_counts_documents_counts_those_of_compressed_text() {
    let corpus = Text::new();
    for more in [
        &["--limit", "1000", "--append-eod"][..],
        &["--samples-per-shard", "300"],
        &["--split", "train=0.8,val=0.2", "--shard-size", "200KiB"],
    ] {
        let plain = corpus.packed("plain", ("a.jsonl", &corpus.plain), more);
        for (name, bytes) in [("a.jsonl.gz", gzip(&corpus.plain)), ("a.jsonl.zst", zstd_sized(&corpus.plain))] {
            assert_equal(&plain, &corpus.packed("out", (name, &bytes), more), &format!("{name} {more:?}"));
        }
    }
    // Small files as well.
    let few = corpus.plain.split_inclusive(|b| *b == b'\n').take(50).collect::<Vec<_>>().concat();
    let more = ["--samples-per-shard", "20"];
    let plain = corpus.packed("plain", ("a.jsonl", &few), &more);
    assert_equal(&plain, &corpus.packed("out", ("a.jsonl.xz", &xz(&few)), &more), "a small file");
    corpus.set("a.jsonl.gz", &gzip(&corpus.plain));
    let refused = corpus.tokens("pack", &corpus.dir("no"), &["--shuffle", "1,block:10"]).run();
    assert!(refused.code() == 8 && refused.said.contains("--shuffle"), "{refused:?}");
}

#[test]
fn a_shuffle_takes_short_frames_and_says_what_it_can_not_cut() {
    let corpus = Text::new();
    let shuffled = ["--shuffle", "7", "--shard-size", "200KiB", "--append-eod"];
    corpus.set("a.jsonl.gz", &bgzf(&corpus.plain));
    let (frames, whole) = (corpus.dir("frames"), corpus.dir("whole"));
    corpus.tokens("pack", &frames, &shuffled).succeed();
    let mut found = said(&frames);
    assert!(shards(&frames).len() > 2 * 5);
    found.sort();
    let mut wanted = corpus.texts.clone();
    wanted.sort();
    assert_eq!(found, wanted);
    corpus.set("a.jsonl.gz", &gzip(&corpus.plain));
    let tokenizer = corpus.dir("tokenizer.json");
    let what = ["pack", text(&corpus.input), "--to", "tokens", "--tokenizer", text(&tokenizer), "--out", text(&whole)];
    let mut loud = command(env!("CARGO_BIN_EXE_packhorse"));
    loud.args(what).args(shuffled);
    let ended = Program(loud).succeed();
    assert!(ended.said.contains("a.jsonl.gz is compressed as a whole"), "{ended:?}");
    assert_eq!(said(&whole), corpus.texts);
}

#[test]
fn damage_names_the_file_and_nothing_of_it_is_packed() {
    let corpus = Text::new();
    let good = serde_json::json!({ "text": "good" }).to_string();
    for (what, name, bytes) in wrapped(&corpus.plain) {
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2..][..8].iter_mut().for_each(|byte| *byte ^= 0x55);
        for (how, bytes) in [("cut", &bytes[..bytes.len() / 2]), ("flipped", &flipped)] {
            corpus.set(name, bytes);
            std::fs::write(corpus.input.join("good.jsonl"), &good).unwrap();
            let (out, when) = (corpus.dir("out"), format!("{what}, {how}"));
            let refused = corpus.tokens("pack", &out, &CUT).run();
            assert!(refused.code() == 3 && refused.said.contains(name), "{when}: {refused:?}");
            corpus.tokens("pack", &out, &[&CUT[..], &["--on-error", "skip"]].concat()).succeed();
            // Checksums may come behind altered text, also in shards that the first job finished before it came to the damage.
            assert_eq!(said(&out), ["good"], "{when}");
            let skipped = std::fs::read_to_string(out.join("skipped.jsonl")).unwrap();
            assert!(skipped.contains("can't be decompressed"), "{when}: {skipped}");
            std::fs::remove_dir_all(&out).unwrap();
        }
    }
}

#[test]
fn bad_lines_of_many_shards_have_their_numbers() {
    let corpus = Text::new();
    let mut lines: Vec<&[u8]> = corpus.plain.split_inclusive(|b| *b == b'\n').collect();
    let bad: Vec<usize> = (0..lines.len()).step_by(97).collect();
    bad.iter().for_each(|i| lines[*i] = b"{\"text\": 1}\n");
    let plain = lines.concat();
    let skipped = |name: &str, bytes: &[u8]| {
        corpus.set(name, bytes);
        let out = corpus.dir("out");
        corpus.tokens("pack", &out, &[&CUT[..], &["--on-error", "skip"]].concat()).succeed();
        let skipped = std::fs::read_to_string(out.join("skipped.jsonl")).unwrap();
        std::fs::remove_dir_all(&out).unwrap();
        skipped.replace(name, "FILE")
    };
    let wanted = skipped("a.jsonl", &plain);
    assert_eq!(wanted.lines().count(), bad.len());
    assert!(bad.iter().all(|i| wanted.contains(&format!("line {},", i + 1))), "{wanted}");
    assert_eq!(skipped("a.jsonl.gz", &gzip(&plain)), wanted);
    assert_eq!(skipped("a.jsonl.zst", &zstd_sized(&plain)), wanted);
}
