//! Recipes from documents, such as JSON and TOML: names of settings, each with a value or a list of values.

use super::{NamedSettings, Recipe, Setting};
use packhorse_core::{Code, Error, Result};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;
use std::collections::BTreeMap;

/// Each value is taken as [`Recipe::take`] takes its text. Settings that are left out, or null, have their defaults.
impl<'de> Deserialize<'de> for Recipe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut recipe = Recipe::default();
        let document = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let taken = document.into_iter().try_for_each(|(name, value)| recipe.take_all(&name, texts(value)));
        // Documents that programs write have all settings.
        recipe.named = NamedSettings::default();
        taken.map(|()| recipe).map_err(|e| D::Error::custom(e.text()))
    }
}

impl Recipe {
    /// Adds all values of the setting `name`, each as [`take`](Self::take) does.
    ///
    /// Errors (kind `Config`): those of it; several values of a setting that takes one.
    pub fn take_all(&mut self, name: &str, texts: Vec<String>) -> Result<()> {
        let repeats = Setting::named(name)?.repeats;
        if texts.len() > 1 && !repeats {
            let message = format!("`{name}` takes one value, not {}", texts.len());
            return Err(Error::config(message).with_code(Code::BadSetting));
        }
        texts.iter().try_for_each(|text| self.take(name, text.as_ref()))
    }
}

/// The texts of a value: none of null, those of its parts of a list.
fn texts(value: Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text],
        Value::Array(list) => list.into_iter().flat_map(texts).collect(),
        other => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Labels;

    fn error(text: &str) -> String {
        serde_json::from_str::<Recipe>(text).unwrap_err().to_string()
    }

    #[test]
    fn serialized_recipes_round_trip() {
        let recipe = Recipe::new("photos", "webdataset", "shards").labels(Labels::Folders).shuffle(7).shard_size(20);
        let text = serde_json::to_string(&recipe).unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), recipe);
        let short = r#"{"input": ["photos"], "to": "webdataset", "out": "shards", "labels": "folders", "shuffle": 7, "shard-size": "20B"}"#;
        assert_eq!(serde_json::from_str::<Recipe>(short).unwrap(), recipe);
        let lists = Recipe::default().with("columns", "a,b").unwrap().with("include", "*.jpg").unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(r#"{"columns": "a,b", "include": ["*.jpg"]}"#).unwrap(), lists);
    }

    #[test]
    fn errors_name_the_setting() {
        assert!(error(r#"{"shard-sise": null}"#).contains("did you mean `shard-size`?"));
        assert!(error(r#"{"shard-size": "x"}"#).contains("`shard-size`: "));
        assert!(error(r#"{"limit": 0}"#).contains("`limit`: "));
        assert!(error(r#"{"orient": "perhaps"}"#).contains("`orient`: "));
        assert!(error(r#"{"to": ["hdf5", "tokens"]}"#).contains("`to` takes one value"));
        assert!(error(r#"{"limit": {}}"#).contains("a whole number"));
    }
}
