//! The flags that concern text and tokens.

use clap::{Args as ClapArgs, ValueHint};
use packhorse_core::{Limits, Options, Result};
use packhorse_transform::Transform;
use std::path::PathBuf;

/// How text is read, and how it becomes tokens.
#[derive(ClapArgs, Clone)]
#[command(next_help_heading = "Text and tokens")]
pub(crate) struct Tokenizing {
    /// The field that holds the text: of JSON lines (a.b is b inside of a), of a table, or inside of a field of JSON
    /// (json.a is a in the field json) [default: text, or the only field of text]
    #[arg(long, value_name = "NAME")]
    pub(crate) text_field: Option<String>,

    /// JSON lines: the field that names a document; its key is FILE/NAME [default: its place in the file]
    #[arg(long, value_name = "NAME")]
    pub(crate) id_field: Option<String>,

    /// Files of plain text (with --from text): a document is the file, a paragraph or a line
    #[arg(long, value_name = "WHAT", value_parser = ["file", "paragraph", "line"])]
    pub(crate) document: Option<String>,

    /// Turn text into tokens with this tokenizer.json, .tiktoken vocabulary or SentencePiece .model
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tokenizer: Option<PathBuf>,

    /// Tokens around a document: template (what the tokenizer itself adds), none, bos or eod
    #[arg(long, value_name = "WHICH", requires = "tokenizer", default_value = "template")]
    pub(crate) special: String,

    /// End every document that has tokens with the end-of-document token
    #[arg(long, requires = "tokenizer")]
    pub(crate) append_eod: bool,

    /// The end-of-document token, as a number or as its text [default: the one that the tokenizer has]
    #[arg(long, value_name = "TOKEN", requires = "tokenizer")]
    pub(crate) eod: Option<String>,

    /// Documents without tokens: skip (an empty document) or eod (its end alone)
    #[arg(long, value_name = "WHAT", requires = "tokenizer", default_value = "skip")]
    pub(crate) empty: String,

    /// Whether the text of a special token becomes that token [default: yes for a tokenizer.json, else no]
    #[arg(long, value_name = "YES|NO", requires = "tokenizer", value_parser = ["yes", "no"])]
    pub(crate) parse_special: Option<String>,

    /// .tiktoken: whose pattern splits the text: gpt2, r50k_base, p50k_base, cl100k_base or o200k_base
    /// [default: told by its size]
    #[arg(long, value_name = "NAME", requires = "tokenizer")]
    pub(crate) pattern: Option<String>,

    /// Encode this share of the documents with the reference implementation too; a difference is an error. Of a plan it is for `pack --plan`
    #[arg(long, value_name = "0..1", default_value_t = 0.0)]
    pub(crate) check_exact: f64,
}

impl Tokenizing {
    /// How the format `text` reads.
    pub(crate) fn source(&self) -> Options {
        let settings = [("text-field", &self.text_field), ("id-field", &self.id_field), ("document", &self.document)];
        settings.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }

    /// The transform, if one is asked for.
    #[cfg(feature = "tokenize")]
    pub(crate) fn transform(&self, limits: Limits) -> Result<Option<Box<dyn Transform>>> {
        use packhorse_core::Context;
        use packhorse_transform::tokenize::{Tokenize, TokenizeOptions};
        let Some(path) = &self.tokenizer else {
            return match self.check_exact > 0.0 {
                true => {
                    Err(packhorse_core::Error::config("--check-exact checks what --tokenizer makes; give that too"))
                }
                false => Ok(None),
            };
        };
        let file =
            std::fs::read(path).context("read").map_err(|e| packhorse_pack::of_request(e.in_input(path.display())));
        let file = file.map_err(|e| e.with_kind(packhorse_core::Kind::Config))?;
        let options = TokenizeOptions {
            special: self.special.parse()?,
            empty: self.empty.parse()?,
            append_eod: self.append_eod,
            eod: self.eod.clone(),
            bos: None,
            parse_special: self.parse_special.as_ref().map(|answer| answer == "yes"),
            field: self.text_field.clone(),
            check_exact: self.check_exact,
            pattern: self.pattern.clone(),
        };
        let name = path.display().to_string();
        Ok(Some(Box::new(Tokenize::new(&file, &name, options)?.within(limits))))
    }

    /// This build has none.
    #[cfg(not(feature = "tokenize"))]
    pub(crate) fn transform(&self, _: Limits) -> Result<Option<Box<dyn Transform>>> {
        match &self.tokenizer {
            None => Ok(None),
            Some(_) => Err(packhorse_core::Error::unsupported(
                "this build has no tokenizers; build it with --features tokenize",
            )),
        }
    }
}
