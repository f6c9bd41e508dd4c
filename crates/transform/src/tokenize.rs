//! Tokenization.
//!
//! This module turns a text field into tokens with a tokenizer: a Hugging Face `tokenizer.json`, a tiktoken
//! vocabulary or a SentencePiece model, recognized by content. It does not know how tokens are stored or where texts
//! come from.
//!
//! **Rows**: one document per row, one row out per row in. The output has the key, if there was one, and the field
//! `tokens`: a list of `UInt16` if the vocabulary has fewer than 65,500 ids (unused ids count), otherwise of `Int32`.
//! Other fields are dropped.
//!
//! **Exact** means the same ids as an oracle.
//!
//! | file | engine | oracle |
//! | --- | --- | --- |
//! | `tokenizer.json` | `tokenizers` 1.0.0-rc.3 | `tokenizers` 0.23, also the fallback for what the engine refuses |
//! | `.tiktoken` | the same, with every joinable pair as a merge | `tiktoken`; for `check_exact` `tokenizers` 0.23 |
//! | `.model` | a port of SentencePiece's algorithms (release 0.2.3) | `sentencepiece` |
//!
//! `docs/tokenizers.md` lists the known differences (characters that one of the Unicode releases lacks).
//! [`TokenizeOptions::check_exact`] encodes a fraction of the documents with both; a difference is an `Unsupported`
//! error, which is never skipped, and names document and position.
//!
//! Truncation and padding in a `tokenizer.json` are ignored: documents stay whole.

mod engine;
mod json;
mod options;
mod oracle;
mod record;
#[cfg(feature = "tokenizer-oracle")]
mod scores;
mod sentencepiece;
mod spelling;
mod text;
mod tiktoken;
mod tokenizer;
mod transform;
mod words;

pub use options::{Empty, Special, TokenizeOptions};
pub use record::TokenizerRecord;
pub use transform::Tokenize;
