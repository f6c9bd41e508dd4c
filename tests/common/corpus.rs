//! Corpora that tests pack: made by the program under test, once, and kept in the build folder.

use super::process::packhorse;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A folder of `count` pictures in class folders. Shared: change nothing in it.
pub(crate) fn images(count: u32) -> PathBuf {
    static MADE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-images-{count}", env!("CARGO_CRATE_NAME")));
    if made.insert(count) {
        packhorse(&["synth", "images", "--count", &count.to_string(), "--out", dir.to_str().unwrap()]).succeed();
    }
    dir
}

/// A folder `dir` of `count` documents of any length, empty ones among them, as JSON lines in a plain file and a
/// compressed one.
pub(crate) fn documents(dir: &Path, count: u32) {
    std::fs::create_dir(dir).unwrap();
    let words = ["pack", "the \"horse\"", "wörld", "日本語", "line\nbreak", "😀"];
    let text = |i: u32| (0..i * 7919 % 97).map(|n| words[((n * n + i) % 6) as usize]).collect::<Vec<_>>().join(" ");
    let texts: Vec<String> = (0..count).map(text).collect();
    let lines = |texts: &[String]| -> String {
        texts.iter().map(|text| format!("{}\n", serde_json::json!({ "text": text }))).collect()
    };
    let (plain, packed) = texts.split_at(texts.len() * 3 / 4);
    std::fs::write(dir.join("a.jsonl"), lines(plain)).unwrap();
    let file = std::fs::File::create(dir.join("b.jsonl.gz")).unwrap();
    let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    file.write_all(lines(packed).as_bytes()).unwrap();
    file.finish().unwrap();
}
