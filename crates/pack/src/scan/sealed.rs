//! Sealed datasets among the inputs: what they recorded of their samples travels with them.

use crate::input_format::main_file;
use crate::recorded_files::{check_file, sealed_manifest};
use packhorse_core::{Cancel, Error, Kind, Limits, Registry, Result, Store};
use packhorse_dataset::{Manifest, SKIPPED, ShardRecord, SkipRecord};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A sealed dataset that inputs are shards of.
#[derive(Debug)]
pub(crate) struct SealedInput {
    /// The root that it lies below, a position in the listing's roots.
    pub(crate) root: u32,
    /// Its folder, relative to the root.
    pub(crate) folder: PathBuf,
    /// Its manifest.
    pub(crate) manifest: Manifest,
    /// NameRules in its folder that are inputs, one a shard, in the order of the shards.
    pub(crate) files: Vec<OsString>,
    /// What was left out of it.
    pub(crate) skipped: Vec<SkipRecord>,
}

impl SealedInput {
    /// The dataset in the folder `path`, if a sealed one is there. Errors: `Incomplete` for a manifest or a list of
    /// what was left out that is damaged.
    pub(super) fn read(
        registry: &Registry,
        store: &dyn Store,
        cancel: &Cancel,
        (root, folder, path): (u32, &Path, &Path),
    ) -> Result<Option<Self>> {
        let Some(manifest) = sealed_manifest(store, path)? else { return Ok(None) };
        let file = |shard: &ShardRecord| {
            let main = main_file(registry, store, &path.join(&shard.file));
            main.file_name().map(OsString::from).unwrap_or_default()
        };
        let files = manifest.shards.iter().map(file).collect();
        let skipped = skipped(store, cancel, path, &manifest)?;
        Ok(Some(Self { root, folder: folder.to_owned(), manifest, files, skipped }))
    }

    /// The paths of its inputs, relative to the root.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|name| self.folder.join(name))
    }
}

/// The records of `skipped.jsonl`, where the manifest knows of any.
fn skipped(store: &dyn Store, cancel: &Cancel, dir: &Path, manifest: &Manifest) -> Result<Vec<SkipRecord>> {
    let Some(record) = manifest.files.iter().find(|file| file.name == SKIPPED && file.bytes > 0) else {
        return Ok(Vec::new());
    };
    let path = dir.join(SKIPPED);
    check_file(store, &path, record, cancel)?;
    let bytes = store.open(&path)?.read_all(Limits::default().blob)?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let parsed = lines.map(serde_json::from_slice).collect::<Result<Vec<SkipRecord>, _>>();
    let damaged = |e| Error::new(Kind::Incomplete, format!("is not a list of what was left out: {e}"));
    parsed.map_err(|e| damaged(e).in_input(path.display()))
}
