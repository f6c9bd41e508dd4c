//! Truncated and corrupted files may give errors, but never panics, endless loops or excessive memory.
//! With `PACKHORSE_TEST_DATA` real files too.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use packhorse_core::{Format, Limits, MemoryInput, Options};
use packhorse_root::Root;
use packhorse_testkit::external::data;
use std::path::PathBuf;
use std::sync::Arc;

/// Small, so that excessive sizes are refused.
const LIMITS: Limits = Limits { blob: 16 << 20, pixels: 0, header: 1 << 20, ahead: 16 << 20, scratch: 16 << 20 };
/// The most blocks read, since a damaged file may claim very many entries.
const BLOCKS: usize = 20;

fn read(bytes: &[u8]) {
    let input = MemoryInput::new("damaged.root", bytes.to_vec());
    let names = Root::trees(&input, LIMITS).unwrap_or_default();
    let chosen = names.iter().take(4).map(|name| [("tree", name.as_str())].into_iter().collect());
    for options in chosen.chain([Options::new()]) {
        let _ = Root::report(&input, &options, LIMITS);
        let source = Root.source(&options, LIMITS).unwrap();
        let Ok(table) = source.open(Arc::new(&input)) else { continue };
        let _ = table.info();
        for rows in table.rows(0..u64::MAX).into_iter().flatten().take(BLOCKS) {
            let _ = rows;
        }
    }
}

fn small() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// A deterministic random generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

#[test]
fn files_cut_short() {
    for bytes in small() {
        for len in (0..bytes.len()).step_by(29) {
            read(&bytes[..len]);
        }
    }
}

#[test]
fn one_bit_differs() {
    for (n, bytes) in small().into_iter().enumerate() {
        for at in (n % 11..bytes.len()).step_by(11) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            read(&damaged);
        }
    }
}

#[test]
fn extreme_counts() {
    for (n, bytes) in small().into_iter().enumerate() {
        for at in (n % 12..bytes.len() - 4).step_by(12) {
            let mut damaged = bytes.clone();
            damaged[at..at + 4].copy_from_slice(&[[0x7f, 0xff, 0xff, 0xff], [0xff; 4], [0; 4]][at / 12 % 3]);
            read(&damaged);
        }
    }
}

#[test]
fn real_files_damaged() {
    let Some(data) = data() else { return };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let entries = std::fs::read_dir(data.join("root")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 24_000 {
            continue;
        }
        for _ in 0..40 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(damaged.len());
                damaged[at] = [0, 0xff, 0x7f, damaged[at] ^ 1 << random.below(8)][random.below(4)];
            }
            read(&damaged);
        }
    }
}
