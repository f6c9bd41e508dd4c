//! Text to tokens.
//!
//! This module owns what a text field becomes under a tokenizer: a Hugging Face `tokenizer.json`, a
//! tiktoken vocabulary or a SentencePiece model, told apart by their content. It refuses to know how
//! tokens are stored, and where texts come from.
//!
//! **Rows**: a document a row, and as many rows come out as went in. What comes out has the key, if there
//! was one, and the field `tokens`, a list of `UInt16` for vocabularies of fewer than 65,500 tokens (numbers
//! without a token count) and of `Int32` for larger ones. Every other field is left out.
//!
//! **Exact** means: the same numbers as an oracle.
//!
//! | file | engine | oracle |
//! | --- | --- | --- |
//! | `tokenizer.json` | `tokenizers` 1.0.0-rc.3 | `tokenizers` 0.23, which also takes over what the engine refuses |
//! | `.tiktoken` | the same, with every pair that joins as a merge | `tiktoken`; for `check_exact` `tokenizers` 0.23 |
//! | `.model` | a port of SentencePiece's procedure (release 0.2.3) | `sentencepiece` |
//!
//! `docs/tokenizers.md` lists where engine and oracle are known to differ (characters that one of their
//! releases of Unicode does not have). [`TokenizeOptions::check_exact`] has a share of the documents
//! encoded by both; a difference is an `Unsupported` error, which no policy skips, that names the document and the place.
//!
//! Truncation and padding that a `tokenizer.json` asks for are not done: a document is kept whole.

mod engine;
mod json;
mod options;
mod oracle;
mod record;
mod room;
mod sentencepiece;
mod text;
mod tiktoken;
mod tokenizer;
mod transform;
mod words;

pub use options::{Empty, Special, TokenizeOptions};
pub use record::TokenizerRecord;
pub use transform::Tokenize;
