//! The state of a folder that a dataset was staged to: its owner, and the result of staging.

use super::folder::{Folder, MARK};
use super::listing::{Group, Listing};
use packhorse_core::{Error, Kind, Result, Store};
use packhorse_dataset::{Digest, MANIFEST, Manifest, PART};
use packhorse_storage::{Local, Staging};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// The result of [`stage`](super::stage).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staged {
    /// Shards in the folder; 0 for third-party files, whose shards are not known.
    pub shards: u64,
    /// Shards of the dataset.
    pub of: u64,
    /// Requested files in the folder.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Files copied now.
    pub copied: u64,
    /// Their size in bytes.
    pub copied_bytes: u64,
    /// Existing files with a wrong digest that were copied again.
    pub replaced: u64,
    /// Whether the copy is complete, so that the folder is a dataset itself.
    pub whole: bool,
    /// Originals that differ from the manifest, by name; they are not staged.
    pub unfit: Vec<Unfit>,
}

/// An original that differs from the manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unfit {
    /// Its path relative to the dataset's folder.
    pub file: String,
    /// The problem with it.
    pub problem: String,
}

/// The owner of the copies in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// No digest is recorded.
    Unknown,
    /// This dataset, according to a mark.
    Marked(Digest),
    /// This dataset, according to its manifest.
    Sealed(Digest),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    packhorse_cache: u32,
    dataset: Digest,
}

/// The owner of the copies in `dir`.
pub(super) fn owner(dir: &Path) -> Result<Owner> {
    if let Some(manifest) = Manifest::read(&Local, dir)? {
        return Ok(Owner::Sealed(manifest.root));
    }
    let path = dir.join(MARK);
    let input = match Local.open(&path) {
        Ok(input) => input,
        Err(e) if e.is_absent() => return Ok(Owner::Unknown),
        Err(e) => return Err(e),
    };
    let mark: Option<Mark> = serde_json::from_slice(&input.read_all(4096)?).ok();
    match mark {
        Some(mark) if mark.packhorse_cache == 1 => Ok(Owner::Marked(mark.dataset)),
        _ => Err(Error::content("does not say whose copies are here; remove this folder").in_input(path.display())),
    }
}

/// Marks the folder as holding copies of `dataset`.
pub(super) fn mark(staging: &Staging, dataset: Digest) -> Result<()> {
    let mark = serde_json::to_vec(&Mark { packhorse_cache: 1, dataset });
    let mut bytes = mark.map_err(|e| Error::bug(format!("can't encode a mark: {e}")))?;
    bytes.push(b'\n');
    staging.document(MARK, &bytes).map(drop)
}

/// The manifest of the shards in `dir`; none if it is damaged, so that it is written again.
pub(super) fn part(dir: &Path) -> Result<Option<Manifest>> {
    match Manifest::read_part(&Local, dir) {
        Err(e) if e.kind() == Kind::Incomplete => Ok(None),
        found => found,
    }
}

/// Records the shards of the dataset that will be in the folder: those of `listing`, and those requested before.
pub(super) fn say_part(folder: &Folder, whole: &Manifest, listing: &Listing) -> Result<()> {
    let before = part(folder.dir())?.filter(|part| part.part_of.as_ref().is_some_and(|of| of.root == whole.root));
    let now = listing.groups.iter().filter_map(|group| match group {
        Group::Shard(shard) => Some(&shard.name),
        Group::File(_) => None,
    });
    let names: BTreeSet<&String> = before.iter().flat_map(|part| &part.shards).map(|s| &s.name).chain(now).collect();
    let part = whole.part(|shard| names.contains(&shard.name));
    match before.as_ref() == Some(&part) {
        true => Ok(()),
        false => folder.staging()?.document(PART, &part.encode()?).map(drop),
    }
}

/// Whether the folder has the manifest's bytes.
pub(super) fn has_manifest(dir: &Path, bytes: &[u8]) -> bool {
    let found = Local.open(&dir.join(MANIFEST)).and_then(|input| input.read_all(bytes.len() as u64));
    found.is_ok_and(|found| found == bytes)
}

/// Whether the original is at fault rather than the transfer.
pub(super) fn is_unfit(error: &Error) -> bool {
    error.kind() == Kind::Content || error.is_absent()
}
