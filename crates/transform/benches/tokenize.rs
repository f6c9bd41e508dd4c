//! The transform against the bare engine, on one and two threads.
//!
//! `PACKHORSE_TEST_DATA=… cargo bench -p packhorse-transform --features tokenize --bench tokenize`

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench fails on the first error and prints its results"
)]

use arrow_array::{ArrayRef, StringViewArray};
use packhorse_core::{FieldType, Rows, Schema};
use packhorse_transform::Transform;
use packhorse_transform::tokenize::{Tokenize, TokenizeOptions};
use std::sync::Arc;
use std::time::Instant;
use tokenizers::pipeline::{EncodeOptions, PipelineTokenizer};

const ROUNDS: usize = 5;
/// Bytes of text per record batch, as sources deliver them.
const BLOCK: usize = 4 << 20;

fn main() {
    let Some(data) = std::env::var_os("PACKHORSE_TEST_DATA").map(std::path::PathBuf::from) else {
        println!("skipped: PACKHORSE_TEST_DATA is not set");
        return;
    };
    let unpack = |name: &str| zstd::decode_all(std::fs::File::open(data.join(name)).unwrap()).unwrap();
    let lines = unpack("text.jsonl.zst");
    let lines = lines.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let text =
        |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).unwrap()["text"].as_str().unwrap().to_owned();
    let texts: Vec<String> = lines.map(text).collect();
    let blocks = blocks(&texts);
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("{} texts, {} MB, {} blocks", texts.len(), bytes / 1_000_000, blocks.len());
    for name in ["gpt2", "cl100k", "llama"] {
        let file = unpack(&format!("tokenizers/{name}.json.zst"));
        let start = Instant::now();
        let tokenize = Tokenize::new(&file, name, TokenizeOptions::default()).unwrap();
        let loading = start.elapsed();
        let json = tokenizers::canonicalize_str(std::str::from_utf8(&file).unwrap()).unwrap();
        let engine = tokenizers::from_json(&json).unwrap();
        for threads in [1, 2] {
            // The two sides alternate; the best round of each counts.
            let (mut ours, mut bare) = (f64::MAX, f64::MAX);
            for _ in 0..ROUNDS {
                ours = ours.min(on(threads, |part| transform(&tokenize, &blocks, part, threads)));
                bare = bare.min(on(threads, |part| encode(&engine, &texts, part, threads)));
            }
            let speed = |seconds: f64| bytes as f64 / seconds / 1e6;
            println!(
                "{name}, {threads} threads: {:.0} MB/s by Tokenize, {:.0} MB/s by the engine, {:.2}; loading {loading:.2?}",
                speed(ours),
                speed(bare),
                bare / ours
            );
        }
    }
}

fn blocks(texts: &[String]) -> Vec<Rows> {
    let schema = Arc::new(Schema::new(vec![FieldType::Text.field("text", false)]));
    let mut blocks = Vec::new();
    let mut start = 0;
    let mut size = 0;
    for (at, text) in texts.iter().enumerate() {
        size += text.len();
        if size > BLOCK || at + 1 == texts.len() {
            let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts[start..=at]));
            blocks.push(Rows::try_new(schema.clone(), vec![column]).unwrap());
            (start, size) = (at + 1, 0);
        }
    }
    blocks
}

/// Wall-clock seconds of `work` on `threads` threads; each gets its index.
fn on(threads: usize, work: impl Fn(usize) -> usize + Sync) -> f64 {
    let start = Instant::now();
    let tokens: usize = std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads).map(|part| scope.spawn(move || work(part))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(tokens > 0);
    start.elapsed().as_secs_f64()
}

fn transform(tokenize: &Tokenize, blocks: &[Rows], part: usize, parts: usize) -> usize {
    blocks.iter().skip(part).step_by(parts).map(|block| tokenize.apply(block.clone()).unwrap().num_rows()).sum()
}

fn encode(engine: &PipelineTokenizer, texts: &[String], part: usize, parts: usize) -> usize {
    let options = EncodeOptions::default();
    let mut ids = Vec::new();
    let texts = texts.iter().skip(part).step_by(parts);
    texts
        .map(|text| {
            ids.clear();
            engine.encode_into(text, &options, &mut ids).unwrap();
            ids.len()
        })
        .sum()
}
