//! Warns of groups of an HDF5 file that have datasets of the same names, such as `data/demo_0` and `data/demo_1`: each may be a sample, and a
//! row of all of them is one.

use super::Listing;
use std::collections::HashMap;

/// The most files that are looked at: those of one dataset are alike.
const MOST: usize = 100;

/// A warning that names the first two of them.
pub(in crate::scan) fn warning(listing: &Listing) -> Option<String> {
    // Of a sealed dataset it is known what a sample is.
    let tables = listing.iter().filter(|sample| sample.shard().is_none());
    let tables = tables.filter_map(|sample| Some((sample.table().filter(|table| table.format == "hdf5")?, sample)));
    tables.take(MOST).find_map(|(table, sample)| {
        // The groups by their names without numbers, and the name of the dataset.
        let mut groups: HashMap<(String, &str), &str> = HashMap::new();
        let [one, other] = table.schema.fields().iter().find_map(|field| {
            let (group, name) = field.name().rsplit_once('.')?;
            let letters: String = group.chars().filter(|c| !c.is_ascii_digit()).collect();
            let before = groups.insert((letters, name), group)?;
            Some([before, group].map(|group| group.replace('.', "/")))
        })?;
        let glob = packhorse_core::like_groups(table.schema.fields().iter().map(|field| field.name().as_str()), '.')?;
        Some(format!(
            "the groups {one} and {other} of {} have datasets of the same names, and row 0 of all groups is one sample; if each group is \
             a sample, pack with `groups={glob}`",
            sample.first_path().display(),
        ))
    })
}
