//! What tells Hugging Face's `load_dataset("FOLDER")` which files of a dataset's folder are its shards.

use crate::{Context, Outlet, Result, ShardSummary};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The file that `load_dataset` and the Hugging Face Hub look for beside a dataset's README.
pub const HUGGINGFACE_CONFIG: &str = ".huggingface.yaml";

/// The names of classes that the numbers of a column stand for, from its metadata [`HUGGINGFACE`](crate::HUGGINGFACE).
pub fn class_names(feature: Option<&String>) -> Option<Vec<String>> {
    let mut feature: &Value = &serde_json::from_str(feature?).ok()?;
    // What lists hold; older files write a list as a JSON list of its feature.
    while let Some(item) = feature.get("feature").or_else(|| feature.get(0)) {
        feature = item;
    }
    serde_json::from_value(feature.get("names")?.clone()).ok()
}

/// The metadata [`HUGGINGFACE`](crate::HUGGINGFACE) of a column whose numbers stand for classes with these names.
pub fn class_label(names: &[String]) -> String {
    json!({"names": names, "_type": "ClassLabel"}).to_string()
}

/// Writes [`HUGGINGFACE_CONFIG`] for `shards`, whose data files end in `suffix`: the
/// [configuration](https://huggingface.co/docs/hub/datasets-manual-configuration) that names the data files of each
/// split. Shards without a split are the split `train`, as that library has it. It refuses `-` in the names of splits, which
/// is `_` there. Nothing is written where a split has a name that it refuses all the same, or two have one.
pub fn write_huggingface_config(shards: &[ShardSummary], suffix: &str, out: &mut dyn Outlet) -> Result<()> {
    match config(shards, suffix) {
        None => Ok(()),
        Some(text) => out.stream(HUGGINGFACE_CONFIG)?.write_all(text.as_bytes()).context("write"),
    }
}

fn config(shards: &[ShardSummary], suffix: &str) -> Option<String> {
    // `val-[0-9]*` would be of the shards of `val-2017` too.
    let all: BTreeSet<&str> = shards.iter().map(|shard| series(&shard.name).0).collect();
    let begins = |one: &str, other: &str| {
        other.strip_prefix(one).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let exact: BTreeSet<&str> = all.iter().copied().filter(|one| all.iter().any(|other| begins(one, other))).collect();
    // Splits in the order of their shards.
    let mut splits: Vec<(String, &str, BTreeSet<String>)> = Vec::new();
    for shard in shards {
        let split = shard.split.as_deref().unwrap_or("train");
        let name = split.replace('-', "_");
        let word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.is_empty();
        let at = splits.iter().position(|(known, ..)| *known == name).unwrap_or(splits.len());
        if at == splits.len() {
            splits.push((name, split, BTreeSet::new()));
        }
        let (_, own, patterns) = splits.get_mut(at)?;
        (word && *own == split).then_some(())?;
        patterns.insert(pattern(&shard.name, suffix, exact.contains(series(&shard.name).0)));
    }
    let mut text = "configs:\n- config_name: default\n  data_files:\n".to_owned();
    for (name, _, patterns) in splits {
        text.push_str(&format!("  - split: {}\n    path:\n", scalar(&name)));
        for pattern in patterns {
            text.push_str(&format!("    - \"{}\"\n", pattern.replace('\\', "\\\\").replace('"', "\\\"")));
        }
    }
    Some(text)
}

/// A word as YAML 1.1 reads text: quoted where it would be a number, a Boolean or null.
fn scalar(word: &str) -> Cow<'_, str> {
    const OTHERS: [&str; 9] = ["y", "n", "yes", "no", "true", "false", "on", "off", "null"];
    let is_other = OTHERS.iter().any(|other| word.eq_ignore_ascii_case(other));
    match is_other || word.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("\"{word}\"").into(),
        false => word.into(),
    }
}

/// The name of a shard up to its number, and what follows that.
fn series(name: &str) -> (&str, &str) {
    let is_digit = |c: char| c.is_ascii_digit();
    let count = name
        .rfind("-of-")
        .filter(|at| name.get(at + 4..).is_some_and(|count| !count.is_empty() && count.chars().all(is_digit)));
    let (stem, count) = name.split_at(count.unwrap_or(name.len()));
    (stem.trim_end_matches(is_digit), count)
}

/// A glob of this shard's files and of those that differ from it only by number. With `exact` numbers have as many digits as its own.
fn pattern(name: &str, suffix: &str, exact: bool) -> String {
    let (series, count) = series(name);
    let number = match name.len() - series.len() - count.len() {
        0 => String::new(),
        digits if exact => "[0-9]".repeat(digits),
        _ => "[0-9]*".to_owned(),
    };
    format!("{series}{number}{count}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(name: &str, split: Option<&str>) -> ShardSummary {
        ShardSummary { name: name.to_owned(), split: split.map(str::to_owned), ..ShardSummary::default() }
    }

    #[test]
    fn splits_name_their_shards_by_series() {
        let shards = [
            shard("x-train-000000", Some("train")),
            shard("x-train-000001", Some("train")),
            shard("x-val-00000-of-00002", Some("val")),
            shard("x-val-00001-of-00002", Some("val")),
        ];
        let wanted = "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path:\n    - \
                      \"x-train-[0-9]*.parquet\"\n  - split: val\n    path:\n    - \"x-val-[0-9]*-of-00002.parquet\"\n";
        assert_eq!(config(&shards, ".parquet").unwrap(), wanted);
        let years = [shard("val-000000", Some("val")), shard("val-2017-000000", Some("val-2017"))];
        let years = config(&years, ".tar").unwrap();
        assert!(years.contains(&format!("    - \"val-{}.tar\"\n", "[0-9]".repeat(6))), "{years}");
        assert!(years.contains("    - \"val-2017-[0-9]*.tar\"\n"), "{years}");
        let alone = config(&[shard("only", None)], ".tar").unwrap();
        assert!(alone.contains("split: train\n    path:\n    - \"only.tar\""));
        assert_eq!(config(&[shard("a-0", Some("my split"))], ".tar"), None);
        let of = |split: &str| {
            let text = config(&[shard("a-0", Some(split))], ".tar").unwrap();
            text.lines().find_map(|line| Some(line.split_once("split: ")?.1.to_owned())).unwrap()
        };
        let shown = ["dev-clean", "0", "2024_05", "No", "null", "n1", "_0"].map(of);
        assert_eq!(shown, ["dev_clean", "\"0\"", "\"2024_05\"", "\"No\"", "\"null\"", "n1", "_0"]);
        assert_eq!(config(&[shard("a-0", Some("a-b")), shard("b-0", Some("a_b"))], ".tar"), None);
    }
}
