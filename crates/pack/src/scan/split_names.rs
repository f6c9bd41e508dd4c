//! Splits that names of folders and files say: `train/`, `val2017/`, `c4-validation.jsonl`.

use super::SampleRef;
use crate::Splits;

/// Words that name splits.
pub(crate) const SPLITS: [&str; 8] = ["train", "training", "val", "valid", "validation", "dev", "test", "testing"];

/// The split that names of a sample say: the first word of a folder, the outermost first, also inside an archive; else any word of
/// the name of its input.
pub(crate) fn split_of(sample: &SampleRef<'_>) -> Option<&'static str> {
    let (input, below) = (sample.input_name(), sample.relative_path());
    let below = below.to_string_lossy();
    let (folders, file) = below.rsplit_once('/').unwrap_or(("", &below));
    let (outer, file) = if file.is_empty() { ("", &*input) } else { (&*input, file) };
    let inside = if sample.is_member() { sample.folder() } else { "" };
    named(&[outer, folders, inside], file)
}

/// The split that folders say, or else the name of a file.
fn named(folders: &[&str], file: &str) -> Option<&'static str> {
    let split = |word: &str| SPLITS.into_iter().find(|split| word.eq_ignore_ascii_case(split));
    folders.iter().find_map(|folders| of_folders(folders)).or_else(|| words(file).find_map(split))
}

/// The split that folders name.
pub(crate) fn of_folders(folders: &str) -> Option<&'static str> {
    folders.split('/').find_map(of_folder)
}

fn of_folder(name: &str) -> Option<&'static str> {
    let first = words(name).next()?;
    // `my-test` does not begin with a split, and `2017-val` does.
    SPLITS.into_iter().find(|split| first.eq_ignore_ascii_case(split))
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty())
}

/// The folders of a sample without one that names its split.
pub(crate) fn without_split<'a>(folders: &'a str, splits: &Splits) -> &'a str {
    let (first, rest) = folders.split_once('/').unwrap_or((folders, ""));
    let is_split = match splits {
        Splits::Folders => true,
        Splits::Names => of_folder(first).is_some(),
        _ => false,
    };
    if is_split { rest } else { folders }
}

/// Where a sample is, as expressions see it: the name of its input, the path below it, and of a member of an archive the folder in
/// that.
pub(crate) fn path_of(sample: &SampleRef<'_>) -> String {
    let (input, below) = (sample.input_name(), sample.relative_path());
    let inside = if sample.is_member() { sample.folder() } else { "" };
    let parts = [&*input, &*below.to_string_lossy(), inside].map(|part| part.trim_matches('/').to_owned());
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_splits() {
        for (folders, file, split) in [
            ("train", "a.jpg", Some("train")),
            ("coco/val2017", "a.jpg", Some("val")),
            ("en", "c4-validation.00000-of-00008.json.gz", Some("validation")),
            ("mnist/3.0.1", "mnist-train.tfrecord-00000-of-00001", Some("train")),
            ("data", "Test-00000-of-00002.parquet", Some("test")),
            ("train/class_test", "test_tube.jpg", Some("train")),
            ("airplane/train", "1.off", Some("train")),
            ("trains", "a.jpg", None),
            ("my-test", "a.jpg", None),
            ("", "testament.txt", None),
            ("", "", None),
        ] {
            assert_eq!(named(&[folders], file), split, "{folders}/{file}");
        }
        assert_eq!(named(&["", "shards", "val/cat"], "train.tar"), Some("val"));
    }

    #[test]
    fn folders_of_splits_are_no_classes() {
        for (folders, splits, rest) in [
            ("train/cat", Splits::Folders, "cat"),
            ("fold1/cat", Splits::Folders, "cat"),
            ("fold1/cat", Splits::Names, "fold1/cat"),
            ("val2017/cat", Splits::Names, "cat"),
            ("cat/train", Splits::Names, "cat/train"),
            ("train/cat", Splits::Keep, "train/cat"),
            ("train", Splits::Names, ""),
        ] {
            assert_eq!(without_split(folders, &splits), rest);
        }
    }
}
