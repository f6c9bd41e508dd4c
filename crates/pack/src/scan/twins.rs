//! Object stores may have an object `a` and others below `a/`: a file and a folder of one name.

use super::folder_walk::Folder;
use packhorse_core::{DirEntry, FileKind};
use std::path::PathBuf;

/// Takes the files of `entries` that are folders too: their names, and `folder` with what its listing told of them. Empty ones are left
/// out, since they mark folders.
pub(super) fn take(folder: &Folder, entries: &mut Vec<DirEntry>) -> Option<(Folder, Vec<PathBuf>)> {
    // Listings of file systems tell no sizes, and have no such names.
    if entries.iter().all(|entry| entry.stat.is_none()) {
        return None;
    }
    let folders = entries.iter().filter(|entry| entry.kind == Some(FileKind::Directory));
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.name.clone()).collect();
    folders.sort_unstable();
    let is_twin =
        |entry: &mut DirEntry| entry.kind == Some(FileKind::File) && folders.binary_search(&entry.name).is_ok();
    let twins = entries.extract_if(.., is_twin).filter_map(|entry| Some((entry.name, entry.stat?)));
    let stats: std::collections::BTreeMap<_, _> = twins.filter(|(_, stat)| stat.size > 0).collect();
    let names: Vec<PathBuf> = stats.keys().cloned().collect();
    let Folder { root, base, path, above, named, shared, .. } = folder;
    let (base, path, above) = (base.clone(), path.clone(), above.clone());
    let of_twins = Folder { root: *root, base, path, above, named: *named, shared: *shared, stats };
    (!names.is_empty()).then_some((of_twins, names))
}
