//! Splits that names of folders and files say: `train/`, `val2017/`, `c4-validation.jsonl`.

use super::SampleRef;
use crate::Splits;
use std::borrow::Cow;

/// Words that name splits.
pub(crate) const SPLITS: [&str; 8] = ["train", "training", "val", "valid", "validation", "dev", "test", "testing"];

/// Where names of a sample may say its split.
struct Names<'a> {
    /// The name of its input, and whether there are others: names of several inputs are meant to say it.
    input: (Cow<'a, str>, bool),
    /// The folders of its file below the input, and those inside an archive.
    folders: [Cow<'a, str>; 2],
    /// Its file or archive.
    file: Cow<'a, str>,
}

impl<'a> Names<'a> {
    fn of(sample: &SampleRef<'a>) -> Self {
        let below = sample.relative_path().to_string_lossy().into_owned();
        let (folders, file) = below.rsplit_once('/').unwrap_or(("", &below));
        Self {
            input: (sample.input_name(), sample.has_others()),
            folders: [folders.to_owned().into(), sample.folder_inside().into()],
            file: file.to_owned().into(),
        }
    }

    /// The split, and whether a folder below the input says it. Names of folders that are nothing else come before those that
    /// begin with a split, and before words in the name of the file.
    fn split(&self) -> Option<(&'static str, bool)> {
        let folders = |rule: fn(&str) -> Option<&'static str>| {
            let mut names = self.folders.iter().flat_map(|folders| folders.split('/'));
            names.find_map(rule).map(|split| (split, true))
        };
        let of_input = alone(&self.input.0).map(|split| (split, false));
        let (before, after) = if self.input.1 { (of_input, None) } else { (None, of_input) };
        before.or_else(|| folders(alone)).or(after).or_else(|| folders(first))
    }
}

/// The split that a name is, but for digits and signs: `train`, `val2017`.
pub(super) fn alone(name: &str) -> Option<&'static str> {
    let mut words = words(name);
    words.next().filter(|_| words.next().is_none()).and_then(split)
}

/// The split that a name begins with: `train-clean-100`.
fn first(name: &str) -> Option<&'static str> {
    words(name).next().and_then(split)
}

fn split(word: &str) -> Option<&'static str> {
    SPLITS.into_iter().find(|split| word.eq_ignore_ascii_case(split))
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty())
}

/// The split that the names of a sample say; any word of its file's name if folders say none.
pub(crate) fn split_of(sample: &SampleRef<'_>) -> Option<&'static str> {
    let names = Names::of(sample);
    names.split().map(|(split, _)| split).or_else(|| words(&names.file).find_map(split))
}

/// The split that folders and inputs say.
pub(crate) fn split_of_folders(sample: &SampleRef<'_>) -> Option<&'static str> {
    Names::of(sample).split().map(|(split, _)| split)
}

/// The folders of a sample without the one that names its split.
pub(crate) fn without_split<'a>(sample: &SampleRef<'a>, splits: &Splits) -> Cow<'a, str> {
    let folders = sample.file_folder();
    match splits {
        Splits::Folders => folders.split_once('/').map_or("", |(_, rest)| rest).into(),
        Splits::Names if Names::of(sample).split().is_some_and(|(_, is_folder)| is_folder) => left(folders).into(),
        _ => folders.into(),
    }
}

/// Folders without the one that names a split.
fn left(folders: &str) -> String {
    let names: Vec<&str> = folders.split('/').collect();
    let at = |rule: fn(&str) -> Option<&'static str>| names.iter().position(|name| rule(name).is_some());
    let split = at(alone).or_else(|| at(first));
    let names = names.iter().enumerate().filter(|(at, _)| Some(*at) != split).map(|(_, name)| *name);
    names.collect::<Vec<_>>().join("/")
}

/// The splits that the names of a sample's inputs say, where they differ: the keys of two files are equal by chance.
pub(crate) fn of_two_splits(sample: &SampleRef<'_>) -> Option<[&'static str; 2]> {
    let mut splits = sample.input_names().filter_map(|name| alone(&name));
    let first = splits.next()?;
    splits.find(|split| *split != first).map(|other| [first, other])
}

/// Where a sample is, as expressions see it: the name of its input, the path below it, and of a member of an archive the folder in
/// that.
pub(crate) fn path_of(sample: &SampleRef<'_>) -> String {
    let (input, below) = (sample.input_name(), sample.relative_path());
    let parts =
        [&*input, &*below.to_string_lossy(), sample.folder_inside()].map(|part| part.trim_matches('/').to_owned());
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_splits() {
        let plain = ("data", false);
        for (input, folders, file, wanted) in [
            (plain, "train", "a.jpg", Some("train")),
            (plain, "coco/val2017", "a.jpg", Some("val")),
            (plain, "en", "c4-validation.00000-of-00008.json.gz", Some("validation")),
            (plain, "mnist/3.0.1", "mnist-train.tfrecord-00000-of-00001", Some("train")),
            (plain, "data", "Test-00000-of-00002.parquet", Some("test")),
            (plain, "train/class_test", "test_tube.jpg", Some("train")),
            (plain, "test-data/train", "a.jpg", Some("train")),
            (plain, "train-clean-100/84", "a.flac", Some("train")),
            (plain, "airplane/train", "1.off", Some("train")),
            (plain, "trains", "a.jpg", None),
            (plain, "my-test", "a.jpg", None),
            (plain, "", "testament.txt", None),
            (plain, "étest", "a.jpg", None),
            (("val", true), "train", "test.jpg", Some("val")),
            (("val", false), "train", "test.jpg", Some("train")),
            (("train", false), "train_station", "a.jpg", Some("train")),
            (("val", false), "train_station", "a.jpg", Some("val")),
            (("training-data", false), "val", "a.jpg", Some("val")),
            (("test-data", true), "", "train-0.parquet", Some("train")),
        ] {
            let names =
                Names { input: (input.0.into(), input.1), folders: [folders.into(), "".into()], file: file.into() };
            let found = names.split().map(|(split, _)| split).or_else(|| words(file).find_map(split));
            assert_eq!(found, wanted, "{input:?} {folders}/{file}");
        }
    }

    #[test]
    fn folders_of_splits_are_no_classes() {
        for (folders, rest) in [
            ("val2017/cat", "cat"),
            ("cat/train", "cat"),
            ("train-clean/84", "84"),
            ("test_tube/train", "test_tube"),
            ("train", ""),
        ] {
            assert_eq!(left(folders), rest);
        }
    }
}
