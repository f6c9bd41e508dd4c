//! Packing and checking, for Python. `packhorse/_pack.py` owns the words.

use crate::error::{Raised, Result};
use crate::fork;
use crate::watch::{Totals, abandonable, watched};
use packhorse::core::{Cancel, Error, Kind};
use packhorse::pack::{Depth, Packed, Setting};
use packhorse::{Recipe, Session};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings by name, each with its values as text.
pub(crate) type RecipeSettings = Vec<(String, Vec<String>)>;

/// The recipe of these settings.
pub(crate) fn recipe(settings: RecipeSettings) -> Result<Recipe> {
    let mut recipe = Recipe::default();
    settings.into_iter().try_for_each(|(name, values)| recipe.take_all(&name, values)).map_err(Raised::packing)?;
    Ok(recipe)
}

/// A session with what does not decide bytes: `jobs`, `memory`, `moved`, `replace`, `verify`.
pub(crate) fn session(settings: &Bound<'_, PyDict>, totals: &Arc<Totals>, cancel: &Cancel) -> Result<Session> {
    let get = |name: &str| settings.get_item(name);
    let mut session = packhorse::session().observe(Arc::clone(totals)).cancel(cancel.clone());
    if let Some(jobs) = get("jobs")? {
        session = session.jobs(jobs.extract()?);
    }
    if let Some(memory) = get("memory")? {
        session = session.memory(packhorse::pack::parse_bytes(&memory.extract::<String>()?)?);
    }
    if let Some(replace) = get("replace")? {
        session = session.replacing(replace.extract()?);
    }
    if let Some(verify) = get("verify")? {
        session = session.verifying(verify.extract()?);
    }
    for (old, new) in get("moved")?.map_or(Ok(Vec::new()), |moved| moved.extract::<Vec<(PathBuf, PathBuf)>>())? {
        session = session.moved(old, new);
    }
    Ok(session)
}

/// Runs a verb of a session with what does not decide bytes, `how`, while Python follows it.
fn run<R: Send + 'static>(
    py: Python<'_>,
    how: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
    verb: impl FnOnce(Session) -> Result<R, Error> + Send + 'static,
) -> Result<R> {
    // Before the work starts threads that later work could not use.
    fork::has_threads();
    let (totals, cancel) = (Arc::default(), Cancel::default());
    let session = session(how, &totals, &cancel)?;
    watched(py, progress, &totals, &cancel, move || verb(session)).map_err(Raised::packing)
}

/// Plans, packs and seals. Returns the totals and the root digest as JSON.
#[pyfunction]
pub(crate) fn pack(
    py: Python<'_>,
    settings: RecipeSettings,
    how: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<String> {
    let recipe = recipe(settings)?;
    fork::may_pack()?;
    let out = recipe.out.clone();
    let packed = run(py, how, progress, move |session| session.pack(&recipe))?;
    Ok(told(out.as_deref(), packed))
}

/// Adds samples to a sealed dataset. Returns what was packed as JSON.
#[pyfunction]
pub(crate) fn append(
    py: Python<'_>,
    place: PathBuf,
    settings: RecipeSettings,
    how: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<String> {
    let recipe = recipe(settings)?;
    fork::may_pack()?;
    let out = place.clone();
    let packed = run(py, how, progress, move |session| session.append(&place, &recipe))?;
    Ok(told(Some(&out), packed))
}

fn told(out: Option<&Path>, packed: Packed) -> String {
    let (report, manifest) = (packed.report, packed.manifest);
    let value = serde_json::json!({
        "out": out, "samples": report.samples, "shards": report.shards, "reused": report.reused,
        "bytes": report.bytes, "input_bytes": report.input_bytes, "skipped": report.skipped,
        "counts": report.counts, "classes": manifest.classes, "root": manifest.root.to_string(),
        "splits": manifest.splits.iter().map(|split| (&split.name, split.samples)).collect::<Vec<_>>(),
    });
    value.to_string()
}

/// Compares a dataset with its digests. Returns the findings as JSON.
#[pyfunction]
pub(crate) fn verify(
    py: Python<'_>,
    place: PathBuf,
    full: bool,
    how: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<String> {
    let depth = if full { Depth::Full } else { Depth::Quick };
    let found = run(py, how, progress, move |session| session.verify(&place, depth))?;
    let damages: Vec<_> = found.damages.iter().map(|d| (&d.file, &d.member, &d.problem)).collect();
    let value = serde_json::json!({
        "samples": found.samples, "shards": found.shards, "bytes": found.bytes, "repairable": found.repairable,
        "damages": damages, "quarantined": found.quarantined.files,
    });
    Ok(value.to_string())
}

/// Packs the damaged shards of a dataset again, and seals it.
#[pyfunction]
pub(crate) fn repair(
    py: Python<'_>,
    place: PathBuf,
    how: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<String> {
    fork::may_pack()?;
    let repaired = run(py, how, progress, move |session| session.repair(&place))?;
    let (shards, samples) = (repaired.report.shards - repaired.report.reused, repaired.manifest.samples);
    Ok(serde_json::json!({ "shards": shards, "samples": samples, "quarantined": repaired.quarantined }).to_string())
}

/// Samples, and count and bytes of each field, of a file or a dataset's folder, as JSON.
#[pyfunction]
pub(crate) fn stat(py: Python<'_>, place: PathBuf) -> Result<String> {
    let session = packhorse::session();
    let found = abandonable(py, move || count(&session, &place))?;
    Ok(serde_json::json!({ "samples": found.samples, "fields": found.fields }).to_string())
}

fn count(session: &Session, place: &Path) -> Result<packhorse::pack::Stat, Error> {
    if place.is_dir() {
        let message = "is a folder; `len` and `fields` of an opened dataset say its fields and samples";
        return Err(Error::new(Kind::Config, message).in_input(place.display()));
    }
    session.stat(place).map_err(|error| match error.kind() {
        Kind::Unsupported => {
            error.in_input(place.display()).hint("for a table, `len` and `fields` of `open(place)` say them")
        }
        _ => error,
    })
}

/// Every setting: its name, whether it may have several values, and its default, if it has one.
#[pyfunction]
pub(crate) fn settings() -> Vec<(&'static str, bool, Option<&'static str>)> {
    let of = |setting: &'static Setting| (setting.field, setting.repeats, setting.default);
    Recipe::SETTINGS.iter().map(of).collect()
}
