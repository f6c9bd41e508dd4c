//! Reads Megatron's pair in training order: `cargo run --example read_tokens -- tokens/shard-000000.idx 2048`.
//!
//! Prints the first batch's fields and the state after it.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use packhorse::core::{Error, Result};
use packhorse::read::Companions;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || Error::config("usage: read_tokens FILE.idx TOKENS_A_SAMPLE");
    let place = arguments.next().ok_or_else(usage)?;
    let length = arguments.next().and_then(|text| text.parse().ok()).ok_or_else(usage)?;

    let companions = Companions { position_ids: true, cu_seqlens: true, ..Companions::default() };
    let mut loader = packhorse::open_tokens(&place)?.loader(8, length).seed(1234).companions(companions).build()?;
    println!("{} batches", loader.remaining());
    if let Some(batch) = loader.next().transpose()? {
        for field in batch.layout().fields() {
            println!("{} {} {:?} at byte {}", field.name, field.data_type, field.shape, field.offset);
        }
        println!("{} bytes; samples {:?}; to resume: {}", batch.used(), batch.positions(), loader.state().to_json());
    }
    Ok(())
}
