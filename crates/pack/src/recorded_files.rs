//! The lengths and digests that sealed datasets recorded, to verify files that are read again.

use crate::digest_file::digest_file;
use crate::parallel_map::parallel_map;
use crate::refuse_view::refuse_view;
use crate::shard_stems::shard_stems;
use packhorse_core::{Cancel, Code, Error, Kind, Limits, Result, Store, counted};
use packhorse_dataset::{
    Digest, FileRecord, MANIFEST, Manifest, PART, RECEIPT_SUFFIX, Receipt, ShardRecord, is_plan_name,
};
use packhorse_storage::Location;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The most folders between a dataset's folder and a shard.
const DEEPEST: usize = 2;

/// The most bytes of a receipt.
const LONGEST: u64 = 1 << 30;

/// Files of sealed datasets by path, with the lengths and digests recorded at sealing.
///
/// The records are verified: the manifest holds its own digest and that of each receipt.
#[derive(Debug, Default)]
pub struct RecordedFiles {
    files: BTreeMap<PathBuf, FileRecord>,
    manifests: BTreeMap<PathBuf, Option<NamedShards>>,
}

/// A manifest, and the positions of its shards by name and by file.
#[derive(Debug)]
struct NamedShards {
    manifest: Manifest,
    places: HashMap<String, usize>,
}

impl NamedShards {
    fn new(manifest: Manifest) -> Self {
        let names = |shard: &ShardRecord| [shard.name.clone(), shard.file.clone()];
        let places = manifest.shards.iter().enumerate().flat_map(|(at, shard)| names(shard).map(|name| (name, at)));
        Self { places: places.collect(), manifest }
    }

    /// The shard that has the file `name`: its own, or one whose name begins with its name and a dot; the longest such.
    fn of_file(&self, name: &str) -> Option<&ShardRecord> {
        let at = std::iter::once(name).chain(shard_stems(name)).find_map(|name| self.places.get(name))?;
        self.manifest.shards.get(*at)
    }
}

impl RecordedFiles {
    /// Adds the files of the sealed dataset in the folder `dir`: those of the shards that are `wanted`, and those
    /// outside shards. Returns whether `dir` holds a sealed dataset.
    ///
    /// Errors: `Incomplete` for a damaged manifest or receipt, which it names.
    pub fn add_dataset(
        &mut self,
        store: &dyn Store,
        dir: &Path,
        wanted: impl Fn(&ShardRecord) -> bool,
    ) -> Result<bool> {
        let Some(NamedShards { manifest, .. }) = self.shards(store, dir)? else { return Ok(false) };
        let shards: Vec<ShardRecord> = manifest.shards.iter().filter(|shard| wanted(shard)).cloned().collect();
        let others = manifest.files.clone();
        self.files.extend(others.into_iter().map(|file| (dir.join(&file.name), file)));
        shards.iter().try_for_each(|shard| self.add_shard(store, dir, shard))?;
        Ok(true)
    }

    /// Adds all files of the shard that `path` belongs to, if it lies in a sealed dataset.
    pub fn add_file(&mut self, store: &dyn Store, path: &Path) -> Result<()> {
        match self.shard_of(store, path)? {
            Some((dir, shard)) => self.add_shard(store, dir, &shard),
            None => Ok(()),
        }
    }

    /// The sealed dataset that `path` lies in, and the shard that it belongs to.
    fn shard_of<'p>(&mut self, store: &dyn Store, path: &'p Path) -> Result<Option<(&'p Path, ShardRecord)>> {
        for dir in path.ancestors().skip(1).take(DEEPEST) {
            let Ok(name) = path.strip_prefix(dir) else { continue };
            let name = name.to_string_lossy();
            let found = self.shards(store, dir)?.and_then(|shards| shards.of_file(&name)).cloned();
            if let Some(shard) = found {
                return Ok(Some((dir, shard)));
            }
        }
        Ok(None)
    }

    /// The record of the file `path`.
    pub fn get(&self, path: &Path) -> Option<&FileRecord> {
        self.files.get(path)
    }

    /// Reads the `wanted` files in parallel and compares them with their records.
    ///
    /// Errors: `Incomplete` for the first file, by path, that is missing or has another length or digest.
    pub fn check(&self, store: &dyn Store, cancel: &Cancel, wanted: impl Fn(&Path) -> bool) -> Result<()> {
        let files: Vec<_> = self.files.iter().filter(|(path, _)| wanted(path)).collect();
        let jobs = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
        parallel_map(&files, jobs, &|(path, record)| check_file(store, path, record, cancel)).map(drop)
    }

    /// The shards of the dataset in `dir`, whose manifest is read once.
    fn shards(&mut self, store: &dyn Store, dir: &Path) -> Result<Option<&NamedShards>> {
        if !self.manifests.contains_key(dir) {
            let manifest = match recorded_manifest(store, dir) {
                // A web server may ask for a password where it has no such file.
                Err(e) if is_on_web(dir) && e.is_denied() => None,
                manifest => manifest?,
            };
            self.manifests.insert(dir.to_owned(), manifest.map(NamedShards::new));
        }
        Ok(self.manifests.get(dir).and_then(Option::as_ref))
    }

    /// Adds the files of a shard of the dataset in the folder `dir`.
    pub(crate) fn add_shard(&mut self, store: &dyn Store, dir: &Path, shard: &ShardRecord) -> Result<()> {
        self.files.extend(files_of(store, dir, shard)?);
        Ok(())
    }
}

/// Paths and records of the files of a shard of the dataset in the folder `dir`, by its receipt.
fn files_of(store: &dyn Store, dir: &Path, shard: &ShardRecord) -> Result<Vec<(PathBuf, FileRecord)>> {
    let path = dir.join(format!("{}{RECEIPT_SUFFIX}", shard.name));
    let named = |e: Error| e.in_input(path.display());
    let bytes = store.open(&path).and_then(|input| input.read_all(LONGEST)).map_err(|e| named(of_file(e)))?;
    if Digest::of(&bytes) != shard.receipt {
        return Err(named(damaged("its bytes do not have the recorded digest")));
    }
    let receipt = Receipt::decode(&bytes).map_err(named)?;
    Ok(receipt.files.into_iter().map(|file| (dir.join(&file.name), file)).collect())
}

/// Verifies shards of sealed datasets, each before its first read.
#[derive(Debug, Default)]
pub(crate) struct FirstReadCheck(Mutex<Checked>);

#[derive(Debug, Default)]
struct Checked {
    recorded: RecordedFiles,
    shards: BTreeSet<PathBuf>,
    /// A failure that ends the job: those that wait meanwhile would each wait as long for a server that does not answer.
    failure: Option<Error>,
}

impl FirstReadCheck {
    /// Verifies all files of the shard that `path` belongs to, unless that was done before.
    ///
    /// Errors: `Incomplete` for damage.
    pub(crate) fn check(&self, store: &dyn Store, path: &Path, cancel: &Cancel) -> Result<()> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fails = |failure: &mut Option<Error>, error: &Error| {
            if error.kind() == Kind::Environment {
                *failure = Some(error.clone());
            }
        };
        let shard = {
            let Checked { recorded, shards, failure } = &mut *lock();
            if shards.contains(path) {
                return Ok(());
            }
            if let Some(failure) = failure {
                return Err(failure.clone());
            }
            recorded.shard_of(store, path).inspect_err(|error| fails(failure, error))?
        };
        // Without the lock: from a bucket, receipts of many shards are read at once.
        if let Some((dir, shard)) = shard {
            let files = files_of(store, dir, &shard).inspect_err(|error| fails(&mut lock().failure, error))?;
            files.iter().try_for_each(|(path, record)| check_file(store, path, record, cancel))?;
        }
        lock().shards.insert(path.to_owned());
        Ok(())
    }
}

/// The manifest in the folder `dir`; `None` if there is no sealed dataset. Other programs call files `dataset.json` too.
///
/// Errors: `Incomplete` for a damaged manifest; `Config` for a view, which has no shards of its own.
pub fn sealed_manifest(store: &dyn Store, dir: &Path) -> Result<Option<Manifest>> {
    match Manifest::read(store, dir) {
        Ok(None) => refuse_view(store, dir).map(|()| None),
        Err(e) if e.kind() == Kind::Incomplete && e.code() != Code::NotSealed && is_of_another(store, dir) => Ok(None),
        read => read,
    }
}

/// As [`sealed_manifest`]; where only some shards of a dataset were copied to, the manifest of these.
pub(crate) fn recorded_manifest(store: &dyn Store, dir: &Path) -> Result<Option<Manifest>> {
    match sealed_manifest(store, dir)? {
        None => match Manifest::read_part(store, dir) {
            Err(e)
                if e.kind() == Kind::Incomplete
                    && ![MANIFEST, PART].iter().any(|name| is_ours(store, &dir.join(name))) =>
            {
                Ok(None)
            }
            part => part,
        },
        found => Ok(found),
    }
}

/// Whether the `dataset.json` in `dir`, which is not a manifest, is of another program: it has no word of ours, and no
/// file of a dataset lies beside it.
fn is_of_another(store: &dyn Store, dir: &Path) -> bool {
    let of_dataset =
        |name: &PathBuf| is_plan_name(&name.to_string_lossy()) || name.to_string_lossy().ends_with(RECEIPT_SUFFIX);
    let lacks_files = match store.list(dir) {
        Ok(names) => !names.iter().any(of_dataset),
        // A web server lists no folder, and may have a page for every name.
        Err(_) => is_on_web(dir),
    };
    lacks_files && !is_ours(store, &dir.join(MANIFEST))
}

fn is_on_web(dir: &Path) -> bool {
    Location::holds_objects(dir).is_err()
}

/// Whether the document `path` has a word of ours.
fn is_ours(store: &dyn Store, path: &Path) -> bool {
    const OURS: &[u8] = b"packhorse_";
    let bytes = store.open(path).and_then(|input| input.read_all(Limits::default().blob));
    // What can't be read is taken for damage.
    bytes.map_or_else(|e| !e.is_absent(), |bytes| bytes.windows(OURS.len()).any(|window| window == OURS))
}

/// Reads the file `path` and compares it with its record.
///
/// Errors: `Incomplete` if it is missing or differs.
pub(crate) fn check_file(store: &dyn Store, path: &Path, record: &FileRecord, cancel: &Cancel) -> Result<()> {
    cancel.check()?;
    let stat = store.stat(path, true).map_err(of_file)?;
    if stat.size != record.bytes {
        let message = format!("has {} instead of the {} recorded", counted(stat.size, "byte"), record.bytes);
        return Err(damaged(message).in_input(path.display()));
    }
    match digest_file(store, path, &mut |_| cancel.check()).map_err(of_file)?.0 == record.blake3 {
        true => Ok(()),
        false => Err(damaged("its bytes do not have the recorded digest").in_input(path.display())),
    }
}

const HINT: &str = "the dataset is damaged; `packhorse verify full` shows where, `packhorse repair` mends it";

fn damaged(how: impl Into<String>) -> Error {
    Error::new(Kind::Incomplete, how).with_code(Code::ShardDamaged).hint(HINT)
}

/// A missing file of a sealed dataset is damage.
fn of_file(error: Error) -> Error {
    match error.is_not_found() {
        true => {
            let input = error.input().map(str::to_owned);
            let missing = damaged("is missing").with_code(Code::ShardMissing);
            input.into_iter().fold(missing, Error::in_input).caused_by(error)
        }
        false => error,
    }
}
