//! Looks into any shard: lists its members, reads one, counts them.

use crate::input_format::{NameRules, container, main_file, open};
use crate::inspect_rows::{self, columns};
use crate::plan::encoded;
use crate::recorded_files::sealed_manifest;
use crate::request_error::{as_request_error, with_suggestion};
use crate::scan::companions;
use packhorse_core::{
    Code, Crc32c, Error, Extent, FileKind, Input, InputRange, Kind, Limits, MemberName, Options, Registry, Result,
    Source, Store, copy_ranges, split_name,
};
use packhorse_dataset::{CodecRecord, FieldRecord, INDEX_SUFFIX, Manifest, decode_index, is_of_packing, not_sealed};
use packhorse_storage::spool;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Calls `each` with name and extent of every field in the shard `path`, in file order. Skips members that are not
/// fields.
pub fn list(
    registry: &Registry,
    store: &dyn Store,
    path: &Path,
    each: &mut dyn FnMut(&MemberName, Extent) -> Result<()>,
) -> Result<()> {
    let (source, input) = shard(registry, store, path, &Options::new())?;
    source.list(&*input, &mut |entry| match (split_name(entry.name), entry.extent) {
        (Ok(name), Ok(extent)) => each(&name, extent),
        _ => Ok(()),
    })
}

/// Opens the shard `path` with the options `read` of its reader.
pub(crate) fn shard(
    registry: &Registry,
    store: &dyn Store,
    path: &Path,
    read: &Options,
) -> Result<(Box<dyn Source>, Box<dyn Input>)> {
    let main = main_file(registry, store, path);
    let Some((format, compression)) = container(registry, &NameRules::default(), &main) else {
        return Err(no_shard(store, path));
    };
    let input =
        open(store, &main, compression).map_err(|e| gone(store, &main).unwrap_or_else(|| as_request_error(e)))?;
    Ok((format.source(read, Limits::default())?, input))
}

/// The error of a shard that is not there, though its dataset is.
fn gone(store: &dyn Store, path: &Path) -> Option<Error> {
    store.stat(path, true).err().filter(Error::is_absent)?;
    let manifest = sealed_manifest(store, path.parent()?).ok()??;
    manifest.shards.iter().find(|shard| Path::new(&shard.file).file_name() == path.file_name())?;
    let error = Error::new(Kind::Incomplete, "is missing, a shard of a sealed dataset").with_code(Code::ShardMissing);
    let hint =
        "`packhorse verify` names all files that are missing, and says whether `packhorse repair` can pack them again";
    Some(error.hint(hint).in_input(path.display()))
}

fn no_shard(store: &dyn Store, path: &Path) -> Error {
    match store.stat(path, true) {
        Err(e) => with_suggestion(store, path, e),
        Ok(stat) if stat.kind == FileKind::Directory => {
            Error::config("is a folder; give one of the shards in it").in_input(path.display())
        }
        Ok(_) => Error::unsupported("is not a shard: no container format has its extension").in_input(path.display()),
    }
}

/// The data files of the sealed dataset in the folder `path`, in shard order; of a folder without a dataset the shards that others
/// wrote, by name; `path` itself if it is a file.
///
/// Errors: `Config` for a folder without shards, and for one whose shards are of several formats; `Incomplete` for one that is not
/// sealed.
pub fn files(registry: &Registry, store: &dyn Store, path: &Path) -> Result<Vec<PathBuf>> {
    let shards = |manifest: Manifest| manifest.shards.iter().map(|shard| path.join(&shard.file)).collect();
    match store.stat(path, true) {
        Ok(stat) if stat.kind == FileKind::Directory => match sealed_manifest(store, path)? {
            Some(manifest) => Ok(shards(manifest)),
            None => third_party(registry, store, path),
        },
        Ok(_) => Ok(vec![path.to_owned()]),
        // A web server may have a dataset in a folder that it does not know.
        Err(e) if e.is_absent() => match sealed_manifest(store, path) {
            Ok(Some(manifest)) => Ok(shards(manifest)),
            _ => Err(gone(store, path).unwrap_or_else(|| with_suggestion(store, path, e))),
        },
        Err(e) => Err(with_suggestion(store, path, e)),
    }
}

fn third_party(registry: &Registry, store: &dyn Store, dir: &Path) -> Result<Vec<PathBuf>> {
    let unsealed = || not_sealed(store, dir, "give the folder of one, or one of the files in it");
    let (mut files, mut format) = (Vec::new(), None);
    let mut others: BTreeMap<_, usize> = BTreeMap::new();
    let mut names = store.list(dir).map_err(|_| unsealed())?;
    if names.iter().any(|name| is_of_packing(name)) {
        return Err(unsealed());
    }
    companions::take(registry, &mut names);
    names.sort_unstable();
    for name in names.iter().filter(|name| !name.as_os_str().as_encoded_bytes().starts_with(b".")) {
        let Some((found, _)) = container(registry, &NameRules::default(), name) else {
            *others.entry(name.extension()).or_default() += 1;
            continue;
        };
        let id = found.info().id;
        if let Some(other) = format.replace(id).filter(|other| *other != id) {
            let message = format!("is a folder without a dataset, and holds files of {other} and of {id}");
            return Err(Error::config(message).in_input(dir.display()).hint("give one of the files in it"));
        }
        files.push(dir.join(name));
    }
    // A table among photos is not what the folder holds.
    let most = others.into_values().max().unwrap_or(0);
    if files.is_empty() || most > files.len() { Err(unsealed()) } else { Ok(files) }
}

/// The names that readers know fields of the dataset by, where its format has other ones: the array `Y` is `y.npy` in a tar.
pub fn stored_names(registry: &Registry, manifest: &Manifest) -> Result<BTreeMap<String, String>> {
    let sink = registry.get(&manifest.format.format)?.sink(&manifest.format.options.iter().collect())?;
    let schema = FieldRecord::schema(&manifest.schema)?;
    let renamed = schema.fields().iter().filter_map(|field| Some((field.name().clone(), sink.renames(field.name())?)));
    let mut names: BTreeMap<String, String> = renamed.collect();
    for record in encoded(registry, &*sink, &schema)? {
        let CodecRecord { field, columns, .. } = record;
        let stored = sink.renames(&field).unwrap_or(field);
        names.extend(columns.into_iter().map(|column| (column.name, stored.clone())));
    }
    Ok(names)
}

/// Writes the member `name` (`KEY.FIELD`) of the shard `path` to `out`: bytes and text as they are, numbers and arrays
/// of table shards as `.npy`. Returns whether the shard has it.
pub fn cat(
    registry: &Registry,
    store: &dyn Store,
    path: &Path,
    read: &Options,
    name: &str,
    out: &mut dyn Write,
) -> Result<bool> {
    if columns(registry, store, path, read)?.is_some() {
        return inspect_rows::cat(registry, store, path, read, name, out);
    }
    let wanted =
        split_name(name.as_bytes()).map_err(|fault| Error::config(format!("\"{name}\" {fault}; give KEY.FIELD")))?;
    let mut found = None;
    list(registry, store, path, &mut |member, extent| {
        found = found.or((*member == wanted).then_some(extent));
        Ok(())
    })?;
    let Some(extent) = found else { return Ok(false) };
    let (_, input) = shard(registry, store, path, read)?;
    let input = match input.len() {
        Some(_) => input,
        None => spool(&*input, &std::env::temp_dir(), &Limits::default(), &packhorse_core::Cancel::default())?,
    };
    let range = InputRange { input: &*input, offset: extent.offset, len: extent.len };
    let checked = copy_checked(range, checksum(store, path, extent)?, name, out);
    checked.map(|()| true).map_err(|e| in_file(e, path))
}

/// Writes the bytes of the field `name` to `out`, and compares their CRC-32C with the recorded one, if it is known.
pub(crate) fn copy_checked(range: InputRange<'_>, crc: Option<u32>, name: &str, out: &mut dyn Write) -> Result<()> {
    let mut checked = Checked { out, crc: Crc32c::default() };
    copy_ranges(&[range], &mut checked)?;
    if crc.is_none_or(|wanted| checked.crc.finish() == wanted) {
        return Ok(());
    }
    let message = format!("{name} is damaged: its bytes are not those that were packed (CRC-32C differs)");
    let error = Error::new(Kind::Incomplete, message).with_code(Code::ShardDamaged);
    Err(error.hint("`packhorse repair` packs its shard again"))
}

pub(crate) fn in_file(error: Error, path: &Path) -> Error {
    match error.input() {
        None => error.in_input(path.display()),
        Some(_) => error,
    }
}

/// The checksum of the member at a place of a shard, if the shard's member index has it.
fn checksum(store: &dyn Store, path: &Path, extent: Extent) -> Result<Option<u32>> {
    let mut index = path.with_extension("").into_os_string();
    index.push(INDEX_SUFFIX);
    let index = Path::new(&index);
    let limits = Limits::default();
    let bytes = match store.open(index).and_then(|input| input.read_all(limits.blob)) {
        Err(e) if e.is_absent() => return Ok(None),
        bytes => bytes?,
    };
    let members = decode_index(&bytes, &limits).map_err(|e| e.in_input(index.display()))?;
    let found = members.iter().flat_map(|(_, members)| members);
    Ok(found.into_iter().find(|member| (member.offset, member.len) == (extent.offset, extent.len)).map(|m| m.crc32c))
}

/// Writes bytes on, and their checksum.
struct Checked<'a> {
    out: &'a mut dyn Write,
    crc: Crc32c,
}

impl Write for Checked<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.crc.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Counts of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Samples: consecutive members of one key.
    pub samples: u64,
    /// Number of members, and bytes, of each field.
    pub fields: BTreeMap<String, (u64, u64)>,
}

impl Stat {
    /// Adds the counts of another shard.
    pub fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        for (field, (count, bytes)) in &other.fields {
            let sums = self.fields.entry(field.clone()).or_default();
            *sums = (sums.0 + count, sums.1 + bytes);
        }
    }
}

/// Counts the samples and fields of the shard `path`.
pub(crate) fn stat(registry: &Registry, store: &dyn Store, path: &Path) -> Result<Stat> {
    let mut stat = Stat::default();
    let mut last = None;
    list(registry, store, path, &mut |name, extent| {
        if last.as_ref() != Some(&name.key) {
            stat.samples += 1;
            last = Some(name.key.clone());
        }
        let (count, bytes) = stat.fields.entry(name.field.clone()).or_default();
        *count += 1;
        *bytes += extent.len;
        Ok(())
    })?;
    Ok(stat)
}
