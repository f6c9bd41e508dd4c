//! Files made of shards: many joined into one, and one that is damaged written anew.

use crate::fill::record;
use crate::inputs::{Names, container};
use crate::resume::of_request;
use packhorse_core::{Cancel, Error, FileKind, Format, Input, Options, Registry, Result, ShardSummary, Store};
use packhorse_dataset::{FileRecord, Manifest};
use packhorse_storage::{Stage, Staging};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Joins `inputs` (shards, and sealed datasets, whose shards of `split` are taken, or all) into one shard, in
/// their order: its files are called `out` and what the format adds. Files that are there are not replaced.
pub fn merge(
    registry: &Registry,
    store: &Arc<dyn Store>,
    inputs: &[PathBuf],
    split: Option<&str>,
    out: &Path,
    cancel: &Cancel,
) -> Result<Merged> {
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
    cancel.check()?;
    let opened = shards.iter().map(|(_, path)| store.open(path).map_err(of_request)).collect::<Result<Vec<_>>>()?;
    let refs: Vec<&dyn Input> = opened.iter().map(|input| &**input).collect();
    let (staging, name) = beside(store, out)?;
    // Before hours of copying, and not only after them.
    refuse_present(&**store, staging.out(), &format!("{name}{}", format.sink(&Options::new())?.suffix()))?;
    let mut stage = staging.stage(&name)?;
    let mut summary = format.merge(&refs, &mut stage)?;
    summary.name = name;
    Ok(Merged { shards: shards.len() as u64, summary, files: publish(&**store, &staging, stage)? })
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
) -> Result<Repaired> {
    let Some((format, None)) = container(registry, &Names::default(), path) else {
        return Err(Error::unsupported("is no file of a format that can be repaired").in_input(path.display()));
    };
    let input = store.open(path).map_err(of_request)?;
    let (staging, name) = beside(store, out)?;
    let mut stage = staging.stage(&name)?;
    match format.repair(&*input, options, &mut stage)? {
        None => Ok(Repaired { done: Vec::new(), files: Vec::new() }),
        Some(done) => Ok(Repaired { done, files: publish(&**store, &staging, stage)? }),
    }
}

/// A staging folder beside `out`, and the name that its files start with.
fn beside(store: &Arc<dyn Store>, out: &Path) -> Result<(Staging, String)> {
    let name = out.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::config("names no file in UTF-8; give a name such as data/corpus"));
    let name = name.map_err(|e| e.in_input(out.display()))?;
    // Somebody who names one of the files means it.
    let name = name.strip_suffix(".bin").or(name.strip_suffix(".idx")).unwrap_or(name);
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((Staging::open(store.clone(), folder)?, name.to_owned()))
}

fn refuse_present(store: &dyn Store, folder: &Path, name: &str) -> Result<()> {
    let path = folder.join(name);
    match store.stat(&path, false) {
        Ok(_) => Err(Error::config("is there already; give --out another name").in_input(path.display())),
        Err(_) => Ok(()),
    }
}

fn publish(store: &dyn Store, staging: &Staging, stage: Stage) -> Result<Vec<FileRecord>> {
    stage.names().try_for_each(|name| refuse_present(store, staging.out(), name))?;
    Ok(stage.publish()?.into_iter().map(record).collect())
}

type Shard<'r> = (&'r Arc<dyn Format>, PathBuf);

/// The shard `input`, or those of the sealed dataset `input` and how they were made.
fn shards_of<'r>(
    registry: &'r Registry,
    store: &dyn Store,
    input: &Path,
    split: Option<&str>,
) -> Result<(Option<Vec<String>>, Vec<Shard<'r>>)> {
    if store.stat(input, true).map_err(of_request)?.kind != FileKind::Directory {
        let Some((format, None)) = container(registry, &Names::default(), input) else {
            return Err(Error::config("is no shard that can be merged").in_input(input.display()));
        };
        return Ok((None, vec![(format, input.to_owned())]));
    }
    let unsealed = || Error::config("is no sealed dataset; seal it, or name its shards").in_input(input.display());
    let manifest = Manifest::read(store, input)?.ok_or_else(unsealed)?;
    let format = registry.get(&manifest.format.format)?;
    let wanted = |name: &Option<String>| split.is_none_or(|wanted| name.as_deref() == Some(wanted));
    let shards: Vec<Shard<'r>> =
        manifest.shards.iter().filter(|s| wanted(&s.split)).map(|s| (format, input.join(&s.file))).collect();
    match shards.is_empty() {
        false => Ok((Some(manifest.transforms), shards)),
        true => Err(Error::config("has no shard of that split").in_input(input.display())),
    }
}
