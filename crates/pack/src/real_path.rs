//! Paths without links, by which two that are one are found.

use packhorse_storage::Location;
use std::path::{Path, PathBuf};

/// A folder by its real path, where it has one.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    if Location::url(path).is_some() {
        return path.to_owned();
    }
    let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    std::fs::canonicalize(here).unwrap_or_else(|_| Location::absolute(path))
}
