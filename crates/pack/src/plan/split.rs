//! Splits of samples. Pure.

use crate::choice::choice;
use packhorse_core::{Error, Result};
use std::fmt;
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
    /// This column of the metadata table names a sample's split: text, whole numbers or booleans.
    Column(String),
    /// Samples are divided by shares.
    Shares(Shares),
}

/// Named shares of a dataset, such as `train=0.9,val=0.1`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares(Vec<(String, f64)>);

/// How shares choose a sample's split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SplitBy {
    /// By a hash of the key: a sample stays in its split when others are added.
    #[default]
    Hash,
    /// By position in the order: the first samples make the first split.
    Order,
}

choice!(SplitBy: Hash = "hash", Order = "order");

impl FromStr for Splits {
    type Err = Error;

    /// `keep`, `none`, `folders`, `column:NAME` or `NAME=SHARE,…`.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "keep" => Ok(Splits::Keep),
            "none" => Ok(Splits::Off),
            "folders" => Ok(Splits::Folders),
            _ => match text.strip_prefix("column:").filter(|name| !name.is_empty()) {
                Some(name) => Ok(Splits::Column(name.to_owned())),
                None => text.parse().map(Splits::Shares),
            },
        }
    }
}

impl fmt::Display for Splits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Splits::Keep => f.write_str("keep"),
            Splits::Off => f.write_str("none"),
            Splits::Folders => f.write_str("folders"),
            Splits::Column(name) => write!(f, "column:{name}"),
            Splits::Shares(shares) => shares.fmt(f),
        }
    }
}

impl Splits {
    /// Whether the samples of one input may go to several splits.
    pub fn divides(&self) -> bool {
        matches!(self, Splits::Shares(_))
    }
}

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
                "{why} in \"{text}\"; write it like train=0.9,val=0.1, or keep, none, folders or column:NAME"
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
        self.at(i as f64 / n.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_checked() {
        assert!("train=0.9,val=0.1".parse::<Shares>().is_ok());
        for text in ["keep", "none", "folders", "column:fold", "train=0.9,val=0.1"] {
            assert_eq!(text.parse::<Splits>().unwrap().to_string(), text);
        }
        for bad in
            ["", "column:", "train", "train=0.9", "train=0.5,train=0.5", "a/b=1", "train=1.5,val=-0.5", "train=x"]
        {
            assert!(bad.parse::<Shares>().is_err(), "{bad}");
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
        assert_eq!((0..8).map(|i| splits.by_place(i, 8)).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 1, 1]);
    }
}
