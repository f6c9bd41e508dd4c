//! What a manifest says of a tokenizer. Owns nothing else.

/// Who made the tokens, so that they can be made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerRecord {
    /// The name that the tokenizer's file was given as.
    pub name: String,
    /// `tokenizer.json`, `tiktoken` or `sentencepiece`.
    pub kind: &'static str,
    /// blake3 of the file, in hexadecimal.
    pub digest: String,
    /// The engine and its release, such as `tokenizers-1.0.0-rc.3`.
    pub engine: String,
    /// The release of Unicode that the engine's tables hold.
    pub unicode: &'static str,
    /// Why it is not the first engine, where it is the fallback.
    pub fallback: Option<String>,
    /// The highest number of a token and one; numbers that no token has count too.
    pub vocabulary: u32,
    /// The end-of-document token, where one is written.
    pub eod: Option<u32>,
}
