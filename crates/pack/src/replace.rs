//! Replaces a dataset by a new one.
//!
//! The new dataset is packed and sealed in `OUT/.replacing`, a dataset folder like any other, while the old one stays
//! readable. Then the files are exchanged by renames:
//!
//! 1. `OUT/.replacing/exchange.json` lists the files to add and to remove. From here on the exchange can't be undone.
//! 2. `OUT/dataset.json` becomes a marker, which readers refuse.
//! 3. New files are moved in, files that only the old dataset had are removed, and the folders are synced.
//! 4. The new `dataset.json` is moved in last; `.replacing` is removed.
//!
//! An interrupted exchange resumes when the folder is planned, packed, sealed or repaired. Only files named by the old
//! manifest, plan and receipts are removed; where no receipt is left, those that shards of the plan can have.

use crate::begun_shards::begun_names;
use crate::plans::{open_plans, read_plans};
use crate::recorded_files::sealed_manifest;
use crate::request_error::as_output_error;
use crate::stored_plan::{StoredPlan, attempt, exists, read_receipt};
use crate::without_inputs::has_adopted;
use crate::{OnError, Plan};
use packhorse_core::{Code, Error, FileKind, Kind, Result, Store};
use packhorse_dataset::{INDEX_SUFFIX, MANIFEST, Manifest, PLAN, RECEIPT_SUFFIX, plan_name};
use packhorse_storage::{Location, Staging};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXCHANGE: &str = "exchange.json";

/// The most bytes of `exchange.json`.
const LONGEST: u64 = 4 << 30;

/// The files to add and to remove, relative to the dataset's folder; without the manifest.
#[derive(Debug, Serialize, Deserialize)]
struct Exchange {
    packhorse_exchange: u32,
    come: BTreeSet<String>,
    go: BTreeSet<String>,
}

const VERSION: u32 = 1;

/// Publishes `plan` in the folder `out`; beside a dataset that is there, if it is to be replaced by one packed under a policy.
pub(crate) fn publish(
    store: &Arc<dyn Store>,
    out: &Path,
    plan: &Plan,
    replaces: Option<OnError>,
) -> Result<StoredPlan> {
    match replaces {
        None => store_plan(store, out, plan),
        Some(policy) => store_plan_over(store, out, plan, policy),
    }
}

/// Publishes `plan` in the folder `out`. A folder with the same plan is resumed; one with finished shards of another
/// plan, or with unrelated files, is refused with the differences.
fn store_plan(store: &Arc<dyn Store>, out: &Path, plan: &Plan) -> Result<StoredPlan> {
    finish_replacing(store, out)?;
    if is_replacing(&**store, out)? {
        let message = "holds a dataset that is to replace the one beside it; go on with `replace`, or remove this folder \
                       to keep the old dataset";
        return Err(Error::config(message).in_input(Staging::replacing(out).display()));
    }
    attempt(store, out, plan)?
}

/// As [`store_plan`], but if the folder `out` holds finished shards of another plan, a dataset that was appended to, or one without samples
/// that this `policy` does not leave out, stores this one in `OUT/.replacing`: [`pack`](crate::pack::pack) fills it, and
/// [`seal`](crate::seal::seal) replaces the old dataset.
fn store_plan_over(store: &Arc<dyn Store>, out: &Path, plan: &Plan, policy: OnError) -> Result<StoredPlan> {
    if Location::url(out).is_some() {
        let error = Error::unsupported("is in an object store, where datasets can't be replaced: it has no renames");
        return Err(error.hint("give `out` another prefix").in_input(out.display()));
    }
    finish_replacing(store, out)?;
    refuse_adopted(&**store, out)?;
    let place = Staging::replacing(out);
    // Damage is told by what packs into that folder.
    let sealed = if policy == OnError::Fail { sealed_manifest(&**store, out).ok().flatten() } else { None };
    let left_out = plan.skipped().iter().map(|skip| skip.samples).sum();
    if sealed.is_none_or(|sealed| sealed.skipped <= left_out)
        && !exists(&**store, &out.join(plan_name(1)))?
        && let Ok(stored) = attempt(store, out, plan)?
    {
        discard(store, out)?;
        return Ok(stored);
    }
    let stored = match attempt(store, &place, plan)? {
        Ok(stored) => stored,
        // An earlier replacement with another plan.
        Err(_) => {
            discard(store, out)?;
            attempt(store, &place, plan)??
        }
    };
    // A lock keeps others out of that folder, which goes when the datasets are exchanged.
    Ok(StoredPlan { staging: None, ..stored })
}

/// The folder of the plan to fill for the dataset in `out`: its `.replacing` folder if a replacement is under way, else
/// `out`. Finishes an interrupted exchange first.
pub(crate) fn plan_folder(store: &Arc<dyn Store>, out: &Path) -> Result<PathBuf> {
    finish_replacing(store, out)?;
    let place = Staging::replacing(out);
    Ok(if is_replacing(&**store, out)? { place } else { out.to_owned() })
}

/// Refuses to replace adopted shards, which are not packhorse's to remove.
pub(crate) fn refuse_adopted(store: &dyn Store, out: &Path) -> Result<()> {
    match open_plans(store, out).is_ok_and(|plans| has_adopted(&plans)) {
        true => {
            let error = Error::config("holds shards of others that were adopted, and they are not replaced");
            Err(error.with_code(Code::OutputExists).hint("give `out` another folder").in_input(out.display()))
        }
        false => Ok(()),
    }
}

/// Whether a replacement of the dataset in `out` is under way.
pub(crate) fn is_replacing(store: &dyn Store, out: &Path) -> Result<bool> {
    // In object stores datasets are not replaced.
    if Location::url(out).is_some() {
        return Ok(false);
    }
    exists(store, &Staging::replacing(out).join(PLAN))
}

/// Replaces the dataset in `out` by the one sealed in `OUT/.replacing`.
///
/// Errors: `Config` if an unrelated file has the name of a new one; nothing has changed then.
pub(crate) fn exchange(store: &Arc<dyn Store>, out: &Path, new: &Manifest) -> Result<()> {
    let place = Staging::replacing(out);
    let come = sealed_names(&**store, &place, new)?;
    let mut old = names(&**store, out)?;
    // A process of the old plan may have published files of a shard without its receipt, which tells their names.
    if let Some(shard) = new.shards.first()
        && let Ok(plans) = open_plans(&**store, out)
    {
        let suffixes: Vec<&str> = come.iter().filter_map(|name| name.strip_prefix(&shard.name)).collect();
        let same = plans.iter().filter(|plan| plan.header().sink.format == new.format.format);
        let shards = same.flat_map(|plan| plan.shards());
        old.extend(shards.flat_map(|shard| suffixes.iter().map(|suffix| format!("{}{suffix}", shard.name))));
    }
    let go = old.difference(&come).filter(|name| *name != MANIFEST).cloned().collect();
    let list = Exchange { packhorse_exchange: VERSION, come, go };
    // Interrupted sealing may have left companion files.
    old.extend(new.files.iter().map(|file| file.name.clone()));
    refuse_others(&**store, out, &list, &old)?;
    let text = serde_json::to_vec(&list).map_err(|e| Error::bug(e.to_string()))?;
    Staging::open(store.clone(), &place)?.document(EXCHANGE, &text)?;
    finish_replacing(store, out)
}

/// Refuses new files whose names are taken by files outside the old dataset.
fn refuse_others(store: &dyn Store, out: &Path, list: &Exchange, old: &BTreeSet<String>) -> Result<()> {
    let kind = |path: &Path| match store.stat(path, false) {
        Ok(stat) => Ok(Some(stat.kind)),
        Err(e) if e.is_absent() => Ok(None),
        Err(e) => Err(e),
    };
    let refused = |path: &Path| {
        let message = "is in the way of a file of the new dataset and does not belong to the old one; move it elsewhere and \
                       run the command again";
        Err(Error::config(message).in_input(path.display()))
    };
    for folder in folders(list.come.iter()) {
        match kind(&out.join(&folder))? {
            None | Some(FileKind::Directory) => {}
            Some(_) => return refused(&out.join(&folder)),
        }
    }
    for name in &list.come {
        match kind(&out.join(name))? {
            None => {}
            Some(kind) if kind != FileKind::Directory && old.contains(name) => {}
            Some(_) => return refused(&out.join(name)),
        }
    }
    Ok(())
}

/// Finishes an interrupted exchange in the folder `out`, if there is one.
pub(crate) fn finish_replacing(store: &Arc<dyn Store>, out: &Path) -> Result<()> {
    if Location::url(out).is_some() {
        return Ok(());
    }
    let place = Staging::replacing(out);
    match store.stat(&place.join(EXCHANGE), false) {
        Err(e) if e.is_absent() => return leave(store, out),
        Err(e) if e.is_denied() => return Err(as_output_error(e, out)),
        found => found?,
    };
    let below = store.beneath(out)?.unwrap_or_else(|| Arc::clone(store));
    let list = read(&*below, &place.join(EXCHANGE))?;
    let folders = folders(list.come.iter().chain(&list.go));
    // Without its manifest the new dataset is already in place.
    if exists(&*below, &place.join(MANIFEST))? {
        Staging::open(store.clone(), out)?.document(MANIFEST, Manifest::REPLACING.as_bytes())?;
        // A process of the old plan may wait in the very call that publishes a shard.
        Staging::cut_off(&**store, out);
        list.come.iter().try_for_each(|name| take(&*below, &place, out, name))?;
        list.go.iter().try_for_each(|name| below.remove(&out.join(name)))?;
        folders.iter().try_for_each(|folder| sync(&*below, &out.join(folder)))?;
        below.rename(&place.join(MANIFEST), &out.join(MANIFEST))?;
        below.sync_dir(out)?;
    }
    inner(&folders).try_for_each(|folder| remove_empty(&*below, &out.join(folder)))?;
    clear(store, out, &*below, &folders, EXCHANGE)
}

/// Moves a file of the new dataset into place, unless it is already there.
fn take(below: &dyn Store, place: &Path, out: &Path, name: &str) -> Result<()> {
    let (from, to) = (place.join(name), out.join(name));
    if exists(below, &from)? {
        if let Some(parent) = to.parent() {
            below.create_dir(parent)?;
        }
        return below.rename(&from, &to);
    }
    match exists(below, &to)? {
        true => Ok(()),
        false => Err(Error::new(Kind::Incomplete, "is missing").in_input(from.display())),
    }
}

fn read(below: &dyn Store, path: &Path) -> Result<Exchange> {
    let bytes = below.open(path)?.read_all(LONGEST)?;
    let damaged = |what: String| Error::new(Kind::Incomplete, what).in_input(path.display());
    let list: Exchange = serde_json::from_slice(&bytes).map_err(|e| damaged(format!("is not a list of files: {e}")))?;
    match list.packhorse_exchange {
        VERSION => Ok(list),
        found => Err(Error::unsupported(format!("is a list of version {found}; this build reads {VERSION}"))
            .in_input(path.display())),
    }
}

/// The folders of the files, outer ones first, with that of the dataset.
fn folders<'a>(names: impl Iterator<Item = &'a String>) -> BTreeSet<PathBuf> {
    names.flat_map(|name| Path::new(name).ancestors().skip(1)).map(Path::to_owned).collect()
}

fn sync(below: &dyn Store, folder: &Path) -> Result<()> {
    // A folder that only the old dataset had may be gone.
    match below.sync_dir(folder) {
        Err(e) if e.is_not_found() => Ok(()),
        done => done,
    }
}

/// Removes the unfinished replacement of the dataset in `out`.
pub(crate) fn discard(store: &Arc<dyn Store>, out: &Path) -> Result<()> {
    let place = Staging::replacing(out);
    if !is_replacing(&**store, out)? {
        return Ok(());
    }
    let below = store.beneath(out)?.unwrap_or_else(|| Arc::clone(store));
    let names = names(&*below, &place)?;
    names.iter().filter(|name| *name != PLAN).try_for_each(|name| below.remove(&place.join(name)))?;
    clear(store, out, &*below, &folders(names.iter()), PLAN)
}

/// Removes the rest of `.replacing`: empty folders, then the file `last` that marks it, then the folder.
fn clear(store: &Arc<dyn Store>, out: &Path, below: &dyn Store, folders: &BTreeSet<PathBuf>, last: &str) -> Result<()> {
    let place = Staging::replacing(out);
    inner(folders).try_for_each(|folder| remove_empty(below, &place.join(folder)))?;
    Staging::sweep(&**store, &place, false);
    below.remove(&place.join(last))?;
    remove_empty(below, &place)
}

/// Removes the staging folders in the folder `out` and in `OUT/.replacing`, or the unfinished uploads to it; returns how many.
pub(crate) fn clean(store: &Arc<dyn Store>, out: &Path) -> Result<u64> {
    if Location::url(out).is_some() {
        return store.abort_uploads(out);
    }
    store.list(out)?;
    let removed = [out, &Staging::replacing(out)].map(|dir| Staging::sweep(&**store, dir, true)).iter().sum();
    leave(store, out)?;
    Ok(removed)
}

/// Removes `.replacing` if an interrupted call left it empty.
fn leave(store: &Arc<dyn Store>, out: &Path) -> Result<()> {
    let place = Staging::replacing(out);
    match store.stat(&place, false) {
        Ok(stat) if stat.kind == FileKind::Directory => {
            let below = store.beneath(out)?.unwrap_or_else(|| Arc::clone(store));
            remove_empty(&*below, &place)
        }
        _ => Ok(()),
    }
}

/// The folders below the dataset's, inner ones first.
fn inner(folders: &BTreeSet<PathBuf>) -> impl Iterator<Item = &PathBuf> {
    folders.iter().rev().filter(|folder| !folder.as_os_str().is_empty())
}

/// Removes a folder if it is empty.
fn remove_empty(below: &dyn Store, folder: &Path) -> Result<()> {
    let used = [Some(ErrorKind::DirectoryNotEmpty), Some(ErrorKind::AlreadyExists)];
    match below.remove_dir(folder) {
        Err(e) if e.is_absent() || used.contains(&e.io_kind()) => Ok(()),
        done => done,
    }
}

/// The files of a sealed dataset, without its manifest.
fn sealed_names(store: &dyn Store, dir: &Path, manifest: &Manifest) -> Result<BTreeSet<String>> {
    let mut names: BTreeSet<String> = manifest.files.iter().map(|file| file.name.clone()).collect();
    for shard in &manifest.shards {
        names.insert(format!("{}{RECEIPT_SUFFIX}", shard.name));
        names.extend(read_receipt(store, dir, &shard.name)?.files.into_iter().map(|file| file.name));
    }
    Ok(names)
}

/// All names that files of the dataset in `dir` have or may have, finished or not, damaged or not.
fn names(store: &dyn Store, dir: &Path) -> Result<BTreeSet<String>> {
    let (manifest, plans) = (sealed_manifest(store, dir), read_plans(store, dir));
    let (mut names, mut shards) = (BTreeSet::from([PLAN.to_owned(), MANIFEST.to_owned()]), BTreeSet::new());
    if let Ok(Some(manifest)) = &manifest {
        names.extend(manifest.files.iter().map(|file| file.name.clone()));
        names.extend(manifest.shards.iter().map(|shard| shard.file.clone()));
        shards.extend(manifest.shards.iter().map(|shard| shard.name.clone()));
    }
    match plans {
        Ok(plans) => {
            names.extend((0..plans.len()).map(plan_name));
            names.extend(plans.iter().flat_map(|plan| &plan.header().files).map(|file| file.name.clone()));
            shards.extend(plans.iter().flat_map(|plan| plan.shards()).map(|shard| shard.name.clone()));
        }
        // The manifest alone is enough.
        Err(e) if !matches!(manifest, Ok(Some(_))) => return Err(e),
        Err(_) => {}
    }
    names.extend(shard_names(store, dir, &shards, &BTreeSet::new()));
    Ok(names)
}

/// All names that files of these shards have or may have: those in their receipts, and those with the suffixes that
/// files of these and of `others` have; without a receipt, those with the suffix of any format.
pub(crate) fn shard_names(
    store: &dyn Store,
    dir: &Path,
    shards: &BTreeSet<String>,
    others: &BTreeSet<String>,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut suffixes = BTreeSet::from([RECEIPT_SUFFIX.to_owned(), INDEX_SUFFIX.to_owned()]);
    for shard in shards.union(others) {
        let Ok(receipt) = read_receipt(store, dir, shard) else { continue };
        suffixes
            .extend(receipt.files.iter().filter_map(|file| file.name.strip_prefix(shard.as_str())).map(str::to_owned));
        if shards.contains(shard) {
            names.extend(receipt.files.into_iter().map(|file| file.name));
        }
    }
    if names.is_empty() && suffixes.len() == 2 {
        // What can't be listed can't be removed either.
        names.extend(begun_names(store, dir, shards).unwrap_or_default());
    }
    // Unfinished shards have files with the same suffixes.
    names.extend(shards.iter().flat_map(|shard| suffixes.iter().map(move |suffix| format!("{shard}{suffix}"))));
    names
}
