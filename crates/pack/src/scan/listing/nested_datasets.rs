//! Warns of datasets that lie among other inputs: most often an earlier output of the same folder.

use super::Listing;
use packhorse_core::counted;

/// A warning for each sealed dataset in a folder below an input that also has files of its own. Folders that hold
/// datasets alone are intended, and those of which no shard is wanted are not packed.
pub(super) fn warnings(listing: &Listing) -> Vec<String> {
    let among_others = |root: u32| listing.places.iter().any(|place| place.root == root && place.shard.is_none());
    let is_packed = |number: usize| {
        listing.places.iter().filter_map(|place| place.shard).any(|(sealed, _)| sealed as usize == number)
    };
    let sealed = listing.sealed.iter().enumerate().filter(|(number, _)| is_packed(*number));
    let below = sealed
        .map(|(_, sealed)| sealed)
        .filter(|sealed| !sealed.folder.as_os_str().is_empty() && among_others(sealed.root));
    let warning = |root: &std::path::Path, folder: &std::path::Path, samples: u64| {
        let (path, folder) = (root.join(folder), folder.display());
        format!(
            "{} is a dataset of packhorse among the inputs, so its {} {} packed too; to leave it out, pass \
             `exclude={folder}`",
            path.display(),
            counted(samples, "sample"),
            if samples == 1 { "is" } else { "are" },
        )
    };
    below
        .filter_map(|sealed| Some((listing.roots.get(sealed.root as usize)?, sealed)))
        .map(|(root, sealed)| warning(root, &sealed.folder, sealed.manifest.samples))
        .collect()
}
