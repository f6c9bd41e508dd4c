//! repair: packs the damaged shards of a dataset again.

use crate::OnError;
use crate::append::lost_plan;
use crate::damage::Damage;
use crate::moved_inputs::find_inputs;
use crate::pack::{PackReport, pack_again};
use crate::pack_context::{PackContext, PackOptions};
use crate::parallel_map::parallel_map;
use crate::plans::open_plans;
use crate::recorded_files::{check_file, sealed_manifest};
use crate::replace::finish_replacing;
use crate::restored_index::restore_index;
use crate::seal::Sealing;
use crate::shard_packer::Redo;
use crate::stored_plan::{read_receipt, valid_receipt};
use crate::verify::{IS_A_LINK, is_failure, unreadable};
use packhorse_core::{Error, Event, FileKind, KEY, Kind, Result};
use packhorse_dataset::{Digest, FileRecord, Manifest, PlanReader, RECEIPT_SUFFIX, ShardFrame, plan_name};
use packhorse_storage::{Location, Quarantine, Staging};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What repairing a dataset did.
#[derive(Clone, Debug)]
pub struct DatasetRepair {
    /// The first damage of each shard, in plan order. Shards whose member index alone was damaged were not packed again.
    pub damages: Vec<Damage>,
    /// What was packed; empty if no shard was damaged.
    pub report: PackReport,
    /// The manifest of the repaired dataset.
    pub manifest: Manifest,
    /// Where the damaged files are kept that were replaced, below the dataset's folder, sorted.
    pub quarantined: Vec<String>,
}

/// Reads every byte of the dataset in the folder `out`, packs again the shards that are damaged or missing, from the
/// inputs of its plan, and seals it. The member index of a whole shard is made again from that, without inputs.
///
/// A shard is replaced only by the bytes that the manifest recorded. A file that is replaced by other bytes is kept in
/// quarantine.
///
/// Errors: `Changed` if the inputs give other bytes now, and the shard stays; `Incomplete` if the plan, or a file that
/// it needs, is damaged.
pub(crate) fn repair_dataset(context: &PackContext<'_>, out: &Path, options: &PackOptions) -> Result<DatasetRepair> {
    finish_replacing(&context.store, out)?;
    // Sealing writes a damaged manifest again.
    let before = sealed_manifest(&*context.store, out).or_else(|e| match e.kind() {
        Kind::Incomplete => Ok(None),
        _ => Err(e),
    })?;
    check_plan_files(context, out, before.as_ref())?;
    let mut plans = open_plans(&*context.store, out)?;
    if let Some(before) = &before {
        // Shards that are being added do not belong to the dataset yet.
        plans.truncate(before.plans().count());
    }
    find_inputs(&mut plans, context.moved)?;
    let recorded = before.iter().flat_map(|manifest| &manifest.shards).map(|s| (s.name.as_str(), s.receipt)).collect();
    // Samples skipped before are skipped again; `pack_again` refuses other bytes than those recorded.
    let on_error = if before.is_some() { OnError::Skip } else { options.on_error };
    let quarantine = Arc::new(Quarantine::new(&context.store, out)?);
    let context = &PackContext { quarantine: Some(quarantine.clone()), ..context.clone() };
    let (mut damages, mut report) = (Vec::new(), PackReport::default());
    let fields = before.iter().flat_map(|manifest| &manifest.schema).map(|field| field.name.as_str());
    let fields: Vec<&str> = fields.filter(|name| *name != KEY).collect();
    for plan in &plans {
        let scan = DamageScan { context, out, plan, recorded: &recorded };
        let mut redo = Redo::new();
        for (shard, damage) in scan.run(options.jobs)? {
            damages.push(damage);
            let receipt = recorded.get(shard.name.as_str()).copied();
            let staging = Staging::open(context.store.clone(), out)?.keeping(context.quarantine.clone());
            let restored = restore_index(context, out, (&shard.name, receipt), &fields, &staging)?;
            if !restored || scan.look(shard)?.is_some() {
                redo.insert(shard.name.clone(), receipt);
            }
        }
        if !redo.is_empty() {
            let packed = pack_again(context, out, plan, &PackOptions { on_error, ..*options }, &redo);
            report.add(packed.map_err(|e| match e.kind() {
                Kind::Changed | Kind::Incomplete | Kind::Content if replaced_its_input(plan, out) => {
                    input_is_gone(e, out)
                }
                _ => e,
            })?);
        }
    }
    let keep = context.quarantine.clone();
    let PackContext { registry, transforms, store, cancel, .. } = context;
    let manifest = Sealing { registry, transforms, store, out, cancel }.plans(&plans, keep)?;
    match before.filter(|before| before.root != manifest.root) {
        None => Ok(DatasetRepair { damages, report, manifest, quarantined: quarantine.kept() }),
        Some(before) => Err(Error::bug(format!("the root digest was {} and is {}", before.root, manifest.root))),
    }
}

/// Whether the dataset was packed from one in the same folder.
fn replaced_its_input(plan: &PlanReader, out: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| Location::absolute(path));
    plan.header().roots.iter().any(|root| real(&root.to_path()) == real(out))
}

fn input_is_gone(error: Error, out: &Path) -> Error {
    let text =
        "was packed from the dataset that it replaced, so damaged shards can't be packed again: that one is gone";
    let hint = "pack the dataset again from what the first one was made of, or restore the shards from a copy";
    Error::new(Kind::Changed, text).caused_by(error).in_input(out.display()).hint(hint)
}

/// Verifies the plans and the files that their transforms need.
fn check_plan_files(context: &PackContext<'_>, out: &Path, manifest: Option<&Manifest>) -> Result<()> {
    let store = &*context.store;
    let check = |file: &FileRecord| {
        check_file(store, &out.join(&file.name), file, context.cancel).map_err(|e| match e.kind() {
            Kind::Incomplete => {
                let what = "is damaged, and repairing needs it; restore it from a copy";
                Error::new(Kind::Incomplete, what).in_input(out.join(&file.name).display())
            }
            _ => e,
        })
    };
    for number in 0..manifest.map_or(0, |manifest| manifest.plans().count()) {
        let name = plan_name(number);
        let record = manifest.and_then(|manifest| manifest.files.iter().find(|file| file.name == name));
        record.map_or(Ok(()), &check).map_err(|e| match e.kind() {
            Kind::Incomplete => lost_plan(out, number),
            _ => e,
        })?;
    }
    open_plans(store, out)?.iter().flat_map(|plan| &plan.header().files).try_for_each(check)
}

/// The most bytes of a receipt.
const LONGEST: u64 = 1 << 30;

struct DamageScan<'a> {
    context: &'a PackContext<'a>,
    out: &'a Path,
    plan: &'a PlanReader,
    /// Digests of the receipts, as the manifest has them.
    recorded: &'a BTreeMap<&'a str, Digest>,
}

impl DamageScan<'_> {
    /// The damaged shards and their first damages, in the order of the plan, found by `jobs` threads.
    fn run(&self, jobs: usize) -> Result<Vec<(&ShardFrame, Damage)>> {
        let shards = self.plan.shards();
        let damages = parallel_map(shards, jobs.max(1), &|shard| self.look(shard))?;
        Ok(shards.iter().zip(damages).filter_map(|(shard, damage)| Some((shard, damage?))).collect())
    }

    /// The first damage of a shard. A file whose bytes the disk does not give is damaged.
    fn look(&self, shard: &ShardFrame) -> Result<Option<Damage>> {
        match self.shard(shard) {
            Err(e) if e.is_unreadable() => {
                let file = e.input().and_then(|input| Path::new(input).file_name()?.to_str()).unwrap_or(&shard.name);
                Ok(Some(Damage { file: file.to_owned(), member: None, problem: unreadable(&e) }))
            }
            found => found,
        }
    }

    fn shard(&self, shard: &ShardFrame) -> Result<Option<Damage>> {
        let store = &*self.context.store;
        let name = format!("{}{RECEIPT_SUFFIX}", shard.name);
        let damage = |file: &str, problem: &str| {
            Some(Damage { file: file.to_owned(), member: None, problem: problem.to_owned() })
        };
        let Some(receipt) = valid_receipt(store, self.out, self.plan.digest(), shard)? else {
            let problem = match read_receipt(store, self.out, &shard.name) {
                Ok(_) => "names files that are missing or have other lengths",
                Err(e) if is_failure(&e) => return Err(e),
                Err(_) => "is missing or damaged",
            };
            return Ok(damage(&name, problem));
        };
        let right = self.recorded.get(shard.name.as_str());
        let bytes = store.open(&self.out.join(&name))?.read_all(LONGEST)?;
        let digest = Digest::of(&bytes);
        if right.is_some_and(|right| *right != digest) {
            return Ok(damage(&name, "is not the receipt that the manifest knows"));
        }
        for file in &receipt.files {
            if store.stat(&self.out.join(&file.name), false)?.kind == FileKind::Symlink {
                return Ok(damage(&file.name, IS_A_LINK));
            }
            match check_file(store, &self.out.join(&file.name), file, self.context.cancel) {
                Ok(()) => self.context.observer.event(&Event::Verified { bytes: file.bytes }),
                Err(e) if e.kind() == Kind::Incomplete => {
                    return Ok(damage(&file.name, "its bytes do not have the recorded digest"));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }
}
