//! The engine that says what is right: `tokenizers` 0.23, whose Python package users compare with.
//! Owns its use, for checking and for tokenizers that the first engine does not read.

use super::engine::{About, Engine, Id, Ids};
use packhorse_core::{Error, Result};
use tokenizers_oracle::Tokenizer;

/// `tokenizers` 0.23, with Oniguruma as in its Python package.
pub(super) struct Oracle(Tokenizer);

impl Oracle {
    /// From a `tokenizer.json`; a `Config` error that says what is wrong with it. Truncation and padding
    /// that it asks for are not done.
    pub(super) fn new(json: &[u8], parse_special: bool) -> Result<Self> {
        let mut tokenizer =
            Tokenizer::from_bytes(json).map_err(|e| Error::config(format!("the tokenizer can't be read: {e}")))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| Error::config(format!("the tokenizer can't be used: {e}")))?;
        tokenizer.set_encode_special_tokens(!parse_special);
        Ok(Self(tokenizer))
    }
}

impl Engine for Oracle {
    fn encode(&self, text: &str, template: bool, out: &mut Ids) -> Result<()> {
        let encoding = self.0.encode_fast(text, template);
        let encoding = encoding.map_err(|e| Error::content(format!("can't be tokenized: {e}")))?;
        out.extend(encoding.get_ids().iter().map(|id| Id::from(*id)));
        Ok(())
    }

    fn about(&self) -> About {
        About { name: "tokenizers", version: "0.23.2", unicode: "16.0" }
    }
}
