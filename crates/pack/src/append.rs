//! append: adds samples to a sealed dataset, as new shards after the old ones.
//!
//! The new shards have a plan of their own (`plan-000001.jsonl.zst`), which is filled like the first one. Sealing makes
//! them part of the dataset; until then readers see the old one. Old shards and their receipts are never written.

use crate::Recipe;
use crate::keyed_source::inherit_sources;
use crate::new_keys::{NewKeys, keys_in, overlap};
use crate::other_inputs;
use crate::parallel_map::parallel_map;
use crate::plan::{Allowed, Plan, PlanOptions, PlannedKey};
use crate::plan_differences::{difference, same};
use crate::plans::{check_order, made_again, stored};
use crate::recorded_files::sealed_manifest;
use crate::refuse_view::refuse_view;
use crate::replace::{plan_folder, shard_names};
use crate::runs::row_key;
use crate::stored_plan::{Stored, publish_new, publish_over, receipts_beyond, threads};
use crate::without_inputs::has_adopted;
use packhorse_core::{Cancel, Code, Error, Kind, Limits, Registry, Result, Store};
use packhorse_dataset::{
    Digest, FieldRecord, Manifest, PlanHeader, PlanReader, RECEIPT_SUFFIX, Receipt, ShardFrame, not_sealed, plan_name,
};
use packhorse_storage::Staging;
use packhorse_transform::{Transform, without_text_field};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A sealed dataset that samples are added to.
pub(crate) struct Base {
    pub(crate) dir: PathBuf,
    pub(crate) manifest: Manifest,
    /// The plans of its shards.
    pub(crate) plans: Vec<PlanReader>,
    /// The plan of an append that is not sealed.
    pending: Option<PlanReader>,
    /// The first append whose plan is lost or damaged, which may be the one that is not sealed; `plans` are those before it. The same
    /// append stores it again.
    lost: Option<usize>,
}

/// The plans of the dataset in the folder `dir`, and of an append that is not sealed; the number of the first one that is not the plan
/// of the manifest, where they end.
fn plans_of(store: &dyn Store, dir: &Path, manifest: &Manifest) -> Result<(Vec<PlanReader>, Option<usize>)> {
    let (mut plans, known) = (Vec::new(), manifest.plans().map(Some).chain([None]));
    for (number, known) in known.enumerate() {
        match (stored(store, dir, number), known) {
            (Err(e), _) if e.kind() == Kind::Environment && !e.is_absent() => return Err(e),
            (Ok(plan), known) if known.is_none_or(|known| known == plan.digest()) => plans.push(plan),
            (Err(e), None) if e.is_absent() => {}
            (Err(e), None) if e.kind() != Kind::Content => return Err(e),
            _ => return Ok((plans, Some(number))),
        }
    }
    check_order(dir, &plans)?;
    Ok((plans, None))
}

/// The error of a sealed dataset whose plan `number` is lost or damaged.
pub(crate) fn lost_plan(dir: &Path, number: usize) -> Error {
    let error = Error::new(Kind::Incomplete, "is lost or damaged: it is not the plan that the manifest knows");
    error.with_code(Code::ShardDamaged).hint(made_again(number)).in_input(dir.join(plan_name(number)).display())
}

/// The field that texts are taken from where none is named and there are several.
const TEXT: &str = "text";

/// Settings of a plan's header that a later plan does not take over: they are about one set of inputs.
const OWN: [&str; 4] = ["limit", "shard-count", "memory", "input"];

impl Base {
    /// Opens the dataset in the folder `dir`.
    ///
    /// Errors: `Config` without a sealed dataset, for a part of one, and while it is being replaced; `Incomplete` for
    /// damage.
    pub(crate) fn open(store: &Arc<dyn Store>, dir: &Path) -> Result<Self> {
        if plan_folder(store, dir)? != dir {
            let message = "is being replaced; seal the new dataset first, then append to it";
            return Err(Error::config(message).in_input(dir.display()));
        }
        let Some(manifest) = sealed_manifest(&**store, dir)? else {
            refuse_view(&**store, dir)?;
            return Err(not_sealed(&**store, dir, "pack the first samples with `packhorse pack`"));
        };
        let (mut plans, lost) = plans_of(&**store, dir, &manifest)?;
        if has_adopted(&plans) {
            let error = Error::config("holds shards of others that were adopted, and samples are not added to those");
            let hint = "pack the new samples into another folder, or these shards and the samples into a new one";
            return Err(error.hint(hint).in_input(dir.display()));
        }
        if lost == Some(0) {
            return Err(lost_plan(dir, 0));
        }
        let pending = plans.drain(manifest.plans().count().min(plans.len())..).next();
        Ok(Self { dir: dir.to_owned(), manifest, plans, pending, lost })
    }

    /// Whether a plan of its shards is lost or damaged.
    pub(crate) fn lacks_plan(&self) -> bool {
        self.plans.len() < self.manifest.plans().count()
    }

    /// The header of the last plan.
    fn header(&self) -> Result<&PlanHeader> {
        self.plans.last().map(PlanReader::header).ok_or_else(|| Error::bug("a dataset without a plan"))
    }

    /// The recipe of the new shards: `asked`, and for what it leaves open the settings that the dataset was packed with.
    ///
    /// Errors: `Config` for another output, format or name.
    pub(crate) fn recipe(&self, asked: &Recipe, registry: &Registry) -> Result<Recipe> {
        // What an append was given is its own: the next one has the settings of the dataset again.
        let first = self.plans.first().ok_or_else(|| Error::bug("a dataset without a plan"))?;
        let header = first.header();
        let mut recipe = asked.clone();
        let changed = asked.given().into_iter().map(|(setting, _)| setting.name);
        let given: BTreeSet<&str> = changed.chain(asked.named.0.iter().copied()).collect();
        if asked.out.as_ref().is_some_and(|out| *out != self.dir) {
            return Err(Error::config("`out` is the dataset that samples are added to; leave it out"));
        }
        recipe.out = Some(self.dir.clone());
        recipe.to = Some(self.manifest.format.format.clone());
        if asked.to.is_some() && asked.format(registry)? != self.manifest.format.format {
            let message = format!("holds {}, and `to` names another format", self.manifest.format.format);
            return Err(Error::config(message).in_input(self.dir.display()));
        }
        if given.contains("name") && asked.name != header.name {
            return Err(
                Error::config(format!("has the name {}; leave `name` out", header.name)).in_input(self.dir.display())
            );
        }
        recipe.name.clone_from(&header.name);
        for (name, text) in &header.choices {
            if !OWN.contains(&name.as_str()) && !given.contains(name.as_str()) {
                // Recorded in bytes.
                let text = if name == "shard-size" { format!("{text}B") } else { text.clone() };
                recipe.take(name, text.as_ref())?;
            }
        }
        let has_list = asked.classes.is_some() || asked.classes_from.is_some() || self.manifest.classes.is_empty();
        if asked.labels.is_some() && !has_list {
            recipe.classes_from = Some(self.dir.clone());
        }
        Ok(recipe)
    }

    /// The transforms of the dataset, which are `recorded`; those `asked` for are the same or none, and so is the field of the texts.
    pub(crate) fn transforms(
        &self,
        asked: Vec<Box<dyn Transform>>,
        recipe: &Recipe,
        recorded: impl FnOnce(&PlanReader) -> Result<Vec<Box<dyn Transform>>>,
    ) -> Result<Vec<Box<dyn Transform>>> {
        let plan = self.plans.last().ok_or_else(|| Error::bug("a dataset without a plan"))?;
        if asked.is_empty() {
            let of_texts = plan.header().transforms.iter().find(|text| text.starts_with("tokenize/"));
            if let (Some(asked), Some((_, there))) = (&recipe.text_field, of_texts.map(|text| without_text_field(text)))
                && there.as_deref().unwrap_or(TEXT) != asked
            {
                let message = match there {
                    Some(there) => format!("was tokenized from the field {there}, and `text-field` names {asked}"),
                    None => format!("was tokenized without `text-field`, which names {asked} here"),
                };
                let hint = "leave `text-field` out if that is the only text of the dataset's inputs too; or rename the field in the new inputs, \
                    or pack them into a dataset of their own and make one of both with `packhorse merge`";
                return Err(Error::config(message).hint(hint).in_input(self.dir.display()));
            }
            return recorded(plan);
        }
        let (ours, theirs) = (&plan.header().transforms, asked.iter().map(|t| t.describe()).collect::<Vec<_>>());
        match *ours == theirs {
            true => Ok(asked),
            false => {
                let list = |list: &[String]| if list.is_empty() { "none".to_owned() } else { list.join("; ") };
                let message = format!(
                    "was packed with the transforms [{}], and these would be [{}]; leave them out to use those of the dataset",
                    list(ours),
                    list(&theirs)
                );
                Err(Error::config(message).in_input(self.dir.display()))
            }
        }
    }

    /// Takes over how the dataset stores samples, and how it read inputs.
    ///
    /// Errors: `Config` for other settings of the format.
    pub(crate) fn inherit(&self, options: &mut PlanOptions<'_>) -> Result<()> {
        let header = self.header()?;
        for (name, value) in options.sink.iter() {
            let there = header.sink.options.get(name);
            if there.is_none_or(|there| there != value) {
                let there = there.map_or("not given", String::as_str);
                let message = format!("was packed with `{name}` {there}, not {value}; leave it out");
                return Err(Error::config(message).in_input(self.dir.display()));
            }
        }
        options.sink = header.sink.options.iter().collect();
        let first = self.plans.first().ok_or_else(|| Error::bug("a dataset without a plan"))?;
        inherit_sources(&mut options.sources, &first.header().sources);
        options.joining.ragged = crate::merged_columns::ragged(&FieldRecord::schema(&header.schema)?);
        Ok(())
    }

    /// Makes `plan` the next plan of the dataset. If it is the plan of shards that it has, they are there already.
    ///
    /// Errors: `Config` for samples that the dataset can't take, such as those whose keys it has.
    pub(crate) fn place(
        &self,
        store: &dyn Store,
        plan: &mut Plan,
        allowed: &Allowed<'_>,
        cancel: &Cancel,
    ) -> Result<Place> {
        plan.follow(self.header()?, allowed).map_err(|e| e.in_input(self.dir.display()))?;
        if let Some((number, added)) =
            self.lost.and_then(|at| Some((at, self.manifest.appended.get(at.checked_sub(1)?)?)))
        {
            plan.renumber(self.names(added.first as usize));
            if plan.digest()? != added.plan {
                // Later appends may have added classes and splits.
                let header = self.header()?;
                plan.take_lists(header.classes.clone(), header.splits.clone());
            }
            return match plan.digest()? == added.plan {
                true => Ok(Place::Sealed(number, added.plan)),
                false => Err(lost_plan(&self.dir, number)),
            };
        }
        let appended = if self.pending.is_none() { &self.manifest.appended[..] } else { &[] };
        for (at, added) in appended.iter().enumerate().rev() {
            let next = appended.get(at + 1).map_or(self.manifest.shards.len() as u64, |next| next.first);
            if plan.shard_count() as u64 == next - added.first {
                plan.renumber(self.names(added.first as usize));
                // Later appends may have added classes and splits.
                let Some(stored) = self.plans.get(at + 1) else { continue };
                let grown = plan.take_lists(stored.header().classes.clone(), stored.header().splits.clone());
                let (digest, times) = plan.write(std::io::sink())?;
                if digest == added.plan {
                    if times != stored.mtime_digest() {
                        return Err(self.touched());
                    }
                    return other_inputs::refuse(store, stored, plan.header()).map(|()| Place::Sealed(at + 1, digest));
                }
                plan.take_lists(grown.0, grown.1);
            }
        }
        plan.renumber(self.names(self.manifest.shards.len()));
        if self.pending.as_ref().is_some_and(|pending| plan.digest().is_ok_and(|digest| digest == pending.digest())) {
            return Ok(Place::Next);
        }
        self.check_keys(store, plan, allowed.members, cancel)?;
        Ok(Place::Next)
    }

    /// The error of inputs that an earlier append packed, and that have other times now.
    fn touched(&self) -> Error {
        let message = "these inputs were added before, and some were modified since, though none changed its size";
        let error = Error::new(Kind::Changed, message).in_input(self.dir.display());
        error.hint("if they hold new samples, give the files other names; if nothing in them changed, give them back the times they had")
    }

    /// The names of the first shards.
    fn names(&self, shards: usize) -> impl Iterator<Item = &str> {
        self.manifest.shards.iter().take(shards).map(|shard| shard.name.as_str())
    }

    /// Refuses samples whose keys the dataset has; rows only where shards hold `members`, and those with keys of their own
    /// when it is sealed.
    fn check_keys(&self, store: &dyn Store, plan: &Plan, members: bool, cancel: &Cancel) -> Result<()> {
        let new = NewKeys::of(plan.keys().filter(|planned| members || planned.rows.is_none()));
        let mut suspects: Vec<PlannedKey> = Vec::new();
        for old in &self.plans {
            let shards: Vec<&[ShardFrame]> = old.shards().chunks(SHARDS).collect();
            let found = parallel_map(&shards, threads(old.shards().len()), &|shards| {
                cancel.check()?;
                self.known_keys(store, old, shards, &new)
            })?;
            suspects.extend(found.into_iter().flatten());
        }
        // A row stands for a whole run.
        let stands_for_more = suspects.len() > SUSPECTS || suspects.iter().any(|old| old.rows.is_some());
        let more = if stands_for_more { "at least " } else { "" };
        suspects.truncate(SUSPECTS);
        let same = |planned: PlannedKey| {
            suspects.iter().find(|old| old.key == planned.key && overlap(&old.rows, &planned.rows))
        };
        let Some(twice) = plan.keys().find_map(same) else { return Ok(()) };
        let key = twice.rows.as_ref().map_or_else(|| twice.key.clone(), |rows| row_key(&twice.key, rows.start));
        let others = match suspects.len() {
            1 => String::new(),
            n => format!(", and {more}{} other keys of the new ones", n - 1),
        };
        let message = format!(
            "the dataset has a sample with this key{others}; give the new samples other keys, such as by a folder of their own \
             below the input"
        );
        Err(Error::config(message).with_code(Code::KeyTwice).in_sample(&key).in_input(self.dir.display()))
    }

    /// The first samples of `shards` whose keys are new ones.
    fn known_keys(
        &self,
        store: &dyn Store,
        plan: &PlanReader,
        shards: &[ShardFrame],
        new: &NewKeys,
    ) -> Result<Vec<PlannedKey>> {
        let mut found = Vec::new();
        for shard in shards {
            let (mut left_out, mut there) = (None, None);
            for entry in plan.entries(shard)? {
                let entry = entry?;
                // Numbers of documents are positions.
                if entry.run().is_some_and(|(piece, _)| piece.by_position) {
                    continue;
                }
                let rows = entry.run().map(|(_, rows)| rows);
                if found.len() >= SUSPECTS || new.lack(&entry.key, rows.as_ref()) {
                    continue;
                }
                let left_out = left_out.get_or_insert_with(|| self.left_out(store, &shard.name));
                if let Some(rows) = rows {
                    // They may have keys of their own.
                    let there = there.get_or_insert_with(|| keys_in(store, &self.dir, &shard.name));
                    let row = new.row_there(&entry.key, &rows, there);
                    found.extend(row.map(|row| PlannedKey { key: entry.key, rows: Some(row..row + 1) }));
                } else if !left_out.contains(&entry.key) {
                    found.push(PlannedKey { key: entry.key, rows });
                }
            }
        }
        Ok(found)
    }

    /// The keys of planned samples that a shard lacks, which were left out and may have been mended since; none if its receipt can't be
    /// read.
    fn left_out(&self, store: &dyn Store, shard: &str) -> BTreeSet<String> {
        if self.manifest.skipped == 0 {
            return BTreeSet::new();
        }
        let file = store.open(&self.dir.join(format!("{shard}{RECEIPT_SUFFIX}")));
        let receipt = file.and_then(|file| Receipt::decode(&file.read_all(Limits::default().blob)?));
        receipt.map_or_else(|_| BTreeSet::new(), |one| one.skipped.into_iter().filter_map(|one| one.sample).collect())
    }

    /// Refuses files that have the names of the new shards, and which nothing of the dataset is.
    fn refuse_others(&self, store: &dyn Store, plan: &Plan) -> Result<()> {
        let there = match store.list(&self.dir) {
            Ok(names) => names,
            // An object store may list late.
            Err(e) if e.is_absent() => return Ok(()),
            Err(e) => return Err(e),
        };
        let there: BTreeSet<String> =
            there.into_iter().filter_map(|name| name.into_os_string().into_string().ok()).collect();
        // Those of another append that began meanwhile, which is told below.
        if there.contains(&plan_name(self.plans.len())) {
            return Ok(());
        }
        for shard in plan.shard_names() {
            let start = format!("{shard}.");
            if let Some(other) = there.range(start.clone()..).next().filter(|name| name.starts_with(&start)) {
                let message = "has the name of a new shard and does not belong to the dataset; move it elsewhere and run the command again";
                return Err(Error::config(message).in_input(self.dir.join(other).display()));
            }
        }
        Ok(())
    }

    /// Drops the append that is not sealed; returns how many shards it would have added, or has if its plan can't be read, and `None`
    /// without one.
    pub(crate) fn drop_pending(&self, store: &Arc<dyn Store>) -> Result<Option<u64>> {
        if let Some(pending) = &self.pending {
            drop_shards(store, &self.dir, &self.manifest, names_of(pending))?;
            return Ok(Some(pending.shards().len() as u64));
        }
        match self.lost {
            Some(number) if number >= self.manifest.plans().count() => {
                let added: BTreeSet<String> = self.added(&**store)?.into_iter().map(|receipt| receipt.shard).collect();
                let count = added.len() as u64;
                drop_shards(store, &self.dir, &self.manifest, added)?;
                Ok(Some(count))
            }
            _ => Ok(None),
        }
    }

    /// The receipts of shards that are not part of the dataset.
    fn added(&self, store: &dyn Store) -> Result<Vec<Receipt>> {
        let known: BTreeSet<&str> = self.manifest.shards.iter().map(|shard| shard.name.as_str()).collect();
        Ok(receipts_beyond(store, &self.dir, &|shard| known.contains(shard))?.collect())
    }

    /// Stores the plan of an append in the place of one that is not sealed and can't be read, if its shards are of this one.
    fn store_over(
        &self,
        store: &Arc<dyn Store>,
        plan: &Plan,
        number: usize,
        restart: bool,
    ) -> Result<(Stored, Digest)> {
        let (digest, added) = (plan.digest()?, self.added(&**store)?);
        let is_other = added.iter().any(|receipt| receipt.plan != digest);
        match (is_other, restart) {
            (false, _) => {}
            (true, true) => drop(self.drop_pending(store)?),
            (true, false) => {
                let error = lost_plan(&self.dir, number);
                return Err(error.hint("`replace` or `packhorse clean append` drop what that append has packed"));
            }
        }
        let stored = if is_other || added.is_empty() { Stored::New } else { Stored::Resumed };
        Ok((stored, publish_over(store, &self.dir, number, plan)?))
    }

    /// Stores the plan of the new shards, and returns its digest. `restart`: shards of another append that is not sealed
    /// are dropped.
    ///
    /// Errors: `Config` while another append is not sealed, or if one began meanwhile.
    pub(crate) fn store(&self, store: &Arc<dyn Store>, plan: &Plan, restart: bool) -> Result<(Stored, Digest)> {
        if let Some(number) = self.lost {
            return self.store_over(store, plan, number, restart);
        }
        if let Some(pending) = &self.pending {
            let (digest, times) = plan.write(std::io::sink())?;
            let same = same(pending, plan, digest, times);
            match same.and_then(|()| other_inputs::refuse(&**store, pending, plan.header())) {
                Ok(()) => return Ok((Stored::Resumed, digest)),
                Err(e) if !restart && e.kind() == Kind::Changed => return Err(e.in_input(self.dir.display())),
                Err(_) if restart => drop_shards(store, &self.dir, &self.manifest, names_of(pending))?,
                Err(_) => {
                    let what = difference(pending, plan);
                    let hint = "end that one with `packhorse pack plan` and `packhorse seal`, or drop it with `replace` or `packhorse clean append`";
                    let error = Error::config(format!("holds another append, which is not sealed ({what})"));
                    return Err(error.with_code(Code::PlanDiffers).hint(hint).in_input(self.dir.display()));
                }
            }
        }
        self.refuse_others(&**store, plan)?;
        match publish_new(store, &self.dir, self.plans.len(), plan) {
            Ok(digest) => Ok((Stored::New, digest)),
            Err(e) if e.is_taken() => {
                Err(overtaken(&self.dir, "another append of this dataset began at the same time"))
            }
            Err(e) => Err(e),
        }
    }
}

/// Checks that the shards of `plan` are part of the dataset that was sealed after they were filled. On another machine a
/// process may have dropped the plan and put its own in that place.
///
/// Errors: `Config` if they are not.
pub(crate) fn check_sealed(dir: &Path, manifest: &Manifest, plan: Digest) -> Result<()> {
    match manifest.appended.iter().any(|appended| appended.plan == plan) {
        true => Ok(()),
        false => Err(overtaken(dir, "another append took the place of this one, whose samples are not in the dataset")),
    }
}

fn overtaken(dir: &Path, message: &str) -> Error {
    let hint = "run the command again when the other append is sealed";
    Error::config(message).with_code(Code::OutputBusy).hint(hint).in_input(dir.display())
}

/// Where new shards go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// After the last shards.
    Next,
    /// Nowhere: the dataset has the shards of this plan, which is its plan of this number.
    Sealed(usize, Digest),
}

/// The most keys that are looked at twice.
const SUSPECTS: usize = 1000;

/// Shards whose keys are looked at in one go.
const SHARDS: usize = 64;

fn names_of(plan: &PlanReader) -> BTreeSet<String> {
    plan.shards().iter().map(|shard| shard.name.clone()).collect()
}

/// Removes the shards of an append that is not sealed, which are called `mine`, then its plan.
fn drop_shards(store: &Arc<dyn Store>, dir: &Path, manifest: &Manifest, mine: BTreeSet<String>) -> Result<()> {
    let below = store.beneath(dir)?.unwrap_or_else(|| Arc::clone(store));
    let known = manifest.shards.iter().take(1).map(|shard| shard.name.clone()).collect();
    let names = shard_names(&**store, dir, &mine, &known);
    // Receipts first: a shard without one does not count.
    let (receipts, files): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.ends_with(RECEIPT_SUFFIX));
    let remove_all = || receipts.iter().chain(&files).try_for_each(|name| below.remove(&dir.join(name)));
    remove_all()?;
    below.remove(&dir.join(plan_name(manifest.plans().count())))?;
    // Without the plan no process publishes shards of it, but for one that waits in that very call.
    Staging::cut_off(&**store, dir);
    remove_all()
}
