//! Checks of a whole recipe, from the declarations of its settings.

use super::{Recipe, Setting};
use crate::SplitBy;
use crate::scan::check_columns;
use packhorse_core::{Code, Error, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;

impl Recipe {
    /// The settings that differ from their defaults, with their values as text.
    pub(crate) fn given(&self) -> Vec<(&'static Setting, Vec<OsString>)> {
        let default = Self::default();
        let values = self.texts().zip(default.texts());
        values.filter(|((_, own), (_, default))| own != default).map(|(own, _)| own).collect()
    }

    /// Refuses values that a setting does not take, settings without those that they need, and settings that exclude
    /// each other. Every verb that plans begins with it.
    ///
    /// Errors: `Config`, with the names of the settings.
    ///
    /// ```
    /// use packhorse_pack::Recipe;
    ///
    /// let recipe = Recipe { quality: 200, ..Recipe::new("photos", "webdataset", "shards") };
    /// assert!(recipe.check().unwrap_err().to_string().contains("`quality`"));
    /// ```
    pub fn check(&self) -> Result<()> {
        let given = self.given();
        let names: BTreeSet<&str> = given.iter().map(|(setting, _)| setting.name).collect();
        for (setting, texts) in given {
            let name = setting.name;
            texts.iter().try_for_each(|text| Self::default().take(name, text))?;
            if let Some(other) = setting.needs.filter(|other| !names.contains(other)) {
                return Err(bad(format!("`{name}` needs `{other}`; give that too, or leave `{name}` out")));
            }
            if let Some(other) = setting.excludes.filter(|other| names.contains(other)) {
                return Err(bad(format!("`{name}` and `{other}` exclude each other; leave one of them out")));
            }
        }
        if let (SplitBy::Group(_) | SplitBy::Column(_), false) = (&self.split_by, self.split.divides()) {
            return Err(bad(format!("`split-by={}` takes shares, such as `split=train=0.9,val=0.1`", self.split_by)));
        }
        check_columns(self)
    }
}

fn bad(message: String) -> Error {
    Error::config(message).with_code(Code::BadSetting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteSize, Labels, Shuffle, Takes};

    fn refused(recipe: &Recipe) -> String {
        let error = recipe.check().unwrap_err();
        assert_eq!(error.code(), Code::BadSetting, "{error}");
        error.to_string()
    }

    #[test]
    fn values_that_no_text_gives_are_refused() {
        let default = Recipe::default;
        for (name, recipe) in [
            ("limit", Recipe { limit: Some(0), ..default() }),
            ("quality", Recipe { quality: 200, ..default() }),
            ("shard-size", Recipe { shard_size: Some(ByteSize(0)), ..default() }),
            ("shuffle", Recipe { shuffle: Shuffle::Blocks { seed: 0, size: 0 }, ..default() }),
            ("unsupported", Recipe { unsupported: Some("perhaps".to_owned()), ..default() }),
        ] {
            assert!(refused(&recipe).contains(&format!("`{name}`")), "{}", refused(&recipe));
        }
        default().check().unwrap();
    }

    #[test]
    fn every_declared_need_and_exclusion_is_checked() {
        let with = |recipe: Recipe, setting: &Setting| {
            let text = match setting.takes {
                Takes::Switch => "true",
                Takes::OneOf(words) => words.iter().find(|word| Some(**word) != setting.default).unwrap(),
                Takes::Number(..) => "1",
                _ => "a=b",
            };
            recipe.with(setting.name, text).unwrap()
        };
        let base = || Recipe::default().labels(Labels::Folders);
        let mut count = 0;
        for setting in Recipe::SETTINGS {
            for (others, word) in [(setting.needs, "needs"), (setting.excludes, "exclude")] {
                let Some(other) = others.filter(|other| *other != "labels") else { continue };
                let alone = with(base(), setting);
                let both = with(alone.clone(), Setting::named(other).unwrap());
                let told = if word == "needs" { refused(&alone) } else { refused(&both) };
                assert!(told.contains(word) && told.contains(&format!("`{}`", setting.name)), "{told}");
                count += 1;
            }
        }
        assert!(count > 9, "only {count}");
    }

    #[test]
    fn what_is_needed_is_enough() {
        let tokens = Recipe::default().tokenizer("t.json").with("special", "bos").unwrap();
        let table = Recipe::default().with("metadata", "t.csv").unwrap();
        tokens.check().unwrap();
        assert!(refused(&table).contains("`key`"));
        table.with("key", "id").unwrap().with("columns", "a,b").unwrap().check().unwrap();
    }
}
