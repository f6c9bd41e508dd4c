//! Warns of tables that lie beside each other under one name, such as `a.jsonl` and `a.jsonl.gz`: often the same rows twice.

use super::Listing;

/// A warning that names the first two of them.
pub(super) fn warning(listing: &Listing) -> Option<String> {
    // Listings are sorted by key, and the name of a table without its extensions is the last part of that.
    let tables: Vec<_> = listing.iter().filter(|sample| sample.table().is_some()).collect();
    let pairs = tables.windows(2).filter_map(|pair| {
        let [a, b] = pair else { return None };
        let (one, other) = (a.first_path(), b.first_path());
        // Tables of several inputs may have one name.
        (a.key() == b.key() && one != other && one.parent() == other.parent()).then_some((one, other))
    });
    let pairs: Vec<_> = pairs.collect();
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
