//! Errors of paths that the caller gave: a missing input or an output that can't be written is a fault of the request,
//! not of the file system.

use packhorse_core::{Code, Error, Kind, Store, nearest_path};
use packhorse_storage::Location;
use std::io::ErrorKind;
use std::path::Path;

/// Turns the error of a missing path that the caller gave into a `Config` error; other errors stay as they are.
pub fn as_request_error(error: Error) -> Error {
    // A web server that refuses a file may say nothing else of one that is there.
    if !error.is_not_found() || error.code() == Code::NoPermission {
        return error;
    }
    let missing = error.hints().into_iter().fold(missing(), Error::hint);
    error.input().into_iter().fold(missing, Error::in_input)
}

/// The error of a missing file or folder.
fn missing() -> Error {
    let error = Error::config("no such file or folder").with_code(Code::NoSuchFile);
    error.not_found()
}

/// As [`as_request_error`] for the path `path`, with a similar name beside it as a hint.
pub(crate) fn with_suggestion(store: &dyn Store, path: &Path, error: Error) -> Error {
    // Not a fault of the request: the same command may succeed later.
    let is_refused = !error.is_not_found() || error.code() == Code::NoPermission;
    if error.kind() == Kind::Environment && is_refused && Location::url(path).is_some() {
        return error;
    }
    if !error.is_not_found() {
        return error.with_kind(Kind::Config);
    }
    let meant = nearest_path(store, path).map(|path| format!("did you mean {}?", path.display()));
    meant.into_iter().fold(missing(), Error::hint).in_input(path.display())
}

/// Turns permanent errors of the output folder `out` into `Config` errors.
pub(crate) fn as_output_error(error: Error, out: &Path) -> Error {
    let denied = |message: &str, hint: &str| Error::config(message).with_code(Code::OutputDenied).hint(hint);
    let told = match error.io_kind() {
        Some(ErrorKind::NotADirectory) => {
            denied("is not a folder", "give `out` a folder that is empty or does not exist")
        }
        Some(ErrorKind::NotFound) => denied("can't be made there", "give `out` another folder"),
        _ if error.is_denied() => denied(error.message(), "give `out` a folder that you may write to"),
        _ => return error,
    };
    told.in_input(out.display())
}
