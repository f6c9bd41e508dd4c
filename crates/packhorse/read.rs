//! Batches from shards: places by name, the formats of this build, and pairs of tokens, told to the reader.
//!
//! The reader knows no format, and formats know neither memory maps nor networks; here they meet.

pub use packhorse_order as order;
pub use packhorse_read::*;

use packhorse_core::{Error, FileKind, Result, Store};
use packhorse_storage::{Compression, Location, Stores, decompressed};
use packhorse_tokens::IndexHeader;
use std::path::Path;
use std::sync::Arc;

/// Opens the dataset at a place, written as a path, `file://…`, `s3://bucket/prefix` (or `gs://`, `az://`) or `http(s)://host/path`: what
/// `packhorse seal` sealed, or third-party shards by folder, name or pattern (`s3://bucket/shard-{000..127}.tar`). A web
/// server has no folders to list: name its shards, or give a sealed dataset.
///
/// ```no_run
/// use packhorse::transform::image::View;
///
/// # fn main() -> packhorse::core::Result<()> {
/// let loader = packhorse::open("shards")?
///     .split("train")?
///     .loader(256)
///     .image("image", "jpg;png", View::random_crop(224).flip(0.5))
///     .field("label", "cls")
///     .seed(7)
///     .build()?;
/// for batch in loader {
///     let batch = batch?;
///     let (pixels, labels) = (batch.field("image"), batch.integers("label"));
/// }
/// # Ok(())
/// # }
/// ```
///
/// Errors: those of [`Dataset::open`]; a place that this build does not reach.
pub fn open(place: &str) -> Result<Dataset> {
    open_with(place, &Stores::default(), &OpenOptions::default())
}

/// [`open`] with options. Datasets of the same `stores` share connections.
pub fn open_with(place: &str, stores: &Stores, options: &OpenOptions) -> Result<Dataset> {
    let (store, path) = stores.open(&Location::parse(place)?)?;
    Dataset::open(&crate::registry(), store, &path, options)
}

/// Opens the tokens of one Megatron pair, given as its `.idx`, as its prefix (`data/corpus`), or as a folder that holds one
/// pair. Local files are mapped ([`Access::Map`]): they must not be written or truncated while they are read.
///
/// ```no_run
/// # fn main() -> packhorse::core::Result<()> {
/// for batch in packhorse::open_tokens("data/corpus")?.loader(64, 4096).seed(1234).build()? {
///     let batch = batch?;
///     let tokens = batch.field("tokens");
/// }
/// # Ok(())
/// # }
/// ```
///
/// Errors: those of [`token_pair`]; a folder with several pairs.
pub fn open_tokens(place: &str) -> Result<Arc<Tokens>> {
    let (store, path) = Location::parse(place)?.open()?;
    let is_idx = |path: &Path| path.extension().is_some_and(|extension| extension == "idx");
    let idx = if is_idx(&path) {
        path
    } else if store.stat(&path, true).is_ok_and(|stat| stat.kind == FileKind::Directory) {
        let mut found = store.list(&path)?.into_iter().filter(|name| is_idx(name));
        match (found.next(), found.next()) {
            (Some(name), None) => path.join(name),
            (None, _) => return Err(Error::config("holds no .idx of tokens").in_input(place)),
            _ => return Err(Error::config("holds several .idx files; name one of them").in_input(place)),
        }
    } else {
        let mut name = path.into_os_string();
        name.push(".idx");
        name.into()
    };
    Ok(Arc::new(Tokens::new(vec![token_pair(&*store, &idx, Access::Map)?])?))
}

/// A loader of samples in the order in which they come, where nothing else is possible: `-` is a tar through standard
/// input, and a compressed tar (`x.tar.gz`, `.zst`) is decompressed on the way. See [`Loader::stream`].
///
/// Errors: those of that; a name that no format of this build claims.
pub fn stream<D: Device>(
    place: &str,
    fields: &[FieldOptions],
    options: &LoaderOptions,
    device: D,
) -> Result<Loader<D>> {
    let registry = crate::registry();
    if place == "-" {
        let input = Pipe::new("standard input", Box::new(std::io::stdin()));
        return Loader::stream(&registry, "webdataset", Box::new(input), fields, options, device);
    }
    let (store, path) = Location::parse(place)?.open()?;
    let name = path.as_os_str().as_encoded_bytes();
    let (compression, inside) = match Compression::of(name) {
        Some((compression, inside)) => (Some(compression), inside),
        None => (None, name.to_vec()),
    };
    let format =
        registry.by_name(&inside).ok_or_else(|| Error::config("has a name of no container").in_input(place))?;
    let input = store.open(&path)?;
    let input = match compression {
        Some(compression) => decompressed(input, compression),
        None => input,
    };
    Loader::stream(&registry, format.info().id, input, fields, options, device)
}

/// Megatron's pair whose `.idx` is `idx`, and whose `.bin` is beside it; opened by `store`.
///
/// Errors: one of them is missing, an invalid index, a `.bin` of another length than the index says.
pub fn token_pair(store: &dyn Store, idx: &Path, access: Access) -> Result<TokenFile> {
    let bin: Arc<dyn packhorse_core::Input> = Arc::from(store.open(&idx.with_extension("bin"))?);
    let idx = store.open(idx)?;
    let header = IndexHeader::open(&*idx)?;
    let sequences = header.sequences;
    let lengths = IntArray::read(&*idx, "<i4", header.length_at(0), sequences, access)?;
    let pointers = IntArray::read(&*idx, "<i8", header.pointer_at(0), sequences, access)?;
    let element = header.dtype.element();
    TokenFile::new(bin, &element, lengths, Some(pointers), access).map_err(|error: Error| error.in_input(idx.name()))
}
