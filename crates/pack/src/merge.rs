//! Files made of shards: merges many into one, and rewrites a damaged one.

use crate::cancellable_input::CancellableInput;
use crate::digest_file::digest_file;
use crate::few_open::FewOpen;
use crate::input_format::{NameRules, container};
use crate::plan_differences::apart;
use crate::recorded_files::{RecordedFiles, sealed_manifest};
use crate::request_error::as_request_error;
use crate::shard_packer::record;
use packhorse_core::{Cancel, Code, Error, FileKind, Format, Input, Options, Registry, Result, ShardSummary, Store};
use packhorse_dataset::{Digest, FileRecord, MANIFEST, PLAN, ShardRecord};
use packhorse_storage::{Published, Stage, Staging};
use packhorse_transform::without_text_field;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to merge.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Takes only the shards of this split from sealed datasets.
    pub split: Option<String>,
    /// Whether files of sealed datasets are compared with their recorded digests before anything is written.
    pub verify: bool,
    /// Whether existing files of the name are replaced (default: only files with the same bytes may exist).
    pub replace: bool,
}

impl Default for MergeOptions {
    /// All shards, verified; nothing is replaced.
    fn default() -> Self {
        Self { split: None, verify: true, replace: false }
    }
}

/// The result of [`merge`].
#[derive(Clone, Debug)]
pub struct Merged {
    /// The number of merged shards.
    pub shards: u64,
    /// The splits that they are of, if there are several: they are one now.
    pub splits: Vec<String>,
    /// Totals of the new shard.
    pub summary: ShardSummary,
    /// The files of the new shard.
    pub files: Vec<FileRecord>,
    /// Whether all files existed with the same bytes, so that none was written.
    pub existed: bool,
}

/// Merges `inputs` (shards, and sealed datasets, whose shards are taken) into one shard, in their order. Its files are
/// named `out` with the format's suffixes.
///
/// The file that readers open is published last, so that an interrupted merge leaves no shard, and can be repeated. One
/// that replaces another shard removes that file first.
///
/// Errors: `Config` for existing files with other bytes, unless they are to be replaced; then for those of an input or
/// of a dataset; `Incomplete` for a damaged sealed dataset, and nothing is
/// written.
pub fn merge(
    registry: &Registry,
    store: &Arc<dyn Store>,
    inputs: &[PathBuf],
    options: &MergeOptions,
    out: &Path,
    cancel: &Cancel,
) -> Result<Merged> {
    let split = options.split.as_deref();
    let (shards, splits) = all_shards(registry, &**store, inputs, split)?;
    let Some((format, _)) = shards.first() else { return Err(Error::config("there is nothing to merge")) };
    let (folder, name) = place(out)?;
    // Checked before the copy, which may take hours.
    let opened = folder.join(format!("{name}{}", opened_suffix(&***format)?));
    match options.replace {
        true => refuse_kept(&**store, folder, &name, &shards)?,
        false => refuse_present(&**store, &opened, &name, &shards)?,
    }
    if options.verify {
        check(&**store, inputs, split, cancel)?;
    }
    let files = FewOpen::new(store.clone());
    let open = |(_, path): &Shard<'_>| Ok(CancellableInput::new(files.input(path).map_err(as_request_error)?, cancel));
    let inputs = shards.iter().map(open).collect::<Result<Vec<_>>>()?;
    let refs: Vec<&dyn Input> = inputs.iter().map(|input| input as &dyn Input).collect();
    let staging = Staging::open(store.clone(), folder)?;
    let mut stage = staging.stage(&name)?;
    let mut summary = format.merge(&refs, &mut stage)?;
    summary.name = name;
    let shards = shards.len() as u64;
    let ready = stage.ready()?;
    if ready.files().iter().all(|file| is_there(&**store, folder, file, cancel).is_ok_and(|same| same)) {
        let files = ready.files().iter().cloned().map(record).collect();
        return Ok(Merged { shards, splits, summary, files, existed: true });
    }
    cancel.check()?;
    match options.replace {
        // Without it no reader takes the other files for a shard until all are in place.
        true => store.remove(&opened).and_then(|()| store.sync_dir(folder))?,
        false => ready.files().iter().try_for_each(|file| refuse_other(&**store, folder, file, cancel))?,
    }
    Ok(Merged { shards, splits, summary, files: ready.publish()?.into_iter().map(record).collect(), existed: false })
}

/// Whether transforms make the same of the same values: texts may come from fields of other names.
fn same_transforms(ours: &[String], theirs: &[String]) -> bool {
    fn parts(all: &[String]) -> impl Iterator<Item = &str> {
        all.iter().map(|text| without_text_field(text).0)
    }
    parts(ours).eq(parts(theirs))
}

/// The shards of all inputs, in their order: of one format, and made by the same transforms; and their splits, if there are several.
fn all_shards<'r>(
    registry: &'r Registry,
    store: &dyn Store,
    inputs: &[PathBuf],
    split: Option<&str>,
) -> Result<(Vec<Shard<'r>>, Vec<String>)> {
    let (mut shards, mut splits) = (Vec::new(), Vec::new());
    let mut made: Option<(Vec<String>, &PathBuf)> = None;
    for input in inputs {
        let (transforms, found) = shards_of(registry, store, input, split, &mut splits)?;
        match (transforms, &made) {
            (Some(ours), Some((theirs, other))) if !same_transforms(&ours, theirs) => {
                let (there, here) = apart(&theirs.join("; "), &ours.join("; "));
                let message = format!(
                    "was made by other transforms than {}, such as another tokenizer: {there} there, {here} here",
                    other.display()
                );
                let error = Error::config(message).in_input(input.display());
                // Tokens that were packed again do not tell what made them.
                let unknown = ours.is_empty() || theirs.is_empty();
                let hint = "if both are the same, name the shards instead of the folders (`DIR/shard-000000.idx`)";
                return Err(if unknown { error.hint(hint) } else { error });
            }
            (ours, None) => made = ours.map(|ours| (ours, input)),
            _ => {}
        }
        shards.extend(found);
    }
    let mixed = if splits.len() > 1 { splits } else { Vec::new() };
    let Some((format, first)) = shards.first() else { return Ok((shards, mixed)) };
    if let Some((other, path)) = shards.iter().find(|(other, _)| other.info().id != format.info().id) {
        let (a, b) = (format.info().id, other.info().id);
        let message = format!("is of the format {b}, and {} is of {a}; merge shards of one format", first.display());
        return Err(Error::config(message).in_input(path.display()));
    }
    Ok((shards, mixed))
}

/// Compares the files of sealed datasets, and of single shards of such, with their recorded digests.
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

/// The suffix of the file that readers open: `.idx` for a format whose data file `x.bin` belongs to `x.idx`.
fn opened_suffix(format: &dyn Format) -> Result<String> {
    let sink = format.sink(&Options::new())?;
    let suffix = sink.suffix();
    let main = |(main, part): &(&str, &str)| (suffix.strip_prefix('.') == Some(*part)).then(|| format!(".{main}"));
    Ok(format.companions().iter().find_map(main).unwrap_or_else(|| suffix.to_owned()))
}

/// The result of [`repair`].
#[derive(Clone, Debug)]
pub struct Repaired {
    /// Defects and their repairs, in sentences; empty if the file is not damaged.
    pub done: Vec<String>,
    /// The files written.
    pub files: Vec<FileRecord>,
}

/// Rewrites the damaged file `path`, which may be third-party, as files named `out` with the format's suffixes.
pub fn repair(
    registry: &Registry,
    store: &Arc<dyn Store>,
    path: &Path,
    options: &Options,
    out: &Path,
    cancel: &Cancel,
) -> Result<Repaired> {
    let Some((format, None)) = container(registry, &NameRules::default(), path) else {
        return Err(Error::unsupported("can't be repaired: its format has no repair").in_input(path.display()));
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
    // The name of one of the files stands for both.
    let name = name.strip_suffix(".bin").or(name.strip_suffix(".idx")).unwrap_or(name);
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((folder, name.to_owned()))
}

/// Refuses an existing shard whose size shows that it is not made of these shards.
fn refuse_present(store: &dyn Store, opened: &Path, name: &str, shards: &[Shard<'_>]) -> Result<()> {
    let Some((format, _)) = shards.first() else { return Ok(()) };
    if store.stat(opened, false).is_err() {
        return Ok(());
    }
    let suffix = format.sink(&Options::new())?.suffix().to_owned();
    let length = |path: &Path| store.stat(path, true).ok().map(|stat| stat.size);
    let data = |path: &Path| length(&path.with_extension(suffix.trim_start_matches('.')));
    let wanted: Option<u64> = shards.iter().map(|(_, path)| data(path)).sum();
    match wanted.is_some() && wanted == length(&opened.with_file_name(format!("{name}{suffix}"))) {
        true => Ok(()),
        false => Err(taken(opened, "already exists, and is not made of these shards")),
    }
}

fn taken(path: &Path, message: &str) -> Error {
    let error = Error::config(message).with_code(Code::OutputExists);
    error.hint("give `out` another name, or start over with `replace`").in_input(path.display())
}

/// Refuses to replace a shard that is merged, and one of a dataset.
fn refuse_kept(store: &dyn Store, folder: &Path, name: &str, shards: &[Shard<'_>]) -> Result<()> {
    let of_dataset = [MANIFEST, PLAN].iter().any(|file| store.stat(&folder.join(file), true).is_ok());
    if of_dataset {
        let error = Error::config("holds a dataset, whose files can't be replaced").with_code(Code::OutputExists);
        return Err(error.hint("give `out` another folder").in_input(folder.display()));
    }
    let here = store.stat(folder, true).ok().map(|stat| stat.id);
    let is_ours = |path: &Path| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        path.file_stem().is_some_and(|stem| stem == name)
            && here.is_some()
            && store.stat(parent, true).ok().map(|stat| stat.id) == here
    };
    match shards.iter().find(|(_, path)| is_ours(path)) {
        None => Ok(()),
        Some((_, path)) => {
            let error = Error::config("is an input, and can't be replaced").with_code(Code::OutputExists);
            Err(error.hint("give `out` another name").in_input(path.display()))
        }
    }
}

/// Whether the file exists with the same bytes.
fn is_there(store: &dyn Store, folder: &Path, file: &Published, cancel: &Cancel) -> Result<bool> {
    let path = folder.join(&file.name);
    match store.stat(&path, false) {
        Ok(stat) if stat.kind == FileKind::File && stat.size == file.bytes => {
            Ok(digest_file(store, &path, &mut |_| cancel.check())?.0 == Digest::from(file.blake3))
        }
        _ => Ok(false),
    }
}

/// Refuses to replace a file that has other bytes.
fn refuse_other(store: &dyn Store, folder: &Path, file: &Published, cancel: &Cancel) -> Result<()> {
    let path = folder.join(&file.name);
    match store.stat(&path, false).is_err() || is_there(store, folder, file, cancel)? {
        true => Ok(()),
        false => Err(taken(&path, "already exists, with other bytes")),
    }
}

/// Publishes the files of a repaired shard. The last one must not exist; the others may, with the same bytes.
fn publish(store: &dyn Store, staging: &Staging, stage: Stage, cancel: &Cancel) -> Result<Vec<FileRecord>> {
    let other_name = |path: &Path, message: &str| {
        let error = Error::config(message).with_code(Code::OutputExists);
        Err(error.hint("give `out` another name").in_input(path.display()))
    };
    let check = |files: &[Published]| {
        cancel.check()?;
        let Some((last, before)) = files.split_last() else { return Ok(()) };
        let path = staging.out().join(&last.name);
        if store.stat(&path, false).is_ok() {
            return other_name(&path, "already exists");
        }
        before.iter().try_for_each(|file| {
            let path = staging.out().join(&file.name);
            match store.stat(&path, false).is_err() || is_there(store, staging.out(), file, cancel)? {
                true => Ok(()),
                false => other_name(&path, "already exists, with other bytes"),
            }
        })
    };
    Ok(stage.publish_if(check)?.into_iter().map(record).collect())
}

type Shard<'r> = (&'r Arc<dyn Format>, PathBuf);

/// The shard `input`; or the shards of the sealed dataset `input`, and its transforms. Adds their splits.
fn shards_of<'r>(
    registry: &'r Registry,
    store: &dyn Store,
    input: &Path,
    split: Option<&str>,
    splits: &mut Vec<String>,
) -> Result<(Option<Vec<String>>, Vec<Shard<'r>>)> {
    if store.stat(input, true).map_err(as_request_error)?.kind != FileKind::Directory {
        let Some((format, None)) = container(registry, &NameRules::default(), input) else {
            return Err(Error::config("is not a shard that can be merged").in_input(input.display()));
        };
        return Ok((None, vec![(format, input.to_owned())]));
    }
    let unsealed = || Error::config("is not a sealed dataset; seal it, or name its shards").in_input(input.display());
    let manifest = sealed_manifest(store, input)?.ok_or_else(unsealed)?;
    let format = registry.get(&manifest.format.format)?;
    let wanted = |name: &Option<String>| split.is_none_or(|wanted| name.as_deref() == Some(wanted));
    let taken: Vec<&ShardRecord> = manifest.shards.iter().filter(|shard| wanted(&shard.split)).collect();
    for split in taken.iter().filter_map(|shard| shard.split.as_ref()) {
        if !splits.contains(split) {
            splits.push(split.clone());
        }
    }
    let shards: Vec<Shard<'r>> = taken.into_iter().map(|shard| (format, input.join(&shard.file))).collect();
    match shards.is_empty() {
        false => Ok((Some(manifest.transforms), shards)),
        true => Err(Error::config("has no shard of that split").in_input(input.display())),
    }
}
