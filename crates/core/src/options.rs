//! A format's own settings, as text, parsed once and early.

use crate::{Code, Error, Result};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// Named settings for one format. They are part of the plan: equal options, equal bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// No settings: every default applies.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `name`; a later value replaces an earlier one.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The text of `name`, if set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of `name` parsed as `T`, or `default`. A value that does not parse is a `Config` error.
    pub fn parse<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| Self::refuse(name, format_args!("can't understand \"{text}\""))),
        }
    }

    /// What the word of `name` means, by pairs of words and meanings; the first pair is the default. Another word is a
    /// `Config` error that lists them.
    pub fn choose<T: Clone>(&self, name: &str, words: &[(&str, T)]) -> Result<T> {
        let given = self.get(name).or(words.first().map(|(word, _)| *word)).unwrap_or_default();
        let meant = words.iter().find(|(word, _)| *word == given).map(|(_, meaning)| meaning.clone());
        meant.ok_or_else(|| {
            let known = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            Self::refuse(name, format_args!("\"{given}\" is not one of {known}"))
        })
    }

    /// Whether `name` is `on`; `off` by default.
    pub fn switch(&self, name: &str) -> Result<bool> {
        self.choose(name, &[("off", false), ("on", true)])
    }

    /// The number of `name`, if set. Zero is a `Config` error.
    pub fn positive(&self, name: &str) -> Result<Option<u64>> {
        match (self.get(name), self.parse(name, 0u64)?) {
            (None, _) => Ok(None),
            (_, 0) => Err(Self::refuse(name, "must be at least 1")),
            (_, number) => Ok(Some(number)),
        }
    }

    /// The `Config` error for a value of the option `name`.
    pub fn refuse(name: &str, why: impl Display) -> Error {
        Error::config(format!("option {name}: {why}")).with_code(Code::BadSetting)
    }

    /// Refuses settings whose names are not in `known`, so that a typo is not silently ignored.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let error = Error::config(format!("unknown option {name}")).with_code(Code::BadSetting);
                Err(error.hint(format!("known are: {}", known.join(", "))))
            }
        }
    }

    /// All settings in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Options {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn words_and_numbers_are_taken_or_refused_by_name() {
        let options: Options = [("json", "yes"), ("rows", "7"), ("none", "0"), ("on", "of")].into_iter().collect();
        let json = |name| options.choose(name, &[("auto", None), ("yes", Some(true)), ("no", Some(false))]);
        assert_eq!((json("json").unwrap(), json("unset").unwrap()), (Some(true), None));
        assert_eq!((options.positive("rows").unwrap(), options.positive("unset").unwrap()), (Some(7), None));
        for (refused, text) in [
            (json("rows").unwrap_err(), "option rows: \"7\" is not one of auto, yes, no"),
            (options.switch("on").unwrap_err(), "option on: \"of\" is not one of off, on"),
            (options.positive("none").unwrap_err(), "option none: must be at least 1"),
            (options.only(&["json"]).unwrap_err(), "unknown option none; known are: json"),
        ] {
            assert_eq!(
                (refused.kind(), refused.code(), refused.to_string().as_str()),
                (Kind::Config, Code::BadSetting, text)
            );
        }
    }
}
