//! Reads Megatron's pair in training order: `cargo run --example read_tokens -- tokens/shard-000000.idx 2048`.
//!
//! Prints the first batch's shape and how to go on after it.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use packhorse::read::order::{GptIndex, GptOptions};
use packhorse::read::{Access, Companions, GptSamples, Host, TokenLoader, TokenOptions, Tokens, token_pair};
use packhorse::{core, storage};
use std::path::PathBuf;
use std::sync::Arc;

fn main() -> core::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || core::Error::config("usage: read_tokens FILE.idx TOKENS_A_SAMPLE");
    let idx = arguments.next().map(PathBuf::from).ok_or_else(usage)?;
    let length: u32 = arguments.next().and_then(|text| text.parse().ok()).ok_or_else(usage)?;

    let file = token_pair(&storage::Local, &idx, Access::Map)?;
    let options = GptOptions::new(1234, length, None);
    let lengths = file.lengths().to_i32s()?;
    let index = GptIndex::build(&lengths, 0..lengths.len() as u32, &options)?;
    let order = Arc::new(GptSamples::of(index, file.lengths().clone(), options)?);
    let tokens = Arc::new(Tokens::new(vec![file])?);

    let companions = Companions { position_ids: true, cu_seqlens: true, ..Companions::default() };
    let asked = TokenOptions { companions, ..TokenOptions::new(8, length) };
    let mut loader = TokenLoader::new(tokens, order, &asked, Host::default())?;
    println!("{} batches", loader.remaining());
    if let Some(batch) = loader.next() {
        let batch = batch?;
        for field in batch.layout().fields() {
            println!("{} {} {:?} at byte {}", field.name, field.data_type, field.shape, field.offset);
        }
        println!("{} bytes; samples {:?}; to go on: {}", batch.used(), batch.positions(), loader.state().to_json());
    }
    Ok(())
}
