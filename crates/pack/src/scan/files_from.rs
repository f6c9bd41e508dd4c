//! A list of input files, as `find -print0` or a script writes it.

use crate::request_error::as_request_error;
use packhorse_core::{Context, Error, Result};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// The paths in the list `from`; `-` is standard input. They end with NUL if the list holds any NUL, else with a newline.
/// Empty paths, and a `\r` before a newline, are dropped.
pub(super) fn listed_files(from: &Path) -> Result<Vec<PathBuf>> {
    let mut bytes = Vec::new();
    match from == Path::new("-") {
        true => drop(std::io::stdin().lock().read_to_end(&mut bytes).context("read standard input")?),
        false => {
            bytes = std::fs::read(from).context("read").map_err(|e| as_request_error(e).in_input(from.display()))?
        }
    }
    Ok(split(&bytes))
}

fn split(bytes: &[u8]) -> Vec<PathBuf> {
    // Editors of other systems begin text with a byte order mark.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let nul = bytes.contains(&0);
    let parts = bytes.split(|b| if nul { *b == 0 } else { *b == b'\n' });
    let trimmed = parts.map(|part| if nul { part } else { part.strip_suffix(b"\r").unwrap_or(part) });
    trimmed.filter(|part| !part.is_empty()).map(|part| PathBuf::from(OsString::from_vec(part.to_vec()))).collect()
}

/// Whether a part of the path starts with a dot.
pub(super) fn is_hidden(path: &Path) -> bool {
    let is_hidden = |part: Component<'_>| matches!(part, Component::Normal(name) if name.as_bytes().starts_with(b"."));
    path.components().any(is_hidden)
}

/// The error of a hidden file that a list or the request names. Readers pass over samples with such keys.
pub(super) fn hidden(path: &Path) -> Error {
    let error = Error::content("is hidden: a part of its path starts with a dot, which keys of samples can't");
    let file = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."));
    error.hint(if file { "rename it" } else { "give its folder as the input, or rename it" }).in_input(path.display())
}

/// The error of a missing file of a list, which is most often relative to another folder.
pub(super) fn of_list(error: Error) -> Error {
    if !error.is_not_found() {
        return error;
    }
    let plain =
        Error::content("does not exist; paths of the list are relative to INPUT, or to the working folder without one");
    error.input().into_iter().fold(plain, Error::in_input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newline_or_nul() {
        assert_eq!(split(b"a b\r\n\nc"), [PathBuf::from("a b"), PathBuf::from("c")]);
        assert_eq!(split(b"\xef\xbb\xbfa\r\nb\r\n"), [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(split(b"a\nb\0c\0"), [PathBuf::from("a\nb"), PathBuf::from("c")]);
    }
}
