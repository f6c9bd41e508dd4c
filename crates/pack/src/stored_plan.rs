//! The plan stored in a dataset's folder, and the receipts of its shards.

use crate::begun_shards::remove_begun;
use crate::digest_file::digest_file;
use crate::other_inputs;
use crate::parallel_map::parallel_map;
use crate::plan::Plan;
use crate::plan_differences::same;
use crate::plans::stored;
use crate::refuse_view::refuse_view;
use crate::request_error::as_output_error;
use crate::without_inputs::is_adopted;
use packhorse_core::{Code, Error, FileKind, Kind, Outlet, Result, Store, found};
use packhorse_dataset::{
    Digest, LISTINGS, MANIFEST, Manifest, PLAN, PlanReader, RECEIPT_SUFFIX, Receipt, ShardFrame, plan_name,
};
use packhorse_storage::{Location, Stage, Staging};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// The outcome of storing a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The plan is new.
    New,
    /// The folder held the same plan, whose finished shards stay.
    Resumed,
}

/// A plan that is stored.
pub(crate) struct StoredPlan {
    /// Whether it is new.
    pub(crate) stored: Stored,
    /// Its digest.
    pub(crate) digest: Digest,
    /// Keeps the jobs of other plans out of the folder while it is open, if the folder holds it.
    pub(crate) staging: Option<Staging>,
}

/// Publishes `plan` in the folder `out`, unless that holds finished shards of another plan: the inner error says how it
/// differs.
pub(crate) fn attempt(store: &Arc<dyn Store>, out: &Path, plan: &Plan) -> Result<Result<StoredPlan>> {
    let needed = |name: &Path| plan.files().any(|(file, _)| name == Path::new(file));
    if let Err(e) = refuse_strangers(&**store, out, &needed) {
        // A sealed dataset may have lost its plan.
        let digest = restored(store, out, plan)?.ok_or_else(|| as_output_error(e, out))?;
        return Ok(Ok(resumed(digest)));
    }
    Staging::sweep(&**store, out, false);
    let staging = Staging::open(store.clone(), out).map_err(|e| as_output_error(e, out))?;
    let (stage, digest, stamps) = staged(&staging, PLAN, plan)?;
    let compared = |old: &PlanReader| {
        same(old, plan, digest, stamps).map_err(|e| e.in_input(out.display()))?;
        other_inputs::refuse(&**store, old, plan.header())
    };
    let held = |stored, staging| StoredPlan { stored, digest, staging: Some(staging) };
    let old = match stored(&**store, out, 0) {
        Err(e) if e.is_not_found() => {
            if !claim_documents(store, &staging, plan)? {
                return Ok(Err(busy(out)));
            }
            // Another job may be as fast: only one of both publishes its plan.
            match stage.ready()?.publish_new() {
                Err(e) if e.is_taken() => {
                    let first = compared(&stored(&**store, out, 0)?);
                    return Ok(first.map(|()| held(Stored::Resumed, staging)));
                }
                published => drop(published?),
            }
            return Ok(Ok(held(Stored::New, staging)));
        }
        Err(e) if e.kind() != Kind::Content => return Err(e),
        Err(e) => match restored(store, out, plan)? {
            Some(digest) => return Ok(Ok(resumed(digest))),
            None => Err(e.hint("or give `out` a new folder")),
        },
        Ok(old) => Ok(old),
    };
    if let Ok(old) = &old
        && old.digest() != digest
        && plan.digests_without_memory()? == Some((old.digest(), old.mtime_digest()))
    {
        // It was made to skip nothing: values over the limits fail as before.
        return Ok(Ok(StoredPlan { stored: Stored::Resumed, digest: old.digest(), staging: Some(staging) }));
    }
    // A plan without finished shards is replaced: most often a failed first attempt.
    let stays = || match &old {
        Ok(old) if is_adopted(old.header()) => Ok(true),
        Ok(old) => has_begun(&**store, out, &mut old.shards().iter().map(|shard| shard.name.as_str())),
        Err(_) => has_begun(&**store, out, &mut plan.shard_names()),
    };
    match old.as_ref().map_err(Error::clone).and_then(compared) {
        Ok(()) => {
            mend(&**store, out, 0, stage)?;
            Ok(Ok(held(Stored::Resumed, staging)))
        }
        Err(e) if stays()? => Ok(Err(e)),
        Err(e) => {
            let ready = stage.ready()?;
            // Jobs of the old plan are looked for last: those that run first, since one that ends leaves finished shards.
            if staging.has_neighbours() {
                return Ok(Err(busy(out)));
            }
            if stays()? {
                return Ok(Err(e));
            }
            if let Ok(old) = &old {
                remove_begun(&**store, out, &old.shards().iter().map(|shard| shard.name.clone()).collect())?;
            }
            // Before the plan, which is never without them.
            plan.files().try_for_each(|(name, bytes)| staging.document(name, bytes).map(drop))?;
            ready.publish()?;
            Ok(Ok(held(Stored::New, staging)))
        }
    }
}

/// The plan that a dataset, or shards that are not sealed, got again.
fn resumed(digest: Digest) -> StoredPlan {
    StoredPlan { stored: Stored::Resumed, digest, staging: None }
}

/// Publishes the plan `number` of the sealed dataset in `out` again if the file there is lost or damaged.
pub(crate) fn mend_plan(store: &Arc<dyn Store>, out: &Path, number: usize, plan: &Plan) -> Result<()> {
    let staging = Staging::open(store.clone(), out).map_err(|e| as_output_error(e, out))?;
    mend(&**store, out, number, staged(&staging, &plan_name(number), plan)?.0)
}

/// Publishes the staged plan `number` of the sealed dataset in `out` again if the file there is lost or damaged. It has the same
/// digest, but other bytes where inputs were moved or copied since: then only a plan that can't be read is replaced.
fn mend(store: &dyn Store, out: &Path, number: usize, stage: Stage) -> Result<()> {
    let Ok(Some(manifest)) = Manifest::read(store, out) else { return Ok(()) };
    let name = plan_name(number);
    let Some(record) = manifest.files.iter().find(|file| file.name == name) else { return Ok(()) };
    match digest_file(store, &out.join(name), &mut |_| Ok(())) {
        Ok((digest, _)) if digest == record.blake3 => return Ok(()),
        Err(e) if !e.is_absent() => return Err(e),
        _ => {}
    }
    let is_lost = match stored(store, out, number) {
        Err(e) if e.kind() == Kind::Environment && !e.is_absent() => return Err(e),
        read => read.is_err(),
    };
    let ready = stage.ready()?;
    match is_lost || ready.files().iter().any(|file| Digest::from(file.blake3) == record.blake3) {
        true => ready.publish().map(drop),
        false => Ok(()),
    }
}

/// Publishes `plan` in the place of a plan `number` that can't be read.
pub(crate) fn publish_over(store: &Arc<dyn Store>, out: &Path, number: usize, plan: &Plan) -> Result<Digest> {
    Staging::sweep(&**store, out, false);
    let staging = Staging::open(store.clone(), out).map_err(|e| as_output_error(e, out))?;
    let (stage, digest, _) = staged(&staging, &plan_name(number), plan)?;
    stage.publish().map(|_| digest)
}

/// Publishes the documents of a new plan; false if another job publishes others under their names.
fn claim_documents(store: &Arc<dyn Store>, staging: &Staging, plan: &Plan) -> Result<bool> {
    for (name, bytes) in plan.files() {
        let mut document = staging.stage(name)?;
        document.write("", bytes)?;
        let read = || store.open(&staging.out().join(name))?.read_all(bytes.len() as u64);
        match document.ready()?.publish_new() {
            Ok(_) => {}
            Err(e) if !e.is_taken() => return Err(e),
            Err(_) if read().is_ok_and(|found| found == *bytes) => {}
            Err(_) if staging.has_neighbours() => return Ok(false),
            // A failed first attempt left it.
            Err(_) => drop(staging.document(name, bytes)?),
        }
    }
    Ok(true)
}

/// Publishes `plan` if it is the lost or damaged one of the dataset or of the finished shards in `out`, and returns its digest.
fn restored(store: &Arc<dyn Store>, out: &Path, plan: &Plan) -> Result<Option<Digest>> {
    let known = match Manifest::read(&**store, out) {
        Ok(Some(manifest)) => manifest.plans().next(),
        Ok(None) => plan_of_receipts(&**store, out)?,
        Err(e) if e.kind() == Kind::Environment && !e.is_absent() => return Err(e),
        // A damaged manifest, and a folder that is none, is told later.
        Err(_) => None,
    };
    let Some(known) = known else { return Ok(None) };
    let digest = plan.write(std::io::sink())?.0;
    if known != digest {
        return Ok(None);
    }
    let staging = Staging::open(store.clone(), out).map_err(|e| as_output_error(e, out))?;
    plan.files().try_for_each(|(name, bytes)| staging.document(name, bytes).map(drop))?;
    staged(&staging, PLAN, plan)?.0.publish()?;
    Ok(Some(digest))
}

/// The plan of the first receipt in the folder `out` that can be read.
fn plan_of_receipts(store: &dyn Store, out: &Path) -> Result<Option<Digest>> {
    Ok(receipts_beyond(store, out, &|_| false)?.next().map(|receipt| receipt.plan))
}

/// The receipts in the folder `out` that can be read, of shards that are not `known`; each is read when it is asked for.
pub(crate) fn receipts_beyond<'a>(
    store: &'a dyn Store,
    out: &'a Path,
    known: &'a dyn Fn(&str) -> bool,
) -> Result<impl Iterator<Item = Receipt> + 'a> {
    let names = match store.list(out) {
        Err(e) if e.is_absent() => Vec::new(),
        names => names?,
    };
    Ok(names.into_iter().filter_map(move |name| {
        let shard = name.to_str()?.strip_suffix(RECEIPT_SUFFIX).filter(|shard| !known(shard))?;
        read_receipt(store, out, shard).ok()
    }))
}

/// The error of a folder in which another job works on another plan.
fn busy(out: &Path) -> Error {
    let error = Error::config("another job is packing something else into this folder").with_code(Code::OutputBusy);
    error.hint("give each job a folder of its own").in_input(out.display())
}

/// Publishes `plan` in the folder `out` as its plan `number`, which is not there yet, and returns its digest.
///
/// Errors: [`Error::is_taken`] if another process was faster.
pub(crate) fn publish_new(store: &Arc<dyn Store>, out: &Path, number: usize, plan: &Plan) -> Result<Digest> {
    Staging::sweep(&**store, out, false);
    let staging = Staging::open(store.clone(), out).map_err(|e| as_output_error(e, out))?;
    let (stage, digest, _) = staged(&staging, &plan_name(number), plan)?;
    stage.ready()?.publish_new()?;
    // Where names can't be claimed, two may have been as fast: the last one's plan stays.
    match stored(&**store, out, number)?.digest() == digest {
        true => Ok(digest),
        false => {
            Err(Error::io("create", ErrorKind::AlreadyExists.into()).in_input(out.join(plan_name(number)).display()))
        }
    }
}

/// Stages `plan` as the file `name`; returns its digests too.
fn staged(staging: &Staging, name: &str, plan: &Plan) -> Result<(Stage, Digest, Digest)> {
    let mut stage = staging.stage(name)?;
    let mut file = std::io::BufWriter::with_capacity(256 << 10, stage.stream("")?);
    let (digest, stamps) = plan.write(&mut file)?;
    drop(file);
    Ok((stage, digest, stamps))
}

/// Whether the folder `out` holds a finished shard, of those called `shards` or others, or is sealed.
fn has_begun(store: &dyn Store, out: &Path, shards: &mut dyn Iterator<Item = &str>) -> Result<bool> {
    let names = unless_late(out, store.list(out))?;
    let listed =
        names.iter().any(|name| name == Path::new(MANIFEST) || name.to_string_lossy().ends_with(RECEIPT_SUFFIX));
    Ok(listed || exists(store, &out.join(MANIFEST))? || has_unlisted_receipts(store, out, shards)?)
}

/// Whether one of the first shards, which are filled first, has a receipt in an object store that lists late.
fn has_unlisted_receipts(store: &dyn Store, out: &Path, shards: &mut dyn Iterator<Item = &str>) -> Result<bool> {
    if Location::url(out).is_none() {
        return Ok(false);
    }
    let first: Vec<&str> = shards.take(REQUESTS).collect();
    let receipt = |shard: &&str| exists(store, &out.join(format!("{shard}{RECEIPT_SUFFIX}")));
    Ok(parallel_map(&first, REQUESTS, &receipt)?.contains(&true))
}

/// Whether there is a file (or a link) of this name. Asks for the name itself, since some object stores list late.
pub(crate) fn exists(store: &dyn Store, path: &Path) -> Result<bool> {
    match store.stat(path, false) {
        Ok(stat) => Ok(stat.kind != FileKind::Directory),
        Err(e) if e.is_absent() => Ok(false),
        Err(e) => Err(e),
    }
}

/// A listing of the folder `dir`, which is there. An object store that lists late may not know it yet.
pub(crate) fn unless_late<T: Default>(dir: &Path, listed: Result<T>) -> Result<T> {
    match listed {
        Err(e) if e.is_not_found() && Location::url(dir).is_some() => Ok(T::default()),
        listed => listed,
    }
}

/// Refuses an output folder with unrelated files. `needed`: whether a file belongs to the plan that is to be stored.
pub(crate) fn refuse_strangers(store: &dyn Store, out: &Path, needed: &dyn Fn(&Path) -> bool) -> Result<()> {
    let names = match store.list(out) {
        Ok(names) => names,
        Err(e) if e.is_not_found() => return Ok(()),
        Err(e) => return Err(e),
    };
    let ours = |name: &Path| [PLAN, ".staging", LISTINGS].iter().any(|own| name == Path::new(own)) || needed(name);
    match names.iter().find(|name| !ours(name)) {
        Some(stranger) if !names.iter().any(|name| name == Path::new(PLAN)) && !exists(store, &out.join(PLAN))? => {
            refuse_view(store, out)?;
            let message = format!("is not empty (it holds {}) and has no plan", stranger.display());
            let error = Error::config(message).with_code(Code::OutputExists);
            Err(error.hint("give `out` an empty or a new folder").in_input(out.display()))
        }
        _ => Ok(()),
    }
}

/// The receipt of a complete shard: one of this plan, whose files all exist with their lengths. `None` for other
/// shards.
///
/// Errors: failed I/O, since the shard may be complete.
pub(crate) fn valid_receipt(
    store: &dyn Store,
    out: &Path,
    plan: Digest,
    shard: &ShardFrame,
) -> Result<Option<Receipt>> {
    let length = |name: &str| Ok(found(store.stat(&out.join(name), true))?.map(|stat| stat.size));
    valid(store, out, plan, shard, &length)
}

/// Gives `each` the shards of the plan in `out`, in order, with what `take` makes of their receipts; `None` for shards that
/// are not complete.
pub(crate) fn valid_receipts<'p, T: Send>(
    store: &dyn Store,
    out: &Path,
    plan: &'p PlanReader,
    take: &(dyn Fn(Receipt) -> Result<T> + Sync),
    each: &mut dyn FnMut(&'p ShardFrame, Option<T>),
) -> Result<()> {
    if Location::url(out).is_some() {
        let receipts = receipts_of_objects(store, out, plan, take)?;
        plan.shards().iter().zip(receipts).for_each(|(shard, receipt)| each(shard, receipt));
        return Ok(());
    }
    // In pieces: of a million shards the receipts would be twice in memory.
    for shards in plan.shards().chunks(AT_ONCE) {
        let look = |shard: &ShardFrame| valid_receipt(store, out, plan.digest(), shard)?.map(take).transpose();
        let receipts = parallel_map(shards, threads(plan.shards().len()), &look)?;
        shards.iter().zip(receipts).for_each(|(shard, receipt)| each(shard, receipt));
    }
    Ok(())
}

/// Shards whose receipts are looked at before the next ones.
const AT_ONCE: usize = 1 << 14;

/// What `take` makes of the receipts of all shards in an object store, in order.
fn receipts_of_objects<T: Send>(
    store: &dyn Store,
    out: &Path,
    plan: &PlanReader,
    take: &(dyn Fn(Receipt) -> Result<T> + Sync),
) -> Result<Vec<Option<T>>> {
    // Names and lengths in few requests; receipts many at a time. Some stores list late: if few shards lack something by
    // the listing, they are looked at one by one.
    let entries = unless_late(out, store.entries(out))?;
    let lengths: BTreeMap<_, _> =
        entries.into_iter().map(|entry| (entry.name, entry.stat.map(|stat| stat.size))).collect();
    let length = |name: &str| match lengths.get(Path::new(name)) {
        Some(None) => store.stat(&out.join(name), true).map(|stat| Some(stat.size)),
        known => Ok(known.copied().flatten()),
    };
    let there = |shard: &ShardFrame| lengths.contains_key(Path::new(&format!("{}{RECEIPT_SUFFIX}", shard.name)));
    let mut receipts = parallel_map(plan.shards(), REQUESTS, &|shard| match there(shard) {
        true => valid(store, out, plan.digest(), shard, &length)?.map(take).transpose(),
        false => Ok(None),
    })?;
    let lacking: Vec<_> = receipts.iter_mut().zip(plan.shards()).filter(|(receipt, _)| receipt.is_none()).collect();
    if lacking.len() <= LOOKED_AT {
        let shards: Vec<&ShardFrame> = lacking.iter().map(|(_, shard)| *shard).collect();
        let found = parallel_map(&shards, REQUESTS, &|shard| {
            valid_receipt(store, out, plan.digest(), shard)?.map(take).transpose()
        })?;
        lacking.into_iter().zip(found).for_each(|((receipt, _), found)| *receipt = found);
    }
    Ok(receipts)
}

/// The most shards that are looked at one by one because a listing lacks them.
const LOOKED_AT: usize = 1000;

/// Receipts of an object store that are read at once.
const REQUESTS: usize = 32;

/// How many threads look at the documents of so many shards. On a parallel file system each look waits for a server.
pub(crate) fn threads(shards: usize) -> usize {
    (shards / 64).clamp(1, REQUESTS)
}

fn valid(
    store: &dyn Store,
    out: &Path,
    plan: Digest,
    shard: &ShardFrame,
    length: &dyn Fn(&str) -> Result<Option<u64>>,
) -> Result<Option<Receipt>> {
    let receipt = match read_receipt(store, out, &shard.name) {
        Ok(found) => found,
        Err(e) if e.is_not_found() || e.kind() != Kind::Environment => return Ok(None),
        Err(e) => return Err(e),
    };
    for file in &receipt.files {
        if length(&file.name)? != Some(file.bytes) {
            return Ok(None);
        }
    }
    let valid = receipt.plan == plan
        && receipt.shard == shard.name
        && shard.holds(receipt.samples + receipt.lost())
        && !receipt.files.is_empty();
    Ok(valid.then_some(receipt))
}

pub(crate) fn read_receipt(store: &dyn Store, out: &Path, shard: &str) -> Result<Receipt> {
    receipt_and_digest(store, out, shard).map(|(receipt, _)| receipt)
}

/// The receipt of a shard, and the digest of its file.
pub(crate) fn receipt_and_digest(store: &dyn Store, out: &Path, shard: &str) -> Result<(Receipt, Digest)> {
    let path = out.join(format!("{shard}{RECEIPT_SUFFIX}"));
    let bytes = store.open(&path)?.read_all(1 << 30)?;
    Ok((Receipt::decode(&bytes).map_err(|e| e.in_input(path.display()))?, Digest::of(&bytes)))
}
