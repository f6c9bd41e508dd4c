//! Warns of tables of one name: beside each other, such as `a.jsonl` and `a.jsonl.gz`, they are often the same rows twice, and
//! documents of several inputs get the same keys.

use super::{Items, Listing, TableInput};
use std::path::{Path, PathBuf};

/// A warning that names the first two of them.
pub(super) fn warning(listing: &Listing) -> Option<String> {
    let pairs = pairs(listing, |_| true, |one, other| one.parent() == other.parent());
    let (a, b) = pairs.first()?;
    let more = match pairs.len() {
        1 => String::new(),
        n => format!(", and so are {}", packhorse_core::counted(n as u64 - 1, "more pair")),
    };
    let name = b.file_name().unwrap_or_default().to_string_lossy();
    Some(format!(
        "{} and {name} are both packed{more}; if they hold the same rows, leave one out, such as with `exclude={name}`",
        a.display(),
    ))
}

/// A warning that names the first two tables of different folders whose documents have the same keys, where these are the names of the
/// files and places in them.
pub(in crate::scan) fn of_documents(listing: &Listing) -> Option<String> {
    let are_documents = |table: &TableInput| !matches!(table.kind, Items::Samples);
    let pairs = pairs(listing, are_documents, |one, other| one.parent() != other.parent());
    let (a, b) = pairs.first()?;
    Some(format!(
        "documents of {} and of {} have the same keys and sources: keys begin with the path below the input. To tell them apart, give the \
         folder around both as the input, or name the files",
        a.display(),
        b.display(),
    ))
}

/// Pairs of different ones of these tables of one key.
fn pairs(
    listing: &Listing,
    tables: impl Fn(&TableInput) -> bool,
    wanted: impl Fn(&Path, &Path) -> bool,
) -> Vec<(PathBuf, PathBuf)> {
    // Listings are sorted by key, and the name of a table without its extensions is the last part of that.
    let tables: Vec<_> = listing.iter().filter(|sample| sample.table().is_some_and(&tables)).collect();
    let pairs = tables.windows(2).filter_map(|pair| {
        let [a, b] = pair else { return None };
        let (one, other) = (a.first_path(), b.first_path());
        (a.key() == b.key() && one != other && wanted(&one, &other)).then_some((one, other))
    });
    pairs.collect()
}
