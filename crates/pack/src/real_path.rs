//! Paths without links, by which two that are one are found.

use packhorse_storage::Location;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A folder by its real path, where it has one.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    if Location::url(path).is_some() {
        return path.to_owned();
    }
    let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    std::fs::canonicalize(here).unwrap_or_else(|_| Location::absolute(path))
}

/// The last part of a path; of `.` and `..` that of the folder that they are.
pub(crate) fn name_of(path: &Path) -> OsString {
    match path.file_name() {
        Some(name) => name.to_owned(),
        None => real_path(path).file_name().unwrap_or_default().to_owned(),
    }
}
