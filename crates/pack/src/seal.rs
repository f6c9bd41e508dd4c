//! seal: checks that every planned shard is complete, and writes the manifest.

use crate::complete_shards::{CompleteShards, Remarks};
use crate::digest_file::digest_file;
use crate::duplicate_keys::{self, doubles};
use crate::part_errors;
use crate::plans::{made_again, open_plans, read_plans};
use crate::recorded_files::sealed_manifest;
use crate::replace::{exchange, plan_folder};
use crate::scan::forget;
use crate::shard_packer::record;
use crate::spans::TARGET;
use crate::steps::transformed_schema;
use crate::stored_plan::{receipts_beyond, unless_late, valid_receipts};
use crate::without_inputs::has_adopted;
use packhorse_core::{
    Cancel, Code, Error, Kind, Limits, Members, Outlet, Registry, Result, Sealed, ShardSummary, Store, counted,
};
use packhorse_dataset::{
    AppendRecord, Digest, FieldRecord, FileRecord, INDEX_SUFFIX, MANIFEST, Manifest, OmissionRecord, PlanHeader,
    PlanReader, RECEIPT_SUFFIX, Receipt, SKIPPED, ShardFrame, ShardRecord, SplitRecord, decode_index, plan_name,
};
use packhorse_storage::{Location, Quarantine, ReadyStage, Staging};
use packhorse_transform::Transform;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A dataset to seal, and what that needs.
#[derive(Clone, Copy)]
pub(crate) struct Sealing<'a> {
    pub(crate) registry: &'a Registry,
    /// The transforms of its plans, in order.
    pub(crate) transforms: &'a [Box<dyn Transform>],
    pub(crate) store: &'a Arc<dyn Store>,
    /// Its folder.
    pub(crate) out: &'a Path,
    pub(crate) cancel: &'a Cancel,
}

impl Sealing<'_> {
    /// Seals the dataset: writes companions, the list of skipped samples and the manifest. If a replacement is under way, seals that and
    /// puts it in the place of the old dataset. Shards that were added to a sealed dataset become part of it.
    ///
    /// Sealing again writes the same bytes, and so do processes that seal at once. Staged files of all hosts are removed at the end.
    ///
    /// Errors: `Incomplete` with a list of shards that are missing or have files of other lengths than recorded.
    pub(crate) fn seal(&self) -> Result<Manifest> {
        let place = plan_folder(self.store, self.out)?;
        let manifest = Sealing { out: &place, ..*self }.in_place()?;
        if place != self.out {
            if manifest.samples == 0 && manifest.skipped > 0 {
                let message = "every sample was left out (its skipped.jsonl says why), so the old dataset stays";
                return Err(Error::content(message).in_input(place.display()));
            }
            exchange(self.store, self.out, &manifest)?;
            forget(self.store, self.out);
        }
        Ok(manifest)
    }

    /// The same where no replacement is under way.
    pub(crate) fn in_place(&self) -> Result<Manifest> {
        self.plans(&open_plans(&**self.store, self.out)?, None)
    }

    /// Seals the shards of these plans, the first ones of the dataset. Files that are replaced by other bytes go into `quarantine`.
    pub(crate) fn plans(&self, plans: &[PlanReader], quarantine: Option<Arc<Quarantine>>) -> Result<Manifest> {
        let _span = tracing::debug_span!(target: TARGET, "seal").entered();
        let old = SealedBefore::read(&**self.store, self.out)?;
        self.shards(plans, &old, self.complete_shards(plans)?, quarantine)
    }

    /// Seals the dataset if all its shards are complete; returns `None` if not.
    ///
    /// Any number of processes may do this at once: all write the same bytes.
    ///
    /// Errors: `Config` if a replacement is under way, since only one process may exchange the datasets.
    pub(crate) fn if_complete(&self) -> Result<Option<Manifest>> {
        let (store, out) = (&**self.store, self.out);
        if plan_folder(self.store, out)? != out {
            let message =
                "is being replaced, which one process alone must end: run `packhorse seal` when all parts are done";
            return Err(Error::config(message).in_input(out.display()));
        }
        let plans = open_plans(store, out)?;
        if let Some(last) = plans.last()
            && lacks_receipts(store, out, last)?
        {
            return Ok(None);
        }
        let old = SealedBefore::read(store, out)?;
        let shards = match self.complete_shards(&plans) {
            // The shards of earlier plans are those of the dataset, which no task fills.
            Err(e) if e.kind() == Kind::Incomplete && plans.len() > 1 => {
                let new = plans.last().map(std::slice::from_ref).unwrap_or_default();
                return if self.complete_shards(new).is_ok() { Err(e) } else { Ok(None) };
            }
            Err(e) if e.kind() == Kind::Incomplete => return Ok(None),
            shards => shards?,
        };
        if let Some(manifest) = sealed_with(store, out, &shards.records) {
            return Ok(Some(manifest));
        }
        self.shards(&plans, &old, shards, None).map(Some)
    }

    /// Seals the complete shards of these plans.
    fn shards(
        &self,
        plans: &[PlanReader],
        old: &SealedBefore,
        shards: CompleteShards,
        quarantine: Option<Arc<Quarantine>>,
    ) -> Result<Manifest> {
        let (store, out) = (&**self.store, self.out);
        self.cancel.check()?;
        old.check(store, out, plans, &shards.records)?;
        self.check_keys(plans, &shards)?;
        let (mut manifest, remarks) = manifest(plans, self.transforms, shards)?;
        let published = Staging::open(self.store.clone(), out)
            .and_then(|staging| self.publish(&staging.keeping(quarantine), plans, &mut manifest, &remarks));
        match published {
            // The first process that has sealed removes all staging folders of other hosts, also of processes that are still sealing
            // there; these find the dataset sealed with the same shards.
            Ok(()) => {
                Staging::sweep(store, out, true);
                Ok(manifest)
            }
            Err(e) if Staging::is_lost(&e, out) => sealed_with(store, out, &manifest.shards).ok_or(e),
            // Such as a failed sync of its own files: that another process published the same does not answer it.
            Err(e) => Err(e),
        }
    }

    /// Writes companions, the list of skipped samples, and the manifest, which gets their records.
    fn publish(
        &self,
        staging: &Staging,
        plans: &[PlanReader],
        manifest: &mut Manifest,
        remarks: &[Remarks],
    ) -> Result<()> {
        let header = newest(plans)?;
        for number in 0..plans.len() {
            manifest.files.push(plan_record(&**self.store, self.out, number)?);
        }
        manifest.files.extend(header.files.iter().cloned());
        let mut ready = Vec::new();
        if !has_adopted(plans) {
            ready.push(self.companions(staging, header, manifest, remarks)?);
        }
        ready.push(skipped(staging, plans, remarks)?);
        manifest.files.extend(ready.iter().flat_map(ReadyStage::files).cloned().map(record));
        let mut stage = staging.stage(MANIFEST)?;
        // Of a million shards it would be 300 MB as text in memory.
        manifest.write(&mut *stage.stream("")?)?;
        ready.push(stage.ready()?);
        // Files of an old dataset are replaced one right after the other, the manifest last.
        ready.into_iter().try_for_each(|stage| stage.publish().map(drop))?;
        part_errors::forget_all(self.store, self.out);
        forget(self.store, self.out);
        Ok(())
    }

    /// Errors: `Incomplete` if shards are missing.
    fn complete_shards(&self, plans: &[PlanReader]) -> Result<CompleteShards> {
        let (mut missing, mut of_last) = (Vec::new(), 0);
        let shards: usize = plans.iter().map(|plan| plan.shards().len()).sum();
        let mut complete = CompleteShards::with_capacity(shards);
        for plan in plans {
            let before = missing.len();
            valid_receipts(
                &**self.store,
                self.out,
                plan,
                &CompleteShards::divide,
                &mut |shard, receipt| match receipt {
                    Some(receipt) => complete.push(receipt),
                    None => missing.push(shard.name.as_str()),
                },
            )?;
            of_last = missing.len() - before;
        }
        if missing.is_empty() {
            return Ok(complete);
        }
        let named = missing.iter().take(10).copied().collect::<Vec<_>>().join(", ");
        let more = missing.len().saturating_sub(10);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (lost, all) = (missing.len(), counted(shards as u64, "shard"));
        let are = if lost == 1 { "is" } else { "are" };
        let message = format!("{lost} of {all} {are} missing or damaged: {named}{more}");
        let hint = match (plans.len(), missing.len() - of_last) {
            (1, _) => {
                "fill them with `packhorse pack plan` and seal again, or run `packhorse repair`, which does both and also reads all other shards"
            }
            (_, 0) => "fill them with `packhorse pack plan` and seal again",
            (_, old) if old == missing.len() => "`packhorse repair` packs them again",
            _ => {
                "`packhorse repair` packs those of the dataset again, `packhorse pack plan` those of the append; then seal again"
            }
        };
        let error = Error::new(Kind::Incomplete, message).with_code(Code::ShardMissing).hint(hint);
        Err(error.in_input(self.out.display()))
    }

    /// Refuses duplicate keys of table rows, which are known only now; scan compared those of files. If shards are added,
    /// compares all keys.
    fn check_keys(&self, plans: &[PlanReader], shards: &CompleteShards) -> Result<()> {
        if plans.len() < 2 && !has_adopted(plans) && !shards.has_keys_of_rows() {
            return Ok(());
        }
        let records = &shards.records;
        let members = |i: usize| match shards.remarks.get(i).is_some_and(|shard| shard.is_indexed) {
            true => members_of(&**self.store, self.out, records, i).map(Some),
            false => Ok(None),
        };
        let samples = records.iter().map(|shard| shard.samples).sum();
        let found = doubles(records.len(), samples, self.cancel, &members)?;
        let Some(double) = found.first() else { return Ok(()) };
        let name = |i: usize| records.get(i).map_or("", |shard| shard.name.as_str());
        let keys = match found.len() {
            1 => "this key".to_owned(),
            n if n < duplicate_keys::NAMED => format!("{n} keys, this is the first,"),
            n => format!("{n} keys or more, such as this one,"),
        };
        let (one, two) = (name(double.shards.0), name(double.shards.1));
        let message =
            format!("{keys} came twice (in {one} and {two}), and readers take samples of one key for one sample");
        let last: usize = plans.iter().rev().skip(1).map(|plan| plan.shards().len()).sum();
        let advice = match plans.len() > 1 && double.shards.1 >= last {
            true => {
                "drop these samples with `packhorse clean append`, or append others with `replace`, which drops them too"
            }
            false if has_adopted(plans) => {
                "leave a shard out, or pack the samples of one key into one sample with `packhorse pack`"
            }
            false => {
                "give the rows different keys (white space and dots are written as %20 and %2E), and pack into a new folder"
            }
        };
        let message = format!("{message}; {advice}");
        Err(Error::content(message).with_code(Code::KeyTwice).in_sample(&double.key).in_input(self.out.display()))
    }

    fn companions(
        &self,
        staging: &Staging,
        header: &PlanHeader,
        manifest: &Manifest,
        remarks: &[Remarks],
    ) -> Result<ReadyStage> {
        let sink = self.registry.get(&header.sink.format)?.sink(&header.sink.options.iter().collect())?;
        let summaries: Vec<ShardSummary> = manifest.shards.iter().zip(remarks).map(summary).collect();
        let members = |i: usize| members_of(&**self.store, self.out, &manifest.shards, i);
        let root = manifest.root.to_string();
        let sealed = Sealed { name: &manifest.name, root_digest: &root, shards: &summaries, members: &members };
        let mut stage = staging.stage("")?;
        sink.seal(&sealed, &mut stage)?;
        stage.ready()
    }
}

/// Whether a receipt is missing; a look that costs little, before all of them are read.
fn lacks_receipts(store: &dyn Store, out: &Path, plan: &PlanReader) -> Result<bool> {
    let name = |shard: &ShardFrame| PathBuf::from(format!("{}{RECEIPT_SUFFIX}", shard.name));
    let is_missing = |shard: &ShardFrame| store.stat(&out.join(name(shard)), true).is_err_and(|e| e.is_not_found());
    if Location::url(out).is_some() {
        let names: BTreeSet<PathBuf> = unless_late(out, store.list(out))?.into_iter().collect();
        // Some stores list late.
        return Ok(plan.shards().iter().rev().filter(|shard| !names.contains(&name(shard))).any(is_missing));
    }
    // Parts are filled in plan order, so the last shards are the first ones to be missing.
    Ok(plan.shards().iter().rev().any(is_missing))
}

/// The manifest of the dataset in `out`, if it is sealed with these shards.
fn sealed_with(store: &dyn Store, out: &Path, shards: &[ShardRecord]) -> Option<Manifest> {
    sealed_manifest(store, out).ok().flatten().filter(|manifest| manifest.shards == shards)
}

/// The header of the last plan, which has all classes and splits; the others have the same format, and the same is packed of their columns.
fn newest(plans: &[PlanReader]) -> Result<&PlanHeader> {
    plans.last().map(PlanReader::header).ok_or_else(|| Error::bug("a dataset without a plan"))
}

/// Digests from the manifest of a dataset that is sealed again, such as after others were added: the manifest itself and
/// the new one may be too much for memory.
#[derive(Default)]
struct SealedBefore {
    /// The plans.
    plans: Vec<Digest>,
    /// The records of the shards.
    shards: Vec<Digest>,
}

impl SealedBefore {
    /// Of the dataset in the folder `out`, without digests if it is not sealed. A damaged manifest is written again.
    fn read(store: &dyn Store, out: &Path) -> Result<Self> {
        let old = match sealed_manifest(store, out) {
            Err(e) if e.kind() == Kind::Incomplete => None,
            old => old?,
        };
        let Some(old) = old else { return Ok(Self::default()) };
        let shards = old.shards.iter().map(digest_of).collect::<Result<_>>()?;
        Ok(Self { plans: old.plans().collect(), shards })
    }

    /// Compares them with the plans and the complete shards of now.
    ///
    /// Errors: `Incomplete` for a plan or a receipt other than the one recorded, and for shards whose plan is lost.
    fn check(&self, store: &dyn Store, out: &Path, plans: &[PlanReader], shards: &[ShardRecord]) -> Result<()> {
        // A first seal finds no list of skipped samples, and need not list the folder.
        if self.plans.is_empty() && store.stat(&out.join(SKIPPED), true).is_ok() {
            refuse_lost_plan(store, out)?;
        }
        let damaged = |name: String, what: &str, hint: &str| {
            let error = Error::new(Kind::Incomplete, what).with_code(Code::ShardDamaged);
            Err(error.hint(hint).in_input(out.join(name).display()))
        };
        let is_other = |(i, digest): &(usize, &Digest)| plans.get(*i).is_none_or(|plan| plan.digest() != **digest);
        if let Some((number, _)) = self.plans.iter().enumerate().find(is_other) {
            return damaged(plan_name(number), "is not the plan that the manifest knows", made_again(number));
        }
        for (known, shard) in self.shards.iter().zip(shards) {
            if *known != digest_of(shard)? {
                let name = format!("{}{RECEIPT_SUFFIX}", shard.name);
                let hint = "the dataset is damaged; `packhorse verify full` shows where, `packhorse repair` mends it";
                return damaged(name, "is not the receipt that the manifest knows", hint);
            }
        }
        Ok(())
    }
}

/// Refuses shards that an append made whose plan is lost, as the manifest is that knew it: the dataset would lose them.
fn refuse_lost_plan(store: &dyn Store, out: &Path) -> Result<()> {
    let plans = read_plans(store, out)?;
    let names: HashSet<&str> = plans.iter().flat_map(PlanReader::shards).map(|shard| &*shard.name).collect();
    let is_known = |name: &str| names.contains(name);
    let is_lost = |receipt: &Receipt| plans.iter().all(|plan| plan.digest() != receipt.plan);
    let Some(receipt) = receipts_beyond(store, out, &is_known)?.find(is_lost) else { return Ok(()) };
    let name = receipt.shard;
    let message = "is of a plan that is lost, so its samples would be lost with it";
    let hint = format!(
        "to add them again, move the files of {name} and of other shards of that append elsewhere, seal, and run the append again; \
         to seal without them, remove these files"
    );
    let error = Error::new(Kind::Incomplete, message).with_code(Code::NoPlan).hint(hint);
    Err(error.in_input(out.join(format!("{name}{RECEIPT_SUFFIX}")).display()))
}

fn digest_of(shard: &ShardRecord) -> Result<Digest> {
    let bytes = serde_json::to_vec(shard).map_err(|e| Error::bug(format!("can't encode a shard's record: {e}")))?;
    Ok(Digest::of(&bytes))
}

/// The manifest, without its files, and the remarks on the shards.
fn manifest(
    plans: &[PlanReader],
    transforms: &[Box<dyn Transform>],
    complete: CompleteShards,
) -> Result<(Manifest, Vec<Remarks>)> {
    let header = newest(plans)?;
    let schema = transformed_schema(FieldRecord::schema(&header.schema)?, transforms)?;
    let skipped = plans.iter().map(PlanReader::skips).sum::<u64>() + complete.lost();
    let CompleteShards { records: shards, remarks } = complete;
    let split = |name: &String| {
        let of_split = || shards.iter().filter(|shard| shard.split.as_ref() == Some(name));
        SplitRecord {
            name: name.clone(),
            shards: of_split().count() as u64,
            samples: of_split().map(|shard| shard.samples).sum(),
        }
    };
    let mut manifest = Manifest {
        packhorse_dataset: Manifest::VERSION,
        name: header.name.clone(),
        format: header.sink.clone(),
        transforms: header.transforms.clone(),
        root: Digest::of(b""),
        samples: shards.iter().map(|s| s.samples).sum(),
        counts: counts(&shards),
        bytes: shards.iter().map(|s| s.bytes).sum(),
        skipped,
        schema: FieldRecord::of(&schema),
        omitted: omitted(plans),
        classes: header.classes.clone(),
        splits: header.splits.iter().map(split).collect(),
        plan: plans.first().map_or_else(|| Digest::of(b""), PlanReader::digest),
        appended: Vec::new(),
        files: Vec::new(),
        part_of: None,
        shards,
    };
    manifest.root = manifest.root_of_shards();
    manifest.appended = appended(plans, &manifest);
    Ok((manifest, remarks))
}

fn appended(plans: &[PlanReader], manifest: &Manifest) -> Vec<AppendRecord> {
    let mut first = 0;
    let record = |(before, plan): (&PlanReader, &PlanReader)| {
        first += before.shards().len();
        AppendRecord { after: manifest.root_of_first(first), first: first as u64, plan: plan.digest() }
    };
    plans.iter().zip(plans.iter().skip(1)).map(record).collect()
}

/// The omitted fields of all inputs.
fn omitted(plans: &[PlanReader]) -> Vec<OmissionRecord> {
    let mut all: Vec<OmissionRecord> = Vec::new();
    for record in plans.iter().flat_map(|plan| &plan.header().omitted) {
        match all.iter_mut().find(|known| (&known.field, &known.reason) == (&record.field, &record.reason)) {
            Some(known) => known.inputs += record.inputs,
            None => all.push(record.clone()),
        }
    }
    all
}

/// Sums the other counts over all shards.
fn counts(shards: &[ShardRecord]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (name, count) in shards.iter().flat_map(|shard| &shard.counts) {
        *all.entry(name.clone()).or_default() += count;
    }
    all
}

fn plan_record(store: &dyn Store, out: &Path, number: usize) -> Result<FileRecord> {
    let name = plan_name(number);
    let (blake3, bytes) = digest_file(store, &out.join(&name), &mut |_| Ok(()))?;
    Ok(FileRecord { name, bytes, blake3 })
}

fn summary((shard, remarks): (&ShardRecord, &Remarks)) -> ShardSummary {
    ShardSummary {
        name: shard.name.clone(),
        split: shard.split.clone(),
        samples: shard.samples,
        bytes: shard.bytes,
        notes: remarks.notes.clone(),
        counts: shard.counts.clone(),
        members: None,
    }
}

/// The member index of shard `i`.
fn members_of(store: &dyn Store, dir: &Path, shards: &[ShardRecord], i: usize) -> Result<Members> {
    let shard = shards.get(i).ok_or_else(|| Error::bug("a shard past the last one"))?;
    read_members(store, dir, &shard.name)
}

/// The member index of the shard `name`.
pub(crate) fn read_members(store: &dyn Store, dir: &Path, name: &str) -> Result<Members> {
    let path = dir.join(format!("{name}{INDEX_SUFFIX}"));
    let limits = Limits::default();
    let bytes = store.open(&path)?.read_all(limits.blob)?;
    decode_index(&bytes, &limits).map_err(|e| e.in_input(path.display()))
}

fn skipped(staging: &Staging, plans: &[PlanReader], remarks: &[Remarks]) -> Result<ReadyStage> {
    let mut lines = Vec::new();
    let scanned = plans.iter().map(PlanReader::skipped).collect::<Result<Vec<_>>>()?;
    for record in scanned.iter().flatten().chain(remarks.iter().flat_map(|shard| &shard.skipped)) {
        serde_json::to_writer(&mut lines, record).map_err(|e| Error::bug(e.to_string()))?;
        lines.push(b'\n');
    }
    let mut stage = staging.stage(SKIPPED)?;
    stage.write("", &lines)?;
    stage.ready()
}
