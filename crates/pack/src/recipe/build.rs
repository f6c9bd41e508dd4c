//! Building recipes in Rust: methods for common settings, and all others by name.

use super::{ByteSize, Recipe, Setting};
use crate::{Labels, OnError, Shuffle, Splits};
use packhorse_core::{Error, Result};
use std::ffi::OsStr;
use std::path::PathBuf;

impl Recipe {
    /// Packs the folder or file `input` into shards of the format `to` in the folder `out`.
    ///
    /// ```
    /// use packhorse_pack::{Labels, Recipe};
    /// let recipe = Recipe::new("photos", "webdataset", "shards").labels(Labels::Folders).shuffle(7);
    /// assert_eq!(recipe.to.as_deref(), Some("webdataset"));
    /// ```
    pub fn new(input: impl Into<PathBuf>, to: &str, out: impl Into<PathBuf>) -> Self {
        Self { input: vec![input.into()], to: Some(to.to_owned()), out: Some(out.into()), ..Self::default() }
    }

    /// Adds an input.
    pub fn and(mut self, input: impl Into<PathBuf>) -> Self {
        self.input.push(input.into());
        self
    }

    /// Labels from the names of folders.
    pub fn labels(self, labels: Labels) -> Self {
        Self { labels: Some(labels), ..self }
    }

    /// Shuffles all samples. Equal seeds give equal orders.
    pub fn shuffle(self, seed: u64) -> Self {
        Self { shuffle: Shuffle::Global { seed }, ..self }
    }

    /// How samples are divided into splits.
    pub fn split(self, split: Splits) -> Self {
        Self { split, ..self }
    }

    /// The most bytes of a shard's data file.
    pub fn shard_size(self, bytes: u64) -> Self {
        Self { shard_size: Some(ByteSize(bytes)), ..self }
    }

    /// The most samples in a shard.
    pub fn samples_per_shard(self, samples: u64) -> Self {
        Self { samples_per_shard: Some(samples), ..self }
    }

    /// The most samples, from the start of the order.
    pub fn limit(self, samples: u64) -> Self {
        Self { limit: Some(samples), ..self }
    }

    /// How bad inputs are handled.
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Adds an image operation, such as `check` or `resize=256`.
    pub fn image(mut self, what: &str) -> Self {
        self.image.push(what.to_owned());
        self
    }

    /// Turns text into tokens with this tokenizer.
    pub fn tokenizer(self, file: impl Into<PathBuf>) -> Self {
        Self { tokenizer: Some(file.into()), ..self }
    }

    /// The setting `name` (as in TOML: `row-group`) with the value that `text` stands for. A setting that repeats takes
    /// one more; a switch takes `true` or `false`.
    ///
    /// Errors: `Config` for a name that is not a setting's, with the one that may be meant, and for a value that it
    /// does not take.
    pub fn with(mut self, name: &str, text: impl AsRef<OsStr>) -> Result<Self> {
        self.take(name, text.as_ref())?;
        Ok(self)
    }

    /// As [`Recipe::with`].
    pub fn take(&mut self, name: &str, text: &OsStr) -> Result<()> {
        let setting = Setting::named(name)?;
        let bad = |e: Error| e.context(format_args!("`{name}`"));
        setting.takes.check(text).map_err(bad)?;
        self.value(name)
            .map_or(Ok(()), |value| value.take(text))
            .map_err(|e| if setting.explains() { e } else { bad(e) })
    }

    pub(super) fn is(field: &str, name: &str) -> bool {
        field.len() == name.len() && field.bytes().zip(name.bytes()).all(|(f, n)| f == n || (f == b'_' && n == b'-'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_defaults_are_the_defaults() {
        let mut recipe = Recipe::default();
        for setting in Recipe::SETTINGS {
            if let Some(text) = setting.default {
                recipe.take(setting.name, text.as_ref()).unwrap();
            }
        }
        assert_eq!(recipe, Recipe::default());
    }

    #[test]
    fn every_setting_is_taken_by_its_name() {
        for setting in Recipe::SETTINGS {
            assert!(Recipe::default().value(setting.name).is_some(), "{}", setting.name);
            assert_eq!(setting.name, setting.field.replace('_', "-"));
            for other in setting.needs.iter().chain(&setting.excludes) {
                assert!(Setting::named(other).is_ok(), "{} names {other}", setting.name);
            }
        }
        let recipe = Recipe::default().with("row-group", "8").unwrap().with("include", "*.jpg").unwrap();
        assert_eq!((recipe.row_group, recipe.include.len()), (Some(8), 1));
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        let error = |name: &str, text: &str| Recipe::default().with(name, text).unwrap_err().to_string();
        assert!(error("shard-sise", "1GB").contains("did you mean `shard-size`?"));
        assert!(error("quality", "101").contains("`quality`"), "{}", error("quality", "101"));
        assert!(error("limit", "0").contains("`limit`"));
        assert!(error("symlinks", "perhaps").contains("follow, skip"));
    }

    #[test]
    fn serialized_recipes_round_trip() {
        let recipe = Recipe::new("photos", "webdataset", "shards").labels(Labels::Folders).shuffle(7).shard_size(20);
        let text = serde_json::to_string(&recipe).unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), recipe);
        let short = r#"{"input": ["photos"], "to": "webdataset", "out": "shards", "labels": "folders", "shuffle": 7, "shard-size": "20B"}"#;
        assert_eq!(serde_json::from_str::<Recipe>(short).unwrap(), recipe);
        assert!(serde_json::from_str::<Recipe>(r#"{"shard-sise": 1}"#).is_err());
    }
}
