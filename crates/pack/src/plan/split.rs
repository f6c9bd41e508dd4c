//! Splits of samples. Pure.

use packhorse_core::{Error, Result};
use packhorse_storage::Location;
use regex::Regex;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// How samples are divided into splits.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Splits {
    /// Samples of sealed datasets keep their splits; other samples have none.
    #[default]
    Keep,
    /// No splits.
    Off,
    /// The first folder of a sample's path names its split, as in `train/ val/ test/`.
    Folders,
    /// Words in the names of folders and files, such as train, val and test, name a sample's split.
    Names,
    /// The first group of an expression names a sample's split in the path of its input.
    Path(PathSplit),
    /// This column of the metadata table names a sample's split: text, whole numbers or booleans.
    Column(String),
    /// Lists name the samples of each split.
    Lists(SplitLists),
    /// Samples are divided by shares.
    Shares(Shares),
}

/// The list of each split: a text file whose lines begin with the names of samples or files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitLists(Vec<(String, PathBuf)>);

impl SplitLists {
    /// The same lists by their paths from the root of the file system.
    pub(crate) fn absolute(&self) -> Self {
        Self(self.iter().map(|(name, file)| (name.clone(), Location::absolute(file))).collect())
    }

    /// The splits and their lists, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(String, PathBuf)> {
        self.0.iter()
    }
}

impl FromStr for SplitLists {
    type Err = Error;

    /// `NAME=FILE,…`.
    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::config(format!("{why} in \"lists:{text}\"; write it like lists:train=train.txt,val=val.txt"))
        };
        let mut lists: Vec<(String, PathBuf)> = Vec::new();
        for part in text.split(',') {
            let (name, file) = part.split_once('=').ok_or_else(|| bad("a list has no split"))?;
            if !is_name(name) || file.is_empty() || lists.iter().any(|(other, _)| other == name) {
                return Err(bad(&format!("names are {NAMES}, each once, and each has a file")));
            }
            lists.push((name.to_owned(), file.into()));
        }
        Ok(Self(lists))
    }
}

impl fmt::Display for SplitLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(|(name, file)| format!("{name}={}", file.display())).collect();
        write!(f, "lists:{}", parts.join(","))
    }
}

/// An expression whose first group is the name of a split, or of samples that stay together, for the path of an input from the
/// name of `input` on; of members of archives with the folder in the archive.
#[derive(Clone, Debug)]
pub struct PathSplit(Regex);

impl PathSplit {
    /// The first group in a path.
    pub(crate) fn group<'a>(&self, path: &'a str) -> Option<&'a str> {
        self.0.captures(path)?.get(1).map(|group| group.as_str())
    }
}

impl PartialEq for PathSplit {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl FromStr for PathSplit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rule = Regex::new(text).map_err(|e| Error::config(format!("\"{text}\": {e}")))?;
        match rule.captures_len() {
            1 => Err(Error::config(format!("\"{text}\" takes a group in parentheses, such as (train|test)-"))),
            _ => Ok(Self(rule)),
        }
    }
}

/// Named shares of a dataset, such as `train=0.9,val=0.1`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares(Vec<(String, f64)>);

/// How shares choose a sample's split.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SplitBy {
    /// By a hash of the key: a sample stays in its split when others are added.
    #[default]
    Hash,
    /// By position in the order: the first samples make the first split.
    Order,
    /// By a hash of the first group of this expression in the path of the input: samples of one group, such as those of a patient or a
    /// speaker, are in one split, and the shares are those of groups.
    Group(PathSplit),
    /// By a hash of the value that this column of the metadata table has for the sample, in the same way.
    Column(String),
}

impl FromStr for SplitBy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.split_once(':')) {
            ("hash", _) => Ok(SplitBy::Hash),
            ("order", _) => Ok(SplitBy::Order),
            (_, Some(("group", rule))) => rule.parse().map(SplitBy::Group),
            (_, Some(("column", name))) if !name.is_empty() => Ok(SplitBy::Column(name.to_owned())),
            _ => Err(Error::config(format!("takes hash, order, group:EXPRESSION or column:NAME, not \"{text}\""))),
        }
    }
}

impl fmt::Display for SplitBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitBy::Hash => f.write_str("hash"),
            SplitBy::Order => f.write_str("order"),
            SplitBy::Group(rule) => write!(f, "group:{}", rule.0.as_str()),
            SplitBy::Column(name) => write!(f, "column:{name}"),
        }
    }
}

impl FromStr for Splits {
    type Err = Error;

    /// `keep`, `none`, `folders`, `names`, `column:NAME`, `path:EXPRESSION`, `lists:NAME=FILE,…` or `NAME=SHARE,…`.
    fn from_str(text: &str) -> Result<Self> {
        match (text, text.split_once(':')) {
            ("keep", _) => Ok(Splits::Keep),
            ("none", _) => Ok(Splits::Off),
            ("folders", _) => Ok(Splits::Folders),
            ("names", _) => Ok(Splits::Names),
            (_, Some(("column", name))) if !name.is_empty() => Ok(Splits::Column(name.to_owned())),
            (_, Some(("path", rule))) => rule.parse().map(Splits::Path),
            (_, Some(("lists", lists))) => lists.parse().map(Splits::Lists),
            _ => text.parse().map(Splits::Shares),
        }
    }
}

impl fmt::Display for Splits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Splits::Keep => f.write_str("keep"),
            Splits::Off => f.write_str("none"),
            Splits::Folders => f.write_str("folders"),
            Splits::Names => f.write_str("names"),
            Splits::Path(rule) => write!(f, "path:{}", rule.0.as_str()),
            Splits::Column(name) => write!(f, "column:{name}"),
            Splits::Lists(lists) => lists.fmt(f),
            Splits::Shares(shares) => shares.fmt(f),
        }
    }
}

impl Splits {
    /// Whether the paths of inputs say the splits.
    pub(crate) fn is_by_path(&self) -> bool {
        matches!(self, Splits::Folders | Splits::Names | Splits::Path(_))
    }

    /// Whether the samples of one input may go to several splits.
    pub fn divides(&self) -> bool {
        matches!(self, Splits::Shares(_))
    }
}

/// More than sums of shares are off: 0.1 + 0.2 is 0.30000000000000004.
const ROUNDING: f64 = 1e-12;

/// What names of splits and shards consist of.
pub(super) const NAMES: &str = "1 to 200 letters, digits, _ and -";

/// Whether `name` can be that of a split or of shards: [`NAMES`]. File systems take 255 bytes, of which a number and suffixes
/// take the rest.
pub(super) fn is_name(name: &str) -> bool {
    (1..=200).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

impl FromStr for Shares {
    type Err = Error;

    /// `NAME=SHARE,…`; the shares add up to 1.
    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::config(format!(
                "{why} in \"{text}\"; write it like train=0.9,val=0.1, or keep, none, folders, names, column:NAME, \
                 path:EXPRESSION or lists:train=train.txt"
            ))
        };
        let mut splits: Vec<(String, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, share) = part.split_once('=').ok_or_else(|| bad("a share is missing"))?;
            let share: f64 = share.trim().parse().map_err(|_| bad("a share is not a number"))?;
            let name = name.trim();
            if !is_name(name) || splits.iter().any(|(other, _)| other == name) {
                return Err(bad(&format!("names are {NAMES}, each once")));
            }
            if !(share > 0.0 && share <= 1.0) {
                return Err(bad("a share lies between 0 and 1"));
            }
            splits.push((name.to_owned(), share));
        }
        let sum: f64 = splits.iter().map(|(_, share)| share).sum();
        if (sum - 1.0).abs() > 1e-9 {
            return Err(bad(&format!("the shares add up to {sum}, not to 1")));
        }
        Ok(Self(splits))
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(|(name, share)| format!("{name}={share}")).collect();
        f.write_str(&parts.join(","))
    }
}

impl Shares {
    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The split of a sample at `place` (between 0 and 1) of the whole.
    fn at(&self, place: f64) -> u16 {
        let mut end = 0.0;
        for (i, (_, share)) in self.0.iter().enumerate() {
            end += share;
            if place < end {
                return i as u16;
            }
        }
        self.0.len().saturating_sub(1) as u16
    }

    /// The split of the sample called `key`: the first 64 bits of BLAKE3 of the key, as a share of all.
    pub(crate) fn by_key(&self, key: &str) -> u16 {
        let hash = blake3::hash(key.as_bytes());
        let head = hash.as_bytes().first_chunk::<8>().map_or(0, |head| u64::from_be_bytes(*head));
        self.at((head >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// The split of sample `i` of `n`.
    pub(crate) fn by_place(&self, i: usize, n: usize) -> u16 {
        self.at(i as f64 / n.max(1) as f64 + ROUNDING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_checked() {
        assert!("train=0.9,val=0.1".parse::<Shares>().is_ok());
        for text in [
            "keep",
            "none",
            "folders",
            "names",
            "path:(a|b)-",
            "lists:train=a/t.txt,val=v.txt",
            "column:fold",
            "train=0.9,val=0.1",
        ] {
            assert_eq!(text.parse::<Splits>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "column:",
            "path:",
            "path:a",
            "path:(",
            "lists:",
            "lists:a",
            "lists:a=",
            "lists:a=x,a=y",
            "train",
            "train=0.9",
            "train=0.5,train=0.5",
            "a/b=1",
            "train=1.5,val=-0.5",
            "train=x",
        ] {
            assert!(bad.parse::<Splits>().is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_come_out_about_right_and_adding_samples_moves_none() {
        let splits: Shares = "train=0.8,val=0.1,test=0.1".parse().unwrap();
        let of = |n: usize| (0..n).map(|i| splits.by_key(&format!("key{i}"))).collect::<Vec<_>>();
        let (few, many) = (of(5_000), of(10_000));
        assert_eq!(few, many[..5_000]);
        for (split, share) in [(0, 0.8), (1, 0.1), (2, 0.1)] {
            let n = many.iter().filter(|s| **s == split).count() as f64;
            assert!((n / 10_000.0 - share).abs() < 0.02, "{split}: {n}");
        }
    }

    #[test]
    fn by_order_cuts_in_two() {
        let splits: Shares = "train=0.75,val=0.25".parse().unwrap();
        // Sums of shares are rounded.
        let tenths: Shares = "a=0.1,b=0.2,c=0.7".parse().unwrap();
        assert_eq!((0..10).map(|i| tenths.by_place(i, 10)).collect::<Vec<_>>(), [0, 1, 1, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!((0..8).map(|i| splits.by_place(i, 8)).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 1, 1]);
    }
}
