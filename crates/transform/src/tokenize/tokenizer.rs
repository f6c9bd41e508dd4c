//! A loaded tokenizer: its engine, its oracle and its token ids. Owns recognizing file types and choosing the engine.

use super::engine::{Engine, Fast};
use super::json::{self, Facts};
use super::oracle::{self, Reference};
use super::sentencepiece::SentencePiece;
use super::{TokenizeOptions, tiktoken};
use packhorse_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Known end-of-document tokens; the first one that a tokenizer has is used.
const ENDS: [&str; 9] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<|end▁of▁sentence|>",
    "<｜end▁of▁sentence｜>",
    "<EOD>",
    "<eod>",
    "[EOS]",
];

/// Known beginning tokens; the first one that a tokenizer has is used.
const BEGINNINGS: [&str; 7] =
    ["<|begin_of_text|>", "<s>", "<bos>", "<｜begin▁of▁sentence｜>", "<|startoftext|>", "[BOS]", "[CLS]"];

/// A loaded tokenizer.
pub(super) struct Tokenizer {
    pub(super) kind: &'static str,
    pub(super) engine: Box<dyn Engine>,
    /// Why the fallback engine is used, if it is.
    pub(super) fallback: Option<String>,
    /// One more than the highest token id.
    pub(super) vocabulary: u32,
    pub(super) parse_special: bool,
    /// The canonical name of the tiktoken encoding.
    pub(super) pattern: Option<&'static str>,
    named: BTreeMap<String, u32>,
    /// The oracle; `None` if the engine is the reference itself.
    reference: Option<Arc<Reference>>,
}

/// How files of zstd, gzip, bzip2 and xz begin.
const COMPRESSED: [&[u8]; 4] = [b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"BZh", b"\xfd7zXZ"];

impl Tokenizer {
    /// From the bytes of a `tokenizer.json`, a tiktoken vocabulary or a SentencePiece model.
    pub(super) fn new(bytes: &[u8], options: &TokenizeOptions) -> Result<Self> {
        if COMPRESSED.iter().any(|magic| bytes.starts_with(magic)) {
            return Err(Error::config("the tokenizer is compressed").hint("decompress it first"));
        }
        if bytes.trim_ascii_start().starts_with(b"{") {
            let text = std::str::from_utf8(bytes).map_err(|_| Error::config("the tokenizer.json is not UTF-8"))?;
            return Self::of_json("tokenizer.json", text.to_owned(), options.parse_special.unwrap_or(true), options);
        }
        if tiktoken::is_one(bytes) {
            let (text, pattern) = tiktoken::to_json(bytes, options.pattern.as_deref())?;
            let parse_special = options.parse_special.unwrap_or(false);
            let tokenizer = Self::of_json("tiktoken", text, parse_special, options)?;
            return Ok(Self { pattern: Some(pattern), ..tokenizer });
        }
        let is_text = || std::str::from_utf8(bytes).is_ok();
        let model = SentencePiece::new(bytes).map_err(|e| if is_text() { e.hint(json::WHOLE) } else { e })?;
        if options.parse_special == Some(true) {
            return Err(Error::config(
                "a SentencePiece model never parses its control symbols; leave parse_special out",
            ));
        }
        Ok(Self {
            kind: "sentencepiece",
            vocabulary: model.vocabulary(),
            named: model.special(),
            engine: Box::new(model),
            fallback: None,
            parse_special: false,
            pattern: None,
            reference: None,
        })
    }

    fn of_json(kind: &'static str, text: String, parse_special: bool, options: &TokenizeOptions) -> Result<Self> {
        let reference = Arc::new(Reference::new(text, parse_special));
        let text = &reference.json;
        let known = ENDS.iter().chain(&BEGINNINGS).map(|name| (*name).to_owned());
        let wanted: Vec<String> = known.chain(options.eod.clone()).chain(options.bos.clone()).collect();
        // Both are slow and independent.
        let (facts, fast) = std::thread::scope(|threads| {
            let facts = std::thread::Builder::new().spawn_scoped(threads, || json::facts(text, &wanted));
            let fast = json::canonical(text).and_then(|upgraded| Fast::new(&upgraded, &reference));
            (facts.map(std::thread::ScopedJoinHandle::join), fast)
        });
        let facts = facts.map_err(Error::thread)?;
        let facts = facts.map_err(|_| Error::bug("reading the vocabulary failed"))?;
        let Facts { vocabulary, named, normalized, disordered } = facts?;
        // This engine numbers them in the order of their ids.
        let fast = fast.and_then(|fast| match disordered {
            true => Err("added tokens that are listed in another order than that of their ids".to_owned()),
            false => fast.refuse_unfound(&normalized).map(|()| fast),
        });
        let vocabulary = u32::try_from(vocabulary).ok().filter(|n| (1..=i32::MAX.unsigned_abs()).contains(n));
        let vocabulary = vocabulary.ok_or_else(|| Error::config("the tokenizer's token ids do not fit 31 bits"))?;
        let (engine, fallback): (Box<dyn Engine>, _) = match fast {
            Ok(fast) => {
                fast.refuse_equals(&normalized)?;
                (Box::new(fast.with_spelling(vocabulary)), None)
            }
            Err(why) => {
                let loaded = oracle::load(text.as_bytes(), parse_special);
                (loaded.map_err(|e| e.remark(format!("the first one does not take {why}")))?, Some(why))
            }
        };
        let reference = fallback.is_none().then_some(reference);
        Ok(Self { kind, engine, fallback, vocabulary, parse_special, pattern: None, named, reference })
    }

    /// Loads the oracle. A `Config` error for SentencePiece, whose engine is a port of the reference itself.
    pub(super) fn load_oracle(&self) -> Result<()> {
        if self.kind == "sentencepiece" {
            return Err(Error::config(
                "a SentencePiece model has no second engine to check with; leave check_exact out",
            ));
        }
        self.oracle().map(drop)
    }

    /// The oracle; `None` if the engine is the reference itself.
    pub(super) fn oracle(&self) -> Result<Option<&dyn Engine>> {
        self.reference.as_ref().map(|reference| reference.engine()).transpose()
    }

    /// The id of the end-of-document token: `given` as id or text, or else a known one.
    pub(super) fn end(&self, given: Option<&str>) -> Result<u32> {
        self.resolve(("end-of-document", "eod"), given, &ENDS)
    }

    /// The id of the beginning token, likewise.
    pub(super) fn beginning(&self, given: Option<&str>) -> Result<u32> {
        self.resolve(("beginning", "bos"), given, &BEGINNINGS)
    }

    /// `setting` is that which gives the token.
    fn resolve(&self, (what, setting): (&str, &str), given: Option<&str>, known: &[&str]) -> Result<u32> {
        if let Some(text) = given {
            // Vocabularies have tokens of digits, and descriptions record ids.
            let id = || text.parse().ok();
            let number = id().filter(|id| *id < self.vocabulary).or_else(|| self.named.get(text).copied()).or_else(id);
            let number = number.ok_or_else(|| Error::config(format!("the tokenizer has no token \"{text}\"")))?;
            return match number < self.vocabulary {
                true => Ok(number),
                false => Err(Error::config(format!(
                    "the {what} token {number} is outside of the vocabulary of {}",
                    self.vocabulary
                ))),
            };
        }
        known.iter().find_map(|name| self.named.get(*name).copied()).ok_or_else(|| {
            Error::config(format!(
                "the tokenizer has no known {what} token ({}); give its number or text with `{setting}`",
                known.join(", ")
            ))
        })
    }
}
