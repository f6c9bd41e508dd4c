//! A file of a dataset that may be cached.

use packhorse_core::{Error, Result};
use packhorse_dataset::{Digest, FileRecord, PART, ShardRecord};
use std::path::{Component, Path};

/// A file: its name, its length, and how a copy is validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheFile {
    /// Its path relative to the dataset's folder.
    pub(crate) name: String,
    /// Its length.
    pub(crate) bytes: u64,
    /// How a copy is validated beyond its length.
    pub(crate) check: Check,
}

/// How a copy is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// By this digest when it is made.
    Digest(Digest),
    /// By this modification time, which the copy gets: see [`CacheSource::file`](super::CacheSource::file).
    Modified(i64),
}

impl From<&ShardRecord> for CacheFile {
    fn from(shard: &ShardRecord) -> Self {
        Self { name: shard.file.clone(), bytes: shard.bytes, check: Check::Digest(shard.blake3) }
    }
}

impl From<&FileRecord> for CacheFile {
    fn from(file: &FileRecord) -> Self {
        Self { name: file.name.clone(), bytes: file.bytes, check: Check::Digest(file.blake3) }
    }
}

impl CacheFile {
    /// The name without the endings of its last component, by which parts of a dataset are selected, so that files of
    /// one shard stay together. Endings are words with at most one digit: `laion-1.0-00000.tar.bz2` has two.
    pub(super) fn stem(&self) -> &str {
        let is_ending = |part: &str| {
            let digits = part.bytes().filter(u8::is_ascii_digit).count();
            part.starts_with(|c: char| c.is_ascii_alphabetic())
                && part.bytes().all(|b| b.is_ascii_alphanumeric())
                && digits <= 1
        };
        let last = self.name.rfind('/').map_or(0, |at| at + 1);
        let dots = self.name.match_indices('.').map(|(at, _)| at).filter(|at| *at >= last);
        let mut parts = dots.filter_map(|at| self.name.split_at_checked(at));
        parts.find(|(_, endings)| endings.split('.').skip(1).all(is_ending)).map_or(&self.name, |(stem, _)| stem)
    }

    /// Checks that the name stays in the folder and is not one of the cache's own files.
    pub(super) fn check_name(&self) -> Result<()> {
        let mut parts = Path::new(&self.name).components();
        let ours = |first: &str| [".staging", super::folder::MARK, super::folder::USERS, PART].contains(&first);
        let first = parts.clone().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let fits = first.is_some_and(|first| !ours(&first)) && parts.all(|part| matches!(part, Component::Normal(_)));
        match fits && !self.name.ends_with('/') {
            true => Ok(()),
            false => Err(Error::content(format!("\"{}\" is not a name of a file in a dataset", self.name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> CacheFile {
        CacheFile { name: name.to_owned(), bytes: 0, check: Check::Modified(0) }
    }

    #[test]
    fn files_of_a_shard_have_one_stem() {
        for name in ["a.b/shard-1.tar", "a.b/shard-1.tar.idx", "a.b/shard-1"] {
            assert_eq!(named(name).stem(), "a.b/shard-1");
        }
        assert_eq!(named("train.part00.tar").stem(), "train.part00");
        for name in ["laion-1.0-00000.tar", "laion-1.0-00000.tar.zst", "laion-1.0-00000.receipt.json"] {
            assert_eq!(named(name).stem(), "laion-1.0-00000");
        }
    }

    #[test]
    fn a_name_stays_in_the_folder() {
        for name in ["a.tar", "a/b.tar", ".nv-meta/x", "a..b", "./a"] {
            assert_eq!(named(name).check_name().is_ok(), name != "./a", "{name}");
        }
        for name in ["", "/a", "../a", "a/../../b", "a/", ".staging/x", ".packhorse-cache", "..", "."] {
            assert!(named(name).check_name().is_err(), "{name}");
        }
    }
}
