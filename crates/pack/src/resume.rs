//! The plan of a dataset's folder: stored once, compared when the same work is asked for again.

use crate::plan::Plan;
use crate::replace::{finish_replacing, is_replacing};
use packhorse_core::{Code, Error, Kind, Outlet, Result, Store, nearest};
use packhorse_dataset::{Digest, MANIFEST, PLAN, PlanHeader, PlanReader, RECEIPT_SUFFIX, Receipt, ShardFrame};
use packhorse_storage::Staging;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// What storing a plan did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The plan is new.
    New,
    /// The folder held the same plan: its finished shards stay.
    Resumed,
}

/// Publishes `plan` in the folder `out`. A folder that holds the same plan is resumed; one that
/// holds finished shards of another plan, or files of others, is refused with what differs.
pub(crate) fn store_plan(store: &Arc<dyn Store>, out: &Path, plan: &Plan) -> Result<Stored> {
    finish_replacing(store, out)?;
    if is_replacing(&**store, out)? {
        let message = "holds a dataset that is to replace the one beside it; go on with `replace`, or remove this folder \
                       to keep the old one";
        return Err(Error::config(message).in_input(Staging::replacing(out).display()));
    }
    match attempt(store, out, plan)? {
        Attempt::Stored(stored) => Ok(stored),
        Attempt::Other(e) => Err(e),
    }
}

/// What came of storing a plan.
pub(crate) enum Attempt {
    Stored(Stored),
    /// The folder holds a dataset of another plan: how it differs.
    Other(Error),
}

/// Publishes `plan` in the folder `out`, unless it holds finished shards of another one.
pub(crate) fn attempt(store: &Arc<dyn Store>, out: &Path, plan: &Plan) -> Result<Attempt> {
    refuse_strangers(&**store, out, plan).map_err(|e| of_output(e, out))?;
    Staging::sweep(&**store, out, false);
    let staging = Staging::open(store.clone(), out).map_err(|e| of_output(e, out))?;
    let mut stage = staging.stage(PLAN)?;
    let mut file = std::io::BufWriter::with_capacity(256 << 10, stage.stream("")?);
    let (digest, stamps) = plan.write(&mut file)?;
    drop(file);
    match stored(&**store, out) {
        Err(e) if e.is_not_found() => {}
        Err(e) if e.kind() == Kind::Environment => return Err(e),
        Err(e) => return Ok(Attempt::Other(e)),
        Ok(old) => match same(&old, plan.header(), digest, stamps) {
            Ok(()) => return Ok(Attempt::Stored(Stored::Resumed)),
            // Nothing is lost with a plan of which nothing is finished: most often a first try that failed.
            Err(_) if !has_begun(&**store, out)? => {}
            Err(e) => return Ok(Attempt::Other(e.in_input(out.display()))),
        },
    }
    // First, so that a plan is never without them.
    for (name, bytes) in plan.files() {
        staging.document(name, bytes)?;
    }
    stage.publish()?;
    Ok(Attempt::Stored(Stored::New))
}

/// Whether a shard was finished in the folder `out`, or it was sealed.
fn has_begun(store: &dyn Store, out: &Path) -> Result<bool> {
    let names = store.list(out)?;
    Ok(names.iter().any(|name| name == Path::new(MANIFEST) || name.to_string_lossy().ends_with(RECEIPT_SUFFIX)))
}

/// Opens the plan in the folder `out`. Errors: `Config` for a folder without a plan.
pub(crate) fn open_plan(store: &dyn Store, out: &Path) -> Result<PlanReader> {
    stored(store, out).map_err(|e| match e.is_not_found() {
        true => Error::config("holds no plan")
            .with_code(Code::NoPlan)
            .hint("make one with `packhorse plan`")
            .in_input(out.display()),
        false => e,
    })
}

/// The bytes of the file with this digest (hexadecimal) that a transform of the plan in the folder `out`
/// needs; `Content` if they are others now.
pub(crate) fn plan_file(store: &dyn Store, out: &Path, plan: &PlanReader, digest: &str) -> Result<Vec<u8>> {
    let Some(file) = plan.header().files.iter().find(|file| file.blake3.to_string() == digest) else {
        return Err(Error::content(format!("the plan has no file {digest}")).in_input(out.display()));
    };
    let path = out.join(&file.name);
    let bytes = store.open(&path)?.read_all(file.bytes)?;
    match Digest::of(&bytes) == file.blake3 {
        true => Ok(bytes),
        false => Err(Error::content("is not the file that the plan was made with").in_input(path.display())),
    }
}

fn stored(store: &dyn Store, out: &Path) -> Result<PlanReader> {
    PlanReader::open(store.open(&out.join(PLAN))?)
}

/// What the caller named and is not there is a fault of the request, not of the file system.
pub fn of_request(error: Error) -> Error {
    if !error.is_not_found() {
        return error;
    }
    error.input().into_iter().fold(missing(), Error::in_input)
}

/// The error of a file or folder that is not there.
fn missing() -> Error {
    let error = Error::config("no such file or folder").with_code(Code::NoSuchFile);
    error.not_found()
}

/// As [`of_request`] for the file or folder `path`, with the name beside it that may have been meant.
pub(crate) fn of_named(store: &dyn Store, path: &Path, error: Error) -> Error {
    if !error.is_not_found() {
        return error.with_kind(Kind::Config);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = store.list(folder).unwrap_or_default();
    let names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let wanted = path.file_name().unwrap_or_default().to_string_lossy();
    let meant = nearest(&wanted, names.iter().map(String::as_str));
    let meant = meant.map(|name| format!("did you mean {}?", path.with_file_name(name).display()));
    meant.into_iter().fold(missing(), Error::hint).in_input(path.display())
}

/// What is wrong with the folder that the user gave for a dataset, and no trouble that passes.
pub(crate) fn of_output(error: Error, out: &Path) -> Error {
    let denied = |message: &str, hint: &str| Error::config(message).with_code(Code::OutputDenied).hint(hint);
    let told = match error.io_kind() {
        Some(ErrorKind::NotADirectory) => {
            denied("is not a folder", "give `out` a folder that is empty or does not exist")
        }
        Some(ErrorKind::NotFound) => denied("can't be made there", "give `out` another folder"),
        _ if error.is_denied() => denied(error.message(), "give `out` a folder that you may write to"),
        _ => return error,
    };
    told.in_input(out.display())
}

/// packhorse writes into a folder of its own.
fn refuse_strangers(store: &dyn Store, out: &Path, plan: &Plan) -> Result<()> {
    let names = match store.list(out) {
        Ok(names) => names,
        Err(e) if e.is_not_found() => return Ok(()),
        Err(e) => return Err(e),
    };
    let needed = |name: &Path| plan.files().any(|(file, _)| name == Path::new(file));
    let ours = |name: &Path| name == Path::new(PLAN) || name == Path::new(".staging") || needed(name);
    match names.iter().find(|name| !ours(name)) {
        Some(stranger) if !names.iter().any(|name| name == Path::new(PLAN)) => {
            let message = format!("is not empty (it holds {}) and has no plan", stranger.display());
            let error = Error::config(message).with_code(Code::OutputExists);
            Err(error.hint("give `out` an empty or a new folder").in_input(out.display()))
        }
        _ => Ok(()),
    }
}

fn same(old: &PlanReader, new: &PlanHeader, digest: Digest, stamps: Digest) -> Result<()> {
    if old.digest() != digest {
        let what = differences(old.header(), new);
        let error = Error::config(format!("holds finished shards of another plan ({what})"));
        return Err(error.with_code(Code::PlanDiffers).hint(
            "give `out` a new folder, or start over with `replace`, which keeps this dataset until the new one is sealed",
        ));
    }
    if old.mtime_digest() != stamps {
        return Err(Error::new(
            Kind::Changed,
            "some inputs were modified since the plan in this folder was made, though none changed its size; \
             pack into a new folder, start over with `replace`, or give them back the times they had",
        ));
    }
    Ok(())
}

fn differences(old: &PlanHeader, new: &PlanHeader) -> String {
    let mut parts = Vec::new();
    let mut compare = |what: &str, old: String, new: String| {
        if old != new {
            parts.push(format!("{what}: {old} there, {new} now"));
        }
    };
    compare(
        "format",
        format!("{} revision {}", old.sink.format, old.sink.revision),
        format!("{} revision {}", new.sink.format, new.sink.revision),
    );
    compare("`name`", old.name.clone(), new.name.clone());
    compare("transforms", shown(&old.transforms), shown(&new.transforms));
    let names = |h: &PlanHeader| {
        h.choices.keys().chain(h.sink.options.keys()).cloned().collect::<std::collections::BTreeSet<_>>()
    };
    let value = |h: &PlanHeader, name: &str| {
        h.choices.get(name).or_else(|| h.sink.options.get(name)).cloned().unwrap_or_else(|| "not given".into())
    };
    for name in names(old).union(&names(new)) {
        compare(&format!("`{name}`"), value(old, name), value(new, name));
    }
    compare("classes (`labels`)", shown(&old.classes), shown(&new.classes));
    let fields = |h: &PlanHeader| shown(&h.schema.iter().map(|f| f.name.clone()).collect::<Vec<_>>());
    compare("fields", fields(old), fields(new));
    if parts.is_empty() { "its inputs are other ones, or were changed".to_owned() } else { parts.join("; ") }
}

/// A list for a message: long ones are cut.
fn shown(list: &[String]) -> String {
    const LONGEST: usize = 80;
    let text = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// The receipt of a shard that is complete: of this plan, and every file there with its length.
/// A shard that can't be looked at is an error: it may be complete.
pub(crate) fn valid_receipt(
    store: &dyn Store,
    out: &Path,
    plan: Digest,
    shard: &ShardFrame,
) -> Result<Option<Receipt>> {
    let receipt = match read_receipt(store, out, &shard.name) {
        Ok(receipt) => receipt,
        Err(e) if e.is_not_found() || e.kind() != Kind::Environment => return Ok(None),
        Err(e) => return Err(e),
    };
    for file in &receipt.files {
        match store.stat(&out.join(&file.name), true) {
            Ok(stat) if stat.size == file.bytes => {}
            Ok(_) => return Ok(None),
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e),
        }
    }
    let valid = receipt.plan == plan
        && receipt.shard == shard.name
        && shard.holds(receipt.samples + receipt.lost())
        && !receipt.files.is_empty();
    Ok(valid.then_some(receipt))
}

pub(crate) fn read_receipt(store: &dyn Store, out: &Path, shard: &str) -> Result<Receipt> {
    let path = out.join(format!("{shard}{RECEIPT_SUFFIX}"));
    Receipt::decode(&store.open(&path)?.read_all(1 << 30)?).map_err(|e| e.in_input(path.display()))
}
