//! Why a request did not bring what it should.

use packhorse_core::{Error, Kind};
use std::io;
use std::time::Duration;

/// What to do about it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Asking once more would not help.
    Final(Error),
    /// It may go well the next time, `after` so long if the server said so.
    Again { why: String, after: Option<Duration> },
}

impl Failure {
    /// One that may go well the next time.
    pub(crate) fn again(why: impl Into<String>) -> Self {
        Failure::Again { why: why.into(), after: None }
    }

    /// The file is not what it was when it was opened.
    pub(crate) fn changed(how: impl Into<String>) -> Self {
        Failure::Final(Error::new(Kind::Changed, format!("changed while it was read: {}", how.into())))
    }

    /// There is no such file: `ENOENT`, as a store of local files has it.
    pub(crate) fn missing(what: &str) -> Self {
        Failure::Final(
            Error::new(Kind::Environment, format!("is not there: {what}"))
                .caused_by(io::Error::from_raw_os_error(libc::ENOENT)),
        )
    }

    /// It may not be read: `EACCES`.
    pub(crate) fn denied(why: impl Into<String>) -> Self {
        Failure::Final(Error::new(Kind::Environment, why).caused_by(io::Error::from_raw_os_error(libc::EACCES)))
    }

    /// The server says no, for a reason that stays.
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Failure::Final(Error::new(Kind::Environment, why))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Final(error)
    }
}
