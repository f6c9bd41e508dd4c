//! Views: samples and fields of a sealed dataset, in a folder that is opened like one.

use super::open::sealed;
use super::{Dataset, Joined, OpenOptions, SampleRun};
use crate::cache::is_same;
use packhorse_core::{Code, Error, Registry, Result, Store};
use packhorse_dataset::{DatasetView, Digest, FileRecord, JOINED, Manifest, SELECTION, VIEW};
use packhorse_storage::{Location, Staging, Stores};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the view in the folder `dir` of `store`.
pub(super) fn open(
    registry: &Registry,
    store: &Arc<dyn Store>,
    dir: &Path,
    view: &DatasetView,
    options: &OpenOptions,
) -> Result<Dataset> {
    let (home, base) = base_of(store, dir, view)?;
    let named = |e: Error| e.in_input(dir.join(VIEW).display());
    let manifest = Manifest::read_part(&*home, &base)?.ok_or_else(|| named(view.base_missing()))?;
    let runs = view.place(&manifest, view.runs(&**store, dir)?).map_err(named)?;
    let mut dataset = sealed(registry, &home, &base, &manifest, options)?.with_runs(runs)?;
    if let Some(record) = &view.joined {
        let path = dir.join(&record.file.name);
        let input = store.open(&path).map_err(|e| match e.is_absent() {
            true => Error::content("is missing").in_input(path.display()),
            false => e,
        })?;
        dataset = dataset.join(Joined::open(registry, input.into(), record, &dataset.runs)?)?;
    }
    match &view.fields {
        Some(fields) => dataset.select(fields).map_err(named),
        None => Ok(dataset),
    }
}

/// The store of a view's base, and its folder there.
pub(crate) fn base_of(store: &Arc<dyn Store>, dir: &Path, view: &DatasetView) -> Result<(Arc<dyn Store>, PathBuf)> {
    if Location::url(Path::new(&view.base)).is_some() || Path::new(&view.base).is_absolute() {
        return Location::parse(&view.base)?.open();
    }
    Ok((Arc::clone(store), view.base_folder(dir, !is_same(&**store, dir, dir))))
}

impl Dataset {
    /// Writes a view of these samples and fields to the folder `out`, a local path or a place in a bucket: a few KB, and
    /// 20 bytes for each run of consecutive samples. [`Dataset::open`] opens it as this dataset. No shard is copied: the
    /// view reads those of the sealed dataset, also after that has grown, and refuses another dataset in its place.
    ///
    /// A folder that holds this view already stays as it is.
    ///
    /// ```no_run
    /// use packhorse_core::Result;
    /// use packhorse_read::Dataset;
    ///
    /// fn keep(dataset: &Dataset) -> Result<()> {
    ///     let cats = dataset.filter(&"cls == 3".parse()?)?.select(&["jpg", "cls"])?;
    ///     println!("root {}", cats.write_view("cats")?.root);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Errors (kind `Config`): a dataset that is not sealed, or several; a folder that is not empty or belongs to the
    /// dataset.
    pub fn write_view(&self, out: impl AsRef<Path>) -> Result<DatasetView> {
        let out = out.as_ref();
        let store: Arc<dyn Store> = Arc::new(Stores::default());
        Location::holds_objects(out)?;
        let base = self.base.as_ref().ok_or_else(|| {
            let message = "a view needs one sealed dataset: third-party shards and several datasets have no view";
            Error::config(message).hint("pack them into one dataset with `packhorse pack`")
        })?;
        let fields = self.schema.fields().iter().map(|field| field.name().clone());
        let fields = self.selected.then(|| fields.collect());
        let runs = self.runs.iter().filter(|run| run.len > 0);
        let runs = runs.map(|run| Ok(SampleRun { shard: base.position(run.shard)?, ..*run }));
        let runs: Vec<SampleRun> = runs.collect::<Result<_>>()?;
        let (joined, columns) = self.joined_file()?.unzip();
        let (view, selection) =
            DatasetView::new(base.location_for(out)?, (base.shards, base.root), fields, &runs, joined);
        let is_free = is_free(&*store, out, &view, &[])?;
        // What a run left that was stopped after the view was complete, too.
        Staging::sweep(&*store, out, false);
        if !is_free {
            return Ok(view);
        }
        let staging = Staging::open(store, out)?;
        staging.document(SELECTION, &selection)?;
        columns.map_or(Ok(()), |bytes| staging.document(JOINED, &bytes).map(drop))?;
        staging.document(VIEW, &view.encode()?)?;
        Ok(view)
    }
}

/// Whether the folder `out` may become `view`, with the subfolders `own`; false where it is that already.
pub(crate) fn is_free(store: &dyn Store, out: &Path, view: &DatasetView, own: &[&str]) -> Result<bool> {
    let names = match store.list(out) {
        Err(e) if e.is_absent() => return Ok(true),
        names => names?,
    };
    let refused = |what: String| {
        let error = Error::config(what).with_code(Code::OutputExists).hint("give an empty or a new folder");
        Err(error.in_input(out.display()))
    };
    let ours = |name: &&PathBuf| {
        [VIEW, SELECTION, JOINED, ".staging"].iter().chain(own).any(|known| name.as_os_str() == *known)
    };
    if let Some(other) = names.iter().find(|name| !ours(name)) {
        return refused(format!("is not empty (it holds {})", other.display()));
    }
    if !names.iter().any(|name| name.as_os_str() == VIEW) {
        return Ok(true);
    }
    match DatasetView::read(store, out)? {
        Some(there) if there == *view && is_whole(store, out, &there) => Ok(false),
        _ => refused("holds another view".to_owned()),
    }
}

/// Whether the files of the view in the folder `out` have their recorded digests.
fn is_whole(store: &dyn Store, out: &Path, view: &DatasetView) -> bool {
    let whole = |file: &FileRecord| {
        let bytes = store.open(&out.join(&file.name)).and_then(|input| input.read_all(file.bytes));
        bytes.is_ok_and(|bytes| Digest::of(&bytes) == file.blake3)
    };
    view.files().all(whole)
}
