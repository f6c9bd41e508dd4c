//! Sealed datasets among the inputs, whose splits, classes and skipped samples are taken over.

use crate::input_format::main_file;
use crate::recorded_files::{check_file, sealed_manifest};
use packhorse_core::{Cancel, Error, Kind, Limits, Registry, Result, Store};
use packhorse_dataset::{JoinedRecord, Manifest, SKIPPED, SampleRows, SampleRun, ShardRecord, SkipRecord};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A sealed dataset whose shards are inputs.
#[derive(Debug)]
pub(crate) struct SealedInput {
    /// Its root, a position in the listing's roots.
    pub(crate) root: u32,
    /// Its folder, relative to the root.
    pub(crate) folder: PathBuf,
    /// Its manifest.
    pub(crate) manifest: Manifest,
    /// The names of its input files, one per shard, in shard order.
    pub(crate) files: Vec<OsString>,
    /// Whether all of it is an input, not some of its shards.
    pub(crate) whole: bool,
    /// The samples that it skipped, if it is whole.
    pub(crate) skipped: Vec<SkipRecord>,
    /// Of a view, its samples; `None` for all of the dataset.
    pub(crate) chosen: Option<ChosenSamples>,
}

/// The samples of a view.
#[derive(Debug)]
pub(crate) struct ChosenSamples {
    /// In the order of the view.
    pub(crate) runs: Vec<SampleRun>,
    /// The same, each once.
    pub(crate) rows: SampleRows,
    /// Of samples whose fields are members, where they are; sorted once all are found.
    pub(crate) places: Vec<ChosenPlace>,
    /// The fields of the view; `None` for all.
    pub(crate) fields: Option<Vec<String>>,
    /// The columns that the view adds, and the root that is its folder.
    pub(crate) joined: Option<(u32, JoinedRecord)>,
}

/// A sample of a view whose fields are members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChosenPlace {
    pub(crate) shard: u32,
    /// The offset of its first member.
    pub(crate) offset: u64,
    /// Its number in the view.
    pub(crate) position: u64,
    /// Its row in the joined columns.
    pub(crate) row: u64,
}

impl ChosenSamples {
    /// The sample that has a member at `offset` of a shard.
    pub(crate) fn place(&self, shard: u32, offset: u64) -> Option<&ChosenPlace> {
        let after = self.places.partition_point(|place| (place.shard, place.offset) <= (shard, offset));
        self.places.get(after.checked_sub(1)?)
    }
}

impl SealedInput {
    /// The sealed dataset in the folder `path`, if there is one. `whole`: whether all of it is an input.
    ///
    /// Errors: `Incomplete` for a damaged manifest or list of skipped samples.
    pub(super) fn read(
        registry: &Registry,
        store: &dyn Store,
        cancel: &Cancel,
        (root, folder, path): (u32, &Path, &Path),
        whole: bool,
    ) -> Result<Option<Self>> {
        let Some(manifest) = sealed_manifest(store, path)? else { return Ok(None) };
        let mut sealed = Self::of(registry, store, cancel, (root, folder, path), manifest)?;
        if !whole {
            (sealed.whole, sealed.skipped) = (false, Vec::new());
        }
        Ok(Some(sealed))
    }

    /// The dataset of `manifest` in the folder `path`.
    pub(super) fn of(
        registry: &Registry,
        store: &dyn Store,
        cancel: &Cancel,
        (root, folder, path): (u32, &Path, &Path),
        manifest: Manifest,
    ) -> Result<Self> {
        manifest.refuse_write_only().map_err(|e| e.in_input(path.display()))?;
        // Its shards would be packed as files.
        registry.get(&manifest.format.format).map_err(|e| e.in_input(path.display()))?;
        let file = |shard: &ShardRecord| {
            let main = main_file(registry, store, &path.join(&shard.file));
            main.file_name().map(OsString::from).unwrap_or_default()
        };
        let files = manifest.shards.iter().map(file).collect();
        let skipped = skipped(store, cancel, path, &manifest)?;
        Ok(Self { root, folder: folder.to_owned(), manifest, files, whole: true, skipped, chosen: None })
    }

    /// The columns that the view adds.
    pub(crate) fn joined(&self) -> Option<&JoinedRecord> {
        self.chosen.as_ref()?.joined.as_ref().map(|(_, joined)| joined)
    }

    /// The paths of its inputs, relative to the root.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|name| self.folder.join(name))
    }
}

/// The records of `skipped.jsonl`, if there are any.
fn skipped(store: &dyn Store, cancel: &Cancel, dir: &Path, manifest: &Manifest) -> Result<Vec<SkipRecord>> {
    let Some(record) = manifest.files.iter().find(|file| file.name == SKIPPED && file.bytes > 0) else {
        return Ok(Vec::new());
    };
    let path = dir.join(SKIPPED);
    check_file(store, &path, record, cancel)?;
    let bytes = store.open(&path)?.read_all(Limits::default().blob)?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let parsed = lines.map(serde_json::from_slice).collect::<Result<Vec<SkipRecord>, _>>();
    let damaged = |e| Error::new(Kind::Incomplete, format!("is not a list of skipped samples: {e}"));
    parsed.map_err(|e| damaged(e).in_input(path.display()))
}
