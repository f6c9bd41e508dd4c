//! Pairs, orders and loaders for tests.

use packhorse_core::{Input, Result, Store};
use packhorse_order::{GptIndex, GptOptions, GptOrder, Order};
use packhorse_read::{Access, Host, IntArray, TokenFile, TokenLoader, TokenOptions, Tokens};
use packhorse_tokens::{Dtype, IndexHeader};
use std::path::Path;
use std::sync::Arc;

/// The bytes of a token in a file of this type.
pub(crate) fn encode(dtype: Dtype, tokens: impl Iterator<Item = i64>) -> Vec<u8> {
    tokens.flat_map(|token| token.to_le_bytes().into_iter().take(dtype.size() as usize)).collect()
}

/// The `.idx` of sequences of these lengths, each a document.
pub(crate) fn idx(dtype: Dtype, lengths: &[i32]) -> Vec<u8> {
    let mut bytes = b"MMIDIDX\0\0".to_vec();
    bytes.extend(1u64.to_le_bytes());
    bytes.push(dtype.code().unwrap());
    bytes.extend((lengths.len() as u64).to_le_bytes());
    bytes.extend((lengths.len() as u64 + 1).to_le_bytes());
    lengths.iter().for_each(|length| bytes.extend(length.to_le_bytes()));
    let mut at = 0u64;
    for length in lengths {
        bytes.extend(at.to_le_bytes());
        at += *length as u64 * dtype.size();
    }
    (0..=lengths.len() as u64).for_each(|document| bytes.extend(document.to_le_bytes()));
    bytes
}

/// Opens an `.idx` and a `.bin` like the facade.
pub(crate) fn token_file(idx: &dyn Input, bin: Arc<dyn Input>, access: Access) -> Result<TokenFile> {
    let header = IndexHeader::open(idx)?;
    let lengths = IntArray::read(idx, "<i4", header.length_at(0), header.sequences, access)?;
    let pointers = IntArray::read(idx, "<i8", header.pointer_at(0), header.sequences, access)?;
    TokenFile::new(bin, &header.dtype.element(), lengths, Some(pointers), access)
}

/// Opens a pair on disk.
pub(crate) fn open(stem: &Path, access: Access) -> Result<TokenFile> {
    let store = packhorse_storage::Local;
    let idx = store.open(&stem.with_extension("idx"))?;
    token_file(&*idx, Arc::from(store.open(&stem.with_extension("bin"))?), access)
}

/// Token `i` of a generated file.
pub(crate) fn made_up(i: usize) -> i64 {
    (i as i64).wrapping_mul(0x9e37_79b9) >> 7 & 0x7f
}

/// A GPT order of at least one epoch.
pub(crate) fn gpt(lengths: &[i32], length: u32, samples: Option<u64>) -> Arc<dyn Order> {
    let options = GptOptions::new(5, length, samples);
    let index = GptIndex::build(lengths, 0..lengths.len() as u32, &options).unwrap();
    Arc::new(GptOrder::of(index, IntArray::from(lengths.to_vec()), &options).unwrap())
}

/// A loader in host memory.
pub(crate) fn loader(tokens: &Arc<Tokens>, order: &Arc<dyn Order>, options: &TokenOptions) -> TokenLoader<Host> {
    TokenLoader::tokens(Arc::clone(tokens), Arc::clone(order), options, Host::default()).unwrap()
}
