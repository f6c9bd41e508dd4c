//! The reference engine: `tokenizers` 0.23, whose Python package users compare with. It checks the first engine and
//! reads the tokenizers that the first engine refuses. Owns loading it, and the error of builds without it.

use super::engine::Engine;
#[cfg(feature = "tokenizer-oracle")]
use super::{engine::refuse_equals, scores};
use packhorse_core::{Error, Result};
use std::sync::OnceLock;

/// The reference engine of one tokenizer, loaded when it is first needed.
pub(super) struct Reference {
    /// The tokenizer as given.
    pub(super) json: String,
    pub(super) parse_special: bool,
    loaded: OnceLock<Result<Box<dyn Engine>>>,
}

impl Reference {
    pub(super) fn new(json: String, parse_special: bool) -> Self {
        Self { json, parse_special, loaded: OnceLock::new() }
    }

    /// The engine. Errors are those of [`load`].
    pub(super) fn engine(&self) -> Result<&dyn Engine> {
        let loaded = self.loaded.get_or_init(|| load(self.json.as_bytes(), self.parse_special));
        loaded.as_deref().map_err(Error::clone)
    }
}

/// The reference engine for a `tokenizer.json`. Truncation and padding in the file are ignored.
///
/// Errors: `Config` if the file is not a tokenizer, or has added tokens that are equal once they are normalized; `Unsupported` in builds without the feature `tokenizer-oracle`.
#[cfg(feature = "tokenizer-oracle")]
pub(super) fn load(json: &[u8], parse_special: bool) -> Result<Box<dyn Engine>> {
    use tokenizers_oracle::{NormalizedString, Normalizer};
    let scored = scores::as_read(json);
    let mut tokenizer = tokenizers_oracle::Tokenizer::from_bytes(scored.as_deref().map_or(json, str::as_bytes))
        .map_err(|e| Error::config(format!("the tokenizer can't be read: {e}")))?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|e| Error::config(format!("the tokenizer can't be used: {e}")))?;
    tokenizer.set_encode_special_tokens(!parse_special);
    let added = tokenizer.get_added_tokens_decoder().into_values();
    let normalized = added.filter(|token| token.normalized && !token.content.is_empty()).map(|token| token.content);
    refuse_equals(&normalized.collect(), &|text| {
        let mut form = NormalizedString::from(text);
        tokenizer.get_normalizer().map_or(Ok(()), |normalizer| normalizer.normalize(&mut form))?;
        Ok::<_, tokenizers_oracle::Error>(form.get().to_owned())
    })?;
    Ok(Box::new(Oracle(tokenizer)))
}

#[cfg(not(feature = "tokenizer-oracle"))]
pub(super) fn load(_: &[u8], _: bool) -> Result<Box<dyn Engine>> {
    Err(Error::unsupported("needs the reference tokenizer, which this build lacks")
        .with_code(packhorse_core::Code::NotBuilt)
        .hint("build packhorse with its feature tokenizer-oracle, or take the command of the Python package"))
}

/// `tokenizers` 0.23, with Oniguruma as in its Python package.
#[cfg(feature = "tokenizer-oracle")]
struct Oracle(tokenizers_oracle::Tokenizer);

#[cfg(feature = "tokenizer-oracle")]
impl Engine for Oracle {
    fn encode(&self, text: &str, template: bool, out: &mut super::engine::Ids) -> Result<()> {
        let encoding = self.0.encode_fast(text, template);
        let encoding = encoding.map_err(|e| Error::content(format!("can't be tokenized: {e}")))?;
        out.extend(encoding.get_ids().iter().map(|id| super::engine::Id::from(*id)));
        Ok(())
    }

    fn about(&self) -> super::engine::About {
        super::engine::About { name: "tokenizers", version: "0.23.2", unicode: "16.0" }
    }
}
