//! "Did you mean": similar names, and lists of names, for messages.

use crate::Store;
use std::path::{Path, PathBuf};

/// The one of `names` that is most similar to `word`, if one is similar enough: for "did you mean". Ignores case.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    /// By Jaro and Winkler: one wrong or missing letter of five is less than this apart.
    const LIKE: f64 = 0.8;
    let word = word.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&word, &name.to_lowercase());
    let like = names.into_iter().map(|name| (likeness(name), name)).filter(|(likeness, _)| *likeness > LIKE);
    like.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}

/// `names` as a list for a message: the first of them, and how many more there are.
pub fn some_of(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let shown = names.get(..SHOWN).unwrap_or(names).join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// The path beside `path` whose name is most similar to that of `path`, which does not exist.
pub fn nearest_path(store: &dyn Store, path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = store.list(folder).unwrap_or_default();
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    let name = path.file_name()?.to_string_lossy();
    // The folder also lists a link to a missing file.
    let found = nearest(&name, names.iter().map(AsRef::as_ref)).filter(|found| *found != name)?;
    Some(path.with_file_name(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_found_and_nothing_else() {
        let names = ["webdataset", "hdf5", "parquet", "Train"];
        assert_eq!(nearest("webdatset", names), Some("webdataset"));
        assert_eq!(nearest("trian", names), Some("Train"));
        assert_eq!(nearest("parket", names), Some("parquet"));
        assert_eq!(nearest("zzz", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(some_of(&["a", "b"]), "a, b");
        assert_eq!(some_of(&[]), "");
        let names: Vec<String> = (0..15).map(|i| i.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(some_of(&names).ends_with("11 and 3 more"));
    }
}
