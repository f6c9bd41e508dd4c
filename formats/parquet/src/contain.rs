//! Panics of the crates `parquet` and `arrow` on damaged files, turned into errors.
//!
//! What they take memory for is checked before ([`crate::declared`], [`crate::pages`], `ipc::guard`), since nothing contains
//! an allocation that fails. Of the rest they check most, and panic on some: every call into them that sees foreign bytes
//! goes through [`contained`].

use packhorse_core::{Error, Result, contain};

/// Runs `work`; its panic becomes a `Content` error.
pub(crate) fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    contain(work).unwrap_or_else(|| {
        Err(Error::content("is damaged, or made in a way its reader doesn't know (it gave up); write it anew"))
    })
}

/// What an error of the crate `arrow` means to the user; `what` is the format's name.
pub(crate) fn arrow_error(error: arrow_schema::ArrowError, what: &str) -> Error {
    use arrow_schema::ArrowError;
    match error {
        ArrowError::IoError(_, error) => io_error(error),
        ArrowError::NotYetImplemented(text) => {
            Error::unsupported(format!("needs what the {what} reader can't: {text}"))
        }
        ArrowError::ExternalError(source) => match source.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => Error::content(format!("can't be read as {what}: {other}")),
        },
        other => Error::content(format!("can't be read as {what}: {other}")),
    }
}

/// What an error of the crate `parquet` means to the user.
pub(crate) fn parquet_error(error: parquet::errors::ParquetError) -> Error {
    use parquet::errors::ParquetError;
    match error {
        ParquetError::NYI(text) => Error::unsupported(format!("needs what the Parquet reader can't: {text}")),
        ParquetError::External(source) => match source.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(source) => match source.downcast::<std::io::Error>() {
                Ok(error) => io_error(*error),
                Err(other) => Error::content(format!("can't be read as Parquet: {other}")),
            },
        },
        other => Error::content(format!("can't be read as Parquet: {other}")),
    }
}

fn io_error(error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::cut_short("its bytes end within a value")
        }
        // What the system refused; everything else is a decompressor's complaint.
        Err(error) if error.raw_os_error().is_some() => Error::io("read", error),
        Err(error) => Error::content(format!("can't be unpacked: {error}")),
    }
}
