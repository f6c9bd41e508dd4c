//! Compares every token with those that numpy reads from the same pair and indices (`gpt_dataset.py`).
//!
//! `PACKHORSE_PYTHON` names a Python with numpy; without it these tests are skipped with a message.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "each test uses a part of the shared code")]
mod common;

use common::{encode, idx, loader, open};
use packhorse_core::Store;
use packhorse_order::{GptIndex, GptOptions, GptOrder, Order, RandomState};
use packhorse_read::*;
use packhorse_storage::Local;
use packhorse_testkit::external::python;
use packhorse_tokens::Dtype;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Writes a pair and the three indices; returns the number of samples.
fn write(dir: &Path, dtype: Dtype, options: &GptOptions) -> u64 {
    let mut random = RandomState::new(3);
    let lengths: Vec<i32> = (0..300).map(|_| random.at_most(150).saturating_sub(10) as i32).collect();
    let tokens: u64 = lengths.iter().map(|length| *length as u64).sum();
    let top = if dtype.size() > 2 { 100_000 } else { 120 };
    let ids: Vec<i64> = (0..tokens).map(|_| random.at_most(top) as i64).collect();
    std::fs::write(dir.join("a.idx"), idx(dtype, &lengths)).unwrap();
    std::fs::write(dir.join("a.bin"), encode(dtype, ids.into_iter())).unwrap();
    let index = GptIndex::build(&lengths, 0..300, options).unwrap();
    for (name, array, columns) in
        [("document", &index.document, 1), ("sample", &index.sample, 2), ("shuffle", &index.shuffle, 1)]
    {
        let mut file = std::fs::File::create(dir.join(name).with_extension("npy")).unwrap();
        array.write_npy(columns, &mut file).unwrap();
    }
    index.plan.samples
}

#[test]
fn batches_are_what_numpy_reads() {
    let Some(python) = python() else { return };
    for (dtype, length) in [(Dtype::U16, 64), (Dtype::I32, 33), (Dtype::U8, 500), (Dtype::I64, 7), (Dtype::I16, 64)] {
        let dir = tempfile::tempdir().unwrap();
        let options = GptOptions::new(77, length, Some(3 * 20_000 / u64::from(length)));
        let samples = write(dir.path(), dtype, &options);
        let (stem, out) = (dir.path().join("a"), dir.path().join("out"));
        let mut command = Command::new(&python);
        command
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gpt_dataset.py"))
            .arg("dump")
            .arg(&stem)
            .arg(dir.path());
        let ran = command.arg(length.to_string()).arg(&out).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let theirs = std::fs::read(out).unwrap();
        let theirs: Vec<i64> = theirs.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        let (rows, places) = theirs.split_at(samples as usize * (length as usize + 1));
        for access in [Access::Map, Access::Ranges { gap: 512 }] {
            let index = |name: &str| {
                let input = Local.open(&dir.path().join(name).with_extension("npy")).unwrap();
                IntArray::npy(&*input, access).unwrap().0
            };
            let file = open(&stem, access).unwrap();
            let indices = ["document", "sample", "shuffle"].map(index);
            let order: Arc<dyn Order> = Arc::new(GptOrder::new(indices, file.lengths().clone(), &options).unwrap());
            let tokens = Arc::new(Tokens::new(vec![file]).unwrap());
            let companions = Companions { position_ids: true, ..Companions::default() };
            let asked =
                TokenOptions { remainder: Remainder::Uneven, threads: 2, companions, ..TokenOptions::new(16, length) };
            let batches: Vec<_> = loader(&tokens, &order, &asked).map(Result::unwrap).collect();
            let of = |name: &str| batches.iter().flat_map(|batch| batch.integers(name)).collect::<Vec<_>>();
            assert!(of("tokens") == rows, "{dtype:?} {access:?}");
            assert!(of("position_ids") == places, "{dtype:?} {access:?}");
        }
    }
}
