//! What turns text into numbers. Owns the trait and the first engine, `tokenizers` 1.0.0-rc.3.

use packhorse_core::{Error, Result};
use tokenizers::pipeline::{
    EncodeOptions, Override, PipelineToken, PipelineTokenizer, PreTokenizer, PreTokenizerScratch,
};

/// Numbers of tokens as the engine writes them; its slice is one of `u32` without a copy.
pub(super) type Ids = Vec<Id>;

/// One number.
pub(super) type Id = PipelineToken;

/// Encodes text. The same text gives the same numbers on every thread and in every order.
pub(super) trait Engine: Send + Sync {
    /// Appends the tokens of `text` to `out`; with `template`, those too that the tokenizer itself puts
    /// around a text. `out` is undefined after an error.
    fn encode(&self, text: &str, template: bool, out: &mut Ids) -> Result<()>;

    /// Whether text is cut at white space before it is encoded, so that no word costs more than its own length. An engine
    /// that does not say encodes a text in one piece.
    fn cuts(&self) -> bool {
        false
    }

    /// Who it is, for plans and records.
    fn about(&self) -> About;
}

/// An engine's name and release, and the release of Unicode that its tables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) unicode: &'static str,
}

/// The numbers in `ids`.
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
    /// From a `tokenizer.json` of version 2.0; the reason, if this engine does not read it.
    pub(super) fn new(json: &str, parse_special: bool) -> Result<Self, String> {
        let tokenizer = tokenizers::from_json(json).map_err(|e| e.to_string())?;
        // A regular expression that it does not know is refused on use only.
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
        // Added here and not by the engine, whose path for it copies the text and the tokens.
        let around = &self.tokenizer.get_post_processor().single;
        if template {
            out.extend(around.prefix.iter().map(|(id, _)| *id));
        }
        let encoded = self.tokenizer.encode_into(text, &self.options, out);
        // What fails is a word without any token where the tokenizer names none for it.
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
