//! A format's own settings, as text, parsed once and early.

use crate::{Error, Result};
use std::collections::BTreeMap;
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
            Some(text) => {
                text.parse().map_err(|_| Error::config(format!("option {name}: can't understand \"{text}\"")))
            }
        }
    }

    /// Refuses settings whose names are not in `known`, so that a typo is not silently ignored.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Error::config(format!("unknown option {name}; known are: {}", known.join(", ")))),
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
