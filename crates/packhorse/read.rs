//! Batches from shards: places by name, the formats of this build, and pairs of tokens, told to the reader.
//!
//! The reader knows no format, and formats know neither memory maps nor networks; here they meet.

pub use packhorse_order as order;
pub use packhorse_read::*;

use packhorse_core::{Error, Result, Store};
use packhorse_storage::{Compression, Location, Stores, decompressed};
use packhorse_tokens::IndexHeader;
use std::path::Path;
use std::sync::Arc;

/// Opens the dataset at a place, written as a path, `file://…`, `s3://bucket/prefix` or `http(s)://host/path`: what
/// `packhorse seal` sealed, or anybody's shards by folder, name or pattern (`s3://bucket/shard-{000..127}.tar`). A web
/// server has no folders to list: name its shards, or give a sealed dataset.
///
/// Errors: those of [`open()`]; a place that this build does not reach.
pub fn dataset(place: &str) -> Result<Dataset> {
    dataset_with(place, &Stores::default(), &OpenOptions::default())
}

/// [`dataset`] with options. Datasets of the same `stores` share connections.
pub fn dataset_with(place: &str, stores: &Stores, options: &OpenOptions) -> Result<Dataset> {
    let (store, path) = stores.open(&Location::parse(place)?)?;
    open(&crate::registry(), store, &path, options)
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
/// Errors: one of them is missing, an index that is none, a `.bin` that is cut short.
pub fn token_pair(store: &dyn Store, idx: &Path, access: Access) -> Result<TokenFile> {
    let bin: Arc<dyn packhorse_core::Input> = Arc::from(store.open(&idx.with_extension("bin"))?);
    let idx = store.open(idx)?;
    let header = IndexHeader::open(&*idx)?;
    let sequences = header.sequences;
    let lengths = Numbers::read(&*idx, "<i4", header.length_at(0), sequences, access)?;
    let pointers = Numbers::read(&*idx, "<i8", header.pointer_at(0), sequences, access)?;
    let element = header.dtype.element();
    TokenFile::new(bin, &element, lengths, Some(pointers), access).map_err(|error: Error| error.in_input(idx.name()))
}
