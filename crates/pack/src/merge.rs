//! Files made of shards: many joined into one, and one that is damaged written anew.

use crate::cancellable_input::CancellableInput;
use crate::digest_file::digest_file;
use crate::input_format::{NameRules, container};
use crate::recorded_files::{RecordedFiles, sealed_manifest};
use crate::request_error::as_request_error;
use crate::shard_packer::record;
use packhorse_core::{Cancel, Code, Error, FileKind, Format, Input, Options, Registry, Result, ShardSummary, Store};
use packhorse_dataset::{Digest, FileRecord, ShardRecord};
use packhorse_storage::{Published, Stage, Staging};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to merge.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Of sealed datasets, only the shards of this split.
    pub split: Option<String>,
    /// Whether the files of sealed datasets are compared with what was recorded of them before anything is written.
    pub verify: bool,
}

impl Default for MergeOptions {
    /// All shards, compared with what was recorded.
    fn default() -> Self {
        Self { split: None, verify: true }
    }
}

/// What [`merge`] made.
#[derive(Clone, Debug)]
pub struct Merged {
    /// How many shards went into it.
    pub shards: u64,
    /// What it holds.
    pub summary: ShardSummary,
    /// Its files.
    pub files: Vec<FileRecord>,
}

/// Joins `inputs` (shards, and sealed datasets, whose shards of a split are taken, or all) into one shard, in
/// their order: its files are called `out` and what the format adds.
///
/// The file that readers open comes last, and while it is not there the shard is not: what a run that was killed left
/// is replaced by the same bytes. Files that are there are not replaced by others (`Config`). Damage to what sealed
/// datasets recorded is an `Incomplete` error, and nothing is written.
pub fn merge(
    registry: &Registry,
    store: &Arc<dyn Store>,
    inputs: &[PathBuf],
    options: &MergeOptions,
    out: &Path,
    cancel: &Cancel,
) -> Result<Merged> {
    let split = options.split.as_deref();
    let mut shards = Vec::new();
    let mut made: Option<(Vec<String>, &PathBuf)> = None;
    for input in inputs {
        let (transforms, found) = shards_of(registry, &**store, input, split)?;
        match (transforms, &made) {
            (Some(ours), Some((theirs, other))) if ours != *theirs => {
                let message = format!("was made in another way than {}, with another tokenizer, say", other.display());
                return Err(Error::config(message).in_input(input.display()));
            }
            (ours, None) => made = ours.map(|ours| (ours, input)),
            _ => {}
        }
        shards.extend(found);
    }
    let Some((format, first)) = shards.first() else { return Err(Error::config("there is nothing to merge")) };
    if let Some((other, path)) = shards.iter().find(|(other, _)| other.info().id != format.info().id) {
        let (a, b) = (format.info().id, other.info().id);
        let message = format!("is of the format {b}, and {} is of {a}; merge shards of one format", first.display());
        return Err(Error::config(message).in_input(path.display()));
    }
    let (folder, name) = place(out)?;
    // Before hours of copying, and not only after them.
    refuse_present(&**store, folder, &format!("{name}{}", opened_suffix(&***format)?))?;
    if options.verify {
        check(&**store, inputs, split, cancel)?;
    }
    let open = |(_, path): &Shard<'_>| Ok(CancellableInput::new(store.open(path).map_err(as_request_error)?, cancel));
    let opened = shards.iter().map(open).collect::<Result<Vec<_>>>()?;
    let refs: Vec<&dyn Input> = opened.iter().map(|input| input as &dyn Input).collect();
    let staging = Staging::open(store.clone(), folder)?;
    let mut stage = staging.stage(&name)?;
    let mut summary = format.merge(&refs, &mut stage)?;
    summary.name = name;
    Ok(Merged { shards: shards.len() as u64, summary, files: publish(&**store, &staging, stage, cancel)? })
}

/// Compares the files of sealed datasets, and of shards that lie in them, with what was recorded.
fn check(store: &dyn Store, inputs: &[PathBuf], split: Option<&str>, cancel: &Cancel) -> Result<()> {
    let mut recorded = RecordedFiles::default();
    for input in inputs {
        let wanted = |shard: &ShardRecord| split.is_none_or(|wanted| shard.split.as_deref() == Some(wanted));
        if !recorded.add_dataset(store, input, wanted)? {
            recorded.add_file(store, input)?;
        }
    }
    recorded.check(store, cancel, |_| true)
}

/// What follows the name of a shard in the name of the file that readers open: of `x.bin`, which belongs to `x.idx`,
/// the latter.
fn opened_suffix(format: &dyn Format) -> Result<String> {
    let sink = format.sink(&Options::new())?;
    let suffix = sink.suffix();
    let main = |(main, part): &(&str, &str)| (suffix.strip_prefix('.') == Some(*part)).then(|| format!(".{main}"));
    Ok(format.companions().iter().find_map(main).unwrap_or_else(|| suffix.to_owned()))
}

/// What [`repair`] did.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// What was wrong and what was done, in sentences; empty where nothing was wrong.
    pub done: Vec<String>,
    /// The files that were written.
    pub files: Vec<FileRecord>,
}

/// Writes what is wrong with the file `path`, anybody's, anew: into files called `out` and what the format adds.
pub fn repair(
    registry: &Registry,
    store: &Arc<dyn Store>,
    path: &Path,
    options: &Options,
    out: &Path,
    cancel: &Cancel,
) -> Result<Repaired> {
    let Some((format, None)) = container(registry, &NameRules::default(), path) else {
        return Err(Error::unsupported("is no file of a format that can be repaired").in_input(path.display()));
    };
    let input = CancellableInput::new(store.open(path).map_err(as_request_error)?, cancel);
    let (folder, name) = place(out)?;
    let staging = Staging::open(store.clone(), folder)?;
    let mut stage = staging.stage(&name)?;
    match format.repair(&input, options, &mut stage)? {
        None => Ok(Repaired { done: Vec::new(), files: Vec::new() }),
        Some(done) => Ok(Repaired { done, files: publish(&**store, &staging, stage, cancel)? }),
    }
}

/// The folder of `out`, and the name that its files start with.
fn place(out: &Path) -> Result<(&Path, String)> {
    let name = out.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::config("names no file in UTF-8; give a name such as data/corpus"));
    let name = name.map_err(|e| e.in_input(out.display()))?;
    // A user who names one of the files means it.
    let name = name.strip_suffix(".bin").or(name.strip_suffix(".idx")).unwrap_or(name);
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((folder, name.to_owned()))
}

fn refuse_present(store: &dyn Store, folder: &Path, name: &str) -> Result<()> {
    let path = folder.join(name);
    match store.stat(&path, false) {
        Ok(_) => Err(Error::config("is there already")
            .with_code(Code::OutputExists)
            .hint("give `out` another name")
            .in_input(path.display())),
        Err(_) => Ok(()),
    }
}

/// Publishes the files of `stage`, the last of which must not be there; others may be, with the same bytes.
fn publish(store: &dyn Store, staging: &Staging, stage: Stage, cancel: &Cancel) -> Result<Vec<FileRecord>> {
    let check = |files: &[Published]| {
        cancel.check()?;
        let Some((last, before)) = files.split_last() else { return Ok(()) };
        refuse_present(store, staging.out(), &last.name)?;
        before.iter().try_for_each(|file| refuse_other(store, staging.out(), file, cancel))
    };
    Ok(stage.publish_if(check)?.into_iter().map(record).collect())
}

/// An error where a file of this name is there and has other bytes.
fn refuse_other(store: &dyn Store, folder: &Path, file: &Published, cancel: &Cancel) -> Result<()> {
    let path = folder.join(&file.name);
    let same = match store.stat(&path, false) {
        Err(_) => return Ok(()),
        Ok(stat) if stat.kind != FileKind::File || stat.size != file.bytes => false,
        Ok(_) => digest_file(store, &path, &mut |_| cancel.check())?.0 == Digest::from(file.blake3),
    };
    match same {
        true => Ok(()),
        false => Err(Error::config("is there already, and is another file than this one")
            .with_code(Code::OutputExists)
            .hint("give `out` another name")
            .in_input(path.display())),
    }
}

type Shard<'r> = (&'r Arc<dyn Format>, PathBuf);

/// The shard `input`, or those of the sealed dataset `input` and how they were made.
fn shards_of<'r>(
    registry: &'r Registry,
    store: &dyn Store,
    input: &Path,
    split: Option<&str>,
) -> Result<(Option<Vec<String>>, Vec<Shard<'r>>)> {
    if store.stat(input, true).map_err(as_request_error)?.kind != FileKind::Directory {
        let Some((format, None)) = container(registry, &NameRules::default(), input) else {
            return Err(Error::config("is no shard that can be merged").in_input(input.display()));
        };
        return Ok((None, vec![(format, input.to_owned())]));
    }
    let unsealed = || Error::config("is no sealed dataset; seal it, or name its shards").in_input(input.display());
    let manifest = sealed_manifest(store, input)?.ok_or_else(unsealed)?;
    let format = registry.get(&manifest.format.format)?;
    let wanted = |name: &Option<String>| split.is_none_or(|wanted| name.as_deref() == Some(wanted));
    let shards: Vec<Shard<'r>> =
        manifest.shards.iter().filter(|s| wanted(&s.split)).map(|s| (format, input.join(&s.file))).collect();
    match shards.is_empty() {
        false => Ok((Some(manifest.transforms), shards)),
        true => Err(Error::config("has no shard of that split").in_input(input.display())),
    }
}
