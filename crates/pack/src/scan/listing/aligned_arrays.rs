//! Warns of `.npy` files whose rows may belong together, such as `images.npy` and `labels.npy`: with `rows` each row of each is a sample.

use super::Listing;
use std::path::Path;

/// A warning that names the first two files of one folder that have as many rows, and names that differ in more than numbers.
pub(super) fn warning(listing: &Listing) -> Option<String> {
    let arrays = listing.iter().filter_map(|sample| {
        let (table, path) = (sample.table().filter(|table| table.format == "npz")?, sample.first_path());
        (path.extension()? == "npy").then_some((table.items, path))
    });
    let arrays: Vec<_> = arrays.collect();
    let is_beside = |a: &Path, b: &Path| a.parent() == b.parent() && letters(a) != letters(b);
    let ((rows, a), (_, b)) =
        arrays.iter().zip(arrays.iter().skip(1)).find(|(a, b)| a.0 == b.0 && is_beside(&a.1, &b.1))?;
    let name = b.file_name().unwrap_or_default().to_string_lossy();
    Some(format!(
        "{} and {name} have {rows} rows each, and each row of each is a sample; if row 0 of both is one sample, put the arrays of a folder \
         into one .npz file (`numpy.savez`) and pack that",
        a.display(),
    ))
}

/// The letters of a file's name.
fn letters(path: &Path) -> Vec<char> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name.chars().filter(|c| c.is_alphabetic()).collect()
}
