//! What tokenizing is told. Owns the options and their words; settles nothing.

use packhorse_core::{Error, Result};
use std::str::FromStr;

/// How text becomes tokens, beyond what the tokenizer itself says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenizeOptions {
    /// Which tokens stand around a document.
    pub special: Special,
    /// What becomes of a document without tokens.
    pub empty: Empty,
    /// Whether every document that has tokens ends with the end-of-document token.
    pub append_eod: bool,
    /// The end-of-document token, as a number or as its text; otherwise the one of the known names
    /// that the tokenizer has.
    pub eod: Option<String>,
    /// The token at the beginning for [`Special::Bos`], likewise.
    pub bos: Option<String>,
    /// Whether the text of a special token, found in a document, becomes that token. If unset: yes
    /// for a `tokenizer.json`, as Hugging Face does; no for tiktoken (its `encode_ordinary`) and
    /// SentencePiece, which never does it.
    pub parse_special: Option<bool>,
    /// The field that holds the text; otherwise the field `text`, or the only field of text.
    pub field: Option<String>,
    /// The share of the documents, 0 to 1, that the oracle encodes too.
    pub check_exact: f64,
    /// For tiktoken: whose split pattern and special tokens a vocabulary has (`gpt2`, `r50k_base`,
    /// `p50k_base`, `cl100k_base`, `o200k_base`); otherwise told by its size.
    pub pattern: Option<String>,
}

/// Which tokens stand around a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Special {
    /// Those that the tokenizer's own post-processor adds, as Megatron's `preprocess_data` has them.
    #[default]
    Template,
    /// None.
    None,
    /// The token of the beginning, whatever the post-processor says.
    Bos,
    /// The end-of-document token, whatever the post-processor says: [`Special::None`] with `append_eod`.
    Eod,
}

/// What becomes of a document without tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Empty {
    /// It stays without tokens, as Megatron's `preprocess_data` has it.
    #[default]
    Skip,
    /// It holds the end-of-document token alone, as Megatron's `preprocess_data_fast` has it.
    Eod,
}

impl Special {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Special::Template => "template",
            Special::None => "none",
            Special::Bos => "bos",
            Special::Eod => "eod",
        }
    }
}

impl FromStr for Special {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Special::Template, Special::None, Special::Bos, Special::Eod];
        let found = all.into_iter().find(|special| special.name() == text);
        found.ok_or_else(|| Error::config(format!("special tokens \"{text}\"; known are: template, none, bos, eod")))
    }
}

impl Empty {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Empty::Skip => "skip",
            Empty::Eod => "eod",
        }
    }
}

impl FromStr for Empty {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "skip" => Ok(Empty::Skip),
            "eod" => Ok(Empty::Eod),
            _ => Err(Error::config(format!("empty documents \"{text}\"; known are: skip, eod"))),
        }
    }
}
