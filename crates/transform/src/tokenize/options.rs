//! Tokenization settings and their names.

use packhorse_core::{Error, Result};
use std::str::FromStr;

/// How text becomes tokens, beyond what the tokenizer file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenizeOptions {
    /// Which special tokens surround a document.
    pub special: Special,
    /// What to do with a document without tokens.
    pub empty: Empty,
    /// Append the end-of-document token to every document that has tokens.
    pub append_eod: bool,
    /// The end-of-document token, as an id or as text (a number is an id); by default the first known name that the tokenizer has.
    pub eod: Option<String>,
    /// The beginning token for [`Special::Bos`], likewise.
    pub bos: Option<String>,
    /// Whether the text of a special token inside a document becomes that token. By default yes for a
    /// `tokenizer.json`, as in Hugging Face; no for tiktoken (its `encode_ordinary`) and SentencePiece, which never
    /// does it.
    pub parse_special: Option<bool>,
    /// The text field; by default `text`, or the only text field.
    pub field: Option<String>,
    /// The fraction of documents, 0 to 1, that the oracle encodes too.
    pub check_exact: f64,
    /// For tiktoken: the encoding whose split pattern and special tokens apply (`gpt2`, `r50k_base`, `p50k_base`,
    /// `cl100k_base`, `o200k_base`); by default chosen by vocabulary size.
    pub pattern: Option<String>,
}

/// Which special tokens surround a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Special {
    /// Those of the tokenizer's post-processor, as in Megatron's `preprocess_data`.
    #[default]
    Template,
    /// None.
    None,
    /// The beginning token, whatever the post-processor says.
    Bos,
    /// The end-of-document token, whatever the post-processor says: [`Special::None`] plus `append_eod`.
    Eod,
}

/// What to do with a document without tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Empty {
    /// Keep it without tokens, as Megatron's `preprocess_data` does.
    #[default]
    Skip,
    /// Make it the end-of-document token alone, as Megatron's `preprocess_data_fast` does.
    Eod,
}

impl Special {
    /// The setting's value.
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
    /// The setting's value.
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
