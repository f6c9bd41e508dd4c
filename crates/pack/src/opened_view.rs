//! A view with its samples and the dataset that it reads.

use crate::recorded_files::recorded_manifest;
use packhorse_core::{Error, Result, Store};
use packhorse_dataset::{DatasetView, JoinedRecord, Manifest, SampleRun, ShardRecord};
use packhorse_storage::Location;
use std::path::{Path, PathBuf};

/// A view and its base.
#[derive(Clone, Debug)]
pub struct OpenedView {
    /// The folder of the view.
    pub dir: PathBuf,
    /// The view's document.
    pub view: DatasetView,
    /// The folder of its base.
    pub base: PathBuf,
    /// The base; of a staged view the part that was copied.
    pub manifest: Manifest,
    /// The samples in the order of the view, with shards as positions in [`manifest`](Self::manifest).
    pub runs: Vec<SampleRun>,
}

impl OpenedView {
    /// Opens the view in the folder `dir`; `None` if there is none. Reads no shard.
    ///
    /// Errors: `Content` for a damaged view; `Changed` for a base that is another dataset or is gone; `Incomplete` for a
    /// damaged manifest.
    pub fn read(store: &dyn Store, dir: &Path) -> Result<Option<Self>> {
        let Some(view) = DatasetView::read(store, dir)? else { return Ok(None) };
        let (base, manifest) = base_of_view(store, dir, &view)?;
        let runs = view.place(&manifest, view.runs(store, dir)?).map_err(|e| e.in_input(dir.display()))?;
        Ok(Some(Self { dir: dir.to_owned(), view, base, manifest, runs }))
    }

    /// A shard of the base.
    pub(crate) fn shard(&self, number: u32) -> Result<&ShardRecord> {
        self.manifest.shards.get(number as usize).ok_or_else(|| Error::bug("a view of a shard that is not there"))
    }

    /// The fields of the view that its base stores; `None` for all of these.
    pub(crate) fn stored_fields(&self) -> Option<Vec<String>> {
        stored(self.view.fields.as_ref(), self.view.joined.as_ref())
    }

    /// Whether the view has the field `name` of its base.
    pub(crate) fn has(&self, name: &str) -> bool {
        let selected = self.view.fields.as_ref().is_none_or(|fields| fields.iter().any(|field| field == name));
        selected && !joins(self.view.joined.as_ref(), name)
    }
}

/// The `fields` of a view that are not joined ones, which its base may store too.
pub(crate) fn stored(fields: Option<&Vec<String>>, joined: Option<&JoinedRecord>) -> Option<Vec<String>> {
    fields.map(|fields| fields.iter().filter(|name| !joins(joined, name)).cloned().collect())
}

fn joins(joined: Option<&JoinedRecord>, name: &str) -> bool {
    joined.is_some_and(|joined| joined.columns.iter().any(|column| column.name == name))
}

/// The base of the view in the folder `dir`, and its manifest; of a staged view that of the shards that were copied.
///
/// Errors: `Changed` for a base that is gone; `Incomplete` for a damaged manifest.
pub(crate) fn base_of_view(store: &dyn Store, dir: &Path, view: &DatasetView) -> Result<(PathBuf, Manifest)> {
    let base = view.base_folder(dir, Location::url(dir).is_some());
    let manifest = recorded_manifest(store, &base)?.ok_or_else(|| view.base_missing().in_input(dir.display()))?;
    Ok((base, manifest))
}
