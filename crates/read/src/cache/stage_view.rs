//! Copies a view to a local folder, with the shards that it reads.

use super::folder::Folder;
use super::stage::{StageOptions, copied, own_names, refuse_files, refuse_others};
use super::staged::{self, Owner};
use super::{CacheSource, Staged, listing};
use crate::dataset::{base_of, is_free};
use packhorse_core::{Cancel, Error, Observer, Result, Store};
use packhorse_dataset::{
    DatasetView, Digest, FileRecord, Manifest, PART, SELECTION, STAGED_BASE, VIEW, encode_selection,
};
use packhorse_storage::{Local, Staging};
use std::path::Path;
use std::sync::Arc;

/// Copies the `view` in the folder `dir` of `store`. The folder of the copy is a view with the same root digest; shards
/// are in a folder below it, with a document that says which ones of the dataset they are. The view's own document is
/// written last.
pub(super) fn stage_view(
    store: &Arc<dyn Store>,
    dir: &Path,
    view: DatasetView,
    options: &StageOptions,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Staged> {
    let named = |e: Error| e.in_input(dir.join(VIEW).display());
    if options.fraction < 1.0 {
        let error =
            Error::config("is a view, which is staged whole: a fraction of its shards has not all of its samples");
        return Err(named(error.hint("make a smaller view, or leave `fraction` out")));
    }
    let (home, base) = base_of(store, dir, &view)?;
    let manifest = Manifest::read_part(&*home, &base)?.ok_or_else(|| named(view.base_missing()))?;
    let runs = view.runs(&**store, dir)?;
    let selection = encode_selection(&runs);
    let part = view.part(&manifest, &view.place(&manifest, runs).map_err(named)?);
    let (source, to) = (CacheSource::sealed(home, base, &part), &*options.to);
    if source.holds(to) || CacheSource::foreign(Arc::clone(store), dir, "").holds(to) {
        let message = "is the view or its dataset, or in it; stage into another folder";
        return Err(Error::config(message).in_input(to.display()));
    }
    let view = view.moved(STAGED_BASE);
    is_free(&Local, to, &view, &[STAGED_BASE])?;
    let below = to.join(STAGED_BASE);
    let owner = staged::owner(&below)?;
    refuse_others(owner, &source, true, &below)?;
    if owner == Owner::Unknown {
        refuse_files(&below, &own_names(&part))?;
    }
    let folder = Folder::new(below, source);
    folder.sweep();
    if owner == Owner::Unknown {
        staged::mark(&*folder.staging()?, folder.source().dataset)?;
    }
    if staged::part(folder.dir())?.as_ref() != Some(&part) {
        folder.staging()?.document(PART, &part.encode()?)?;
    }
    let (_, mut done) = copied(folder, owner, &listing::part(&part), options, observer, cancel)?;
    done.whole = done.unfit.is_empty();
    if done.whole && is_free(&Local, to, &view, &[STAGED_BASE])? {
        let staging = Staging::open(Arc::new(Local), to)?;
        staging.document(SELECTION, &selection)?;
        if let Some(joined) = &view.joined {
            staging.document(&joined.file.name, &read(&**store, &dir.join(&joined.file.name), &joined.file)?)?;
        }
        staging.document(VIEW, &view.encode()?)?;
    }
    Ok(done)
}

/// The bytes of a file of the view.
fn read(store: &dyn Store, path: &Path, record: &FileRecord) -> Result<Vec<u8>> {
    let bytes = store.open(path)?.read_all(record.bytes)?;
    match Digest::of(&bytes) == record.blake3 {
        true => Ok(bytes),
        false => {
            let error = Error::content("its bytes do not have the digest that view.json records");
            Err(error.hint("make the view again with `packhorse view`").in_input(path.display()))
        }
    }
}
