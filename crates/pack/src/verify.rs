//! verify: compares a sealed dataset with its recorded digests.

use crate::damage::Damage;
use crate::data_pass::DataPass;
use crate::digest_file::digest_file;
use crate::duplicate_keys::duplicate_key_damages;
use crate::input_format::{NameRules, container, main_file, open};
use crate::parallel_map::parallel_map;
use crate::plans::{count_plans, open_plans};
use crate::shard_stems::shard_stems;
use crate::stored_plan::{read_receipt, receipt_and_digest, threads};
use crate::verify_view::verify_view;
use crate::without_inputs::{has_adopted, lacks_inputs};
use packhorse_core::{
    Cancel, Error, Event, FileKind, Kind, Limits, Members, Observer, Options, Registry, Result, Store, counted,
    split_name,
};
use packhorse_dataset::{
    CACHE_MARK, Digest, ERRORS, FileRecord, INDEX_SUFFIX, LISTINGS, MANIFEST, Manifest, PART, PLAN, PartOf, PlanReader,
    RECEIPT_SUFFIX, Receipt, ShardRecord, decode_index, not_sealed, plan_name,
};
use packhorse_storage::{Quarantine, Quarantined, Staging};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How thoroughly to verify.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Manifest, receipts, names and lengths: reads no shard.
    #[default]
    Quick,
    /// Hashes every byte, parses every member and compares its checksum.
    Full,
}

/// The result of [`Session::verify`](crate::Session::verify).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Shards checked.
    pub shards: u64,
    /// Samples in them, as the manifest says.
    pub samples: u64,
    /// Bytes read.
    pub bytes: u64,
    /// All damage, sorted.
    pub damages: Vec<Damage>,
    /// Whether [`Session::repair`](crate::Session::repair) may mend some of the damage: the plan exists, and its samples did not come
    /// from a program, nor were its shards adopted.
    pub repairable: bool,
    /// For a staged part of a dataset: which dataset.
    pub part_of: Option<PartOf>,
    /// For a view: the folder of its dataset.
    pub base: Option<String>,
    /// Damaged files that repairs replaced and kept. They do not belong to the dataset.
    pub quarantined: Quarantined,
}

/// What all checks need.
pub(crate) struct VerifyContext<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) store: &'a dyn Store,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
}

/// Compares the dataset in the folder `out` with its manifest. Damage is a result, not an error.
///
/// Errors: `Incomplete` for a dataset that is not sealed; `Config` for a folder without a dataset; failed I/O.
pub(crate) fn verify(context: &VerifyContext<'_>, out: &Path, depth: Depth, jobs: usize) -> Result<Verification> {
    // What an append or a replacement changes meanwhile is not damage.
    let mut looked = look(context, out, depth, jobs)?;
    for _ in 1..LOOKS {
        let is_same = |seen: &Seen| seen.is_there(context.store, out);
        if looked.0.damages.is_empty() || looked.1.as_ref().is_none_or(is_same) {
            break;
        }
        // The bytes were told.
        looked = look(&VerifyContext { observer: &(), ..*context }, out, depth, jobs)?;
    }
    Ok(looked.0)
}

/// Damage of a dataset that another process changes is looked for again, so often in all.
const LOOKS: usize = 4;

/// What a folder was compared with.
struct Seen {
    name: &'static str,
    manifest: Digest,
    plans: usize,
}

impl Seen {
    fn is_there(&self, store: &dyn Store, out: &Path) -> bool {
        let bytes = store.open(&out.join(self.name)).and_then(|input| input.read_all(Limits::default().blob));
        bytes.is_ok_and(|bytes| Digest::of(&bytes) == self.manifest)
            && count_plans(store, out).is_ok_and(|plans| plans == self.plans)
    }
}

/// Compares the folder once. Without a manifest that can be read, only that is damage.
fn look(context: &VerifyContext<'_>, out: &Path, depth: Depth, jobs: usize) -> Result<(Verification, Option<Seen>)> {
    let VerifyContext { store, cancel, .. } = *context;
    let (name, opened) = match store.open(&out.join(MANIFEST)) {
        Err(e) if e.is_not_found() => (PART, store.open(&out.join(PART))),
        opened => (MANIFEST, opened),
    };
    let input = match opened {
        Err(e) if e.is_not_found() => {
            let view = verify_view(context, out, depth, jobs)?;
            return view.map(|found| (found, None)).ok_or_else(|| {
                not_sealed(store, out, "give the folder of one, or check third-party shards with `for`")
            });
        }
        opened => opened?,
    };
    let planned = match store.stat(&out.join(PLAN), true) {
        Err(e) if is_failure(&e) => return Err(e),
        found => found.is_ok(),
    };
    let bytes = input.read_all(Limits::default().blob)?;
    let manifest = match Manifest::decode(&bytes) {
        Ok(manifest) => manifest,
        // Of another version.
        Err(e) if e.kind() == Kind::Unsupported => return Err(e.in_input(out.join(name).display())),
        Err(e) => {
            let damages = vec![damage(name, None, e.text())];
            return Ok((Verification { damages, repairable: planned, ..Verification::default() }, None));
        }
    };
    let seen = Seen { name, manifest: Digest::of(&bytes), plans: count_plans(store, out)? };
    let check = Verifier { context, out, depth, found: Mutex::default() };
    // A damaged plan is reported as a file of the manifest.
    let plans = open_plans(store, out).or_else(|e| if is_failure(&e) { Err(e) } else { Ok(Vec::new()) })?;
    // Beside adopted shards their owners keep what they like.
    if !has_adopted(&plans) {
        check.strangers(&manifest, &plans)?;
    }
    let strangers = check.found.lock().unwrap_or_else(PoisonError::into_inner).damages.len();
    check.run(&manifest, jobs)?;
    let wrong = check.found.lock().unwrap_or_else(PoisonError::into_inner).damages.len();
    let gone = !plans.is_empty() && plans.iter().all(|plan| lacks_inputs(plan.header()));
    // Lost plans are made again by the command that made them.
    let whole_plans = planned && plans.len() >= manifest.plans().count();
    let repairable = whole_plans && wrong > strangers && !gone;
    if depth == Depth::Full {
        // A damaged index is already reported.
        let members = |shard: &ShardRecord| check.members(&format!("{}{INDEX_SUFFIX}", shard.name));
        duplicate_key_damages(&manifest, cancel, &members)?.into_iter().for_each(|damage| check.add(damage));
    }
    let Tally { mut damages, bytes } = check.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    explain_joining(&manifest, plans.len(), &mut damages);
    damages.sort();
    let (shards, samples) = (manifest.shards.len() as u64, manifest.samples);
    let part_of = manifest.part_of;
    let quarantined = Quarantine::look(store, out)?;
    let verification = Verification { shards, samples, bytes, damages, repairable, part_of, base: None, quarantined };
    Ok((verification, Some(seen)))
}

/// Says of files beside the shards why they may differ while shards are being added: sealing replaces them one after the
/// other, the manifest last.
fn explain_joining(manifest: &Manifest, plans: usize, damages: &mut [Damage]) {
    let is_beside = |damage: &&mut Damage| manifest.files.iter().any(|file| file.name == damage.file);
    if plans <= manifest.plans().count() {
        return;
    }
    for damage in damages.iter_mut().filter(is_beside) {
        damage
            .problem
            .push_str("; an append that was stopped while it was sealed leaves this, and `packhorse seal` ends it");
    }
}

/// Checks the files in `manifest`, which are in the folder `out`. Returns the damage, and the bytes read.
pub(crate) fn check_shards(
    context: &VerifyContext<'_>,
    out: &Path,
    manifest: &Manifest,
    depth: Depth,
    jobs: usize,
) -> Result<(Vec<Damage>, u64)> {
    let check = Verifier { context, out, depth, found: Mutex::default() };
    check.run(manifest, jobs)?;
    let Tally { damages, bytes } = check.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((damages, bytes))
}

/// The damage of the files in `manifest` that names and lengths show, sorted. Other files are not looked for.
pub(crate) fn quick(registry: &Registry, store: &dyn Store, out: &Path, manifest: &Manifest) -> Result<Vec<Damage>> {
    let cancel = Cancel::default();
    let context = VerifyContext { registry, store, observer: &(), cancel: &cancel };
    let check = Verifier { context: &context, out, depth: Depth::Quick, found: Mutex::default() };
    check.run(manifest, threads(manifest.shards.len()))?;
    let mut damages = check.found.into_inner().unwrap_or_else(PoisonError::into_inner).damages;
    damages.sort();
    Ok(damages)
}

fn damage(file: &str, member: Option<String>, problem: impl Into<String>) -> Damage {
    Damage { file: file.to_owned(), member, problem: problem.into() }
}

struct Verifier<'a> {
    context: &'a VerifyContext<'a>,
    out: &'a Path,
    depth: Depth,
    found: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    damages: Vec<Damage>,
    bytes: u64,
}

impl Verifier<'_> {
    fn add(&self, damage: Damage) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).damages.push(damage);
    }

    fn read(&self, bytes: u64) -> Result<()> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).bytes += bytes;
        self.context.observer.event(&Event::Verified { bytes });
        self.context.cancel.check()
    }

    /// Checks shards, then other files, on `jobs` threads.
    fn run(&self, manifest: &Manifest, jobs: usize) -> Result<()> {
        parallel_map(&manifest.shards, jobs.max(1), &|shard| {
            self.or_unreadable(&format!("{}{RECEIPT_SUFFIX}", shard.name), self.shard(manifest, shard))
        })?;
        parallel_map(&manifest.files, jobs.max(1), &|file| self.file(file)).map(drop)
    }

    /// A file whose bytes the disk does not give is damaged, and does not end the work.
    fn or_unreadable(&self, name: &str, checked: Result<()>) -> Result<()> {
        match checked {
            Err(e) if e.is_unreadable() => {
                self.add(damage(name, None, unreadable(&e)));
                Ok(())
            }
            checked => checked,
        }
    }

    fn shard(&self, manifest: &Manifest, shard: &ShardRecord) -> Result<()> {
        let name = format!("{}{RECEIPT_SUFFIX}", shard.name);
        let (receipt, digest) = match receipt_and_digest(self.context.store, self.out, &shard.name) {
            Ok(found) => found,
            Err(e) if matches!(e.kind(), Kind::Content | Kind::Unsupported) || e.is_not_found() => {
                self.add(damage(&name, None, e.text()));
                let data = FileRecord { name: shard.file.clone(), bytes: shard.bytes, blake3: shard.blake3 };
                return self.file(&data);
            }
            Err(e) => return Err(e),
        };
        if let Some(problem) = disagreement(manifest, shard, &receipt, digest)? {
            self.add(damage(&name, None, problem));
        }
        receipt.files.iter().filter(|f| f.name != shard.file).try_for_each(|f| self.file(f))?;
        self.or_unreadable(&shard.file, self.data(shard, &receipt))
    }

    fn file(&self, file: &FileRecord) -> Result<()> {
        self.or_unreadable(&file.name, self.compare(file))
    }

    /// Compares a file with its record.
    fn compare(&self, file: &FileRecord) -> Result<()> {
        if self.length(&file.name, file.bytes)? && self.depth == Depth::Full {
            let (digest, _) = digest_file(self.context.store, &self.out.join(&file.name), &mut |n| self.read(n))?;
            if digest != file.blake3 {
                self.add(damage(&file.name, None, "its bytes do not have the recorded digest"));
            }
        }
        Ok(())
    }

    /// Whether the file exists with its recorded length.
    fn length(&self, name: &str, bytes: u64) -> Result<bool> {
        match self.context.store.stat(&self.out.join(name), false) {
            Ok(stat) if stat.kind == FileKind::Symlink => {
                self.add(damage(name, None, IS_A_LINK));
                Ok(false)
            }
            Ok(stat) if stat.size == bytes => Ok(true),
            Ok(stat) => {
                self.add(damage(name, None, format!("has {} instead of {bytes}", counted(stat.size, "byte"))));
                Ok(false)
            }
            Err(e) if e.is_not_found() => {
                self.add(damage(name, None, "is missing"));
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// Checks a shard's data file: its digest, and against its index the checksum and place of each member.
    fn data(&self, shard: &ShardRecord, receipt: &Receipt) -> Result<()> {
        if !self.length(&shard.file, shard.bytes)? || self.depth == Depth::Quick {
            return Ok(());
        }
        let members = receipt.files.iter().find(|f| f.name.ends_with(INDEX_SUFFIX));
        let members = members.map_or(Ok(None), |file| self.members(&file.name))?;
        let input = self.context.store.open(&self.out.join(&shard.file))?;
        let pass = DataPass::new(members.as_ref());
        let (digest, found) = pass.run(&*input, &mut |bytes| self.read(bytes))?;
        if let Some(members) = &members {
            self.checksums(&shard.file, members, &found);
        }
        if digest != shard.blake3 {
            self.add(damage(&shard.file, None, "its bytes do not have the recorded digest"));
        }
        match &members {
            Some(members) => self.parse(shard, members),
            None => self.rows(shard),
        }
    }

    /// Compares the checksums of the members with those found, as far as these go.
    fn checksums(&self, file: &str, members: &Members, found: &[u32]) {
        let recorded = members.iter().flat_map(|(key, list)| list.map(move |member| (key, member)));
        for ((key, member), _) in recorded.zip(found).filter(|((_, member), crc)| member.crc32c != **crc) {
            let problem = "its bytes do not have the recorded checksum";
            self.add(damage(file, Some(format!("{key}.{}", member.field)), problem));
        }
    }

    /// Decodes all rows of a table shard, and counts them.
    fn rows(&self, shard: &ShardRecord) -> Result<()> {
        let path = main_file(self.context.registry, self.context.store, &self.out.join(&shard.file));
        let Some((format, compression)) = container(self.context.registry, &NameRules::default(), &path) else {
            return Ok(());
        };
        let input = open(self.context.store, &path, compression)?;
        let source = format.source(&Options::new(), Limits::default())?;
        if source.lists() {
            return Ok(());
        }
        let count = || -> Result<u64> {
            let table = source.open(Arc::from(input))?;
            table.info()?;
            table.rows(0..u64::MAX)?.try_fold(0, |n, rows| Ok(n + rows?.num_rows() as u64))
        };
        match count() {
            Err(e) if e.kind() == Kind::Environment => return Err(e),
            Err(e) => self.add(damage(&shard.file, None, e.text())),
            Ok(n) if n != shard.samples => {
                self.add(damage(
                    &shard.file,
                    None,
                    format!("holds {} instead of {}", counted(n, "sample"), shard.samples),
                ));
            }
            Ok(_) => {}
        }
        Ok(())
    }

    /// The member index of this name; `None` for a missing or damaged one.
    fn members(&self, name: &str) -> Result<Option<Members>> {
        let limits = Limits::default();
        let read = self.context.store.open(&self.out.join(name)).and_then(|input| input.read_all(limits.blob));
        match read.and_then(|bytes| decode_index(&bytes, &limits)) {
            Err(e) if is_failure(&e) && !e.is_unreadable() => Err(e),
            members => Ok(members.ok()),
        }
    }

    /// Parses the shard and compares its members with its index.
    fn parse(&self, shard: &ShardRecord, members: &Members) -> Result<()> {
        let path = self.out.join(&shard.file);
        let Some((format, compression)) = container(self.context.registry, &NameRules::default(), &path) else {
            return Ok(());
        };
        let input = open(self.context.store, &path, compression)?;
        let source = format.source(&Options::new(), Limits::default())?;
        let mut expected = members.iter().flat_map(|(key, list)| list.map(move |m| (key, m)));
        let mut n = 0u64;
        let listed = source.list(&*input, &mut |entry| {
            // Shards of others may have members that hold no field.
            let Ok(name) = split_name(entry.name) else { return Ok(()) };
            n += 1;
            let found = Some(name).zip(entry.extent.ok());
            let same = expected.next().zip(found).is_some_and(|((key, m), (name, extent))| {
                (key, m.field, m.offset, m.len) == (name.key.as_str(), name.field.as_str(), extent.offset, extent.len)
            });
            match same {
                true => Ok(()),
                false => Err(Error::content(format!(
                    "member {} ({}) is not the one in the index",
                    n - 1,
                    entry.name.escape_ascii()
                ))),
            }
        });
        match listed {
            Err(e) if matches!(e.kind(), Kind::Content | Kind::Limit | Kind::Unsupported) => {
                self.add(damage(&shard.file, None, e.text()));
            }
            Err(e) => return Err(e),
            Ok(()) if n != members.len() as u64 => {
                self.add(damage(
                    &shard.file,
                    None,
                    format!("holds {} instead of {}", counted(n, "member"), members.len()),
                ));
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// Reports files that the manifest does not know. A shard whose receipt can't be read may have any companion.
    fn strangers(&self, manifest: &Manifest, plans: &[PlanReader]) -> Result<()> {
        let mut known: BTreeSet<PathBuf> = match manifest.part_of {
            None => [PathBuf::from(MANIFEST)].into(),
            Some(_) => [PART, CACHE_MARK].map(PathBuf::from).into(),
        };
        known.extend(manifest.files.iter().map(|f| PathBuf::from(&f.name)));
        let mut unread = BTreeSet::new();
        for (number, plan) in plans.iter().enumerate().skip(manifest.plans().count()) {
            // Shards that are being added.
            known.insert(plan_name(number).into());
            unread.extend(plan.shards().iter().map(|shard| shard.name.as_str()));
        }
        for shard in &manifest.shards {
            known.insert(format!("{}{RECEIPT_SUFFIX}", shard.name).into());
            known.insert(shard.file.clone().into());
            match read_receipt(self.context.store, self.out, &shard.name) {
                Ok(receipt) => known.extend(receipt.files.into_iter().map(|f| PathBuf::from(f.name))),
                Err(e) if is_failure(&e) && !e.is_unreadable() => return Err(e),
                Err(_) => drop(unread.insert(&shard.name)),
            }
        }
        let folders: BTreeSet<&Path> = known.iter().flat_map(|name| name.ancestors().skip(1)).collect();
        for folder in &folders {
            for name in self.context.store.list(&self.out.join(folder)).or_else(unless_missing)? {
                let name = folder.join(name);
                let text = name.to_string_lossy();
                let [errors, listings] = [ERRORS, LISTINGS].map(|folder| self.out.join(folder));
                let ours = [Staging::replacing(self.out), Quarantine::folder(self.out), errors, listings]
                    .contains(&self.out.join(&name));
                let is_known = known.contains(&name) || shard_stems(&text).any(|stem| unread.contains(stem));
                if is_known || ours || is_beside(&name) || folders.contains(&*name) {
                    continue;
                }
                // Some object stores list what was removed a moment ago.
                if !self.context.store.stat(&self.out.join(&name), false).is_err_and(|e| e.is_absent()) {
                    self.add(damage(&text, None, "does not belong to the dataset; remove it, or move it away"));
                }
            }
        }
        Ok(())
    }
}

/// Whether no reader takes a file for a part of the dataset: those of file systems and desktops, whose names begin with a dot, what a
/// straggler still stages, and the dataset's card.
fn is_beside(name: &Path) -> bool {
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || ["lost+found", "README.md"].contains(&&*name)
}

/// The damage of a link in the place of a file.
pub(crate) const IS_A_LINK: &str = "is a symbolic link; a sealed dataset holds regular files only";

/// The damage of a file whose bytes the disk does not give.
pub(crate) fn unreadable(error: &Error) -> String {
    format!("can't be read: {}; if the disk or its server was at fault for a moment, verify again", error.message())
}

/// Whether a look at a file failed, which says nothing about the file.
pub(crate) fn is_failure(error: &Error) -> bool {
    error.kind() == Kind::Environment && !error.is_absent()
}

/// A missing folder is empty: its files are reported one by one. Web servers do not list theirs.
fn unless_missing(error: Error) -> Result<Vec<PathBuf>> {
    if error.is_not_found() || error.kind() == Kind::Unsupported { Ok(Vec::new()) } else { Err(error) }
}

fn disagreement(
    manifest: &Manifest,
    shard: &ShardRecord,
    receipt: &Receipt,
    digest: Digest,
) -> Result<Option<&'static str>> {
    if digest != shard.receipt {
        return Ok(Some("is not the receipt that the manifest knows"));
    }
    let data = receipt.data()?;
    let same = manifest.plans().any(|plan| plan == receipt.plan)
        && (&receipt.shard, receipt.samples) == (&shard.name, shard.samples)
        && (&data.name, data.bytes, data.blake3) == (&shard.file, shard.bytes, shard.blake3);
    Ok(if same { None } else { Some("contradicts the manifest") })
}
