//! Copies a dataset, or a part of it, to a local folder in advance.

use super::copy::Trouble;
use super::folder::{Fetch, Folder, LOOK, MARK};
use super::listing::{self, Group, Listing};
use super::share::Share;
use super::stage_view::stage_view;
use super::staged::{self, Owner, is_unfit};
use super::{CacheFile, CacheSource, Check, Staged, Unfit};
use crate::parallel::in_parallel;
use packhorse_core::{Cancel, Code, Error, Event, Input, Kind, Observer, Result, Store};
use packhorse_dataset::{DatasetView, Digest, MANIFEST, Manifest, PART, PLAN, RECEIPT_SUFFIX, Receipt, ShardRecord};
use packhorse_storage::Local;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Settings of staging.
#[derive(Clone, Debug, PartialEq)]
pub struct StageOptions {
    /// The local folder.
    pub to: PathBuf,
    /// The fraction of the shards, from 0 to 1: deterministic, and a subset of every larger fraction.
    pub fraction: f64,
    /// Reads in flight.
    pub jobs: usize,
    /// Whether existing files are compared with their digests; those that differ are copied again.
    pub verify: bool,
}

impl StageOptions {
    /// The whole dataset to the folder `to`, with 16 concurrent reads.
    pub fn new(to: impl Into<PathBuf>) -> Self {
        Self { to: to.into(), fraction: 1.0, jobs: 16, verify: false }
    }
}

/// Concurrent reads per file: beyond that, several files are copied at once.
const READS: usize = 4;

/// The maximum size of a receipt, in bytes.
const RECEIPT: u64 = 1 << 30;

/// Copies the dataset in the folder `root` of `store`, or a part of it, to a local folder, under the same names. A
/// complete copy is a dataset itself; a cache in that folder ([`DirOptions`](super::DirOptions)) uses a partial one.
/// `location` is the users' name of the dataset, which identifies it if it is not sealed.
///
/// Files of a sealed dataset are compared with their digests, and its manifest is copied last. Of a third-party folder
/// all files are copied, with the length and modification time of the originals. Existing files are not copied again,
/// so an interrupted run can be repeated, and concurrent runs share the work. A copy of the dataset before shards were
/// added gets the new ones.
///
/// Errors: a folder that holds another dataset, or other files than copies (`Config`), originals that can't be read, a full disk (`Environment`);
/// finished copies stay. Of a view, the shards that it reads are copied, into a folder below that of the copy, which is a
/// view of them. Originals that differ from the record are not errors but listed in [`Staged::unfit`].
pub fn stage(
    store: &Arc<dyn Store>,
    root: &Path,
    location: &str,
    options: &StageOptions,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Staged> {
    let share = Share::new(options.fraction)?;
    let found = Manifest::read_bytes(&**store, root)?;
    let source = match &found {
        Some((manifest, _)) => CacheSource::sealed(Arc::clone(store), root, manifest),
        None if store.stat(&root.join(PLAN), true).is_ok() => {
            let error = Error::new(Kind::Incomplete, "is not sealed: it has a plan and no dataset.json");
            return Err(error.with_code(Code::NotSealed).hint("run `packhorse seal`").in_input(root.display()));
        }
        None => {
            if let Some(view) = DatasetView::read(&**store, root)? {
                return stage_view(store, root, view, options, observer, cancel);
            }
            CacheSource::foreign(Arc::clone(store), root, location)
        }
    };
    let to = &*options.to;
    if source.holds(to) {
        return Err(Error::config("is the dataset itself, or in it; stage into another folder").in_input(to.display()));
    }
    let whole = found.as_ref().map(|(manifest, _)| manifest.clone());
    let listing = match found {
        Some((manifest, bytes)) => listing::sealed(&manifest, bytes, share),
        None => listing::foreign(&source, share)?,
    };
    let owner = staged::owner(to)?;
    let updates = share.is_whole() && is_earlier(owner, whole.as_ref());
    if !updates {
        refuse_others(owner, &source, listing.manifest.is_some(), to)?;
    }
    if owner == Owner::Unknown {
        let names = whole.as_ref().map_or_else(|| foreign_names(&listing), own_names);
        refuse_files(to, &names)?;
    }
    let folder = Folder::new(to.to_owned(), source);
    folder.sweep();
    if owner == Owner::Unknown || updates && matches!(owner, Owner::Marked(_)) {
        staged::mark(&*folder.staging()?, folder.source().dataset)?;
    }
    if let Some(whole) = whole.filter(|_| !share.is_whole() && !matches!(owner, Owner::Sealed(_))) {
        staged::say_part(&folder, &whole, &listing)?;
    }
    // Files beside the shards change when shards are added, and may keep their lengths. What was stopped may have old ones.
    let listing = Listing { changed: updates || matches!(owner, Owner::Marked(_)), ..listing };
    let (folder, mut done) = copied(folder, owner, &listing, options, observer, cancel)?;
    done.whole = share.is_whole() && done.unfit.is_empty();
    if done.whole {
        let dir = folder.dir();
        if let Some(bytes) = listing.manifest.as_deref().filter(|bytes| !staged::has_manifest(dir, bytes)) {
            folder.staging()?.document(MANIFEST, bytes)?;
        }
        // The manifest replaces the mark.
        Local.remove(&dir.join(MARK))?;
        Local.remove(&dir.join(PART))?;
    }
    Ok(done)
}

/// Copies the files of `listing` into a folder, whose owner was `owner`.
pub(super) fn copied(
    folder: Folder,
    owner: Owner,
    listing: &Listing,
    options: &StageOptions,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<(Folder, Staged)> {
    // Without a recorded digest the bytes must be compared.
    let verify = options.verify || owner == Owner::Unknown;
    let done = Mutex::new(Staged { of: listing.shards, ..Staged::default() });
    let run = Run { folder, options, verify, changed: listing.changed, observer, cancel, done };
    let bytes = listing.groups.iter().map(Group::bytes).sum();
    observer.event(&Event::Staging { files: listing.groups.len() as u64, bytes });
    let groups = options.jobs.div_ceil(READS).max(1);
    in_parallel(listing.groups.len(), groups, |i| listing.groups.get(i).map_or(Ok(()), |group| run.group(group)))?;
    let mut done = run.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.unfit.sort_unstable();
    Ok((run.folder, done))
}

/// Whether the copies are of the dataset before shards were added: those that it had are the same.
fn is_earlier(owner: Owner, whole: Option<&Manifest>) -> bool {
    let mut earlier = whole.iter().flat_map(|manifest| &manifest.appended).map(|added| added.after);
    matches!(owner, Owner::Sealed(found) | Owner::Marked(found) if earlier.any(|digest| digest == found))
}

pub(super) fn refuse_others(owner: Owner, source: &CacheSource, sealed: bool, to: &Path) -> Result<()> {
    let (found, fits) = match owner {
        Owner::Unknown => return Ok(()),
        Owner::Marked(found) => (found, true),
        Owner::Sealed(found) => (found, sealed),
    };
    if fits && found == source.dataset {
        return Ok(());
    }
    let message = format!("holds another dataset ({found}, and this one is {}): give another folder", source.dataset);
    Err(Error::config(message).in_input(to.display()))
}

/// The names in a dataset's folder, each with its size if that is known; those that end with a dot begin others.
pub(super) fn own_names(manifest: &Manifest) -> BTreeMap<String, Option<u64>> {
    let top = |name: &str, bytes: Option<u64>| match name.split_once('/') {
        Some((folder, _)) => (folder.to_owned(), None),
        None => (name.to_owned(), bytes),
    };
    let shards = manifest.shards.iter();
    let shards = shards.flat_map(|shard| [top(&shard.file, Some(shard.bytes)), top(&format!("{}.", shard.name), None)]);
    shards.chain(manifest.files.iter().map(|file| top(&file.name, Some(file.bytes)))).collect()
}

/// The names in a third-party folder, whose files may have changed since a copy was made.
fn foreign_names(listing: &Listing) -> BTreeMap<String, Option<u64>> {
    let names = listing.groups.iter().filter_map(|group| match group {
        Group::File(file) => file.name.split('/').next().map(|name| (name.to_owned(), None)),
        Group::Shard(_) => None,
    });
    names.collect()
}

/// Refuses a folder with other files than those of `names`: they are not copies, and some may have the names of copies.
pub(super) fn refuse_files(to: &Path, names: &BTreeMap<String, Option<u64>>) -> Result<()> {
    let found = match Local.list(to) {
        Ok(found) => found,
        Err(e) if e.is_absent() => return Ok(()),
        Err(e) => return Err(e),
    };
    let is_copy = |name: &str| match names.get(name) {
        Some(Some(bytes)) => Local.stat(&to.join(name), true).is_ok_and(|stat| stat.size == *bytes),
        Some(None) => true,
        None => name.match_indices('.').any(|(dot, _)| names.contains_key(name.get(..=dot).unwrap_or_default())),
    };
    // The root of a file system may have the folder of its repairs.
    let is_free = |name: &str| name.starts_with('.') || name == "lost+found" || is_copy(name);
    match found.iter().find(|name| !name.to_str().is_some_and(is_free)) {
        None => Ok(()),
        Some(name) => {
            let error =
                Error::config(format!("holds {}, which is not a copy of a file of this dataset", name.display()));
            Err(error.with_code(Code::OutputExists).hint("give an empty or a new folder").in_input(to.display()))
        }
    }
}

/// The state of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Here {
    Missing,
    Right,
    /// Other content, identified by its number in the file system.
    Wrong((u64, u64)),
}

struct Run<'a> {
    folder: Folder,
    options: &'a StageOptions,
    /// Whether copies of shards are compared with their digests.
    verify: bool,
    /// Whether other files may have other content now.
    changed: bool,
    observer: &'a dyn Observer,
    cancel: &'a Cancel,
    done: Mutex<Staged>,
}

impl Run<'_> {
    fn done(&self) -> MutexGuard<'_, Staged> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stages the files of a group. Records an original that differs from the manifest.
    fn group(&self, group: &Group) -> Result<()> {
        let (name, outcome) = match group {
            Group::Shard(shard) => (&shard.file, self.shard(shard)),
            Group::File(file) => (&file.name, self.file(file, true, self.verify || self.changed).map(drop)),
        };
        match outcome {
            Err(e) if is_unfit(&e) => {
                let file = e.input().map_or(name.as_str(), |input| self.relative(input)).to_owned();
                let problem = if e.is_absent() { "is missing".to_owned() } else { e.text().into_owned() };
                self.done().unfit.push(Unfit { file, problem });
                Ok(())
            }
            other => other,
        }
    }

    /// A path of the source as a name relative to the dataset.
    fn relative<'p>(&self, path: &'p str) -> &'p str {
        Path::new(path).strip_prefix(&self.folder.source().root).ok().and_then(Path::to_str).unwrap_or(path)
    }

    /// A shard's data, its companions, and then its receipt.
    fn shard(&self, shard: &ShardRecord) -> Result<()> {
        let data = CacheFile::from(shard);
        let name = format!("{}{RECEIPT_SUFFIX}", shard.name);
        let bytes = self.receipt(&name, shard)?;
        let receipt = Receipt::decode(&bytes).map_err(|e| e.in_input(&name))?;
        let copied = self.file(&data, true, self.verify)?;
        for file in receipt.files.iter().filter(|file| file.name != shard.file) {
            self.file(&file.into(), false, self.verify)?;
        }
        let record = CacheFile { name, bytes: bytes.len() as u64, check: Check::Digest(shard.receipt) };
        self.document(&record, &bytes)?;
        self.done().shards += 1;
        self.observer.event(&Event::Shard {
            name: &shard.name,
            samples: shard.samples,
            bytes: shard.bytes,
            input_bytes: shard.bytes,
            reused: !copied,
        });
        Ok(())
    }

    /// The bytes of a receipt: the local ones, if they are valid.
    fn receipt(&self, name: &str, shard: &ShardRecord) -> Result<Vec<u8>> {
        let right = |bytes: &Vec<u8>| Digest::of(bytes) == shard.receipt;
        let near = Local.open(&self.folder.dir().join(name)).and_then(|input| input.read_all(RECEIPT));
        if let Some(bytes) = near.ok().filter(right) {
            return Ok(bytes);
        }
        let path = self.folder.source().root.join(name);
        let read = || self.folder.source().store.open(&path).and_then(|input| input.read_all(RECEIPT));
        // Wrong bytes may be an error of the transfer: try twice.
        for _ in 0..2 {
            let bytes = read().map_err(|e| e.in_input(path.display()))?;
            if right(&bytes) {
                return Ok(bytes);
            }
        }
        Err(Error::content("is not the receipt that the manifest knows").in_input(path.display()))
    }

    /// Stages a small file with known bytes.
    fn document(&self, file: &CacheFile, bytes: &[u8]) -> Result<()> {
        file.check_name()?;
        let near = Local.open(&self.folder.dir().join(&file.name)).and_then(|input| input.read_all(file.bytes));
        let there = near.is_ok_and(|near| near == bytes);
        if !there {
            self.folder.staging()?.document(&file.name, bytes)?;
        }
        self.count(file, !there);
        Ok(())
    }

    /// Copies `file` unless it exists, with its digest if that is to be verified. Returns whether it was copied.
    fn file(&self, file: &CacheFile, told: bool, verify: bool) -> Result<bool> {
        loop {
            self.cancel.check()?;
            let here = self.look(file, verify)?;
            if here == Here::Right {
                self.count(file, false);
                return Ok(false);
            }
            let Some(_lock) = self.folder.lock(file)? else {
                std::thread::sleep(LOOK);
                continue;
            };
            // The previous holder of the lock may have copied it.
            let now = self.folder.find(file)?.map(|held| held.stat()).transpose()?.flatten();
            if now.is_some_and(|stat| here != Here::Wrong(stat.id)) {
                continue;
            }
            let each = |bytes| {
                if told {
                    self.observer.event(&Event::Staged { bytes })
                }
            };
            let how = Fetch { reads: READS.min(self.options.jobs), cancel: self.cancel, each: &each };
            self.folder.fetch(file, &how).map_err(Trouble::into_error)?;
            self.done().replaced += u64::from(here != Here::Missing);
            self.count(file, true);
            return Ok(true);
        }
    }

    fn count(&self, file: &CacheFile, copied: bool) {
        let mut done = self.done();
        done.files += 1;
        done.bytes += file.bytes;
        done.copied += u64::from(copied);
        done.copied_bytes += if copied { file.bytes } else { 0 };
    }

    /// Whether a copy exists, with the right digest if that is to be verified.
    fn look(&self, file: &CacheFile, verify: bool) -> Result<Here> {
        let Some(held) = self.folder.find(file)? else { return Ok(Here::Missing) };
        match file.check {
            Check::Digest(digest) if verify && hash(&held, self.cancel)? != digest => {
                Ok(held.stat()?.map_or(Here::Missing, |stat| Here::Wrong(stat.id)))
            }
            _ => Ok(Here::Right),
        }
    }
}

fn hash(input: &dyn Input, cancel: &Cancel) -> Result<Digest> {
    let mut hasher = blake3::Hasher::new();
    cancel.check()?;
    input.each_piece(0..input.len().unwrap_or(0), &mut |piece| {
        hasher.update(piece);
        cancel.check()
    })?;
    Ok(Digest::from(hasher.finalize()))
}
