//! Turns panics of the crates `parquet` and `arrow` on damaged files into errors.
//!
//! Sizes that they allocate for are checked before ([`crate::declared`], [`crate::pages`], `ipc::guard`), since a
//! failed allocation can't be contained. They check most other input and panic on some: every call into them with bytes
//! of a file goes through [`contained`].

use packhorse_core::{Error, Result, contain};

/// Runs `work`; its panic becomes a `Content` error.
pub(crate) fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    contain(work).unwrap_or_else(|| {
        Err(Error::content("is damaged, or uses what its reader does not support (it gave up); write it again"))
    })
}

/// Converts an error of the crate `arrow`; `what` is the format's name.
pub(crate) fn arrow_error(error: arrow_schema::ArrowError, what: &str) -> Error {
    use arrow_schema::ArrowError;
    match error {
        ArrowError::IoError(_, error) => io_error(error),
        ArrowError::NotYetImplemented(text) => {
            Error::unsupported(format!("uses what the {what} reader does not support: {text}"))
        }
        ArrowError::ExternalError(source) => match source.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => Error::content(format!("can't be read as {what}: {other}")),
        },
        other => Error::content(format!("can't be read as {what}: {other}")),
    }
}

/// Converts an error of the crate `parquet`.
pub(crate) fn parquet_error(error: parquet::errors::ParquetError) -> Error {
    use parquet::errors::ParquetError;
    match error {
        ParquetError::NYI(text) => Error::unsupported(format!("uses what the Parquet reader does not support: {text}")),
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
        // Errors without a system code come from a decompressor.
        Err(error) => Error::decompress(error),
    }
}
