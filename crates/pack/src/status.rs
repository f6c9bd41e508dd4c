//! status: the progress and the quick check of a dataset.

use crate::damage::Damage;
use crate::opened_view::OpenedView;
use crate::part_errors::of_missing;
use crate::plans::{open_plan, open_plans};
use crate::recorded_files::sealed_manifest;
use crate::replace::is_replacing;
use crate::shard_stems::shard_stems;
use crate::stored_plan::{unless_late, valid_receipts};
use crate::verify::{is_failure, quick};
use crate::without_inputs::lacks_inputs;
use packhorse_core::{Kind, Registry, Result, Store, counted};
use packhorse_dataset::{Digest, MANIFEST, Manifest, PartError, PlanReader, Receipt};
use packhorse_storage::{Location, Quarantine, Quarantined, Staging};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The progress of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The plan's logical digest; that of the last one, if shards were added.
    pub plan: Digest,
    /// Planned shards.
    pub shards: u64,
    /// Planned samples; `None` if not all inputs count theirs.
    pub samples: Option<u64>,
    /// Samples in complete shards.
    pub packed: u64,
    /// Names of the shards without a valid receipt, in plan order.
    pub missing: Vec<String>,
    /// The last errors of parts that still lack shards, in order of the parts: of the plan that is being filled.
    pub errors: Vec<PartError>,
    /// Whether there is a manifest.
    pub sealed: bool,
    /// For a sealed dataset: missing files, files with other lengths than recorded, and damaged documents. Shards are
    /// not read.
    pub damages: Vec<Damage>,
    /// A replacement under way: the number of its planned shards, and the names of the missing ones.
    pub replacing: Option<(u64, Vec<String>)>,
    /// Shards that are being added to the sealed dataset: their number, and the names of the missing ones.
    pub appending: Option<(u64, Vec<String>)>,
    /// For a staged part of a dataset: how many shards it should hold.
    pub part: Option<u64>,
    /// For a view: the folder of its dataset. Shards are those that it reads, and samples those of the view.
    pub base: Option<String>,
    /// Damaged files that repairs replaced and kept. They do not belong to the dataset.
    pub quarantined: Quarantined,
    /// For a damaged dataset: whether [`Session::repair`](crate::Session::repair) may mend some of it, since the plan tells the inputs.
    pub repairable: bool,
}

impl Status {
    /// Whether the dataset is sealed and damaged.
    pub fn is_damaged(&self) -> bool {
        !self.damages.is_empty()
    }
}

/// Reads the receipts in the folder `out`, and for a sealed dataset checks names and lengths of all files. Reads no
/// shard.
pub(crate) fn status(registry: &Registry, store: &dyn Store, out: &Path) -> Result<Status> {
    // A damaged document is looked at below.
    let part = Manifest::read_part(store, out).or_else(|e| if is_failure(&e) { Err(e) } else { Ok(None) })?;
    if let Some(part) = part.filter(|manifest| manifest.part_of.is_some()) {
        return Ok(of_part(&part, quick(registry, store, out, &part)?));
    }
    if let Some(opened) = OpenedView::read(store, out)? {
        return of_view(registry, store, &opened);
    }
    let (sealed, manifest, damages) = match sealed_manifest(store, out) {
        Ok(None) => (false, None, Vec::new()),
        Ok(Some(manifest)) => {
            let damages = quick(registry, store, out, &manifest)?;
            (true, Some(manifest), damages)
        }
        Err(e) if e.kind() == Kind::Incomplete => {
            (true, None, vec![Damage { file: MANIFEST.to_owned(), member: None, problem: e.text().into_owned() }])
        }
        Err(e) => return Err(e),
    };
    let mut plans = match open_plans(store, out) {
        Ok(plans) => plans,
        Err(e) if !damages.is_empty() && !is_failure(&e) => {
            let quarantined = Quarantine::look(store, out)?;
            return Ok(Status { quarantined, ..unplanned(manifest.as_ref(), damages) });
        }
        Err(e) => return Err(e),
    };
    if manifest.as_ref().is_some_and(|manifest| manifest.plans().count() > plans.len()) {
        let quarantined = Quarantine::look(store, out)?;
        return Ok(Status { quarantined, ..unplanned(manifest.as_ref(), damages) });
    }
    let known = manifest.as_ref().map_or(plans.len(), |manifest| manifest.plans().count().min(plans.len()));
    let (mut appending, mut errors) = (None, Vec::new());
    for plan in plans.drain(known..) {
        let lost = filled(store, out, &plan)?.1;
        errors = errors_of(store, out, &plan, &lost);
        appending = Some((plan.shards().len() as u64, lost));
    }
    let whole = manifest.as_ref().filter(|manifest| damages.is_empty() && is_of(manifest, &plans));
    let (mut packed, mut missing) = (whole.map_or(0, |manifest| manifest.samples), Vec::new());
    // Receipts that were compared with the manifest are not read again.
    for plan in plans.iter().filter(|_| whole.is_none()) {
        let (samples, names) = filled(store, out, plan)?;
        errors.extend(errors_of(store, out, plan, &names));
        packed += samples;
        missing.extend(names);
    }
    let replacing = replacing(store, out, &mut errors)?;
    let repairable = !damages.is_empty() && plans.iter().any(|plan| !lacks_inputs(plan.header()));
    Ok(Status {
        plan: plans.last().map_or_else(|| Digest::of(b""), PlanReader::digest),
        shards: plans.iter().map(|plan| plan.shards().len() as u64).sum(),
        samples: plans.iter().map(PlanReader::samples).sum(),
        packed,
        missing,
        errors,
        sealed,
        damages,
        replacing,
        appending,
        part: None,
        base: None,
        quarantined: Quarantine::look(store, out)?,
        repairable,
    })
}

/// The shards of `manifest` whose data files are missing in the folder `dir` or have another length, in order. Reads no
/// file.
pub fn unfit_shards(store: &dyn Store, dir: &Path, manifest: &Manifest) -> Result<Vec<Damage>> {
    // In an object store many lengths come with one request.
    let entries = match Location::url(dir).map(|_| store.entries(dir)) {
        // Web servers do not list their folders.
        Some(Err(e)) if e.kind() == Kind::Unsupported => Vec::new(),
        Some(entries) => unless_late(dir, entries)?,
        None => Vec::new(),
    };
    let known: BTreeMap<_, _> = entries.into_iter().filter_map(|entry| Some((entry.name, entry.stat?.size))).collect();
    // Some object stores list late: what the listing lacks is looked at.
    let length = |file: &str, wanted: u64| match known.get(Path::new(file)) {
        Some(bytes) if *bytes == wanted => Ok(Some(*bytes)),
        _ => match store.stat(&dir.join(file), true) {
            Ok(stat) => Ok(Some(stat.size)),
            Err(e) if e.is_absent() => Ok(None),
            Err(e) => Err(e),
        },
    };
    let mut unfit = Vec::new();
    for shard in &manifest.shards {
        let problem = match length(&shard.file, shard.bytes)? {
            Some(bytes) if bytes == shard.bytes => continue,
            Some(bytes) => format!("has {} instead of {}", counted(bytes, "byte"), shard.bytes),
            None => "is missing".to_owned(),
        };
        unfit.push(Damage { file: shard.file.clone(), member: None, problem });
    }
    Ok(unfit)
}

/// Whether the dataset was sealed with these plans.
fn is_of(manifest: &Manifest, plans: &[PlanReader]) -> bool {
    manifest.plans().eq(plans.iter().map(PlanReader::digest))
}

/// Samples in the complete shards of the plan, and the names of the other shards.
fn filled(store: &dyn Store, out: &Path, plan: &PlanReader) -> Result<(u64, Vec<String>)> {
    let (mut packed, mut missing) = (0, Vec::new());
    let samples = |receipt: Receipt| Ok(receipt.samples);
    valid_receipts(store, out, plan, &samples, &mut |shard, samples| match samples {
        Some(samples) => packed += samples,
        None => missing.push(shard.name.clone()),
    })?;
    Ok((packed, missing))
}

/// A replacement under way; the last errors of its parts are added to `errors`.
fn replacing(store: &dyn Store, out: &Path, errors: &mut Vec<PartError>) -> Result<Option<(u64, Vec<String>)>> {
    if !is_replacing(store, out)? {
        return Ok(None);
    }
    let place = Staging::replacing(out);
    let plan = open_plan(store, &place)?;
    let missing = filled(store, &place, &plan)?.1;
    errors.extend(errors_of(store, &place, &plan, &missing));
    Ok(Some((plan.shards().len() as u64, missing)))
}

fn errors_of(store: &dyn Store, place: &Path, plan: &PlanReader, missing: &[String]) -> Vec<PartError> {
    of_missing(store, place, plan, &missing.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The status of a view: that of the shards that it reads.
fn of_view(registry: &Registry, store: &dyn Store, opened: &OpenedView) -> Result<Status> {
    let used = opened.view.part(&opened.manifest, &opened.runs);
    let found = of_part(&used, quick(registry, store, &opened.base, &used)?);
    let missing: BTreeSet<&str> = found.missing.iter().map(String::as_str).collect();
    let there = opened.runs.iter().filter(|run| {
        let shard = opened.manifest.shards.get(run.shard as usize);
        shard.is_some_and(|shard| !missing.contains(shard.name.as_str()))
    });
    Ok(Status {
        shards: used.shards.len() as u64,
        samples: Some(opened.view.samples),
        packed: there.map(|run| run.len).sum(),
        part: None,
        base: Some(opened.base.display().to_string()),
        ..found
    })
}

/// The status of a part of a dataset, whose complete shards are those without damage.
fn of_part(part: &Manifest, damages: Vec<Damage>) -> Status {
    let damaged = of_damages(&part.shards.iter().map(|shard| shard.name.as_str()).collect(), &damages);
    let (missing, there): (Vec<_>, Vec<_>) =
        part.shards.iter().partition(|shard| damaged.contains(shard.name.as_str()));
    Status {
        plan: part.plan,
        shards: part.part_of.as_ref().map_or(0, |of| of.shards),
        samples: part.part_of.as_ref().map(|of| of.samples),
        packed: there.iter().map(|shard| shard.samples).sum(),
        missing: missing.into_iter().map(|shard| shard.name.clone()).collect(),
        part: Some(part.shards.len() as u64),
        ..unplanned(Some(part), damages)
    }
}

/// Those of the shards called `names` that damaged files are of: the longest name that a file's name begins with.
fn of_damages<'n>(names: &BTreeSet<&'n str>, damages: &[Damage]) -> BTreeSet<&'n str> {
    damages.iter().filter_map(|damage| shard_stems(&damage.file).find_map(|stem| names.get(stem)).copied()).collect()
}

/// The status of a dataset whose plan can't be read.
fn unplanned(manifest: Option<&Manifest>, damages: Vec<Damage>) -> Status {
    Status {
        plan: manifest.map_or(Digest::of(b""), |manifest| manifest.plan),
        shards: manifest.map_or(0, |manifest| manifest.shards.len() as u64),
        samples: manifest.map(|manifest| manifest.samples),
        packed: manifest.map_or(0, |manifest| manifest.samples),
        missing: Vec::new(),
        errors: Vec::new(),
        sealed: true,
        damages,
        replacing: None,
        appending: None,
        part: None,
        base: None,
        quarantined: Quarantined::default(),
        repairable: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_of_one_shard() {
        let damage = |file: &str| Damage { file: file.to_owned(), member: None, problem: "is missing".to_owned() };
        let damages = [damage("a.b.tar"), damage("c.receipt.json"), damage("plan.jsonl.zst")];
        let found = of_damages(&["a", "a.b", "c", "d"].into(), &damages);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a.b", "c"]);
    }
}
