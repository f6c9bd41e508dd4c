//! Opens a dataset at a location.

use super::committed::Committed;
use super::foreign::{self, end_of};
use super::shard::{Shard, main_path, source};
use super::{Base, Dataset, union, view};
use crate::cache::{CacheFile, CacheSource};
use packhorse_core::{
    CLASSES, Code, DataType, Error, Field, FieldType, FileKind, HUGGINGFACE, Kind, Limits, Options, PACKED, Registry,
    Result, Schema, SchemaRef, Store, nearest_path, with_metadata,
};
use packhorse_dataset::{DatasetView, FieldRecord, MANIFEST, Manifest, ShardRecord, VIEW, is_of_packing, not_sealed};
use packhorse_storage::{is_glob, natural, paths_of};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// How a dataset is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Threads that index shards without a manifest.
    pub threads: usize,
    /// A local folder that caches these indexes.
    pub indexes: Option<PathBuf>,
    /// The format of files whose names don't tell it.
    pub format: Option<String>,
    /// Options of the format's reader (`datasets` of HDF5, `layout` of tokens), as `packhorse pack --read` takes them.
    pub options: Options,
    /// Limits for third-party files.
    pub limits: Limits,
}

impl Default for OpenOptions {
    /// 8 threads, no cached indexes, the format by name, default options and limits.
    fn default() -> Self {
        let (options, limits) = (Options::new(), Limits::default());
        Self { threads: 8, indexes: None, format: None, options, limits }
    }
}

impl Dataset {
    /// Opens the dataset at `path` of `store`:
    ///
    /// * the folder of a sealed dataset, or its `dataset.json`: nothing else is read yet;
    /// * the folder of a view, or its `view.json`: the samples that it lists, of its sealed dataset;
    /// * third-party shards without a manifest: a file, a pattern (`shard-{000..127}.tar`, `*.parquet`) or a folder of
    ///   them. The headers of tars and of other formats are read once.
    ///
    /// Errors: no files; files of different formats; a shard that is damaged or can't be read sample by sample; a view
    /// whose dataset was changed, moved or removed (kind `Changed`); a folder that packing has not sealed (`Incomplete`),
    /// of which a pattern opens the shards that are there.
    pub fn open(registry: &Registry, store: Arc<dyn Store>, path: &Path, options: &OpenOptions) -> Result<Self> {
        let dir = match path.file_name() {
            Some(name) if name == MANIFEST || name == VIEW => path.parent().unwrap_or(Path::new("")),
            _ => path,
        };
        let pattern = path.to_str().is_some_and(|text| text.contains('{') || is_glob(text));
        // A folder's name may look like a pattern, and web servers know no folders.
        let is_there = |path: &Path| store.stat(path, true).is_ok();
        let pattern = pattern && !is_there(path) && !is_there(&dir.join(MANIFEST)) && !is_there(&dir.join(VIEW));
        if !pattern && let Some(manifest) = Manifest::read(&*store, dir)? {
            return sealed(registry, &store, dir, &manifest, options);
        }
        if !pattern && let Some(view) = DatasetView::read(&*store, dir)? {
            return view::open(registry, &store, dir, &view, options);
        }
        let files = files(registry, &*store, path, options)?;
        let shards = foreign::shards(registry, &store, &files, options)?;
        let schema = union(shards.iter().map(|(shard, schema)| (&*shard.name, schema)))?;
        let classes = classes_of(shards.iter().map(|(_, schema)| schema));
        Self::new(registry, shards.into_iter().map(|(shard, _)| Arc::new(shard)).collect(), schema, classes)
    }
}

/// The class list of tables that have one each: the longest, if it begins with all others; else none.
fn classes_of<'s>(schemas: impl Iterator<Item = &'s SchemaRef>) -> Vec<String> {
    let list = |schema: &SchemaRef| serde_json::from_str(schema.metadata().get(CLASSES)?).ok();
    let lists: Option<Vec<Vec<String>>> = schemas.map(list).collect();
    let lists = lists.unwrap_or_default();
    let longest = lists.iter().max_by_key(|list| list.len()).cloned().unwrap_or_default();
    if lists.iter().all(|list| longest.starts_with(list)) { longest } else { Vec::new() }
}

pub(super) fn sealed(
    registry: &Registry,
    store: &Arc<dyn Store>,
    dir: &Path,
    manifest: &Manifest,
    options: &OpenOptions,
) -> Result<Dataset> {
    manifest.refuse_write_only().map_err(|e| e.in_input(dir.display()))?;
    // The schema is that of the manifest, and so are the keys.
    if let Some(name) = CHOICES.into_iter().find(|name| options.options.get(name).is_some()) {
        let error = Error::config(format!("the reader's option {name} chooses columns of files that others wrote"));
        return Err(error
            .in_input(dir.display())
            .hint("fields of a dataset are chosen by what reads them: a loader, or a view"));
    }
    let id = options.format.as_ref().unwrap_or(&manifest.format.format);
    // The source needs the sink's layout.
    let mut all = options.options.clone();
    if let (None, Some(layout)) = (all.get("layout"), manifest.format.options.get("layout")) {
        all.set("layout", layout.clone());
    }
    let source = source(registry, id, &all, options.limits)?;
    // Shards of members have an index each, those of rows none.
    let indexed = source.lists();
    let home = Arc::new(CacheSource::sealed(Arc::clone(store), dir, manifest));
    let shard = |record: &ShardRecord| {
        let path = main_path(registry, &**store, &dir.join(&record.file))?;
        let alone = path == dir.join(&record.file);
        let size = || store.stat(&path, true).map(|stat| stat.size).map_err(|error| error.in_input(path.display()));
        Ok(Arc::new(Shard {
            name: store.shown(&path),
            stem: end_of(&path, 1),
            bytes: if alone { record.bytes } else { size()? },
            data: (!alone).then(|| (dir.join(&record.file), record.bytes)),
            near: alone.then(|| (Arc::clone(&home), CacheFile::from(record))),
            path,
            store: Arc::clone(store),
            source: Arc::clone(&source),
            samples: record.samples,
            digest: record.blake3,
            sealed: true,
            committed: Some(Committed::new(dir, record)),
            modified: None,
            split: record.split.clone(),
            index: indexed
                .then(|| (Arc::clone(store), dir.join(format!("{}{}", record.name, packhorse_dataset::INDEX_SUFFIX)))),
            limits: options.limits,
            columns: None,
            content: OnceLock::new(),
        }))
    };
    let schema = FieldRecord::schema(&manifest.schema).map_err(|error| error.in_input(dir.join(MANIFEST).display()))?;
    let shards: Vec<Arc<Shard>> = manifest.shards.iter().map(shard).collect::<Result<_>>()?;
    let schema = union(std::iter::once(("", &schema)))?;
    let schema = if indexed { as_stored(&as_named(registry, manifest, &schema)?, &shards)? } else { schema };
    let dataset = Dataset::new(registry, shards, schema, manifest.classes.clone())?;
    Ok(Dataset { base: Some(Arc::new(Base::new(store, dir, manifest))), ..dataset })
}

/// Options of readers that choose columns.
const CHOICES: [&str; 2] = ["columns", "datasets"];

/// Shards whose indexes are searched for the stored names of fields.
const LOOKED_AT: usize = 16;

/// The metadata of a field of encoded arrays that were packed as ragged, or as lists.
pub(crate) const RAGGED: &str = "packhorse.ragged";

/// The fields under the names that the shards' format has for them.
fn as_named(registry: &Registry, manifest: &Manifest, packed: &SchemaRef) -> Result<SchemaRef> {
    let sink = registry.get(&manifest.format.format)?.sink(&manifest.format.options.iter().collect())?;
    let named = |field: &Arc<Field>| match sink.renames(field.name()) {
        Some(name) => Arc::new(field.as_ref().clone().with_name(name)),
        None => Arc::clone(field),
    };
    let fields: Vec<Arc<Field>> = packed.fields().iter().map(named).collect();
    Ok(Arc::new(Schema::new_with_metadata(fields, packed.metadata().clone())))
}

/// The fields as stored, all as bytes: typed values are encoded under a name with an extension (`x.npy`).
fn as_stored(packed: &SchemaRef, shards: &[Arc<Shard>]) -> Result<SchemaRef> {
    let (mut names, mut indexed) = (BTreeSet::<String>::new(), false);
    let last = shards.iter().skip(LOOKED_AT).rev().take(LOOKED_AT);
    for shard in shards.iter().take(LOOKED_AT).chain(last) {
        let is_known = |field: &Arc<Field>| names.iter().any(|known| is_of(known, field.name()));
        if packed.fields().iter().all(is_known) {
            break;
        }
        let fields = shard.indexed_fields()?;
        indexed |= fields.is_some();
        names.extend(fields.into_iter().flatten());
    }
    if let Some(first) = shards.first().filter(|_| !indexed) {
        names.extend(first.fields_of_members()?);
    }
    // Bytes are stored under their own names, also where no shard was seen that has them.
    let is_blob = |field: &&Arc<Field>| FieldType::of(field).is_ok_and(|kind| kind == FieldType::Blob);
    let blobs = packed.fields().iter().filter(is_blob).map(|field| field.name());
    let unseen: Vec<&String> = blobs.filter(|blob| !names.iter().any(|known| is_of(known, blob))).collect();
    names.extend(unseen.into_iter().cloned());
    let field = |name: String| {
        let packed = packed.fields().iter().find(|field| is_of(&name, field.name()));
        let field = Field::new(&name, DataType::BinaryView, packed.is_none_or(|packed| packed.is_nullable()));
        let notes = [PACKED, HUGGINGFACE].into_iter().filter_map(|name| Some((name, packed?.metadata().get(name)?)));
        let field = notes.fold(field, |field, (name, note)| with_metadata(field, name, note));
        match packed.map(|packed| FieldType::of(packed)) {
            Some(Ok(FieldType::Ragged { element, .. } | FieldType::List { element, depth: 1 }))
                if element != DataType::Utf8View =>
            {
                with_metadata(field, RAGGED, "true")
            }
            _ => field,
        }
    };
    Ok(Arc::new(Schema::new(names.into_iter().map(field).collect::<Vec<_>>())))
}

/// Whether a shard's field `stored` holds the field `packed`.
fn is_of(stored: &str, packed: &str) -> bool {
    stored == packed
        || stored.strip_prefix(packed).and_then(|rest| rest.strip_prefix('.')).is_some_and(|end| !end.contains('.'))
}

/// The files that `path` matches.
fn files(registry: &Registry, store: &dyn Store, path: &Path, options: &OpenOptions) -> Result<Vec<PathBuf>> {
    path.to_str().ok_or_else(|| Error::config("is not UTF-8").in_input(path.display()))?;
    let mut found = paths_of(store, path)?;
    if let [only] = &found[..] {
        match store.stat(only, true) {
            Ok(stat) if stat.kind == FileKind::Directory => found = folder(registry, store, only, options)?,
            Err(error) if error.is_not_found() => {
                let meant = nearest_path(store, only).map(|path| format!("did you mean {}?", path.display()));
                let error = error.with_kind(Kind::Config).with_code(Code::NoSuchFile);
                return Err(meant.into_iter().fold(error, Error::hint));
            }
            _ => {}
        }
    }
    match found.is_empty() {
        true => {
            let error = Error::config("holds no shards that this build reads").in_input(path.display());
            let parts = path.join(PARTS);
            let hint = match store.stat(&parts, true).and_then(|_| store.open(&parts)?.read_all(1 << 20)) {
                Ok(text) => {
                    first_part(&text).map(|part| format!("open its parts, such as {}", path.join(part).display()))
                }
                Err(_) => None,
            };
            Err(error.hint(hint.unwrap_or_else(|| "`packhorse pack` makes shards of the files in a folder".to_owned())))
        }
        false => Ok(found),
    }
}

/// The document of a folder with a folder for each split, as the `datasets` library of Hugging Face saves a `DatasetDict`.
const PARTS: &str = "dataset_dict.json";

/// The first split that such a document lists.
fn first_part(text: &[u8]) -> Option<String> {
    let splits = serde_json::from_slice::<serde_json::Value>(text).ok()?;
    splits.get("splits")?.get(0)?.as_str().map(str::to_owned)
}

/// The shards in a folder, sorted by name.
fn folder(registry: &Registry, store: &dyn Store, dir: &Path, options: &OpenOptions) -> Result<Vec<PathBuf>> {
    let is_shard = |name: &PathBuf| {
        let bytes = name.as_os_str().as_encoded_bytes();
        let known = registry
            .by_name(bytes)
            .filter(|format| format.in_folders())
            .filter(|_| registry.mains(bytes).all(|main| !exists(store, dir, &main)));
        !bytes.starts_with(b".")
            && known.is_some_and(|format| options.format.as_deref().is_none_or(|id| id == format.info().id))
    };
    let mut names = store.list(dir)?;
    if names.iter().any(|name| is_of_packing(name)) {
        // Its shards may be a part of the dataset. A pattern takes them as they are.
        return Err(not_sealed(store, dir, ""));
    }
    // Caches in a folder that other files describe.
    let describes = |file: &&str| names.iter().any(|name| name == Path::new(file));
    let described: Vec<_> = registry.iter().filter(|f| f.folder_files().iter().any(describes)).collect();
    let is_beside = |name: &Path| name.to_str().is_some_and(|name| described.iter().any(|f| f.is_beside(name)));
    names.retain(|name| is_shard(name) && !is_beside(name));
    names.sort_by_cached_key(|name| natural(&name.to_string_lossy()));
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

fn exists(store: &dyn Store, dir: &Path, name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| store.stat(&dir.join(name), true).is_ok())
}
