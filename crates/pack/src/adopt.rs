//! adopt: makes a sealed dataset of third-party shards where they are, and as they are.
//!
//! ```text
//! shards ─headers→ plan ─→ digests and checksums ─→ members, receipt   … for each; then ─seal→ dataset.json
//! ```
//!
//! The plan has an entry for each shard: its file, and how many samples it holds. It is stored first, so that receipts belong to
//! it, and an interrupted job resumes as packing does.

use crate::cancellable_input::CancellableInput;
use crate::data_pass::DataPass;
use crate::input_format::open;
use crate::named_shards::{NamedShard, NamedShards, ThirdParty};
use crate::parallel_map::parallel_map;
use crate::plans::open_plan;
use crate::seal::Sealing;
use crate::shard_packer::record;
use crate::stored_plan::valid_receipt;
use crate::without_inputs::{is_adopted, note_adopted};
use packhorse_core::{
    Code, Error, Event, FieldType, FileKind, Input, KEY, Kind, Members, Options, Result, Schema, Source, split_name,
};
use packhorse_dataset::{
    FieldRecord, FieldSource, FileRecord, INDEX_SUFFIX, MANIFEST, Manifest, PLAN, PathText, PlanEntry, PlanHeader,
    PlanReader, PlanWriter, RECEIPT_SUFFIX, Receipt, SKIPPED, ShardFrame, SinkRecord, SkipRecord, VIEW, encode_index,
};
use packhorse_storage::{Location, Staging};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

/// The result of [`Session::adopt`](crate::Session::adopt).
#[derive(Clone, Debug)]
pub struct Adopted {
    /// The folder of the dataset.
    pub folder: PathBuf,
    /// The manifest of the sealed dataset.
    pub manifest: Manifest,
    /// Shards that an earlier run had read.
    pub reused: u64,
}

/// The most bytes of a file's name.
const LONGEST_NAME: usize = 255;

/// What to do with shards on a web server.
const COPY: &str = "adopt a copy of the shards, or read them where they are: `packhorse pack` takes their URLs";

pub(crate) fn adopt(context: &ThirdParty<'_>, inputs: &[PathBuf]) -> Result<Adopted> {
    let lists = |format: &dyn packhorse_core::Format| {
        let source = format.source(&Options::new(), context.limits);
        source.is_ok_and(|source| source.lists()) && format.sink(&Options::new()).is_ok()
    };
    inputs.iter().try_for_each(|input| Location::holds_objects(input).map(drop).map_err(|e| e.hint(COPY)))?;
    let found = NamedShards::find(context, inputs, &lists)?;
    let job =
        AdoptJob { context, source: &*found.format.source(&Options::new(), context.limits)?, folder: &found.folder };
    job.check_folder(&found)?;
    Staging::sweep(&**context.store, &found.folder, false);
    let staging = Staging::open(context.store.clone(), &found.folder)?;
    let _alone = context.store.lock(&found.folder)?;
    let (taken, skipped) = job.heads(&found)?;
    let plan = job.store_plan(&staging, &found, &taken, &skipped)?;
    let bytes = taken.iter().map(|(shard, _)| shard.stat.size).sum();
    context.observer.event(&Event::Working { what: "adopting", shards: taken.len() as u64, bytes });
    let pairs: Vec<(&NamedShard, &ShardFrame)> = taken.iter().map(|(shard, _)| *shard).zip(plan.shards()).collect();
    let reused =
        parallel_map(&pairs, found.threads(context), &|(shard, frame)| job.shard(&staging, &plan, shard, frame))?;
    let ThirdParty { registry, store, cancel, .. } = context;
    let sealed = Sealing { registry, transforms: &[], store, out: &found.folder, cancel }.in_place();
    let manifest = sealed.inspect_err(|e| {
        if e.code() == Code::KeyTwice {
            job.withdraw(&taken);
        }
    })?;
    let reused = reused.into_iter().filter(|reused| *reused).count() as u64;
    Ok(Adopted { folder: found.folder, manifest, reused })
}

/// What headers tell of a shard.
struct ShardHead {
    samples: u64,
    /// The number of samples with each field.
    fields: BTreeMap<String, u64>,
}

/// A shard that is adopted.
type Taken<'n> = (&'n NamedShard, ShardHead);

struct AdoptJob<'a> {
    context: &'a ThirdParty<'a>,
    source: &'a dyn Source,
    folder: &'a Path,
}

impl AdoptJob<'_> {
    /// Refuses folders that hold other datasets, and shards that do not lie in the folder themselves.
    fn check_folder(&self, found: &NamedShards<'_>) -> Result<()> {
        let store = &**self.context.store;
        let exists = |name: &str| store.stat(&self.folder.join(name), false).is_ok();
        if let Some(name) = [MANIFEST, VIEW].into_iter().find(|name| exists(name)) {
            let error = Error::config("exists, so the folder holds a dataset already").with_code(Code::OutputExists);
            return Err(error.in_input(self.folder.join(name).display()));
        }
        let inside = |shard: &&NamedShard| shard.file.contains('/');
        if let Some(shard) = found.shards.iter().find(inside) {
            let message = format!(
                "lies in another folder than {}; the shards of a dataset lie in one folder: adopt each folder alone",
                self.folder.display()
            );
            return Err(Error::config(message).in_input(shard.path.display()));
        }
        let longest = LONGEST_NAME - RECEIPT_SUFFIX.len().max(INDEX_SUFFIX.len());
        // Keys of objects may be longer.
        let is_local = Location::url(self.folder).is_none();
        if let Some(shard) = found.shards.iter().find(|shard| is_local && shard.name.len() > longest) {
            let message = format!(
                "has a name of more than {longest} bytes before the suffix, too long for the files that adopting writes beside it; rename it"
            );
            return Err(Error::config(message).in_input(shard.path.display()));
        }
        for shard in &found.shards {
            if store.stat(&shard.path, false)?.kind == FileKind::Symlink {
                let error = Error::config("is a symbolic link, and the shards of a dataset are files of its folder");
                return Err(error.hint("adopt the shards where they are").in_input(shard.path.display()));
            }
        }
        match open_plan(store, self.folder) {
            Ok(plan) if is_adopted(plan.header()) => Ok(()),
            _ => self.refuse_files(found),
        }
    }

    /// Refuses a folder with files of the names that adopting writes.
    fn refuse_files(&self, found: &NamedShards<'_>) -> Result<()> {
        let names: BTreeSet<PathBuf> = self.context.store.list(self.folder)?.into_iter().collect();
        let own =
            found.shards.iter().flat_map(|s| [INDEX_SUFFIX, RECEIPT_SUFFIX].map(|end| format!("{}{end}", s.name)));
        match [PLAN, SKIPPED].map(str::to_owned).into_iter().chain(own).find(|name| names.contains(Path::new(name))) {
            None => Ok(()),
            Some(name) => {
                let error = Error::config("exists, and adopting writes a file of that name; move it elsewhere");
                Err(error.with_code(Code::OutputExists).in_input(self.folder.join(name).display()))
            }
        }
    }

    /// The shards to adopt, with what their headers tell, and those that are left out.
    fn heads<'n>(&self, found: &'n NamedShards<'_>) -> Result<(Vec<Taken<'n>>, Vec<SkipRecord>)> {
        let skipped = Mutex::new(BTreeMap::new());
        let heads = parallel_map(&found.shards, found.threads(self.context), &|shard| {
            self.context.cancel.check()?;
            match self.head(shard) {
                Err(e) if self.context.skips(&e) => {
                    let record = SkipRecord { input: Some(PathText::new(shard.file.as_bytes())), ..SkipRecord::of(&e) };
                    skipped.lock().unwrap_or_else(PoisonError::into_inner).insert(shard.file.clone(), record);
                    Ok(None)
                }
                head => head.map(Some),
            }
        })?;
        let taken: Vec<_> = found.shards.iter().zip(heads).filter_map(|(shard, head)| Some((shard, head?))).collect();
        if taken.is_empty() {
            return Err(Error::content("every shard was left out").in_input(self.folder.display()));
        }
        Ok((taken, skipped.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()))
    }

    fn head(&self, shard: &NamedShard) -> Result<ShardHead> {
        let members = self.members(shard, &*self.open(shard)?)?;
        let mut fields = BTreeMap::<String, u64>::new();
        for member in members.iter().flat_map(|(_, list)| list) {
            *fields.entry(member.field.to_owned()).or_default() += 1;
        }
        self.context.observer.event(&Event::Scanned { files: members.len() as u64 });
        Ok(ShardHead { samples: members.samples() as u64, fields })
    }

    fn open(&self, shard: &NamedShard) -> Result<Box<dyn Input>> {
        if shard.compression.is_some() {
            let message = "is compressed as a whole, so its samples can't be read one by one; pack it";
            return Err(Error::unsupported(message).in_input(shard.path.display()));
        }
        let input = open(&**self.context.store, &shard.path, None)?;
        Ok(Box::new(CancellableInput::new(input, self.context.cancel)))
    }

    /// The members of a shard: consecutive ones with one key are a sample. Their checksums are 0.
    fn members(&self, shard: &NamedShard, input: &dyn Input) -> Result<Members> {
        let mut fields = BTreeMap::<String, u16>::new();
        let mut found: Vec<(Option<String>, u16, u64, u64)> = Vec::new();
        let (mut key, mut of_key) = (None, BTreeSet::new());
        self.source
            .list(input, &mut |entry| {
                // Other members are passed over where the dataset is read, too.
                let Ok(name) = split_name(entry.name) else { return Ok(()) };
                let extent = entry.extent.map_err(|e| e.in_sample(&name.key))?;
                let next =
                    u16::try_from(fields.len()).map_err(|_| Error::unsupported("has over 65,536 different fields"));
                let field = match fields.get(&name.field) {
                    Some(field) => *field,
                    None => *fields.entry(name.field.clone()).or_insert(next?),
                };
                let new = key.as_ref() != Some(&name.key);
                if new {
                    of_key.clear();
                    key = Some(name.key.clone());
                }
                if !of_key.insert(field) {
                    return Err(Error::content("has a field twice").in_field(&name.field).in_sample(&name.key));
                }
                found.push((new.then_some(name.key), field, extent.offset, extent.len));
                Ok(())
            })
            .map_err(|e| e.in_input(shard.path.display()))?;
        if found.is_empty() {
            return Err(Error::content("holds no sample; leave it out").in_input(shard.path.display()));
        }
        let mut names: Vec<(u16, String)> = fields.into_iter().map(|(name, number)| (number, name)).collect();
        names.sort_unstable();
        let mut members = Members::new(names.into_iter().map(|(_, name)| name).collect());
        for (key, field, offset, len) in found {
            key.iter().for_each(|key| members.push_sample(key));
            members.push_member(field, offset, len, 0);
        }
        Ok(members)
    }

    /// Stores the plan. Receipts of shards that were changed since an earlier run are removed first.
    fn store_plan(
        &self,
        staging: &Staging,
        found: &NamedShards<'_>,
        taken: &[Taken<'_>],
        skipped: &[SkipRecord],
    ) -> Result<PlanReader> {
        let store = &**self.context.store;
        if let Ok(old) = open_plan(store, self.folder) {
            let old = stamps(&old);
            let is_same = |s: &NamedShard| old.get(&s.name) == Some(&(s.stat.size, s.stat.mtime));
            for (shard, _) in taken.iter().filter(|(shard, _)| !is_same(shard)) {
                store.remove(&self.folder.join(format!("{}{RECEIPT_SUFFIX}", shard.name)))?;
            }
        }
        let mut stage = staging.stage(PLAN)?;
        let mut plan = PlanWriter::new(packhorse_core::Outlet::stream(&mut stage, "")?, &self.header(found, taken))?;
        for (shard, head) in taken {
            plan.shard(&shard.name, None, std::iter::once(Ok(entry(shard, head))))?;
        }
        plan.finish(skipped)?;
        stage.publish()?;
        open_plan(store, self.folder)
    }

    fn header(&self, found: &NamedShards<'_>, taken: &[Taken<'_>]) -> PlanHeader {
        let samples: u64 = taken.iter().map(|(_, head)| head.samples).sum();
        let mut fields = BTreeMap::<&str, u64>::new();
        for (field, count) in taken.iter().flat_map(|(_, head)| &head.fields) {
            *fields.entry(field).or_default() += count;
        }
        let key = std::iter::once(FieldType::Text.field(KEY, false));
        let blobs = fields.into_iter().map(|(field, count)| FieldType::Blob.field(field, count < samples));
        let mut choices = BTreeMap::new();
        note_adopted(&mut choices);
        let name = Location::absolute(self.folder);
        let info = found.format.info();
        PlanHeader {
            packhorse_plan: PlanHeader::VERSION,
            name: name.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            sink: SinkRecord { format: info.id.to_owned(), revision: info.revision, options: BTreeMap::new() },
            choices,
            schema: FieldRecord::of(&Schema::new(key.chain(blobs).collect::<Vec<_>>())),
            roots: vec![PathText::new(b".")],
            ..PlanHeader::default()
        }
    }

    /// Reads a shard and publishes its member index and receipt, unless an earlier run did. Returns whether one did.
    fn shard(&self, staging: &Staging, plan: &PlanReader, shard: &NamedShard, frame: &ShardFrame) -> Result<bool> {
        self.context.cancel.check()?;
        let (name, bytes, store) = (&shard.name, shard.stat.size, &**self.context.store);
        let told = |samples: u64, reused: bool| {
            self.context.observer.event(&Event::Shard { name, samples, bytes, input_bytes: bytes, reused });
        };
        if let Some(receipt) = valid_receipt(store, self.folder, plan.digest(), frame)? {
            told(receipt.samples, true);
            return Ok(true);
        }
        let input = self.open(shard)?;
        let mut members = self.members(shard, &*input)?;
        let pass = DataPass::new(Some(&members));
        let (blake3, checksums) = pass.run(&*input, &mut |bytes| {
            self.context.observer.event(&Event::Packed { samples: 0, bytes });
            Ok(())
        })?;
        members.set_checksums(checksums)?;
        self.check_unchanged(shard, &members, frame)?;
        let mut stage = staging.stage(name)?;
        stage.write(INDEX_SUFFIX, &encode_index(&members))?;
        let data = FileRecord { name: shard.file.clone(), bytes, blake3 };
        let files = std::iter::once(data).chain(stage.publish()?.into_iter().map(record)).collect();
        let samples = members.samples() as u64;
        let receipt = Receipt {
            packhorse_receipt: Receipt::VERSION,
            plan: plan.digest(),
            shard: name.clone(),
            split: None,
            samples,
            input_bytes: bytes,
            files,
            notes: BTreeMap::new(),
            counts: BTreeMap::new(),
            skipped: Vec::new(),
        };
        staging.document(&format!("{name}{RECEIPT_SUFFIX}"), &receipt.encode()?)?;
        self.context.observer.event(&Event::Packed { samples, bytes: 0 });
        told(samples, false);
        Ok(false)
    }

    /// Removes what was written beside shards that are not a dataset. Files that can't be removed stay: an unsealed dataset.
    fn withdraw(&self, taken: &[Taken<'_>]) {
        let own = taken.iter().flat_map(|(s, _)| [RECEIPT_SUFFIX, INDEX_SUFFIX].map(|end| format!("{}{end}", s.name)));
        for name in own.chain([PLAN.to_owned()]) {
            let _ = self.context.store.remove(&self.folder.join(name));
        }
    }

    /// Refuses a shard that was changed since its headers were read.
    fn check_unchanged(&self, shard: &NamedShard, members: &Members, frame: &ShardFrame) -> Result<()> {
        let now = self.context.store.stat(&shard.path, true)?;
        let same = (now.size, now.mtime) == (shard.stat.size, shard.stat.mtime);
        match same && members.samples() as u64 == frame.samples {
            true => Ok(()),
            false => {
                let error = Error::new(Kind::Changed, "was changed while it was adopted; run the same command again");
                Err(error.with_code(Code::InputChanged).in_input(shard.path.display()))
            }
        }
    }
}

/// Length and modification time of each shard of a plan.
fn stamps(plan: &PlanReader) -> BTreeMap<String, (u64, i64)> {
    let stamp = |frame: &ShardFrame| {
        let source = plan.entries(frame).ok()?.next()?.ok()?.fields.into_iter().next()?;
        Some((frame.name.clone(), (source.size, source.mtime)))
    };
    plan.shards().iter().filter_map(stamp).collect()
}

fn entry(shard: &NamedShard, head: &ShardHead) -> PlanEntry {
    let source = FieldSource {
        field: "shard".to_owned(),
        root: 0,
        path: PathText::new(shard.file.as_bytes()),
        size: shard.stat.size,
        mtime: shard.stat.mtime,
        extent: None,
        items: Some((0, head.samples, shard.stat.size)),
        by_position: false,
        samples: None,
        seek_point: None,
    };
    PlanEntry { key: String::new(), cls: None, json: None, joined: None, fields: vec![source] }
}
