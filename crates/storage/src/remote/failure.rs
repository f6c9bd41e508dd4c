//! Failures of requests.

use packhorse_core::{Code, Error, Kind};
use std::time::Duration;

/// Whether to retry.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Retrying would not help.
    Final(Error),
    /// A retry may succeed, `after` this time if the server gave one.
    Again { why: String, after: Option<Duration> },
}

impl Failure {
    /// A failure worth a retry.
    pub(crate) fn again(why: impl Into<String>) -> Self {
        Failure::Again { why: why.into(), after: None }
    }

    /// The file has changed since it was opened.
    pub(crate) fn changed(how: impl Into<String>) -> Self {
        Failure::Final(Error::new(Kind::Changed, format!("changed while it was read: {}", how.into())))
    }

    /// The file does not exist, as in a local store.
    pub(crate) fn missing(what: &str) -> Self {
        Failure::Final(Error::new(Kind::Environment, format!("is not there: {what}")).not_found())
    }

    /// Access denied.
    pub(crate) fn denied(why: impl Into<String>) -> Self {
        Failure::Final(Error::new(Kind::Environment, why).denied())
    }

    /// The server refuses permanently.
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Failure::Final(Error::new(Kind::Environment, why).with_code(Code::RemoteFailed))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Final(error)
    }
}
