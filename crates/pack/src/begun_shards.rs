//! Files of shards that a killed job had begun and did not record: without a receipt nothing tells their suffixes.

use packhorse_core::{FileKind, Result, Store, found};
use std::collections::BTreeSet;
use std::path::Path;

/// What follows the names of shards in the names of their files, in every format of this package.
const SUFFIXES: [&str; 17] = [
    ".arrow",
    ".bin",
    ".documents.parquet",
    ".ds",
    ".ds.index",
    ".ds.metadata",
    ".h5",
    ".idx",
    ".index",
    ".members",
    ".parquet",
    ".receipt.json",
    ".schema.json",
    ".tar",
    ".tar.idx",
    ".tfrecord",
    ".tfrecord.gz",
];

/// The names of all files of `shards`. Files of others with such a beginning are not among them.
pub(crate) fn begun_names(store: &dyn Store, dir: &Path, shards: &BTreeSet<String>) -> Result<Vec<String>> {
    let folders: BTreeSet<&Path> = shards.iter().filter_map(|shard| Path::new(shard).parent()).collect();
    let mut begun = Vec::new();
    for folder in folders {
        for name in found(store.list(&dir.join(folder)))?.unwrap_or_default() {
            let Some(name) = name.file_name().and_then(|name| folder.join(name).to_str().map(str::to_owned)) else {
                continue;
            };
            let is_of = |suffix: &str| name.strip_suffix(suffix).is_some_and(|shard| shards.contains(shard));
            if SUFFIXES.iter().any(|suffix| is_of(suffix)) && is_file(store, &dir.join(&name))? {
                begun.push(name);
            }
        }
    }
    Ok(begun)
}

fn is_file(store: &dyn Store, path: &Path) -> Result<bool> {
    Ok(found(store.stat(path, false))?.is_some_and(|stat| stat.kind == FileKind::File))
}

/// Removes the files of `shards`, of which none has a receipt.
pub(crate) fn remove_begun(store: &dyn Store, dir: &Path, shards: &BTreeSet<String>) -> Result<()> {
    begun_names(store, dir, shards)?.iter().try_for_each(|name| match store.remove(&dir.join(name)) {
        Err(e) if e.is_absent() => Ok(()),
        done => done,
    })
}
