//! The files of a dataset to stage, shard by shard.

use super::share::Share;
use super::{CacheFile, CacheSource};
use packhorse_core::{Error, FileKind, Result};
use packhorse_dataset::{FileRecord, Manifest, ShardRecord};
use std::path::{Path, PathBuf};

/// Files that are staged all or none.
pub(super) enum Group {
    /// A shard, whose receipt lists its other files.
    Shard(ShardRecord),
    /// A single file.
    File(CacheFile),
}

impl Group {
    /// The bytes known in advance.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Group::Shard(shard) => shard.bytes,
            Group::File(file) => file.bytes,
        }
    }
}

/// The groups of a fraction of a dataset.
pub(super) struct Listing {
    pub(super) groups: Vec<Group>,
    /// The number of shards of the dataset.
    pub(super) shards: u64,
    /// The bytes of the manifest, which is copied last; `None` if there is none.
    pub(super) manifest: Option<Vec<u8>>,
    /// Whether files beside the shards may have other content than copies that are there.
    pub(super) changed: bool,
}

/// The files of the sealed dataset `manifest`, whose bytes are `bytes`: the selected shards, and with all shards also
/// the other files.
pub(super) fn sealed(manifest: &Manifest, bytes: Vec<u8>, share: Share) -> Listing {
    let files: Vec<CacheFile> = manifest.shards.iter().map(CacheFile::from).collect();
    let chosen = share.choose(files.iter().map(CacheFile::stem));
    let in_part = |(_, file): &(&ShardRecord, &CacheFile)| chosen.contains(file.stem());
    let mut groups: Vec<Group> =
        manifest.shards.iter().zip(&files).filter(in_part).map(|(shard, _)| Group::Shard(shard.clone())).collect();
    if share.is_whole() {
        groups.extend(manifest.files.iter().map(|file: &FileRecord| Group::File(file.into())));
    }
    Listing { groups, shards: manifest.shards.len() as u64, manifest: Some(bytes), changed: false }
}

/// The files of a part of a dataset, without its manifest.
pub(super) fn part(part: &Manifest) -> Listing {
    let shards = part.shards.iter().cloned().map(Group::Shard);
    let groups = shards.chain(part.files.iter().map(|file| Group::File(file.into()))).collect();
    Listing { groups, shards: part.shards.len() as u64, manifest: None, changed: false }
}

/// All regular files below the source's folder, by name.
pub(super) fn foreign(source: &CacheSource, share: Share) -> Result<Listing> {
    let mut files = Vec::new();
    walk(source, Path::new(""), 0, &mut files)?;
    if files.is_empty() {
        return Err(Error::config("holds no file").in_input(source.root.display()));
    }
    files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let chosen = share.choose(files.iter().map(CacheFile::stem));
    let groups = files.iter().filter(|file| chosen.contains(file.stem())).cloned().map(Group::File).collect();
    Ok(Listing { groups, shards: 0, manifest: None, changed: false })
}

fn walk(source: &CacheSource, dir: &Path, depth: usize, files: &mut Vec<CacheFile>) -> Result<()> {
    const DEEPEST: usize = 32;
    if depth > DEEPEST {
        let path = source.root.join(dir);
        return Err(Error::content(format!("is more than {DEEPEST} folders deep")).in_input(path.display()));
    }
    for name in source.store.list(&source.root.join(dir))? {
        let name: PathBuf = dir.join(name);
        let path = source.root.join(&name);
        let stat = source.store.stat(&path, true)?;
        match stat.kind {
            FileKind::Directory if name != Path::new(".staging") => walk(source, &name, depth + 1, files)?,
            FileKind::File => {
                let text = name
                    .to_str()
                    .ok_or_else(|| Error::unsupported("is not a name in UTF-8").in_input(path.display()))?;
                files.push(source.file(text, &stat));
            }
            _ => {}
        }
    }
    Ok(())
}
