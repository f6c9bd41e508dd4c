//! The sealed dataset that samples are of, as a view records it.

use packhorse_core::{Error, Result, Store};
use packhorse_dataset::{Digest, MANIFEST, Manifest, PART};
use packhorse_storage::Location;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A sealed dataset: its folder, and its shards by their number and root digest. Of a staged view the dataset that it was
/// copied from.
pub(super) struct Base {
    store: Arc<dyn Store>,
    dir: PathBuf,
    pub(super) shards: u64,
    pub(super) root: Digest,
    /// Of a staged view, where each of its shards is among those of the dataset.
    positions: Option<Vec<u64>>,
}

impl Base {
    pub(super) fn new(store: &Arc<dyn Store>, dir: &Path, manifest: &Manifest) -> Self {
        let (store, dir) = (Arc::clone(store), dir.to_owned());
        match &manifest.part_of {
            None => Self { store, dir, shards: manifest.shards.len() as u64, root: manifest.root, positions: None },
            Some(of) => Self { store, dir, shards: of.shards, root: of.root, positions: Some(of.positions.clone()) },
        }
    }

    /// Whether both are the same shards in the same folder.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.dir, self.root, self.shards, &self.positions) == (&other.dir, other.root, other.shards, &other.positions)
    }

    /// The position in the dataset of shard `number` of those there.
    pub(super) fn position(&self, number: u32) -> Result<u32> {
        let Some(positions) = &self.positions else { return Ok(number) };
        let position = positions.get(number as usize).and_then(|position| u32::try_from(*position).ok());
        position.ok_or_else(|| Error::bug("a staged shard without a position"))
    }

    /// Its location for a view in the folder `out`: relative where both are local and have a folder below the root in
    /// common, so that both can be moved together; else absolute or a URL.
    ///
    /// Errors (kind `Config`): `out` is this dataset's folder or lies in it; a name that is not UTF-8.
    pub(super) fn location_for(&self, out: &Path) -> Result<String> {
        let manifest = self.dir.join(if self.positions.is_some() { PART } else { MANIFEST });
        let input = self.store.open(&manifest)?;
        // A name for messages has other characters where bytes are not UTF-8.
        utf8(&self.dir)?;
        let manifest = Path::new(input.name());
        let folder = manifest.parent().unwrap_or(manifest);
        let (folder, out) = (real(folder), real(out));
        if out.starts_with(&folder) {
            let message = "lies in the folder of the dataset itself; give `out` a folder outside of it";
            return Err(Error::config(message).in_input(out.display()));
        }
        match Location::url(&folder).or(Location::url(&out)) {
            Some(_) => utf8(&folder),
            None => utf8(&relative(&folder, &out).unwrap_or(folder)),
        }
    }
}

/// A folder whose links are followed, as far as it exists; a URL as it is.
fn real(path: &Path) -> PathBuf {
    if Location::url(path).is_some() {
        return path.to_owned();
    }
    let path = Location::absolute(path);
    let found = path.ancestors().find_map(|above| Some((std::fs::canonicalize(above).ok()?, above)));
    match found {
        Some((real, above)) => path.strip_prefix(above).map_or(path.clone(), |rest| real.join(rest)),
        None => path,
    }
}

/// The way from the folder `from` to `to`, if they have a folder below the root in common.
fn relative(to: &Path, from: &Path) -> Option<PathBuf> {
    let common = to.components().zip(from.components()).take_while(|(a, b)| a == b).count();
    let below_root = to.components().take(common).any(|part| matches!(part, Component::Normal(_)));
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    below_root.then(|| up.chain(to.components().skip(common)).collect())
}

fn utf8(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Error::unsupported("is not UTF-8, and a view names its dataset in JSON").in_input(path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lead_to_the_dataset() {
        let way = |to: &str, from: &str| relative(Path::new(to), Path::new(from)).map(|way| way.display().to_string());
        assert_eq!(way("/data/out", "/data/v"), Some("../out".into()));
        assert_eq!(way("/data/out", "/data/views/v"), Some("../../out".into()));
        assert_eq!(way("/data/a/out", "/data"), Some("a/out".into()));
        assert_eq!(way("/data/out", "/home/v"), None);
    }

    #[test]
    fn folders_that_do_not_exist_have_real_parents() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir(root.join("a")).unwrap();
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).unwrap();
        assert_eq!(real(&root.join("link/b/c")), root.join("a/b/c"));
        assert_eq!(real(&root.join("link")), root.join("a"));
    }
}
