//! index: writes the indexes of other readers beside third-party shards, or into another folder. The shards stay as they are.
//!
//! ```text
//! shard ─list→ members ─→ its own indexes ─→ .packhorse-index/SHARD   … for each; then ─→ the indexes of all shards
//! ```
//!
//! Shards are listed in parallel. What was found is saved last, so a saved document means that the indexes of that shard are
//! there; at the end these documents are read one at a time.

use crate::cancellable_input::CancellableInput;
use crate::digest_file::digest_file;
use crate::input_format::open;
use crate::named_shards::{NamedShard, NamedShards, ThirdParty};
use crate::parallel_map::parallel_map;
use crate::plans::open_plan;
use crate::recorded_files::sealed_manifest;
use crate::shard_packer::record;
use crate::without_inputs::is_adopted;
use packhorse_core::{Code, Error, Event, FileStat, Indexer, Kind, Members, Options, Result, Sealed, ShardSummary};
use packhorse_dataset::{Digest, FileRecord, INDEX_FOLDER, IndexedFiles, MANIFEST, RootDigest, SavedIndex};
use packhorse_storage::{Published, Staging};
use std::path::{Path, PathBuf};

/// The result of [`Session::index`](crate::Session::index).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// The folder of the indexes.
    pub folder: PathBuf,
    /// Indexed shards.
    pub shards: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Shards that an earlier run had indexed.
    pub reused: u64,
    /// Bad shards that were left out.
    pub skipped: u64,
    /// The indexes, by paths relative to the folder: those of each shard, then those of all shards.
    pub files: Vec<FileRecord>,
}

/// `out`: the folder of the indexes, where it is not that of the shards.
pub(crate) fn index(context: &ThirdParty<'_>, inputs: &[PathBuf], wanted: &str, out: Option<&Path>) -> Result<Indexed> {
    let options: Options = [("index", wanted)].into_iter().collect();
    let takes = |format: &dyn packhorse_core::Format| format.indexer(&Options::new(), context.limits).is_ok();
    let found = NamedShards::find(context, inputs, &takes)?;
    let indexer = found.format.indexer(&options, context.limits)?;
    refuse_ours(context, &found.folder)?;
    let folder = out.unwrap_or(&found.folder);
    Staging::sweep(&**context.store, folder, false);
    let staging = Staging::open(context.store.clone(), folder).map_err(|e| unwritable(e, folder))?;
    let name = dataset_name(&found.folder);
    let job = IndexJob { context, indexer: &*indexer, wanted, name: &name, folder, staging: &staging };
    let (shards, bytes) = (found.shards.len() as u64, found.bytes());
    context.observer.event(&Event::Working { what: "indexing", shards, bytes });
    let listed = parallel_map(&found.shards, found.threads(context), &|shard| job.run(shard))?;
    let places = found.shards.iter().zip(&listed).filter_map(|(shard, listed)| listed.as_ref().and(Some(shard)));
    let places: Vec<&NamedShard> = places.collect();
    let listed: Vec<ListedShard> = listed.into_iter().flatten().collect();
    if listed.is_empty() {
        return Err(Error::content("every shard was left out").in_input(folder.display()));
    }
    let all = job.all(&places, &listed)?;
    Ok(Indexed {
        folder: folder.to_owned(),
        shards: listed.len() as u64,
        samples: listed.iter().map(|shard| shard.summary.samples).sum(),
        bytes: listed.iter().map(|shard| shard.summary.bytes).sum(),
        reused: listed.iter().filter(|shard| shard.reused).count() as u64,
        skipped: shards - listed.len() as u64,
        files: listed.into_iter().flat_map(|shard| shard.files).chain(all).collect(),
    })
}

/// Refuses a folder with a dataset that was packed.
fn refuse_ours(context: &ThirdParty<'_>, folder: &Path) -> Result<()> {
    let store = &**context.store;
    let adopted = || open_plan(store, folder).is_ok_and(|plan| is_adopted(plan.header()));
    if sealed_manifest(store, folder)?.is_some() && !adopted() {
        let error = Error::config("is a dataset of packhorse, whose indexes are written with it");
        return Err(error.hint("pack with `index`").in_input(folder.join(MANIFEST).display()));
    }
    Ok(())
}

fn unwritable(error: Error, folder: &Path) -> Error {
    const HINT: &str = "give `out` a folder for the indexes";
    match error.kind() {
        _ if error.is_denied() => Error::config("can't be written to, and the indexes go there")
            .with_code(Code::OutputDenied)
            .hint(HINT)
            .in_input(folder.display()),
        Kind::Unsupported => error.hint(HINT),
        _ => error,
    }
}

/// The name of a dataset whose shards are in this folder.
fn dataset_name(folder: &Path) -> String {
    let name = packhorse_storage::Location::absolute(folder);
    name.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// An indexed shard.
struct ListedShard {
    /// Without its members.
    summary: ShardSummary,
    /// The digest of what its members are and where.
    layout: Digest,
    files: Vec<FileRecord>,
    reused: bool,
}

struct IndexJob<'a> {
    context: &'a ThirdParty<'a>,
    indexer: &'a dyn Indexer,
    wanted: &'a str,
    /// That of the dataset.
    name: &'a str,
    /// Where the indexes go.
    folder: &'a Path,
    staging: &'a Staging,
}

impl IndexJob<'_> {
    /// Indexes a shard; `None` if it is left out.
    fn run(&self, shard: &NamedShard) -> Result<Option<ListedShard>> {
        self.context.cancel.check()?;
        let listed = match self.shard(shard) {
            Err(e) if self.context.skips(&e) => return Ok(None),
            listed => listed?,
        };
        let (samples, bytes) = (listed.summary.samples, listed.summary.bytes);
        if !listed.reused {
            self.context.observer.event(&Event::Packed { samples, bytes });
        }
        let (name, reused) = (&shard.name, listed.reused);
        self.context.observer.event(&Event::Shard { name, samples, bytes, input_bytes: bytes, reused });
        Ok(Some(listed))
    }

    fn shard(&self, shard: &NamedShard) -> Result<ListedShard> {
        let saved = self.saved(shard)?;
        let summary = |samples: usize, saved: &SavedIndex| ShardSummary {
            name: shard.name.clone(),
            samples: samples as u64,
            bytes: saved.bytes,
            notes: saved.notes.clone(),
            ..ShardSummary::default()
        };
        if let Some((saved, members, layout)) = &saved
            && self.is_good(saved, &shard.stat)?
        {
            let (summary, files) = (summary(members.samples(), saved), saved.files.clone());
            return Ok(ListedShard { summary, layout: *layout, files, reused: true });
        }
        let input =
            CancellableInput::new(open(&**self.context.store, &shard.path, shard.compression)?, self.context.cancel);
        let found = self.indexer.list(&input)?;
        self.check_unchanged(shard)?;
        let mut stage = self.staging.stage(&shard.name)?;
        self.indexer.shard(&found, &mut stage)?;
        let ours = saved.map_or(Vec::new(), |(saved, ..)| saved.files);
        let files: Vec<FileRecord> =
            stage.publish_if(|files| self.refuse_others(files, &ours))?.into_iter().map(record).collect();
        let (members, wanted) = (found.members.unwrap_or_default(), self.wanted.to_owned());
        let FileStat { size: bytes, mtime, .. } = shard.stat;
        let saved = SavedIndex { bytes, mtime, index: wanted, files, notes: found.notes };
        let (document, layout) = saved.encode(&members)?;
        self.staging.document(&document_name(shard), &document)?;
        Ok(ListedShard { summary: summary(members.samples(), &saved), layout, files: saved.files, reused: false })
    }

    /// What an earlier run saved of the shard, which may have changed since; `None` also where that is damaged.
    fn saved(&self, shard: &NamedShard) -> Result<Option<(SavedIndex, Members, Digest)>> {
        let limits = self.context.limits;
        let path = self.folder.join(document_name(shard));
        let read = || SavedIndex::decode(&self.context.store.open(&path)?.read_all(limits.blob)?, &limits);
        match read() {
            Err(e) if e.is_absent() || matches!(e.kind(), Kind::Content | Kind::Limit) => Ok(None),
            saved => saved.map(Some),
        }
    }

    /// Whether the shard is the same as then, and its indexes are the wanted ones and are there.
    fn is_good(&self, saved: &SavedIndex, stat: &FileStat) -> Result<bool> {
        if (saved.bytes, saved.mtime, &*saved.index) != (stat.size, stat.mtime, self.wanted) {
            return Ok(false);
        }
        for file in &saved.files {
            match self.context.store.stat(&self.folder.join(&file.name), true) {
                Ok(stat) if stat.size == file.bytes => {}
                Ok(_) => return Ok(false),
                Err(e) if e.is_not_found() => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn check_unchanged(&self, shard: &NamedShard) -> Result<()> {
        let now = self.context.store.stat(&shard.path, true)?;
        match (now.size, now.mtime) == (shard.stat.size, shard.stat.mtime) {
            true => Ok(()),
            false => {
                let error = Error::new(Kind::Changed, "was changed while it was indexed; run the same command again");
                Err(error.with_code(Code::InputChanged).in_input(shard.path.display()))
            }
        }
    }

    /// Refuses to replace files that are not `ours`.
    fn refuse_others(&self, files: &[Published], ours: &[FileRecord]) -> Result<()> {
        if self.context.replaces {
            return Ok(());
        }
        let store = &**self.context.store;
        for file in files {
            let path = self.folder.join(&file.name);
            match store.stat(&path, false) {
                Ok(_) => {}
                Err(e) if e.is_not_found() => continue,
                Err(e) => return Err(e),
            }
            let (digest, _) = digest_file(store, &path, &mut |_| self.context.cancel.check())?;
            let mine = |known: &&FileRecord| known.name == file.name && known.blake3 == digest;
            if digest != Digest::from(file.blake3) && !ours.iter().any(|known| mine(&known)) {
                let error = Error::config("already exists, and was written or changed by another program");
                let hint = "move it elsewhere, or overwrite it with `replace`";
                return Err(error.with_code(Code::OutputExists).hint(hint).in_input(path.display()));
            }
        }
        Ok(())
    }

    /// Writes the indexes of all shards together; `places` are those that are `listed`.
    fn all(&self, places: &[&NamedShard], listed: &[ListedShard]) -> Result<Vec<FileRecord>> {
        let record_path = self.folder.join(INDEX_FOLDER).join(IndexedFiles::NAME);
        let known = self.context.store.open(&record_path).and_then(|input| input.read_all(self.context.limits.blob));
        let ours = known.and_then(|bytes| IndexedFiles::decode(&bytes)).unwrap_or_default().files;
        let mut root = RootDigest::default();
        for ListedShard { summary, layout, .. } in listed {
            root.add(&summary.name, summary.samples, summary.bytes, layout);
        }
        let summaries: Vec<ShardSummary> = listed.iter().map(|shard| shard.summary.clone()).collect();
        let members = |i: usize| {
            self.context.cancel.check()?;
            let shard = places.get(i).ok_or_else(|| Error::bug("a shard past the last one"))?;
            let gone = || {
                Error::new(Kind::Environment, "what was found of the shard has vanished; run the same command again")
            };
            self.saved(shard)?.map(|(_, members, _)| members).ok_or_else(|| gone().in_input(shard.path.display()))
        };
        let root_digest = root.finish().to_string();
        let sealed = Sealed { name: self.name, root_digest: &root_digest, shards: &summaries, members: &members };
        let mut stage = self.staging.stage("")?;
        self.indexer.dataset(&sealed, &mut stage)?;
        self.context.cancel.check()?;
        let files = stage.publish_if(|files| self.refuse_others(files, &ours))?;
        let files: Vec<FileRecord> = files.into_iter().map(record).collect();
        let document = IndexedFiles { files: files.clone() }.encode()?;
        self.staging.document(&format!("{INDEX_FOLDER}/{}", IndexedFiles::NAME), &document)?;
        Ok(files)
    }
}

/// The name of the document about a shard, in a folder without folders.
fn document_name(shard: &NamedShard) -> String {
    // With the suffix and while it is staged, the name may have 255 bytes.
    const LONGEST: usize = 200;
    let mut name = shard.file.replace('%', "%25").replace('/', "%2F");
    if name.len() > LONGEST {
        name = Digest::of(name.as_bytes()).to_string();
    }
    format!("{INDEX_FOLDER}/{name}.saved")
}
