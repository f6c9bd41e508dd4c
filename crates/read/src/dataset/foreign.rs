//! Third-party shards without a manifest: indexed in parallel, and the index is cached if a folder is given.

use super::OpenOptions;
use super::shard::{COMPRESSED, Content, Shard, look, main_path, source};
use crate::cache::{CacheFile, CacheSource};
use crate::parallel::in_parallel;
use packhorse_core::{
    DataType, Error, Field, FileStat, Input, Kind, Members, Registry, Result, Schema, SchemaRef, Source, Store,
};
use packhorse_dataset::{Digest, decode_index, encode_index};
use packhorse_storage::{Compression, Local, Location, Staging, windowed};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The shards of these files, with the fields of their samples.
pub(super) fn shards(
    registry: &Registry,
    store: &Arc<dyn Store>,
    files: &[PathBuf],
    options: &OpenOptions,
) -> Result<Vec<(Shard, SchemaRef)>> {
    let paths: Vec<PathBuf> = files.iter().map(|file| main_path(registry, &**store, file)).collect::<Result<_>>()?;
    let mut ids = paths.iter().map(|path| format_of(registry, &**store, path, options));
    let id = ids.next().unwrap_or_else(|| Err(Error::bug("no files")))?;
    for (other, path) in ids.zip(paths.iter().skip(1)) {
        let other = other?;
        if other != id {
            let error = Error::config(format!("is {other} and others are {id}")).in_input(path.display());
            let [one, two] = [paths.first().unwrap_or(path), path].map(|path| path.with_file_name(pattern(path)));
            let hint = format!("open the files of one format, such as {} or {}", one.display(), two.display());
            return Err(error.hint(hint));
        }
    }
    let source = source(registry, &id, &options.options, options.limits)?;
    let data = registry.get(&id)?.data_file();
    let found: Vec<OnceLock<_>> = paths.iter().map(|_| OnceLock::new()).collect();
    in_parallel(paths.len(), options.threads, |i| {
        let (Some(path), Some(place)) = (paths.get(i), found.get(i)) else { return Ok(()) };
        // Each slot is set once.
        let _ = place.set(shard(store, (&source, data), path, options)?);
        Ok(())
    })
    .map_err(|e| match e.kind() {
        Kind::Content if paths.len() > 1 && e.hints().is_none() => e.hint(DAMAGED),
        _ => e,
    })?;
    let stems = stems(&paths);
    let shards = found.into_iter().zip(stems).filter_map(|(shard, stem)| Some((shard.into_inner()?, stem)));
    Ok(shards.map(|((shard, schema), stem)| (Shard { stem, ..shard }, schema)).collect())
}

/// The remedy for a damaged file among shards that are opened in place.
const DAMAGED: &str = "open the others alone, or pack the shards with `on-error=skip`, which keeps what can be read";

/// A pattern of the files with the extension of `path`.
fn pattern(path: &Path) -> String {
    path.extension().map_or_else(|| "*".to_owned(), |extension| format!("*.{}", extension.to_string_lossy()))
}

/// The names of the files, with as many of their folders as tell all of them apart.
fn stems(paths: &[PathBuf]) -> Vec<String> {
    let deepest = paths.iter().map(|path| path.components().count()).max().unwrap_or(1);
    let ends = |parts: usize| -> Vec<String> { paths.iter().map(|path| end_of(path, parts)).collect() };
    let apart = |ends: &Vec<String>| ends.iter().collect::<BTreeSet<_>>().len() == ends.len();
    (1..=deepest).map(ends).find(apart).unwrap_or_else(|| ends(1))
}

/// The last `parts` names of a path.
pub(super) fn end_of(path: &Path, parts: usize) -> String {
    let text = path.to_string_lossy();
    let start = text.rmatch_indices('/').nth(parts - 1).map_or(0, |(at, _)| at + 1);
    text.get(start..).unwrap_or_default().to_owned()
}

fn format_of(registry: &Registry, store: &dyn Store, path: &Path, options: &OpenOptions) -> Result<String> {
    if let Some(id) = &options.format {
        return Ok(id.clone());
    }
    let name = path.as_os_str().as_encoded_bytes();
    if let Some(format) = registry.by_name(name) {
        return Ok(format.info().id.to_owned());
    }
    // A missing file gives a better error than an unknown name.
    store.stat(path, true)?;
    if Compression::of(name).is_some_and(|(_, inside)| registry.by_name(&inside).is_some()) {
        return Err(Error::unsupported(COMPRESSED).in_input(path.display()));
    }
    let message = "has a name that belongs to no format of shards; say which it is";
    Err(Error::config(message).in_input(path.display()))
}

fn shard(
    store: &Arc<dyn Store>,
    (source, data): (&Arc<dyn Source>, Option<(&str, &str)>),
    path: &Path,
    options: &OpenOptions,
) -> Result<(Shard, SchemaRef)> {
    // Headers of small members follow each other.
    let input: Arc<dyn Input> = windowed(store.open(path)?).into();
    let stat = input.stat()?;
    let bytes = input.len().unwrap_or(0);
    let mark = stat.map(|stat| (stat.size, stat.mtime, stat.id));
    let digest = Digest::of(format!("{}\n{bytes}\n{mark:?}", path.display()).as_bytes());
    let (content, kept) = content(&**source, &input, options, &digest).map_err(|e| e.in_input(input.name()))?;
    let schema = schema(&content);
    let is_kept = kept.is_some();
    let shard = Shard {
        name: store.shown(path),
        stem: String::new(),
        path: path.to_owned(),
        store: Arc::clone(store),
        source: Arc::clone(source),
        samples: content.samples(),
        index: kept.map(|path| -> (Arc<dyn Store>, PathBuf) { (Arc::new(Local), path) }),
        bytes,
        // The location and the modification time of a file don't identify its samples.
        digest: Digest::of(format!("{:?} {bytes} {}", path.file_name(), content.samples()).as_bytes()),
        sealed: false,
        committed: None,
        modified: stat.filter(|_| Location::url(path).is_none()).map(|stat| stat.mtime),
        data: data_of(&**store, path, data),
        split: None,
        limits: options.limits,
        near: near(store, path, input.name(), stat),
        columns: None,
        // Content that can be loaded again is not held in memory for all shards.
        content: if is_kept { OnceLock::new() } else { OnceLock::from(content) },
    };
    Ok((shard, schema))
}

/// The file that has the values of `path`, and its size, if the format has them in another one ([`Format::data_file`]).
///
/// [`Format::data_file`]: packhorse_core::Format::data_file
fn data_of(store: &dyn Store, path: &Path, extensions: Option<(&str, &str)>) -> Option<(PathBuf, u64)> {
    let (main, data) = extensions?;
    let data = path.extension().filter(|extension| *extension == main).map(|_| path.with_extension(data))?;
    store.stat(&data, true).ok().map(|stat| (data, stat.size))
}

/// The identity of a file for a cache: its folder, and its state in the store.
fn near(
    store: &Arc<dyn Store>,
    path: &Path,
    name: &str,
    stat: Option<FileStat>,
) -> Option<(Arc<CacheSource>, CacheFile)> {
    let (dir, file) = (path.parent()?, path.file_name()?.to_str()?);
    let place = name.rsplit_once('/').map_or(".", |(place, _)| place);
    let source = CacheSource::foreign(Arc::clone(store), dir, place);
    let file = source.file(file, &stat?);
    Some((Arc::new(source), file))
}

/// The content of `input`, from a cached index or indexed now and cached; and the index file.
fn content(
    source: &dyn Source,
    input: &Arc<dyn Input>,
    options: &OpenOptions,
    digest: &Digest,
) -> Result<(Content, Option<PathBuf>)> {
    let path = options.indexes.as_ref().map(|dir| dir.join(format!("{digest}.members")));
    if let Some(members) = path.as_deref().and_then(|path| read(path, options)) {
        return Ok((Content::Members(Arc::new(members)), path));
    }
    let (content, _) = look(source, input)?;
    // If the folder can't be written, only time and memory are lost.
    let kept = path.filter(|path| matches!(&content, Content::Members(members) if keep(path, members).is_ok()));
    Ok((content, kept))
}

fn read(path: &Path, options: &OpenOptions) -> Option<Members> {
    let bytes = Local.open(path).ok()?.read_all(options.limits.blob).ok()?;
    decode_index(&bytes, &options.limits).ok()
}

fn keep(path: &Path, members: &Members) -> Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(Error::bug("an index without a name"));
    };
    Staging::open(Arc::new(Local), dir)?.document(name, &encode_index(members)).map(|_| ())
}

fn schema(content: &Content) -> SchemaRef {
    match content {
        Content::Table { schema, .. } => Arc::clone(schema),
        Content::Members(members) => {
            let everywhere = |field: &str| {
                members.len() >= members.samples() && members.iter().all(|(_, mut list)| list.any(|m| m.field == field))
            };
            let field = |name: &String| Field::new(name, DataType::BinaryView, !everywhere(name));
            Arc::new(Schema::new(members.fields().iter().map(field).collect::<Vec<_>>()))
        }
    }
}
