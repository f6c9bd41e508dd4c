//! Tokenizer engines. Owns the trait and the default engine, `tokenizers` 1.0.0-rc.3.

use packhorse_core::{Error, Result};
use tokenizers::pipeline::{
    EncodeOptions, Override, PipelineToken, PipelineTokenizer, PreTokenizer, PreTokenizerScratch,
};

/// Token ids as the engine writes them; viewable as `&[u32]` without a copy.
pub(super) type Ids = Vec<Id>;

/// One token id.
pub(super) type Id = PipelineToken;

/// Encodes text. Deterministic across threads and call order.
pub(super) trait Engine: Send + Sync {
    /// Appends the tokens of `text` to `out`, with `template` also those that the tokenizer's post-processor adds.
    /// `out` is undefined after an error.
    fn encode(&self, text: &str, template: bool, out: &mut Ids) -> Result<()>;

    /// Whether text is split at white space before encoding, so that the cost of a word depends on its own length
    /// only. `false` if the engine encodes a text in one piece.
    fn cuts(&self) -> bool {
        false
    }

    /// Identifies the engine in plans and records.
    fn about(&self) -> About;
}

/// Name and release of an engine, and the Unicode release of its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) unicode: &'static str,
}

/// Views `ids` as integers.
pub(super) fn numbers(ids: &Ids) -> &[u32] {
    PipelineToken::cast_slice(ids)
}

/// `tokenizers` 1.0.0-rc.3.
pub(super) struct Fast {
    tokenizer: PipelineTokenizer,
    options: EncodeOptions,
    cuts: bool,
}

impl Fast {
    /// From a `tokenizer.json` of version 2.0; the error says why this engine can't read it.
    pub(super) fn new(json: &str, parse_special: bool) -> Result<Self, String> {
        let tokenizer = tokenizers::from_json(json).map_err(|e| e.to_string())?;
        // An unsupported regular expression fails on first use only.
        let (mut scratch, mut spans) = (PreTokenizerScratch::default(), Vec::new());
        tokenizer.get_pre_tokenizer().pre_tokenize("a 1", &mut scratch, &mut spans).map_err(|e| e.to_string())?;
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: !parse_special,
            padding: Override::Off,
            truncation: Override::Off,
        };
        let cuts = spans.len() > 1;
        Ok(Self { tokenizer, options, cuts })
    }
}

impl Engine for Fast {
    fn encode(&self, text: &str, template: bool, out: &mut Ids) -> Result<()> {
        // The engine's own path for this copies the text and the tokens.
        let around = &self.tokenizer.get_post_processor().single;
        if template {
            out.extend(around.prefix.iter().map(|(id, _)| *id));
        }
        let encoded = self.tokenizer.encode_into(text, &self.options, out);
        // The engine fails on a word without any token if the tokenizer has no unknown token.
        encoded.map_err(|e| Error::content(format!("can't be tokenized: {e}")))?;
        if template {
            out.extend(around.suffix.iter().map(|(id, _)| *id));
        }
        Ok(())
    }

    fn cuts(&self) -> bool {
        self.cuts
    }

    fn about(&self) -> About {
        About { name: "tokenizers", version: "1.0.0-rc.3", unicode: "17.0" }
    }
}
