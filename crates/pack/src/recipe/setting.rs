//! The declaration of one setting of a recipe: enough to derive a flag, a row of a table and a hint.

use packhorse_core::{Error, Result, nearest};
use std::ffi::OsStr;

/// The declaration of one setting of a [`Recipe`](crate::Recipe).
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name of the field.
    pub field: &'static str,
    /// The name of the flag and of the key in TOML.
    pub name: &'static str,
    /// The heading of its group.
    pub group: &'static str,
    /// One sentence, with the names of other settings in backticks. May start with a space.
    pub about: &'static str,
    /// The values that it takes.
    pub takes: Takes,
    /// The placeholder of a value in help.
    pub value: &'static str,
    /// The default as text, if it has one.
    pub default: Option<&'static str>,
    /// A setting that must be given with it.
    pub needs: Option<&'static str>,
    /// A setting that can't be given with it.
    pub excludes: Option<&'static str>,
    /// Whether it may be given more than once, each time adding a value.
    pub repeats: bool,
    /// The letter of its short flag.
    pub short: Option<char>,
}

/// The kind of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// On, or not given.
    Switch,
    /// Text that the setting itself parses.
    Text,
    /// A comma-separated list.
    Texts,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// An integer between the two, both included.
    Number(u64, u64),
    /// The path of a file.
    File,
    /// The path of a folder.
    Folder,
    /// The path of a file or a folder.
    Path,
}

impl Setting {
    /// The setting with this name.
    ///
    /// Errors: `Config` with the name that may have been meant.
    pub fn named(name: &str) -> Result<&'static Setting> {
        let all = crate::Recipe::SETTINGS;
        all.iter().find(|setting| setting.name == name).ok_or_else(|| {
            let meant = nearest(name, all.iter().map(|setting| setting.name));
            let error = Error::config(format!("no setting is called `{name}`"));
            meant.into_iter().fold(error, |error, name| error.hint(format!("did you mean `{name}`?")))
        })
    }

    /// Refuses text that the setting does not take; the error does not name the setting.
    pub fn check(&self, text: &OsStr) -> Result<()> {
        crate::Recipe::default().assign(self, text)
    }

    pub(super) const fn new(takes: Takes, value: &'static str) -> Self {
        Self {
            field: "",
            name: "",
            group: "",
            about: "",
            takes,
            value,
            default: None,
            needs: None,
            excludes: None,
            repeats: false,
            short: None,
        }
    }

    pub(super) const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    pub(super) const fn needs(mut self, name: &'static str) -> Self {
        self.needs = Some(name);
        self
    }

    pub(super) const fn excludes(mut self, name: &'static str) -> Self {
        self.excludes = Some(name);
        self
    }

    pub(super) const fn repeats(mut self) -> Self {
        self.repeats = true;
        self
    }

    pub(super) const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }
}

impl Takes {
    /// Refuses unknown words, and numbers out of range.
    pub(super) fn check(&self, text: &OsStr) -> Result<()> {
        let shown = text.to_string_lossy();
        match self {
            Takes::OneOf(words) if !words.contains(&&*shown) => {
                Err(Error::config(format!("takes {}, not \"{shown}\"", words.join(", "))))
            }
            Takes::Number(from, to) if !shown.parse::<u64>().is_ok_and(|n| (*from..=*to).contains(&n)) => {
                let most = if *to == u64::MAX { " or more".to_owned() } else { format!(" to {to}") };
                Err(Error::config(format!("takes a whole number, {from}{most}, not \"{shown}\"")))
            }
            _ => Ok(()),
        }
    }
}

/// `files_from` as `files-from`.
pub(super) const fn kebab<const N: usize>(field: &str) -> [u8; N] {
    let mut name = [0; N];
    let mut i = 0;
    while i < N {
        name[i] = if field.as_bytes()[i] == b'_' { b'-' } else { field.as_bytes()[i] };
        i += 1;
    }
    name
}
