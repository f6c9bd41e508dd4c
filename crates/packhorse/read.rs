//! Batches of tokens from pairs on this machine: what a pair's index says, told to the reader.
//!
//! The reader knows no format, and the format no memory maps; here they meet.

pub use packhorse_order as order;
pub use packhorse_read::*;

use packhorse_core::{Error, Result, Store};
use packhorse_tokens::Header;
use std::path::Path;
use std::sync::Arc;

/// Megatron's pair whose `.idx` is `idx`, and whose `.bin` is beside it; opened by `store`.
///
/// Errors: one of them is missing, an index that is none, a `.bin` that is cut short.
pub fn token_pair(store: &dyn Store, idx: &Path, access: Access) -> Result<TokenFile> {
    let bin: Arc<dyn packhorse_core::Input> = Arc::from(store.open(&idx.with_extension("bin"))?);
    let idx = store.open(idx)?;
    let header = Header::open(&*idx)?;
    let sequences = header.sequences;
    let lengths = Numbers::read(&*idx, "<i4", header.length_at(0), sequences, access)?;
    let pointers = Numbers::read(&*idx, "<i8", header.pointer_at(0), sequences, access)?;
    let element = header.dtype.element();
    TokenFile::new(bin, &element, lengths, Some(pointers), access).map_err(|error: Error| error.in_input(idx.name()))
}
