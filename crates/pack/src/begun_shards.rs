//! Files of shards that a killed job had begun and did not record: without a receipt nothing tells their suffixes.

use packhorse_core::{Result, Store};
use std::collections::BTreeSet;
use std::path::Path;

/// The names of all files that are called like one of `shards`, with a suffix.
pub(crate) fn begun_names(store: &dyn Store, dir: &Path, shards: &BTreeSet<String>) -> Vec<String> {
    let folders: BTreeSet<&Path> = shards.iter().filter_map(|shard| Path::new(shard).parent()).collect();
    // A folder that can't be listed holds nothing to remove.
    let paths = folders.into_iter().flat_map(|folder| {
        let listed = store.list(&dir.join(folder)).unwrap_or_default();
        listed.into_iter().filter_map(move |name| folder.join(name.file_name()?).to_str().map(str::to_owned))
    });
    let is_begun = |name: &String| {
        let start = name.rfind('/').map_or(0, |slash| slash + 1);
        let mut dots = name.match_indices('.').filter(|(at, _)| *at > start);
        dots.any(|(dot, _)| name.get(..dot).is_some_and(|shard| shards.contains(shard)))
    };
    paths.filter(is_begun).collect()
}

/// Removes the files of `shards`, of which none has a receipt.
pub(crate) fn remove_begun(store: &dyn Store, dir: &Path, shards: &BTreeSet<String>) -> Result<()> {
    begun_names(store, dir, shards).iter().try_for_each(|name| match store.remove(&dir.join(name)) {
        Err(e) if e.is_absent() => Ok(()),
        done => done,
    })
}
