//! What a manifest records of a tokenizer.

/// The tokenizer and engine that made the tokens, so that they can be reproduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerRecord {
    /// The tokenizer's file name as given.
    pub name: String,
    /// `tokenizer.json`, `tiktoken` or `sentencepiece`.
    pub kind: &'static str,
    /// Hexadecimal BLAKE3 digest of the file.
    pub digest: String,
    /// The engine and its release, such as `tokenizers-1.0.0-rc.3`.
    pub engine: String,
    /// The Unicode release of the engine's tables.
    pub unicode: &'static str,
    /// Why the fallback engine was used, if it was.
    pub fallback: Option<String>,
    /// One more than the highest id, unused ids included.
    pub vocabulary: u32,
    /// The end-of-document token, if one is written.
    pub eod: Option<u32>,
}
