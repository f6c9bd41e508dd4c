//! Building recipes in Rust: methods for common settings, and all others by name.

use super::{ByteSize, Recipe, Setting, Takes};
use crate::{Labels, OnError, Shuffle, Splits};
use packhorse_core::{Code, Error, Result};
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

    /// Writes samples from a program into shards of the format `to` in the folder `out`
    /// ([`Session::writer`](crate::Session::writer)).
    pub fn for_writer(to: &str, out: impl Into<PathBuf>) -> Self {
        Self { to: Some(to.to_owned()), out: Some(out.into()), ..Self::default() }
    }

    /// Adds an input.
    pub fn and(mut self, input: impl Into<PathBuf>) -> Self {
        self.input.push(input.into());
        self
    }

    /// Labels from the names of folders, or from a column of the metadata.
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
        let named = |e: Error| e.context(format_args!("`{name}`")).with_code(Code::BadSetting);
        let setting = Setting::named(name)?;
        self.named.0.insert(setting.name);
        self.assign(setting, text).map_err(named)
    }

    /// As [`Recipe::take`], with errors that do not name the setting.
    pub(super) fn assign(&mut self, setting: &Setting, text: &OsStr) -> Result<()> {
        setting.takes.check(text)?;
        let Some(value) = self.value(setting) else { return Ok(()) };
        match (setting.takes, text.to_str()) {
            (Takes::Texts, Some(list)) => list.split(',').try_for_each(|part| value.take(part.as_ref())),
            _ => value.take(text),
        }
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
            assert!(Recipe::default().value(setting).is_some(), "{}", setting.name);
            assert_eq!(setting.name, setting.field.replace('_', "-"));
            for other in setting.needs.iter().chain(&setting.excludes) {
                assert!(Setting::named(other).is_ok(), "{} names {other}", setting.name);
            }
        }
        let recipe = Recipe::default().with("row-group", "8").unwrap().with("include", "*.jpg").unwrap();
        assert_eq!((recipe.row_group, recipe.include.len()), (Some(8), 1));
        assert_eq!(
            Recipe::default().with("columns", "a,b").unwrap().with("columns", "c").unwrap().columns,
            ["a", "b", "c"]
        );
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        let error = |name: &str, text: &str| Recipe::default().with(name, text).unwrap_err().to_string();
        assert!(error("shard-sise", "1GB").contains("did you mean `shard-size`?"));
        assert!(error("quality", "101").contains("`quality`"), "{}", error("quality", "101"));
        assert!(error("limit", "0").contains("`limit`"));
        assert!(error("symlinks", "perhaps").contains("follow, skip"));
        for setting in Recipe::SETTINGS.iter().filter(|setting| setting.check("~".as_ref()).is_err()) {
            let told = error(setting.name, "~");
            assert_eq!(told.matches(&format!("`{}`", setting.name)).count(), 1, "{told}");
        }
        assert!(error("shard-size", "x").starts_with("`shard-size`: "), "{}", error("shard-size", "x"));
    }
}
